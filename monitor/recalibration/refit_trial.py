"""Results of several recalibration methods on the same later rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from monitor.maps import RecalibrationMap
from monitor.maps.base import Method, OptionValue
from monitor.recalibration.comparison import Comparison
from monitor.recalibration.data import RefitData
from monitor.recalibration.guard import log_losses, weigh

_NORMAL_975: Final = float(norm.ppf(0.975))


class MeanLoss(NamedTuple):
    """A mean loss; infinite if an outcome had probability 0."""

    value: float
    lower: float | None
    """Of the 95% interval, by the central limit theorem; None if the loss is infinite."""
    upper: float | None


class Losses(NamedTuple):
    """The proper scores of some predictions."""

    log_loss: MeanLoss
    """In nats."""
    brier: MeanLoss
    """In [0, 1]; for many classes half the squared distance of the vectors."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One method, fitted and compared with no map; or why it could not be fitted.

    Attributes
    ----------
    method, options
        What to fit.
    min_e_value
        Required e-value.
    map
        None if it could not be fitted.
    comparison
        Comparison with no map on the held-out rows; None if it could not be fitted.
    failure
        Why it could not be fitted.
    """

    method: Method
    options: Mapping[str, OptionValue]
    min_e_value: float
    map: RecalibrationMap | None = None
    comparison: Comparison | None = None
    failure: str | None = None

    @property
    def evidence(self) -> Mapping[str, Any]:
        """Evidence that it is better than no map, from the comparison; empty if it was not fitted."""
        if self.comparison is None:
            return {}
        return self.comparison.document["evidence"]["against_none"]  # type: ignore[no-any-return]

    @property
    def sure(self) -> bool:
        """Whether the evidence is sufficient, given the number of methods."""
        return bool(self.evidence) and float(self.evidence["log10_e"]) >= math.log10(self.min_e_value)

    @property
    def better(self) -> bool:
        """Whether the evidence is sufficient and the guard passed it."""
        return self.comparison is not None and self.comparison.guard.passed and self.sure

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "method": self.method.name,
            "options": dict(self.options),
            "better": self.better,
            "failure": self.failure,
            "comparison": None if self.comparison is None else dict(self.comparison.document),
        }


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
        p = held.prediction
        if candidate is not None and candidate.comparison is not None:
            p = candidate.comparison.predictions["challenger"]
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
        evidence = weigh(held.prediction, candidate.comparison.predictions["challenger"], held.outcome, held.weight)
        return evidence.events_until(candidate.min_e_value)

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
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
        if one.comparison is None or other.comparison is None:
            raise AssertionError("both were fitted")
        held = self.data.held_out
        p, q = other.comparison.predictions["challenger"], one.comparison.predictions["challenger"]
        difference = weigh(p, q, held.outcome, held.weight).log_loss
        # An infinite loss is the other's: this one has the smaller.
        return difference is None or difference.upper < 0.0


def _brier_losses(p: NDArray[np.float64], outcome: NDArray[np.int64]) -> NDArray[np.float64]:
    """Brier loss of each row, (n,), in [0, 1]."""
    if p.ndim == 1:
        return np.asarray((outcome - p) ** 2, np.float64)
    is_outcome = np.arange(p.shape[1]) == outcome[:, None]
    return np.asarray(((is_outcome - p) ** 2).sum(axis=1) / 2.0, np.float64)


def _mean(losses: NDArray[np.float64], weight: NDArray[np.float64]) -> MeanLoss:
    share = weight / weight.sum()
    value = float(share @ losses)
    if not math.isfinite(value):
        return MeanLoss(math.inf, None, None)
    radius = _NORMAL_975 * math.sqrt(float(share**2 @ (losses - value) ** 2))
    return MeanLoss(value, max(0.0, value - radius), value + radius)
