"""The migrations of PostgreSQL stores: SQL only."""
