"""Refit on a file, without a service: fit methods on the earlier rows and compare them on the later ones."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.errors import NotEnoughData, OptionError
from monitor.events.model import UNVERSIONED
from monitor.events.times import format_time
from monitor.maps import METHODS, check_options, choose_method
from monitor.maps.artifact import to_bytes
from monitor.maps.base import Method, OptionValue
from monitor.options import Option
from monitor.progress import StageProgress, no_progress
from monitor.recalibration.change import CalibrationChange, last_change
from monitor.recalibration.compare import DRAWS, Candidate, FitOn, compare, map_details, on_earlier_events
from monitor.recalibration.data import HELD_OUT, RefitData, refit_data
from monitor.recalibration.guard import events_until, log_loss_difference, log_losses, mean_difference
from monitor.reports.evaluation.inputs import Resampling
from monitor.scores.arguments import number_text
from monitor.scores.labelled import LabelledEvents
from monitor.sources.tables import EventTable

USUAL: Final = ("offset", "temperature", "beta", "isotonic")
USUAL_FOR_CLASSES: Final = ("temperature", "vector_scaling")
"""Default methods, each for one kind of error, those with the fewest parameters first."""

_MAX_SEARCHED: Final = 100_000
"""Maximum number of rows in which a change is searched by default: beyond, it would take longer than the fits."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of a file that maps can be fitted on.

    Attributes
    ----------
    events
        Rows with an outcome, in order of time.
    timed
        Whether they have times.
    left_out
        Reason -> number of rows that were left out.
    notes, cautions
        Assumptions and warnings, one line each.
    classes
        Names of the classes; empty if predictions are P(y = 1).
    """

    events: LabelledEvents
    timed: bool
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = ()
    cautions: Sequence[str] = ()
    classes: Sequence[str] = ()


class LossInterval(NamedTuple):
    """A mean loss; infinite if an outcome had probability 0."""

    value: float
    lower: float | None
    """Lower end of the 95% interval, by the central limit theorem; None if the loss is infinite."""
    upper: float | None


class Losses(NamedTuple):
    """The proper scores of some predictions."""

    log_loss: LossInterval
    """Mean log loss, in nats."""
    brier: LossInterval
    """Mean Brier score, in [0, 1]; for many classes half the squared distance of the vectors."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Results of the methods.

    Attributes
    ----------
    data
        The rows to fit on and to compare on.
    timed
        Whether the rows have times; otherwise their order was used.
    candidates
        In the given order; at least one was fitted.
    notes, cautions
        Assumptions and warnings, one line each.
    classes
        Names of the classes; empty if predictions are P(y = 1).
    """

    data: RefitData
    timed: bool
    candidates: Sequence[Candidate]
    notes: Sequence[str] = ()
    cautions: Sequence[str] = ()
    classes: Sequence[str] = ()

    @property
    def best(self) -> Candidate | None:
        """The candidate with the smallest log loss of those better than no map; None if there is none."""
        return self._smallest_loss([candidate for candidate in self.candidates if candidate.better])

    @property
    def shown(self) -> Candidate:
        """The candidate of the figures: the best, or the one with the smallest log loss."""
        shown = self.best or self._smallest_loss([item for item in self.candidates if item.comparison is not None])
        if shown is None:
            raise AssertionError("at least one method was fitted")
        return shown

    def losses(self, candidate: Candidate | None) -> Losses:
        """Return the losses of a candidate on the held-out rows; None: of the original predictions."""
        held = self.data.held_out
        p = held.prediction if candidate is None else candidate.predictions["challenger"]
        return Losses(
            _mean(log_losses(p, held.outcome), held.weight),
            _mean(_brier_losses(p, held.outcome), held.weight),
        )

    def alike(self, chosen: Candidate) -> list[Candidate]:
        """Return other candidates better than no map whose log loss is not significantly worse than this one's."""
        others = [candidate for candidate in self.candidates if candidate.better and candidate is not chosen]
        return [other for other in others if not self._beats(chosen, other)]

    def rows_needed(self, candidate: Candidate) -> int | None:
        """Return the number of later rows on which a candidate is expected to prove better; None: never."""
        if candidate.comparison is None:
            return None
        held = self.data.held_out
        p = candidate.predictions["challenger"]
        return events_until(candidate.min_e_value, held.prediction, p, held.outcome, held.weight)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        best = self.best
        return {
            "best": None if best is None else best.method.name,
            "e_value_needed": self.candidates[0].min_e_value,
            "methods": [candidate.to_dict() for candidate in self.candidates],
            "notes": [*self.notes, *self.cautions],
        }

    def _smallest_loss(self, candidates: Sequence[Candidate]) -> Candidate | None:
        return min(candidates, key=lambda candidate: self.losses(candidate).log_loss.value, default=None)

    def _beats(self, one: Candidate, other: Candidate) -> bool:
        """Whether the 95% interval of the difference of their log losses lies below 0."""
        held = self.data.held_out
        p, q = other.predictions["challenger"], one.predictions["challenger"]
        difference = log_loss_difference(p, q, held.outcome, held.weight)
        # An infinite loss is the other's: this one has the smaller.
        return difference is None or difference.upper < 0.0


