"""A refit, from a sample to a map that was compared on events it never saw."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from monitor.maps import RecalibrationMap, check_options, choose_method, fit_map
from monitor.maps.artifact import Artifact, from_bytes, to_bytes
from monitor.recalibration.comparison import DRAWS, Comparison, Contender, Evaluate, compare, rfc3339
from monitor.recalibration.data import refit_data
from monitor.recalibration.fitting_task import RefitTask
from monitor.reports.figures.output import to_svg
from monitor.reports.figures.recalibration import refit_figures

Progress = Callable[[float, str], None]
"""Told the share of the work done, and what is being done, in words."""

_FITTED: Final = 0.4
_COMPARED: Final = 0.8
"""Shares of the work up to there, of a typical refit."""


@dataclass(frozen=True, eq=False)
class RefitResult:
    """What came of a refit.

    Attributes
    ----------
    map
        The map.
    artifact
        The same as bytes, with where it comes from.
    comparison
        The document of docs/recalibration.md ("comparison").
    passed
        Whether the guard lets it be promoted.
    figures
        Name -> SVG.
    """

    map: RecalibrationMap
    artifact: bytes
    comparison: Mapping[str, Any]
    passed: bool
    figures: Mapping[str, bytes]


def refit(task: RefitTask, *, evaluate: Evaluate, draws: int = DRAWS, progress: Progress | None = None) -> RefitResult:
    """Fit a map, and compare it with what serves and with none on later events.

    The map that is kept is the very one that was compared: it is not fitted again on all events afterwards.

    Parameters
    ----------
    task
        What is asked for, with the events.
    evaluate
        Makes the report of predictions: :func:`monitor.evaluate`.
    draws
        Resamples for the measures' intervals and levels.
    progress
        Told how far it is.

    Returns
    -------
    RefitResult
        The same, byte for byte, for the same task.

    Raises
    ------
    NotEnoughData
        There are too few events, or too few of an outcome.
    InputError
        The method or an option is wrong, or the events lack what the method needs.
    CorruptMap
        The map that serves cannot be read.
    """
    told = progress or _ignore
    method = choose_method(task.method)
    options = check_options(method, task.options)
    champion = None if task.champion is None else _contender(from_bytes(task.champion))
    told(0.0, "choosing the events")
    data = refit_data(task.events, window_ms=task.window_ms, held_out=task.held_out, seed=task.seed)
    told(0.1, f"fitting {method.title}")
    fitted = fit_map(method, data.fit, options)
    told(_FITTED, "comparing on later events")
    found = compare(
        data,
        Contender(task.id, fitted),
        champion,
        evaluate=evaluate,
        left_out=task.left_out,
        draws=draws,
        seed=task.seed,
        progress=lambda share: told(_FITTED + (_COMPARED - _FITTED) * share, "comparing on later events"),
    )
    told(_COMPARED, "drawing")
    names = {"challenger": fitted.method} | ({} if champion is None else {"champion": champion.map.method})
    pictures = refit_figures(
        data.held_out,
        found.predictions,
        found.phi,
        segments=found.document["segments"],
        methods=names,
        seed=task.seed,
    )
    figures = {name: to_svg(figure).encode() for name, figure in pictures.items()}
    told(0.95, "writing")
    artifact = to_bytes(fitted, _about(task, options, found))
    told(1.0, "done")
    return RefitResult(fitted, artifact, found.document, found.guard.passed, figures)


def _contender(artifact: Artifact) -> Contender:
    name = artifact.about.get("id")
    return Contender(name if isinstance(name, str) else None, artifact.map)


def _about(task: RefitTask, options: Mapping[str, Any], found: Comparison) -> dict[str, Any]:
    fit = found.document["fit"]
    return {
        "id": task.id,
        "model": task.model,
        "version": task.version,
        "method": task.method,
        "options": dict(options),
        "data_hash": fit["data_hash"],
        "fitted_on": {key: fit[key] for key in ("n", "from", "to")},
        "created": rfc3339(task.created_ms),
    }


def _ignore(share: float, step: str) -> None:
    """Nobody asked."""
