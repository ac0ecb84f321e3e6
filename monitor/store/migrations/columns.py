"""Columns of the tables, for the schema and for the migrations."""

from typing import Any

import sqlalchemy as sa


def columns(kind: Any, *names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    """Columns of one type."""
    return [sa.Column(name, kind, nullable=nullable) for name in names]


def keys(kind: Any, *names: str) -> list[sa.Column[Any]]:
    """Columns of one type that are part of the primary key."""
    return [sa.Column(name, kind, primary_key=True, autoincrement=False) for name in names]


def owner() -> sa.Column[int]:
    """The partition that owns a row, part of the primary key."""
    return sa.Column(
        "partition", sa.Integer, sa.ForeignKey("partitions.partition"), primary_key=True, autoincrement=False
    )


def numbered() -> sa.Column[int]:
    """The primary key of rows that the database numbers."""
    return sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True)
