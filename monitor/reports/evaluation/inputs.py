"""Check the arguments of callers, and convert them to the arrays that are measured."""

import math
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Bools, Floats
from monitor.errors import InputError, OptionError
from monitor.inference.resampling import require_seed
from monitor.measures import choose_measures
from monitor.measures.base import Measure
from monitor.options import MIN_DRAWS, Option
from monitor.scores import ClassTable
from monitor.scores.arguments import numbers, require_same_index
from monitor.scores.class_table import positive_class
from monitor.scores.table import check

Measures = Mapping[str, Measure] | Iterable[str] | str
"""Measures by their names, or a mapping such as ``monitor.measures.MEASURES``."""

Times = ArrayLike | Sequence[date]
"""Milliseconds since the epoch, or datetimes."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_1_MS: Final = -62_135_596_800_000
_YEAR_10000_MS: Final = 253_402_300_800_000


def column(name: str, values: ArrayLike) -> Floats:
    """Convert values to float64, shape (n,), as :func:`numbers` does.

    Raises
    ------
    InputError
        They are not real numbers, or have another shape. The message says which column to pass.
    """
    try:
        array = numbers(name, values)
    except InputError as error:
        words = [label for label in np.asarray(values, object).ravel().tolist() if isinstance(label, str)]
        if name != "y" or not words:
            raise
        # The labels of a classifier of scikit-learn.
        raise InputError(
            f"y must be numbers: 0 or 1, or that of a class, got {words[0]!r}. Of two labels write "
            f"y == {max(words)!r}, for predictions of that one; of more, for the columns of predict_proba, "
            "np.searchsorted(model.classes_, y)"
        ) from error
    if array.ndim == 1:
        return array
    hint = ""
    if array.ndim == 2 and array.shape[1] == 1:
        hint = f"; pass {name}[:, 0]"
    elif array.ndim == 2 and name == "p":
        hint = "; of class probabilities pass the column of class 1, p[:, 1]"
    elif array.ndim == 2 and name == "y":
        hint = "; p and y look swapped, predictions come first"
    raise InputError(f"{name} must have one dimension, got shape {array.shape}{hint}")


def require_unmasked(name: str, values: object) -> None:
    """Raise InputError if any value of a masked array is masked: only outcomes may be unknown."""
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else np.zeros(0, np.bool_)
    if mask.any():
        at = np.argwhere(mask)[0]
        raise InputError(f"{name} must not be masked, got a masked value at index {at[0]}; leave these events out")


def times_ms(values: Times) -> Floats:
    """Convert times to milliseconds since the epoch, float64: numbers, or datetimes of any unit and zone.

    Datetimes without a zone are UTC, as in numpy. Fractions of a millisecond of datetimes are cut off.

    Raises
    ------
    InputError
        A time is missing, or lies outside the years 1 to 9999.
    """
    require_unmasked("time_ms", values)
    array = np.asarray(values)
    if array.dtype.kind == "U" or any(isinstance(item, str) for item in array.flat if array.dtype.kind == "O"):
        raise InputError("time_ms must be numbers or datetimes, got text")
    if array.dtype.kind == "O" and any(isinstance(item, date) for item in array.flat):
        times = np.array([_epoch_ms(item) for item in array.flat]).reshape(array.shape)
    elif array.dtype.kind == "M":
        moments = array.astype("datetime64[ms]")
        times = np.where(np.isnat(moments), np.nan, moments.astype(np.int64).astype(np.float64))
    else:
        times = column("time_ms", array)
    check(
        times,
        (times >= _YEAR_1_MS) & (times < _YEAR_10000_MS),
        "time_ms must be milliseconds since the epoch or datetimes, known and of the years 1 to 9999",
    )
    return column("time_ms", times)


def _epoch_ms(moment: object) -> float:
    """Milliseconds of a datetime or a date; nan for anything else, such as None."""
    if not isinstance(moment, date) or moment != moment:  # noqa: PLR0124 - pandas' NaT is a date, and not itself
        return np.nan
    whole = moment if isinstance(moment, datetime) else datetime.combine(moment, time.min)
    zoned = whole if whole.tzinfo is not None else whole.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)


def measures_by_name(measures: Measures) -> Mapping[str, Measure]:
    """Look up measures by their names, by one name, or in a mapping.

    Raises
    ------
    InputError
        An item is neither a measure nor the name of one.
    """
    if not isinstance(measures, Mapping):
        named = [measures] if isinstance(measures, str) or not isinstance(measures, Iterable) else list(measures)
        if not all(isinstance(name, str) for name in named):
            raise InputError(f'measures must be names such as ["smce", "tce"], got {reprlib.repr(measures)}')
        return choose_measures(named)
    for name, measure in measures.items():
        if not isinstance(measure, Measure):
            raise InputError(
                f"measures must hold measures by name, as monitor.measures.MEASURES, got {measure!r} for {name!r}"
            )
    return measures


def require_tolerance(tolerance: float) -> None:
    """Raise InputError unless the tolerated error of the logits is a number of at least 0."""
    if not 0.0 <= tolerance < math.inf:
        raise InputError(f"tolerance must be a number of at least 0, got {tolerance}")


class Resampling(NamedTuple):
    """Draws and seed of intervals and levels."""

    draws: int | None = None
    """Resamples, at least 19; 0 leaves intervals and levels out. As many as is usual for the kind of report if None."""
    seed: int | None = None
    """Seed of the resamples; derived from the data if None, so that the same data give the same report."""

    def check(self) -> None:
        """Raise InputError unless the number of draws is 0 or enough, and the seed a whole number of at least 0."""
        if self.draws and (self.draws < MIN_DRAWS or self.draws != int(self.draws)):
            raise OptionError(
                Option.DRAWS,
                f" must be 0 or at least {MIN_DRAWS}, got {self.draws}: with fewer, no p-value is below .05",
            )
        require_seed(self.seed)

    def draws_or(self, usual: int) -> int:
        """The number of draws, or the usual one."""
        return usual if self.draws is None else self.draws

    @property
    def arguments(self) -> dict[str, Any]:
        """As keyword arguments; each kind of report has its own default number of draws."""
        return {"seed": self.seed} if self.draws is None else {"seed": self.seed, "draws": self.draws}


class CheckedEvents(NamedTuple):
    """Predictions and outcomes whose values are all valid; float64, shape (n,)."""

    prediction: Floats
    outcome: Floats
    """nan where it is unknown."""
    weight: Floats | None
    time_ms: Floats | None


def check_events(
    p: ArrayLike, y: ArrayLike, *, weight: ArrayLike | None = None, time_ms: Times | None = None
) -> CheckedEvents:
    """Check predictions, outcomes, weights and times, the arguments of a report.

    Raises
    ------
    InputError
        A value is out of its range, or lengths differ. The message names the first such value.
    """
    require_same_index(p=p, y=y, weight=weight, time_ms=time_ms)
    require_unmasked("p", p)
    prediction, outcome = column("p", p), column("y", y)
    if prediction.shape != outcome.shape:
        raise InputError(f"p and y must be equally long, got {prediction.size} and {outcome.size}")
    check(prediction, (prediction >= 0.0) & (prediction <= 1.0), "p must be in [0, 1]")
    times = None if time_ms is None else times_ms(time_ms)
    weights = None
    if weight is not None:
        require_unmasked("weight", weight)
        weights = column("weight", weight)
    for name, values in (("time_ms", times), ("weight", weights)):
        if values is not None and values.shape != prediction.shape:
            raise InputError(f"{name} must be as long as p, got {values.size} and {prediction.size}")
    # Checked before unknown outcomes are left out, so that indices are those of the caller.
    try:
        check(outcome, np.isnan(outcome) | (outcome == 0.0) | (outcome == 1.0), "y must be 0 or 1")
    except InputError as error:
        if ((prediction == 0.0) | (prediction == 1.0)).all() and ((outcome >= 0.0) & (outcome <= 1.0)).all():
            raise InputError(f"{error}; p and y look swapped, predictions come first") from None
        raise
    if weights is not None:
        check(weights, np.isfinite(weights) & (weights >= 0.0), "weight must be finite and at least 0")
    return CheckedEvents(prediction, outcome, weights, times)


def check_vectors(p: ArrayLike, y: ArrayLike) -> tuple[ClassTable, Bools]:
    """Check probability vectors and classes, the arguments of a report.

    Returns
    -------
    ClassTable, array
        Every prediction, with class 0 where the outcome is unknown; and whether it is known, bool, shape (n,).

    Raises
    ------
    InputError
        A value is out of its range, or shapes do not fit. The message names the first such row.
    """
    require_unmasked("p", p)
    outcome = column("y", y)
    labelled = ~np.isnan(outcome)
    return ClassTable.from_events(numbers("p", p), np.where(labelled, outcome, 0.0), names=("p", "y")), labelled


def predictions_of(p: ArrayLike, *, of_classes: bool = False) -> Floats:
    """Convert predictions, numbers or vectors, to float64; values are not checked, but those of two columns.

    Parameters
    ----------
    p
        Shape (n,), or (n, K).
    of_classes
        Whether vectors of two classes stay as they are. Otherwise they are those of a binary model, and its P(y = 1),
        the second column, is returned.

    Raises
    ------
    InputError
        They are not numbers, or masked, or vectors of several lengths; or two columns are no probabilities.
    """
    require_unmasked("p", p)
    try:
        prediction = numbers("p", p)
    except InputError as error:
        ragged = "; of class probabilities, as many for each event" if isinstance(error.__cause__, ValueError) else ""
        raise InputError(f"{error}{ragged}") from error
    if of_classes or prediction.ndim != 2 or prediction.shape[1] != 2:
        return prediction
    return positive_class(ClassTable.from_events(prediction, np.zeros(len(prediction)), names=("p", "y")).prediction)


def holds_vectors(prediction: Floats) -> bool:
    """Return whether predictions are probability vectors.

    A single column is a mistake, which the check of columns reports.
    """
    return prediction.ndim == 2 and prediction.shape[1] != 1
