"""Alembic's migrations, run by the store itself when it opens."""
