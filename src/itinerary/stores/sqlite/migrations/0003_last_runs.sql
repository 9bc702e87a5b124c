-- The latest scheduled instant of a job that started. NULL in a slot with history: not known, and looked up once.

ALTER TABLE itinerary_slots ADD COLUMN last_run_at INTEGER;
