"""Migrations, one a file; each names the one before it."""
