"""What came of several recalibration methods on one set of later rows."""

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
    """A mean loss; infinite where what came true was ruled out."""

    value: float
    lower: float | None
    """Of the 95% interval, by the central limit theorem; None where the loss is infinite."""
    upper: float | None


class Losses(NamedTuple):
    """The proper scores of some predictions."""

    log_loss: MeanLoss
    """In nats."""
    brier: MeanLoss
    """In [0, 1]; of many classes half the squared distance of the vectors."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One method, fitted and compared with no map; or why it could not be fitted.

    Attributes
    ----------
    method, options
        What was to be fitted.
    least_e
        The e-value that it must reach.
    map
        None if it could not be fitted.
    comparison
        With no map, on the held-out rows; None likewise.
    failure
        Why it could not be fitted, in words.
    """

    method: Method
    options: Mapping[str, OptionValue]
    least_e: float
    map: RecalibrationMap | None = None
    comparison: Comparison | None = None
    failure: str | None = None

    @property
    def evidence(self) -> Mapping[str, Any]:
        """That it is better than no map, as the comparison has it; empty if it was not fitted."""
        if self.comparison is None:
            return {}
        found: Mapping[str, Any] = self.comparison.document["evidence"]["against_none"]
        return found

    @property
    def sure(self) -> bool:
        """Whether the evidence is enough, given how many methods were looked at."""
        return bool(self.evidence) and float(self.evidence["log10_e"]) >= math.log10(self.least_e)

    @property
    def better(self) -> bool:
        """Whether it is better than no map for certain, and the guard has nothing against it."""
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
    """What came of the methods.

    Attributes
    ----------
    data
        The rows that they were fitted on, and compared on.
    timed
        Whether the rows have times; else their order stood in for them.
    candidates
        In the order in which they were named; at least one was fitted.
    notes, cautions
        What was assumed, and what to mind; a line each.
    classes
        Names of the classes; none where predictions are P(y = 1).
    """

    data: RefitData
    timed: bool
    candidates: Sequence[Candidate]
    notes: Sequence[str] = ()
    cautions: Sequence[str] = ()
    classes: Sequence[str] = ()

    @property
    def best(self) -> Candidate | None:
        """Of those that are better than no map, the one of the smallest log loss; None if none is."""
        return self._least([each for each in self.candidates if each.better])

    @property
    def shown(self) -> Candidate:
        """The one that pictures are of: the best, or that of the smallest log loss."""
        shown = self.best or self._least([each for each in self.candidates if each.comparison is not None])
        if shown is None:
            raise AssertionError("at least one method was fitted")
        return shown

    def losses(self, candidate: Candidate | None) -> Losses:
        """Those of a candidate's predictions of the held-out rows; None: of the predictions as they are."""
        held = self.data.held_out
        p = held.prediction
        if candidate is not None and candidate.comparison is not None:
            p = candidate.comparison.predictions["challenger"]
        return Losses(
            _mean(log_losses(p, held.outcome), held.weight),
            _mean(_brier_losses(p, held.outcome), held.weight),
        )

    def alike(self, chosen: Candidate) -> list[Candidate]:
        """Others that are better than no map, and whose log loss is not worse than this one's beyond chance."""
        others = [each for each in self.candidates if each.better and each is not chosen]
        return [each for each in others if not self._beats(chosen, each)]

    def rows_needed(self, candidate: Candidate) -> int | None:
        """On how many later rows like these a candidate is expected to prove better than no map; None: on no number."""
        if candidate.comparison is None:
            return None
        held = self.data.held_out
        found = weigh(held.prediction, candidate.comparison.predictions["challenger"], held.outcome, held.weight)
        return found.events_until(candidate.least_e)

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        best = self.best
        return {
            "best": None if best is None else best.method.name,
            "e_value_needed": self.candidates[0].least_e,
            "methods": [each.to_dict() for each in self.candidates],
            "notes": [*self.notes, *self.cautions],
        }

    def _least(self, candidates: Sequence[Candidate]) -> Candidate | None:
        return min(candidates, key=lambda each: self.losses(each).log_loss.value, default=None)

    def _beats(self, one: Candidate, other: Candidate) -> bool:
        """Whether the 95% interval of the difference of their log losses lies below 0."""
        if one.comparison is None or other.comparison is None:
            raise AssertionError("both were fitted")
        held = self.data.held_out
        p, q = (each.comparison.predictions["challenger"] for each in (other, one))  # type: ignore[union-attr]
        found = weigh(p, q, held.outcome, held.weight).log_loss
        # Where one of the losses is infinite, it is the other's: this one has the smaller.
        return found is None or found.upper < 0.0


def _brier_losses(p: NDArray[np.float64], outcome: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of each row, (n,), in [0, 1]."""
    if p.ndim == 1:
        return np.asarray((outcome - p) ** 2, np.float64)
    came = np.arange(p.shape[1]) == outcome[:, None]
    return np.asarray(((came - p) ** 2).sum(axis=1) / 2.0, np.float64)


def _mean(losses: NDArray[np.float64], weight: NDArray[np.float64]) -> MeanLoss:
    share = weight / weight.sum()
    value = float(share @ losses)
    if not math.isfinite(value):
        return MeanLoss(math.inf, None, None)
    radius = _NORMAL_975 * math.sqrt(float(share**2 @ (losses - value) ** 2))
    return MeanLoss(value, max(0.0, value - radius), value + radius)
