"""The process of one refit: ``python -m monitor.app.refit_worker FOLDER``.

It reads the task of the folder, tells its progress on standard output, one JSON object a line, and writes what came of
it into the folder, ``result.json`` last: see :mod:`monitor.app.refit_task`. Exit status 0 says that ``result.json``
stands, also where it tells why there is no map. Anything unexpected goes to standard error, and ends it with 1. A
signal ends it at once; what it leaves then is no result.
"""

import json
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from monitor.app.refit_task import read_task, write_result
from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.recalibration.fitting import refit
from monitor.recalibration.fitting_task import RefitOutcome
from monitor.reports.evaluation.evaluate import evaluate


def main(arguments: Sequence[str]) -> int:
    """Do the refit of the folder that is named; returns the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m monitor.app.refit_worker FOLDER\n")
        return 2
    # A parent may have had its own ideas about these, and children inherit them.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_DFL)
    folder = Path(arguments[0])
    tell(0.0, "reading the sample")
    task = read_task(folder)
    try:
        result = refit(task, evaluate=partial(evaluate, tolerance=task.tolerance), progress=tell)
    except NotEnoughData as error:
        outcome = RefitOutcome(error="NotEnoughData", detail=str(error))
    except InputError as error:
        outcome = RefitOutcome(error="InputError", detail=str(error))
    except CorruptMap as error:
        outcome = RefitOutcome(error="CorruptMap", detail=f"the map that serves: {error}")
    else:
        outcome = RefitOutcome(result.artifact, result.comparison, result.figures)
    write_result(folder, outcome)
    return 0


def tell(progress: float, step: str) -> None:
    """Say how far it is."""
    sys.stdout.write(json.dumps({"progress": round(progress, 4), "step": step}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
