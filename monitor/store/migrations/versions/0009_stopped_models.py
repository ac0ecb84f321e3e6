"""When something of a model was last read; and models of labelled events alone wait for no outcomes."""

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa
from alembic import op

from monitor.store.base import JOURNAL_ROW, PREDICTED, VECTOR
from monitor.store.schema import Name

revision = "0009"
down_revision = "0008"

_MODELS = sa.table(
    "models",
    *map(sa.column, ("prediction_watermark_ms", "outcome_watermark_ms", "awaits_outcomes")),
    sa.column("name", Name()),
)
_JOURNAL = sa.table("journal", sa.column("model", Name()), sa.column("rows"))


def upgrade() -> None:
    """Add the time, which begins now, and correct what revision 0006 could not know."""
    op.add_column("models", sa.Column("saved_ms", sa.BigInteger, nullable=False, server_default="0"))
    connection = op.get_bind()
    connection.execute(sa.text("UPDATE models SET saved_ms = :now"), {"now": round(time.time() * 1000)})
    labelled = list(_labelled(connection))
    if labelled:
        is_labelled = _MODELS.c.name == sa.bindparam("labelled")
        connection.execute(
            sa.update(_MODELS).where(is_labelled).values(awaits_outcomes=0), [{"labelled": name} for name in labelled]
        )


def _labelled(connection: sa.Connection) -> Iterator[str]:
    """Yield the models of which nothing but labelled events is known.

    A labelled event moves both watermarks to its time, and its row of the journal holds the outcome.
    """
    of = _MODELS.c
    differ = sa.func.max(sa.func.abs(of.prediction_watermark_ms - of.outcome_watermark_ms))
    equal = sa.select(of.name).group_by(of.name).having(differ == 0, sa.func.max(of.awaits_outcomes) > 0)
    for name in connection.execute(equal).scalars().all():
        batches = connection.execute(sa.select(_JOURNAL.c.rows).where(_JOURNAL.c.model == name)).scalars()
        if all(_are_labelled(np.frombuffer(batch, JOURNAL_ROW)) for batch in batches):
            yield name


def _are_labelled(rows: Any) -> bool:
    answered = (rows["entry"] == PREDICTED) & (rows["outcome"] >= 0)
    return bool((answered | (rows["entry"] == VECTOR)).all())
