"""Alembic's part of a migration. Loaded only for a store that is not of the newest revision."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory


def upgrade(connection: sa.Connection, folder: Path) -> None:
    """Run the migrations of this folder that the store has not had."""
    config = _config(folder)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def revisions(folder: Path) -> set[str]:
    """List the revisions that the migrations of this folder lead to."""
    return {script.revision for script in ScriptDirectory.from_config(_config(folder)).walk_revisions()}


def _config(folder: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config
