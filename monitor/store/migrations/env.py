"""Runs the migrations inside the caller's transaction, which holds the lock against a second process."""

from alembic import context

from monitor.store.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
