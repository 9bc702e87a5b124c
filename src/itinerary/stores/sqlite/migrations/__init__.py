"""The migrations of SQLite stores: SQL, and nothing else."""
