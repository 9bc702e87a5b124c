"""The migrations of SQLite stores: SQL only."""
