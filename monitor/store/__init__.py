"""State in SQLite or PostgreSQL: checkpoints, dead letters, refits, keys; backups of SQLite."""
