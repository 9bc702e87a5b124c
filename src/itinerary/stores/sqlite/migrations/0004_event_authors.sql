-- Who appended an event: the name of a token or a user. NULL: the desk itself, or a program.

ALTER TABLE itinerary_events ADD COLUMN entered_by TEXT;