def labelled_rows(table: EventTable, segments: Sequence[str] | None = None) -> LabelledRows:
    """Return the rows of a table with an outcome and a weight above 0.

    If there are no times, or all are equal, the order of the file is used instead.

    Parameters
    ----------
    table
        The table.
    segments
        Columns of groups, or several crossed as ``a*b``; all segment columns of the table if left out. With several,
        the last key of the events crosses all of them, which a method by group uses.
    """
    labelled = table.outcome >= 0
    counted = labelled if table.weight is None else labelled & (table.weight > 0.0)
    left_out = {"no outcome": int((~labelled).sum()), "a weight of 0": int((labelled & ~counted).sum())}
    timed = table.time_ms is not None and bool((table.time_ms[counted] != table.time_ms[counted][:1]).any())
    notes = list(table.notes)
    if not timed:
        why = "have no times" if table.time_ms is None else "are all of one time"
        notes.append(
            f"the rows {why}, so the last ones of the file are taken to be the latest; {Option.TIME} names a column"
        )
    keys = list(dict.fromkeys(table.segments if segments is None else segments))
    if len(keys) > 1:
        crossed = "*".join(table.segments)
        keys = [*(key for key in keys if key != crossed), crossed]
    events = LabelledEvents.of(
        table.prediction[counted],
        table.outcome[counted],
        weight=None if table.weight is None else table.weight[counted],
        time_ms=table.time_ms[counted] if timed and table.time_ms is not None else None,
        features=None if table.features is None else table.features[counted],
        segments={key: table.groups(key)[counted] for key in keys},
    )
    some = {reason: count for reason, count in left_out.items() if count}
    return LabelledRows(events, timed, some, tuple(notes), table.cautions, table.classes)


