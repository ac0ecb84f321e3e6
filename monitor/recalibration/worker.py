"""The worker process of one refit: ``python -m monitor.recalibration.worker FOLDER``.

It reads the task of the folder, reports its progress on standard output (one JSON object per line), and writes the
result: see :mod:`monitor.recalibration.task_folder`. Exit status 0 means that there is a result, which may be an error
that lies in the task. Anything unexpected goes to standard error and ends the process with status 1. After a signal
there is no result.
"""

import json
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import check_options, choose_method, fit_map
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.progress import StageProgress
from monitor.recalibration.comparison import DRAWS, Contender, compare, ignore_progress, map_details
from monitor.recalibration.data import refit_data
from monitor.recalibration.task_folder import RefitResult, RefitTask, read_task, write_result
from monitor.reports.evaluation.evaluate import evaluate
from monitor.reports.figures.output import to_svg
from monitor.reports.figures.recalibration import refit_figures

_FITTED: Final = 0.4
_COMPARED: Final = 0.8
"""Shares of a typical refit's work that are done then."""


def main(arguments: Sequence[str]) -> int:
    """Run the refit of a folder; return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m monitor.recalibration.worker FOLDER\n")
        return 2
    # Child processes inherit ignored signals.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    folder = Path(arguments[0])
    _report("reading the sample", 0.0)
    task = read_task(folder)
    try:
        result = refit(task, progress=_report)
    except NotEnoughData as error:
        result = RefitResult(error="NotEnoughData", detail=str(error))
    except InputError as error:
        result = RefitResult(error="InputError", detail=str(error))
    except CorruptMap as error:
        result = RefitResult(error="CorruptMap", detail=f"the map that serves: {error}")
    write_result(folder, result)
    return 0


def _report(step: str, share: float) -> None:
    sys.stdout.write(json.dumps({"progress": round(share, 4), "step": step}) + "\n")
    sys.stdout.flush()


def refit(task: RefitTask, *, draws: int = DRAWS, progress: StageProgress = ignore_progress) -> RefitResult:
    """Fit a map and compare it with the map that serves, and with no map, on later events.

    The map is not fitted again on all events afterwards: what was compared is what is stored.

    Parameters
    ----------
    task
        The task; the result is the same, byte for byte, for the same task.
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
    method = choose_method(task.method)
    options = check_options(method, task.options)
    champion = None
    if task.champion is not None:
        stored = from_bytes(task.champion)
        map_id = stored.about.get("id")
        champion = Contender(map_id if isinstance(map_id, str) else None, stored.map)
    progress("choosing the events", 0.0)
    data = refit_data(task.events, window_ms=task.window_ms, held_out=task.held_out, seed=task.seed)
    progress(f"fitting {method.title}", 0.1)
    fitted = fit_map(method, data.fit, options)
    comparison = compare(
        data,
        Contender(task.id, fitted),
        champion,
        evaluate=partial(evaluate, tolerance=task.tolerance),
        left_out=task.left_out,
        draws=draws,
        seed=task.seed,
        progress=lambda step, share: progress(step, _FITTED + (_COMPARED - _FITTED) * share),
    )
    progress("drawing", _COMPARED)
    pictures = refit_figures(
        data.held_out,
        comparison.predictions,
        comparison.phi,
        segments=comparison.document["segments"],
        methods={"challenger": fitted.method} | ({} if champion is None else {"champion": champion.map.method}),
        seed=task.seed,
    )
    figures = {name: to_svg(figure).encode() for name, figure in pictures.items()}
    progress("writing", 0.95)
    about = {
        "id": task.id,
        "model": task.model,
        "version": task.version,
        **map_details(task.method, options, comparison, task.created_ms),
    }
    result = RefitResult(to_bytes(fitted, about), comparison.document, figures)
    progress("done", 1.0)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
