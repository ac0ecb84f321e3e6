"""Prior correction: an offset of the logits, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.inference.cox import logits, solve_offset
from monitor.inference.newton import Curved, minimise
from monitor.maps.base import Method, PredictionMap
from monitor.maps.parts import column
from monitor.maps.scales import log_probabilities, probabilities, softmax
from monitor.scores.labelled import LabelledEvents

MIN_EVENTS: Final = 5
_MAX_OFFSET: Final = 100.0
"""Larger than any fitted offset."""


@dataclass(frozen=True, eq=False)
class Offset(PredictionMap):
    """Offsets of the logits.

    Attributes
    ----------
    offset
        float64, shape (1,): b of sigmoid(logit p + b); or (K,): of softmax(log p + b), which add up to 0.
    """

    offset: Annotated[Floats, partial(column, low=-_MAX_OFFSET, high=_MAX_OFFSET, least=1)]
    method: ClassVar[str] = "offset"

    @property
    def classes(self) -> int:
        """Number K of classes; 2 for P(y = 1) alone."""
        return max(2, self.offset.size)

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return sigmoid(logit p + b) or softmax(log p + b), with logits limited to [-17, 17]."""
        if prediction.ndim == 1:
            # Only the difference of two offsets matters.
            return probabilities(
                logits(prediction) + (self.offset[-1] - (self.offset[0] if self.offset.size > 1 else 0))
            )
        offset = self.offset if self.offset.size > 1 else np.r_[0.0, self.offset]
        return softmax(log_probabilities(prediction) + offset)

    def describe(self) -> str:
        """Describe the map."""
        if self.offset.size == 1:
            b = float(self.offset[0])
            return f"adds {b:+.4g} to every logit, which multiplies the odds by {np.exp(b):.4g}"
        high, low = int(np.argmax(self.offset)), int(np.argmin(self.offset))
        return (
            f"multiplies the odds of each class by a number of its own: from {np.exp(self.offset[low]):.4g} "
            f"(class {low}) to {np.exp(self.offset[high]):.4g} (class {high})"
        )


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> Offset:  # noqa: ARG001
    events.require_outcomes(MIN_EVENTS)
    if events.is_binary:
        hits = float(events.weight[events.outcome == 1].sum())
        order = np.argsort(events.prediction, kind="stable")
        return Offset(np.array([solve_offset(logits(events.prediction)[order], events.weight[order], hits)]))
    return Offset(_class_offsets(events))


def _class_offsets(events: LabelledEvents) -> Floats:
    """Return the offsets that make expected frequencies of classes the observed ones; shape (K,), of sum 0."""
    z, share = log_probabilities(events.prediction), events.weight / events.weight.sum()
    observed = np.bincount(events.outcome, share, events.classes).astype(np.float64)
    # Half an event for a class that never came true, as in the Cox fit; its offset would be infinite.
    observed[observed == 0.0] = 0.5 / len(events)
    observed /= observed.sum()

    def objective(offset: Floats) -> Curved:
        eta = z + offset
        highest = eta.max(axis=1)
        odds = np.exp(eta - highest[:, None])
        total = odds.sum(axis=1)
        q = odds / total[:, None]
        mean = share @ q
        return Curved(
            value=float(share @ (highest + np.log(total)) - observed @ offset),
            gradient=mean - observed,
            hessian=np.diag(mean) - (q.T * share) @ q,
        )

    limit = np.full(events.classes, _MAX_OFFSET / 2.0)
    offset = minimise(objective, np.zeros(events.classes), -limit, limit)
    return np.asarray(offset - offset.mean())


METHOD: Final = Method(
    name="offset",
    title="Prior correction",
    meaning=(
        "Adds one number to every logit, or one to each class: what repairs a model when only the share of outcomes "
        "has moved. It is the offset that the diagnosis of a report names, and needs the fewest events."
    ),
    rank=5,
    fit=_fit,
    load=Offset.from_parts,
    many_classes=True,
)
"""Source: section 5 of the mathematics; of many classes Saerens, Latinne, Decaestecker, "Adjusting the outputs of a
classifier to new a priori probabilities", 2002, from labelled events, where the paper has none."""