def choose_methods(
    names: Sequence[str], options: Mapping[str, Any], events: LabelledEvents
) -> list[tuple[Method, dict[str, OptionValue]]]:
    """Return the methods of these names, each with its options.

    Parameters
    ----------
    names
        If empty, the default methods for such events, with LoRe if there are features, and one by group if there are
        segments.
    options
        Each is passed to every method that has it. With several segment keys, methods by group use the last by default.
    events
        The events to fit on.

    Raises
    ------
    InputError
        There is no such method, none has such an option, or a method does not support such events. Names the option of
        the command line to change.
    """
    chosen = [choose_method(name) for name in dict.fromkeys(names)] or [
        METHODS[name] for name in _default_methods(events)
    ]
    for name in options:
        if not any(name in method.options for method in chosen):
            available = dict.fromkeys(option for method in chosen for option in method.options)
            raise OptionError(
                Option.OPTION,
                f": none of {', '.join(method.name for method in chosen)} has an option {name!r}; "
                f"there are {', '.join(available) or 'none'}",
            )
    for method in chosen:
        lacks = (
            (f"{Option.FEATURE}", "features", method.needs_features and events.features is None),
            (f"{Option.SEGMENT}", "groups", method.needs_segments and not events.segments),
        )
        for option, what, missing in lacks:
            if missing:
                raise OptionError(Option.METHOD, f" {method.name} needs {what}; name the columns with {option}")
        if not (method.binary if events.is_binary else method.many_classes):
            these = "P(y = 1)" if events.is_binary else f"of {events.classes} classes"
            others = ", ".join(
                name for name, other in METHODS.items() if (other.binary if events.is_binary else other.many_classes)
            )
            raise OptionError(
                Option.METHOD, f" {method.name} is not for predictions {these}; for these there are {others}"
            )
    pairs = []
    for method in chosen:
        own = {name: value for name, value in options.items() if name in method.options}
        if method.needs_segments and len(events.segments) > 1:
            own = {"segment": list(events.segments)[-1], **own}
        pairs.append((method, check_options(method, own)))
    return pairs


def refit_rows(
    rows: LabelledRows,
    methods: Sequence[tuple[Method, Mapping[str, OptionValue]]],
    *,
    fit_on: FitOn = on_earlier_events,
    held_out: float = HELD_OUT,
    since_change: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
    progress: StageProgress = no_progress,
) -> Trial:
    """Fit each method on the earlier rows, and compare it with no map on the later ones.

    Parameters
    ----------
    rows
        The rows.
    methods
        At least one, with checked options.
    fit_on
        Chooses what a method is fitted on: the earlier rows, or other events of the same time.
    held_out
        Share of the latest rows, above 0 and below 1.
    since_change
        Whether to leave out rows before the last change of calibration. If not, a change is only reported.
    draws
        Resamples for the measures' intervals and levels.
    seed
        Seed of the draws that do not follow from the data.
    progress
        Called with the current step and the share of the work that is done.

    Raises
    ------
    NotEnoughData
        There are too few rows, or too few of an outcome, for all methods.
    InputError
        A method lacks what it needs.
    """
    if not 0.0 < held_out < 1.0:
        share = number_text(held_out)
        raise OptionError(Option.HELD_OUT, f" must be above 0 and below 1, got {share}; 0.3 holds out the latest 30%")
    Resampling(draws, seed).check()
    progress("choosing the rows", 0.0)
    data = _split(rows.events, held_out=held_out, since_change=since_change, seed=seed)
    notes, cautions = _remarks(rows, data, since_change=since_change, seed=seed)
    used = {str(options["segment"]) for method, options in methods if method.needs_segments and options["segment"]}
    if len(rows.events.segments) > 1 and used:
        notes.append(
            f"groups are those of {' and '.join(sorted(used))}; {Option.OPTION} segment=COLUMN takes one column"
        )
    candidates = compare(
        data,
        methods,
        fit_on=fit_on,
        timed=rows.timed,
        left_out=rows.left_out,
        draws=draws,
        seed=seed,
        progress=progress,
    )
    if all(candidate.comparison is None for candidate in candidates):
        reasons = "; ".join(f"{candidate.method.name}: {candidate.failure}" for candidate in candidates)
        raise NotEnoughData(f"no method could be fitted: {reasons}")
    return Trial(data, rows.timed, candidates, tuple(notes), tuple(cautions), rows.classes)


