"""The migrations of PostgreSQL stores: SQL, and nothing else."""
