"""The settled predictions of a model, counted, from the store that a service wrote or is writing."""

from contextlib import closing
from typing import Final, NamedTuple

import numpy as np

from monitor.app.settings import Settings
from monitor.arrays import Ints
from monitor.clock import Clock
from monitor.errors import InputError, NotEnoughData
from monitor.events.model import ALL, SeriesKey
from monitor.scores.grid_table import POSITIVE_SUM, UNLABELLED
from monitor.store.address import connect_existing
from monitor.store.closing import Cells, Closing
from monitor.store.migrate import check_current
from monitor.store.series import HOUR_MS
from monitor.store.sql import SqlStore

_PATIENCE_SECONDS: Final = 10.0


class History(NamedTuple):
    """Settled predictions by pane and cell; int64, shape (rows,) each."""

    start_ms: Ints
    width_ms: Ints
    """Width of the pane of each row: a divisor of an hour."""
    cell: Ints
    events: Ints


def read_history(settings: Settings, model: str, version: str | None, clock: Clock) -> History:
    """Count the predictions of a model and version, the one of the newest predictions if left out. Writes nothing.

    Raises
    ------
    InputError
        There is no such model or version.
    NotEnoughData
        Nothing of it is settled.
    StoreError
        The store cannot be read.
    """
    with closing(connect_existing(settings.store.url, _PATIENCE_SECONDS, clock)) as database:
        check_current(database)
        store = SqlStore(database, settings.dead_letters.keep)
        clocks = store.clocks()
        if model not in clocks:
            raise InputError(f"--model: the store has no model {model!r}; it has {', '.join(sorted(clocks)) or 'none'}")
        read = store.read_closings(model, dict.fromkeys(clocks[model], -1))
    # Panes that are wider than the hours that are resampled are older than any window needs.
    closings = [part for parts in read.values() for part in parts if HOUR_MS % part.pane_ms == 0]
    newest: dict[str, int] = {}
    for part in closings:
        for number, name in enumerate(part.panes.names):
            if name.segment == ALL:
                last_ms = int(part.panes.cells.of_series(number).start_ms[-1])
                newest[name.version] = max(newest.get(name.version, 0), last_ms)
    if not newest:
        raise NotEnoughData(f"--model {model}: nothing of it is settled yet; try again later, or leave --model out")
    chosen = max(newest, key=lambda name: (newest[name], name)) if version is None else version
    if chosen not in newest:
        raise InputError(f"--version: {model} has no version {version!r}; it has {', '.join(sorted(newest))}")
    key = SeriesKey(model, chosen, ALL)
    parts = [(_cells(part, key), part.pane_ms) for part in closings if key in part.panes.names]
    cells = Cells.joined(part for part, _ in parts)
    counted = POSITIVE_SUM if settings.models.of(model).implied_negative else UNLABELLED
    width_ms = np.concatenate([np.full(part.cell.size, width_ms) for part, width_ms in parts])
    return History(cells.start_ms, width_ms, cells.cell, cells.values[:, :counted].sum(axis=1))


def _cells(part: Closing, key: SeriesKey) -> Cells:
    return part.panes.cells.of_series(list(part.panes.names).index(key))
