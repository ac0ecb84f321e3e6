"""Report on a file of events, joined and windowed as by the service."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from monitor.app.parts import (
    make_decoder,
    make_measures,
    make_minimum,
    make_panes,
    make_partition_settings,
    make_windows,
)
from monitor.app.settings import Settings
from monitor.clock import Clock, ManualClock
from monitor.sources.files import EventFile
from monitor.stream.offline import OfflineStream
from monitor.windows.evaluator import Evaluator
from monitor.windows.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class LogReport:
    """What a log of events comes to.

    Attributes
    ----------
    snapshot
        Reports of all series and windows at the log's end.
    events
        (type, result) -> events that met this fate.
    dead_letters
        Reason -> lines that are no valid events.
    first_dead_letter
        The first of them: line and detail, for people.
    """

    snapshot: Snapshot
    events: Mapping[tuple[str, str], int]
    dead_letters: Mapping[str, int]
    first_dead_letter: str | None


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
    # The events may come from topics of one type each, where an event need not name its type.
    decoder = make_decoder(settings, clock, kind_by_keys=True)
    panes = make_panes(settings)
    stream = OfflineStream(decoder, make_partition_settings(settings, sampling=False), panes.add_checkpoint)
    for batch in file.batches():
        stream.read(batch)
        if progress is not None:
            progress(file.bytes_read, file.size)
    # Dead letters are published with what is settled.
    stream.settle()
    evaluator = Evaluator(
        panes,
        make_windows(settings),
        minimum=make_minimum(settings),
        draws=settings.evaluation.draws,
        measures=make_measures(settings),
        tolerance=settings.models.tolerance,
        max_series=settings.evaluation.max_series,
        # On a clock that does not advance there is time for every interval and level.
        clock=ManualClock(clock.now_ms()),
    )
    letters = stream.dead_letters
    return LogReport(
        snapshot=evaluator.evaluate(),
        events=stream.counters(),
        dead_letters=Counter(letter.reason.value for letter in letters),
        first_dead_letter=f"line {letters[0].offset}: {letters[0].detail}" if letters else None,
    )
