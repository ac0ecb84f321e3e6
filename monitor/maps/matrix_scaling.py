"""Matrix scaling, which on log probabilities is Dirichlet calibration: every class may speak for every other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from monitor.inference.newton import Curved, minimise
from monitor.maps import reading
from monitor.maps.base import MapParts, Method, Option, OptionValue
from monitor.maps.enough import require_outcomes
from monitor.maps.labelled import LabelledEvents
from monitor.maps.scales import SLOPE_LIMIT, log_probabilities, softmax
from monitor.maps.vector_scaling import BIAS_DEVIATION, BIAS_LIMIT, ENOUGH, default_ridge

Floats = NDArray[np.float64]

_DEVIATION: Final = 0.1
"""Standard deviation of a weight off the diagonal before there are data, where no ridge is named: log p goes to -17."""


@dataclass(frozen=True, eq=False)
class MatrixScaling:
    """Softmax of W log p + b.

    Attributes
    ----------
    weight
        W, float64, shape (K, K), from -100 to 100, and from 0 on the diagonal.
    bias
        b, float64, shape (K,), from -50 to 50.
    """

    weight: Floats
    bias: Floats
    method: ClassVar[str] = "matrix_scaling"
    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return int(self.bias.size)

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """Softmax of W log p + b. Logarithms count as -17 below."""
        if prediction.ndim == 1:
            return np.ascontiguousarray(self._recalibrate(np.column_stack([1.0 - prediction, prediction]))[:, 1])
        return self._recalibrate(prediction)

    def _recalibrate(self, p: Floats) -> Floats:
        return softmax(log_probabilities(p) @ self.weight.T + self.bias)

    def parts(self) -> MapParts:
        """Matrix and bias."""
        return MapParts(arrays={"weight": self.weight, "bias": self.bias})

    @classmethod
    def from_parts(cls, parts: MapParts) -> "MatrixScaling":
        """The map of these parts. Raises CorruptMap."""
        bias = reading.column(parts, "bias", low=-BIAS_LIMIT, high=BIAS_LIMIT, least=2)
        shape = (bias.size, bias.size)
        return cls(reading.matrix(parts, "weight", shape, low=-SLOPE_LIMIT, high=SLOPE_LIMIT), bias)

    def describe(self) -> str:
        """What it does."""
        diagonal = np.diag(self.weight)
        off = np.abs(self.weight - np.diag(diagonal)).max()
        said = (
            f"takes log p of {self.classes} classes to W log p + b: {diagonal.min():.4g} to {diagonal.max():.4g} on "
            f"the diagonal of W, at most {off:.4g} off it, b from {self.bias.min():+.4g} to {self.bias.max():+.4g}"
        )
        if (diagonal == SLOPE_LIMIT).any():
            said += "; a factor is at its limit: a larger one would fit better still"
        return said


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> MatrixScaling:
    count = events.classes
    # One event a number is the least with which the ridge is not all there is.
    require_outcomes(events, max(10 * count, count * (count + 1)))
    n = len(events)
    z = np.column_stack([log_probabilities(events.prediction), np.ones(n)])
    share = events.weight / events.weight.sum()
    came = np.zeros((n, count))
    came[np.arange(n), events.outcome] = 1.0
    penalty = _penalty(events, options["ridge"])
    held_squares = z**2

    def about(theta: Floats) -> Curved:
        weight = theta.reshape(count, count + 1)
        eta = z @ weight.T
        highest = eta.max(axis=1, keepdims=True)
        odds = np.exp(eta - highest)
        total = odds.sum(axis=1, keepdims=True)
        q = odds / total
        loss = float(share @ ((highest + np.log(total)).ravel() - (eta * came).sum(axis=1)))
        held = share[:, None] * q

        def product(vector: Floats) -> Floats:
            change = z @ vector.reshape(count, count + 1).T
            turned = held * (change - (q * change).sum(axis=1, keepdims=True))
            return np.asarray((turned.T @ z).ravel() + penalty * vector)

        return Curved(
            value=loss + float(penalty @ theta**2) / 2.0,
            gradient=((share[:, None] * (q - came)).T @ z).ravel() + penalty * theta,
            hessian=product,
            diagonal=((held * (1.0 - q)).T @ held_squares).ravel() + penalty,
        )

    lower = np.full((count, count + 1), -SLOPE_LIMIT)
    np.fill_diagonal(lower, 0.0)
    lower[:, -1] = -BIAS_LIMIT
    upper = np.full((count, count + 1), SLOPE_LIMIT)
    upper[:, -1] = BIAS_LIMIT
    found = minimise(about, np.eye(count, count + 1).ravel(), lower.ravel(), upper.ravel(), enough=ENOUGH)
    weight = found.reshape(count, count + 1)
    return MatrixScaling(np.ascontiguousarray(weight[:, :-1]), np.ascontiguousarray(weight[:, -1]))


def _penalty(events: LabelledEvents, named: OptionValue) -> Floats:
    """Twice the factor of the square of each number, shape (K (K + 1),): none on the diagonal."""
    count = events.classes
    numbers = count * (count - 1)
    off, bias = (
        (default_ridge(events, _DEVIATION, numbers), default_ridge(events, BIAS_DEVIATION, count))
        if named is None
        else (float(named), float(named))
    )
    each = np.full((count, count + 1), 2.0 * off / numbers)
    np.fill_diagonal(each, 0.0)
    each[:, -1] = 2.0 * bias / count
    return each.ravel()


METHOD: Final = Method(
    name="matrix_scaling",
    title="Matrix scaling",
    meaning=(
        "Softmax of a matrix times log p plus a bias, found by log loss with a ridge on what is off the diagonal: "
        "Dirichlet calibration. For few classes, many events, and classes that are taken for one another."
    ),
    rank=45,
    fit=_fit,
    load=MatrixScaling.from_parts,
    options={
        "ridge": Option(
            "number",
            None,
            "Added to the mean log loss: so many times the mean square of the weights off the diagonal, and of the "
            "biases. Null: as if these had standard deviations of .1 and 1 before there are data.",
            at_least=0.0,
            at_most=1e6,
        )
    },
    binary=False,
    many_classes=True,
)
"""Source: Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach, "Beyond temperature scaling: Obtaining
well-calibrated multiclass probabilities with Dirichlet calibration", 2019, with its ODIR regularisation. The paper
finds the ridge by cross-validation; here it follows from the number of events, and no diagonal weight is below 0."""
