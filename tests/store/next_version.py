"""The next version of the service, which has one more migration: a column that is filled from existing rows."""

import shutil
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from monitor.store import migrate, schema

REVISION: Final = "next"

_MIGRATION: Final = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{newest}"


def upgrade() -> None:
    op.add_column("partitions", sa.Column("claims", sa.BigInteger))
    op.execute("UPDATE partitions SET claims = 100 * epoch")
"""


def write_migrations(folder: Path) -> Path:
    """Write the migrations of the next version to a folder below this one; returns it."""
    migrations = shutil.copytree(
        migrate.MIGRATIONS, folder / "migrations", ignore=shutil.ignore_patterns("__pycache__")
    )
    text = _MIGRATION.format(revision=REVISION, newest=migrate.newest_revision())
    (migrations / "versions" / "next.py").write_text(text, encoding="utf-8")
    return migrations


def become_next_version(monkeypatch: pytest.MonkeyPatch, folder: Path) -> sa.MetaData:
    """Let this process be the next version, with its migrations in a folder; returns its tables."""
    migrations = write_migrations(folder)
    metadata = sa.MetaData()
    for table in schema.METADATA.sorted_tables:
        table.to_metadata(metadata)
    metadata.tables["partitions"].append_column(sa.Column("claims", sa.BigInteger))
    monkeypatch.setattr(migrate, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "METADATA", metadata)
    monkeypatch.setattr(schema, "REVISION", REVISION)
    return metadata
