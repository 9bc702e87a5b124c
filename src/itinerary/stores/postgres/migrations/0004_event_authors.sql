-- Who appended an event: the name of a token or a user. NULL: the desk itself, or a program.

ALTER TABLE events ADD COLUMN entered_by text COLLATE "C";
