"""Report on a file of events, joined and windowed as by the service."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from monitor.app.parts import make_decoder, make_evaluator, make_panes, make_partition_settings
from monitor.app.settings import Settings
from monitor.clock import Clock, ManualClock
from monitor.events.model import DeadLetter
from monitor.sources.files import EventFile
from monitor.stream.offline import OfflineStream
from monitor.windows.snapshot import Snapshot


class LogReport(NamedTuple):
    """The report on a log of events."""

    snapshot: Snapshot
    """Reports of all series and windows at the log's end."""
    events: Mapping[tuple[str, str], int]
    """(type, result) -> number of events."""
    dead_letters: Sequence[DeadLetter]
    """Lines that are no valid events; their offsets are line numbers."""


def report_log(
    path: Path, settings: Settings, clock: Clock, progress: Callable[[int, int], None] | None = None
) -> LogReport:
    """Report on a file of JSON lines of events.

    Parameters
    ----------
    progress
        Called with the bytes read and their total, after each batch.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    file = EventFile(path)
    # In topics of one type, events need not name their type.
    decoder = make_decoder(settings, clock, kind_by_keys=True)
    panes = make_panes(settings)
    stream = OfflineStream(decoder, make_partition_settings(settings, sampling=False), panes.add_checkpoint)
    for batch in file.batches():
        stream.read(batch)
        if progress is not None:
            progress(file.bytes_read, file.size)
    # Dead letters are published with what is settled.
    stream.settle()
    # On a clock that does not advance there is time for every interval and level.
    evaluator = make_evaluator(settings, panes, ManualClock(clock.now_ms()))
    return LogReport(evaluator.evaluate(), stream.counters(), stream.dead_letters)
