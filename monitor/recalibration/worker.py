"""The worker process of one refit: ``python -m monitor.recalibration.worker``.

It reads its task from standard input and writes messages to standard output: see
:mod:`monitor.recalibration.worker_process`. Exit status 0 means that there is a result, which may be an error that lies
in the task. Anything unexpected goes to standard error and ends the process with status 1. After a signal there is no
result.
"""

import signal
import sys
from typing import Final

import msgspec

from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import check_options, choose_method
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.progress import StageProgress, no_progress
from monitor.recalibration.compare import DRAWS, compare, map_details
from monitor.recalibration.data import refit_data
from monitor.recalibration.refit_figures import refit_figures
from monitor.recalibration.worker_process import RefitResult, RefitTask, WorkerMessage, read_task
from monitor.store.recalibrations import Sample

_CHOSEN: Final = 0.1
_COMPARED: Final = 0.8
"""Shares of a typical refit's work that are done then."""


def main() -> None:
    """Run the refit whose task is on standard input."""
    # Child processes inherit ignored signals.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    _send("reading the sample", 0.0)
    task, sample = read_task(sys.stdin.buffer)
    try:
        result = refit(task, sample, progress=_send)
    except (NotEnoughData, InputError) as error:
        result = RefitResult(failure=str(error))
    except CorruptMap as error:
        result = RefitResult(failure=f"the map that serves: {error}")
    _send("done", 1.0, result)


def _send(step: str, share: float, result: RefitResult | None = None) -> None:
    # A library may have written half a line.
    sys.stdout.buffer.write(b"\n" + msgspec.json.encode(WorkerMessage(round(share, 4), step, result)) + b"\n")
    sys.stdout.buffer.flush()


def refit(task: RefitTask, sample: Sample, *, draws: int = DRAWS, progress: StageProgress = no_progress) -> RefitResult:
    """Fit a map and compare it with the map that serves, and with no map, on later events.

    The map is not fitted again on all events afterwards: what was compared is what is stored.

    Parameters
    ----------
    task, sample
        The task and its events; the result is the same, byte for byte, for the same ones.
    draws
        Resamples for the measures' intervals and levels.
    progress
        Called with the current step and the share of the work that is done.

    Raises
    ------
    NotEnoughData
        There are too few events, or too few of an outcome.
    InputError
        The method or an option is wrong, or the events lack what the method needs.
    CorruptMap
        The map that serves cannot be read.
    """
    job = task.job
    method = choose_method(job.method)
    options = check_options(method, job.options)
    champion = None
    if task.champion is not None:
        stored = from_bytes(task.champion)
        map_id = stored.about.get("id")
        champion = map_id if isinstance(map_id, str) else None, stored.map
    progress("choosing the events", 0.0)
    data = refit_data(sample.events, window_ms=job.window_ms, since_ms=job.since_ms, held_out=task.held_out)
    (candidate,) = compare(
        data,
        [(method, options)],
        map_id=job.id,
        champion=champion,
        left_out=sample.left_out,
        tolerance=task.tolerance,
        draws=draws,
        progress=lambda step, share: progress(step, _CHOSEN + (_COMPARED - _CHOSEN) * share),
    )
    if candidate.map is None or candidate.comparison is None:
        return RefitResult(failure=candidate.failure)
    progress("drawing", _COMPARED)
    figures = {name: msgspec.json.encode(figure) for name, figure in refit_figures(candidate, data.held_out).items()}
    progress("writing", 0.95)
    about = {
        "id": job.id,
        "model": job.model,
        "version": job.version,
        **map_details(method.name, options, candidate.comparison, task.created_ms),
    }
    result = RefitResult(to_bytes(candidate.map, about), candidate.comparison, figures)
    progress("done", 1.0)
    return result


if __name__ == "__main__":
    main()
