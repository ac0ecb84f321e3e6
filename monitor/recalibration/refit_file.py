"""A refit on a file, with no service: methods are fitted on its earlier rows, and compared on its later ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from numpy.typing import ArrayLike

from monitor.errors import InputError, NotEnoughData
from monitor.events.model import UNVERSIONED
from monitor.maps import METHODS, check_options, choose_method, fit_map
from monitor.maps.artifact import to_bytes
from monitor.maps.base import Method, OptionValue
from monitor.maps.labelled import LabelledEvents
from monitor.progress import StageProgress
from monitor.recalibration.change import Change, last_change
from monitor.recalibration.comparison import DRAWS, Contender, Evaluate, Evaluated, compare, rfc3339
from monitor.recalibration.data import RefitData, refit_data
from monitor.recalibration.fitting_task import HELD_OUT
from monitor.recalibration.guard import LEAST_E
from monitor.recalibration.refit_trial import Candidate, Trial
from monitor.reports.evaluation.evaluate import evaluate
from monitor.sources.tables import EventTable

USUAL: Final = ("offset", "temperature", "beta", "isotonic")
USUAL_FOR_CLASSES: Final = ("temperature", "vector_scaling")
"""The methods that are compared where none is named: for one fault each, the fewest numbers first."""

_MOST_SEARCHED: Final = 100_000
"""Rows among which a change is looked for unasked: beyond, it would take longer than the fits."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a file that maps can be fitted on.

    Attributes
    ----------
    events
        Those with an outcome, in the order of time.
    timed
        Whether they have times.
    left_out
        Reason, in words -> rows that are not among them.
    notes, cautions
        What was assumed, and what to mind; a line each.
    classes
        Names of the classes; none where predictions are P(y = 1).
    """

    events: LabelledEvents
    timed: bool
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    cautions: Sequence[str] = ()
    classes: Sequence[str] = ()


def labelled_rows(table: EventTable, segments: Sequence[str] | None = None) -> Rows:
    """The rows of a table that have an outcome, and a weight above 0.

    Without times, or where all are of one time, the order of the file stands in for them.

    Parameters
    ----------
    table
        As it was read.
    segments
        Columns of groups, or several crossed as ``a*b``; all segment columns of the table if left out. Of several, all
        crossed are the last key of the events: a method by group takes that.
    """
    known = table.outcome >= 0
    counted = known if table.weight is None else known & (table.weight > 0.0)
    left_out = {"no outcome": int((~known).sum()), "a weight of 0": int((known & ~counted).sum())}
    timed = table.time_ms is not None and bool((table.time_ms[counted] != table.time_ms[counted][:1]).any())
    notes = list(table.notes)
    if not timed:
        why = "have no times" if table.time_ms is None else "are all of one time"
        notes.append(f"the rows {why}, so the last ones of the file are taken to be the latest; --time names a column")
    events = LabelledEvents.of(
        table.prediction[counted],
        table.outcome[counted],
        weight=None if table.weight is None else table.weight[counted],
        time_ms=table.time_ms[counted] if timed and table.time_ms is not None else None,
        features=None if table.features is None else table.features[counted],
        segments={key: table.groups(key)[counted] for key in _group_keys(table, segments)},
    )
    some = {reason: count for reason, count in left_out.items() if count}
    return Rows(events, timed, some, tuple(notes), table.cautions, table.classes)


def _group_keys(table: EventTable, segments: Sequence[str] | None) -> list[str]:
    keys = list(dict.fromkeys(table.segments if segments is None else segments))
    if len(keys) < 2:
        return keys
    together = "*".join(table.segments)
    return [*(key for key in keys if key != together), together]


def choose_methods(
    names: Sequence[str], options: Mapping[str, Any], events: LabelledEvents
) -> list[tuple[Method, dict[str, OptionValue]]]:
    """The methods of these names, each with its options.

    Parameters
    ----------
    names
        None of them: the usual ones for such events, with LoRe where there are features, and one by group where there
        are segments.
    options
        Each goes to every method that has it. Of several segment keys methods by group take the last if none is named.
    events
        What they are to be fitted on.

    Raises
    ------
    InputError
        There is no such method, none has such an option, or a method is not for such events. Names the option of the
        command line that mends it.
    """
    chosen = [choose_method(name) for name in dict.fromkeys(names)] or [METHODS[name] for name in _usual(events)]
    for name in options:
        if not any(name in method.options for method in chosen):
            known = dict.fromkeys(each for method in chosen for each in method.options)
            raise InputError(
                f"--option: none of {', '.join(method.name for method in chosen)} has an option {name!r}; "
                f"there are {', '.join(known) or 'none'}"
            )
    for method in chosen:
        lacks = (
            ("--feature", "features", method.needs_features and events.features is None),
            ("--segment", "groups", method.needs_segments and not events.segments),
        )
        for option, what, missing in lacks:
            if missing:
                raise InputError(f"--method {method.name} needs {what}; name the columns with {option}")
        if not (method.binary if events.is_binary else method.many_classes):
            these = "P(y = 1)" if events.is_binary else f"of {events.classes} classes"
            fit = ", ".join(
                name for name, each in METHODS.items() if (each.binary if events.is_binary else each.many_classes)
            )
            raise InputError(f"--method {method.name} is not for predictions {these}; for these there are {fit}")
    own = [{name: value for name, value in options.items() if name in method.options} for method in chosen]
    if len(events.segments) > 1:
        last = list(events.segments)[-1]
        own = [
            {"segment": last, **each} if method.needs_segments else each
            for method, each in zip(chosen, own, strict=True)
        ]
    return [(method, check_options(method, each)) for method, each in zip(chosen, own, strict=True)]


def refit_rows(
    rows: Rows,
    methods: Sequence[tuple[Method, Mapping[str, OptionValue]]],
    *,
    held_out: float = HELD_OUT,
    since_change: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
    progress: StageProgress | None = None,
) -> Trial:
    """Fit each method on the earlier rows, and compare it with no map on the later ones.

    Of k methods that are no better than no map, some one reaches an e-value of 20 k with a probability of at most
    1 / 20; so that is what each must reach.

    Parameters
    ----------
    rows
        What there is.
    methods
        With checked options; at least one.
    held_out
        Share of the latest rows, above 0 and below 1.
    since_change
        Whether rows before the last change of calibration are left out. If not, a change is only told.
    draws
        Resamples for the measures' intervals and levels.
    seed
        Of the draws that do not follow from the data.
    progress
        Told how far it is.

    Raises
    ------
    NotEnoughData
        There are too few rows, or too few of an outcome; or for each of the methods.
    InputError
        A method lacks what it needs.
    """
    shown = progress or _ignore
    shown("choosing the rows", 0.0)
    data = _parted(rows.events, held_out=held_out, since_change=since_change, seed=seed)
    notes, cautions = _told(rows, data, since_change=since_change, seed=seed)
    taken = {str(options["segment"]) for method, options in methods if method.needs_segments and options["segment"]}
    if len(rows.events.segments) > 1 and taken:
        notes.append(f"groups are those of {' and '.join(sorted(taken))}; --option segment=COLUMN takes one column")
    evaluated = _evaluate_once(data.held_out)
    candidates: list[Candidate] = []
    for number, (method, options) in enumerate(methods):
        candidate = Candidate(method, options, least_e=LEAST_E * len(methods))

        def told(doing: str, share: float, number: int = number) -> None:
            shown(doing, (number + share) / len(methods))

        candidates.append(_tried(candidate, rows, data, evaluated, draws=draws, seed=seed, progress=told))
    if all(each.comparison is None for each in candidates):
        reasons = "; ".join(f"{each.method.name}: {each.failure}" for each in candidates)
        raise NotEnoughData(f"no method could be fitted: {reasons}")
    return Trial(data, rows.timed, candidates, tuple(notes), tuple(cautions), rows.classes)


def artifact(trial: Trial, chosen: Candidate, *, model: str, created_ms: int, columns: Mapping[str, Any]) -> bytes:
    """The map of a candidate as a file.

    Parameters
    ----------
    trial, chosen
        What it comes from.
    model
        What the map is of.
    created_ms
        Milliseconds since the epoch.
    columns
        Where the file had what the map needs: ``prediction`` and ``features``, lists of names; ``segment``, a name or
        null. Kept with the map, so that it finds them in another file.

    Raises
    ------
    InputError
        The file would be too large.
    """
    if chosen.map is None or chosen.comparison is None:
        raise ValueError(f"{chosen.method.name} was not fitted: there is no map to be kept")
    fit = chosen.comparison.document["fit"]
    about = {
        "id": f"{chosen.method.name}-{fit['data_hash'][:16]}",
        "model": model,
        "version": UNVERSIONED,
        "method": chosen.method.name,
        "options": dict(chosen.options),
        "data_hash": fit["data_hash"],
        "fitted_on": {key: fit[key] for key in ("n", "from", "to")},
        "created": rfc3339(created_ms),
        "columns": dict(columns),
        "classes": list(trial.classes),
    }
    return to_bytes(chosen.map, about)


def _tried(
    candidate: Candidate,
    rows: Rows,
    data: RefitData,
    evaluated: Evaluate,
    *,
    draws: int,
    seed: int,
    progress: StageProgress,
) -> Candidate:
    """The same, fitted and compared."""
    title = candidate.method.title
    progress(f"fitting {title}", 0.0)
    try:
        found = fit_map(candidate.method, data.fit, candidate.options)
    except NotEnoughData as error:
        return replace(candidate, failure=str(error))
    comparison = compare(
        data,
        Contender(None, found),
        evaluate=evaluated,
        left_out=rows.left_out,
        draws=draws,
        seed=seed,
        progress=lambda share: progress(f"comparing {title} on later rows", 0.3 + 0.7 * share),
    )
    if not rows.timed:
        comparison = replace(comparison, document=_without_times(comparison.document))
    return replace(candidate, map=found, comparison=comparison)


def _usual(events: LabelledEvents) -> list[str]:
    names = list(USUAL if events.is_binary else USUAL_FOR_CLASSES)
    if events.segments:
        names.append("group_wise_beta" if events.is_binary else "group_wise_temperature")
    if events.features is not None:
        names.append("lore")
    return names


def _parted(events: LabelledEvents, *, held_out: float, since_change: bool, seed: int) -> RefitData:
    """Earlier and later rows: of all, or of those since the last change of calibration."""
    change = last_change(events, seed=seed) if since_change else None
    chosen = events if change is None else events.select(slice(change.row, None))
    of = "in all" if change is None else "since the last change of calibration; leave --since-change out"
    # A window that holds them all: somebody has chosen already what a refit of the service chooses.
    window_ms = int(chosen.time_ms[-1] - chosen.time_ms[0]) + 1 if len(chosen) else None
    try:
        return replace(refit_data(chosen, window_ms=window_ms, held_out=held_out, seed=seed), change=change)
    except NotEnoughData as error:
        raise NotEnoughData(str(error).replace("of the window", of)) from error


def _told(rows: Rows, data: RefitData, *, since_change: bool, seed: int) -> tuple[list[str], list[str]]:
    """Notes on what was chosen, and what to mind."""
    notes, cautions = list(rows.notes), list(rows.cautions)
    for reason, count in rows.left_out.items():
        notes.append(f"{count:,} {'row' if count == 1 else 'rows'} left out: {reason}")
    if since_change:
        if data.change is None:
            notes.append("no change of calibration was found, so all rows are used")
        else:
            notes.append(f"the {data.change.row:,} rows before {_since(data.change, rows)} are left out")
    elif len(rows.events) <= _MOST_SEARCHED:
        change = last_change(rows.events, seed=seed)
        if change is not None:
            after = len(rows.events) - change.row
            cautions.append(
                f"there is {_since(change, rows)}: maps that are fitted on what was before may not fit what comes; "
                f"--since-change takes the {after:,} rows since then alone"
            )
    return notes, cautions


def _since(change: Change, rows: Rows) -> str:
    if rows.timed:
        where = f"on {rfc3339(change.time_ms)[:16].replace('T', ' ')} UTC"
    else:
        where = f"after {change.row:,} of {len(rows.events):,} rows"
    return f"a change of calibration {where} (p = {change.p_value:.2g})"


def _without_times(document: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison of rows whose times only count them."""
    untimed = {"from": None, "to": None}
    fit = {**document["fit"], **untimed, "changed_at": None}
    return {**document, "fit": fit, "held_out": {**document["held_out"], **untimed}}


def _evaluate_once(held: LabelledEvents) -> Evaluate:
    """Makes reports; that of the predictions as they are, which every comparison has, only once."""
    kept: dict[int | None, Evaluated] = {}

    def evaluated(
        p: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, draws: int | None = None
    ) -> Evaluated:
        if p is not held.prediction:
            return _evaluated(p, y, weight, draws)
        if draws not in kept:
            kept[draws] = _evaluated(p, y, weight, draws)
        return kept[draws]

    return evaluated


def _evaluated(p: ArrayLike, y: ArrayLike, weight: ArrayLike | None, draws: int | None) -> Evaluated:
    return evaluate(p, y, draws=draws) if weight is None else evaluate(p, y, weight=weight, draws=draws)


def _ignore(doing: str, share: float) -> None:
    """Nobody asked."""