def artifact(trial: Trial, chosen: Candidate, *, model: str, created_ms: int, columns: Mapping[str, Any]) -> bytes:
    """Return the map of a candidate as the bytes of a file.

    Parameters
    ----------
    trial, chosen
        The trial and its candidate.
    model
        Name of the model.
    created_ms
        Milliseconds since the epoch.
    columns
        Columns of the file that the map needs: ``prediction`` and ``features``, lists of names; ``segment``, a name or
        null. Stored with the map, for use with another file.

    Raises
    ------
    InputError
        The file would be too large.
    """
    if chosen.map is None or chosen.comparison is None:
        raise ValueError(f"{chosen.method.name} was not fitted: there is no map to write")
    details = map_details(chosen.method.name, chosen.options, chosen.comparison, created_ms)
    about = {
        "id": f"{chosen.method.name}-{details['data_hash'][:16]}",
        "model": model,
        "version": UNVERSIONED,
        **details,
        "columns": dict(columns),
        "classes": list(trial.classes),
        "guard_passed": chosen.better,
    }
    return to_bytes(chosen.map, about)


def _default_methods(events: LabelledEvents) -> list[str]:
    names = list(USUAL if events.is_binary else USUAL_FOR_CLASSES)
    if events.segments:
        names.append("group_wise_beta" if events.is_binary else "group_wise_temperature")
    if events.features is not None:
        names.append("lore")
    return names


def _split(events: LabelledEvents, *, held_out: float, since_change: bool, seed: int) -> RefitData:
    """Split all rows, or those since the last change of calibration, into earlier and later ones."""
    change = last_change(events, seed=seed) if since_change else None
    chosen = events if change is None else events.select(slice(change.row, None))
    of = "in all" if change is None else f"since the last change of calibration; leave {Option.SINCE_CHANGE} out"
    # A window that holds all rows: they are chosen already.
    window_ms = int(chosen.time_ms[-1] - chosen.time_ms[0]) + 1 if len(chosen) else None
    try:
        return replace(refit_data(chosen, window_ms=window_ms, held_out=held_out, seed=seed), change=change)
    except NotEnoughData as error:
        raise NotEnoughData(str(error).replace("of the window", of)) from error


def _remarks(rows: LabelledRows, data: RefitData, *, since_change: bool, seed: int) -> tuple[list[str], list[str]]:
    """Return notes on what was chosen, and warnings."""
    notes, cautions = list(rows.notes), list(rows.cautions)
    for reason, count in rows.left_out.items():
        notes.append(f"{count:,} {'row' if count == 1 else 'rows'} left out: {reason}")
    if since_change:
        if data.change is None:
            notes.append("no change of calibration was found, so all rows are used")
        else:
            notes.append(f"the {data.change.row:,} rows before {_since(data.change, rows)} are left out")
    elif len(rows.events) <= _MAX_SEARCHED:
        change = last_change(rows.events, seed=seed)
        if change is not None:
            after = len(rows.events) - change.row
            cautions.append(
                f"there is {_since(change, rows)}: maps that are fitted on what was before may not fit what comes; "
                f"{Option.SINCE_CHANGE} takes the {after:,} rows since then alone"
            )
    return notes, cautions


def _since(change: CalibrationChange, rows: LabelledRows) -> str:
    if rows.timed:
        where = f"on {format_time(change.time_ms)[:16].replace('T', ' ')} UTC"
    else:
        where = f"after {change.row:,} of {len(rows.events):,} rows"
    return f"a change of calibration {where} (p = {change.p_value:.2g})"


def _brier_losses(p: NDArray[np.float64], outcome: NDArray[np.int64]) -> NDArray[np.float64]:
    """Brier loss of each row, (n,), in [0, 1]."""
    if p.ndim == 1:
        return np.asarray((outcome - p) ** 2, np.float64)
    is_outcome = np.arange(p.shape[1]) == outcome[:, None]
    return np.asarray(((is_outcome - p) ** 2).sum(axis=1) / 2.0, np.float64)


def _mean(losses: NDArray[np.float64], weight: NDArray[np.float64]) -> LossInterval:
    if not np.isfinite(losses).all():
        return LossInterval(math.inf, None, None)
    mean = mean_difference(losses, weight)
    return LossInterval(mean.value, max(0.0, mean.lower), mean.upper)
