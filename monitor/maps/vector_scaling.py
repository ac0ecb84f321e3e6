"""Vector scaling: a factor and an offset for the logarithm of each class' probability."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CorruptMap
from monitor.inference.newton import Curved, minimise
from monitor.maps import reading
from monitor.maps.base import MapParts, Method, Option, OptionValue
from monitor.maps.enough import require_outcomes
from monitor.maps.labelled import LabelledEvents
from monitor.maps.scales import SLOPE_LIMIT, log_probabilities, softmax

Floats = NDArray[np.float64]

BIAS_LIMIT: Final = 50.0
"""The largest bias. Without a ridge a class that never came true would have one of minus infinity."""

ENOUGH: Final = 1e-13
"""Of mean log loss, half of it is no gain: predictions that part the outcomes are fitted no farther."""

BIAS_DEVIATION: Final = 1.0
"""Standard deviation of a bias before there are data, where no ridge is named: odds within a factor of 7 or so."""


@dataclass(frozen=True, eq=False)
class VectorScaling:
    """Softmax of a log p + b.

    Attributes
    ----------
    scale, bias
        float64, shape (K,): a, from 0 to 100, and b, from -50 to 50.
    """

    scale: Floats
    bias: Floats
    method: ClassVar[str] = "vector_scaling"
    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return int(self.scale.size)

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """Softmax of a log p + b. Logarithms count as -17 below."""
        if prediction.ndim == 1:
            return np.ascontiguousarray(self._recalibrate(np.column_stack([1.0 - prediction, prediction]))[:, 1])
        return self._recalibrate(prediction)

    def _recalibrate(self, p: Floats) -> Floats:
        return softmax(self.scale * log_probabilities(p) + self.bias)

    def parts(self) -> MapParts:
        """Factors and offsets."""
        return MapParts(arrays={"scale": self.scale, "bias": self.bias})

    @classmethod
    def from_parts(cls, parts: MapParts) -> "VectorScaling":
        """The map of these parts. Raises CorruptMap."""
        scale = reading.column(parts, "scale", low=0.0, high=SLOPE_LIMIT, least=2)
        bias = reading.column(parts, "bias", low=-BIAS_LIMIT, high=BIAS_LIMIT, least=2)
        if scale.size != bias.size:
            raise CorruptMap(f"scale and bias must be equally long, got {scale.size} and {bias.size}")
        return cls(scale, bias)

    def describe(self) -> str:
        """What it does."""
        said = (
            f"multiplies log p of each of {self.classes} classes by {self.scale.min():.4g} to {self.scale.max():.4g} "
            f"and adds {self.bias.min():+.4g} to {self.bias.max():+.4g}"
        )
        if (self.scale == SLOPE_LIMIT).any():
            said += "; a factor is at its limit: a larger one would fit better still"
        return said


def default_ridge(events: LabelledEvents, deviation: float, numbers: int) -> float:
    """The ridge on a mean of squares that says: so many numbers, each of this standard deviation, before the data.

    Weighted events count by what they are worth, (sum w)^2 / sum w^2.
    """
    worth = float(events.weight.sum() ** 2 / (events.weight**2).sum())
    return numbers / (2.0 * worth * deviation**2)


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> VectorScaling:
    count = events.classes
    require_outcomes(events, 10 * count)
    z, share = log_probabilities(events.prediction), events.weight / events.weight.sum()
    came = np.zeros_like(z)
    came[np.arange(len(events)), events.outcome] = 1.0
    named = options["ridge"]
    ridge = default_ridge(events, BIAS_DEVIATION, count) if named is None else float(named)
    each = 2.0 * ridge / count

    def about(theta: Floats) -> Curved:
        scale, bias = theta[:count], theta[count:]
        eta = scale * z + bias
        highest = eta.max(axis=1, keepdims=True)
        odds = np.exp(eta - highest)
        total = odds.sum(axis=1, keepdims=True)
        q = odds / total
        loss = float(share @ ((highest + np.log(total)).ravel() - (eta * came).sum(axis=1)))
        miss = share[:, None] * (q - came)
        # The Hessian in eta is diag(q) - q q^T; of each column of z and of 1 the products follow.
        held = share[:, None] * q
        zq = z * q
        mixed = np.diag((held * z).sum(axis=0)) - (zq.T * share) @ q
        hessian = np.block(
            [
                [np.diag((held * z**2).sum(axis=0)) - (zq.T * share) @ zq, mixed],
                [mixed.T, np.diag(held.sum(axis=0) + each) - (q.T * share) @ q],
            ]
        )
        return Curved(
            value=loss + each / 2.0 * float(bias @ bias),
            gradient=np.r_[(miss * z).sum(axis=0), miss.sum(axis=0) + each * bias],
            hessian=hessian,
        )

    found = minimise(
        about,
        np.r_[np.ones(count), np.zeros(count)],
        np.r_[np.zeros(count), np.full(count, -BIAS_LIMIT)],
        np.r_[np.full(count, SLOPE_LIMIT), np.full(count, BIAS_LIMIT)],
        enough=ENOUGH,
    )
    return VectorScaling(found[:count], found[count:])


METHOD: Final = Method(
    name="vector_scaling",
    title="Vector scaling",
    meaning=(
        "Softmax of a factor and an offset for the log probability of each class, found by log loss: for many classes "
        "of which some are predicted too often, or too surely."
    ),
    rank=40,
    fit=_fit,
    load=VectorScaling.from_parts,
    options={
        "ridge": Option(
            "number",
            None,
            "Added to the mean log loss: so many times the mean square of the offsets. Null: as if each had a standard "
            "deviation of 1 before there are data.",
            at_least=0.0,
            at_most=1e6,
        )
    },
    binary=False,
    many_classes=True,
)
"""Source: Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", 2017, section 4.2, on log p in
place of a network's logits. These differ from log p by a number for each event, which the softmax takes off again only
where all factors are equal: so the map is not that of the logits, which a service does not know."""
