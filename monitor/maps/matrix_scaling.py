"""Matrix scaling, which on log probabilities is Dirichlet calibration: each class depends on the logits of all."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import CorruptMap
from monitor.inference.newton import Curved, minimise
from monitor.maps.base import Method, OptionValue, PredictionMap, apply_to_vectors
from monitor.maps.labelled import LabelledEvents
from monitor.maps.parts import column, matrix
from monitor.maps.scales import SLOPE_LIMIT, log_probabilities, softmax
from monitor.maps.vector_scaling import (
    BIAS_DEVIATION,
    BIAS_LIMIT,
    PRECISION,
    default_ridge,
    limit_note,
    one_hot,
    ridge_option,
    softmax_loss,
)

_DEVIATION: Final = 0.1
"""Prior standard deviation of a weight off the diagonal where no ridge is given: log p goes down to -17."""


@dataclass(frozen=True, eq=False)
class MatrixScaling(PredictionMap):
    """Softmax of W log p + b.

    Attributes
    ----------
    weight
        W, float64, shape (K, K), from -100 to 100, and from 0 on the diagonal.
    bias
        b, float64, shape (K,), from -50 to 50.
    """

    weight: Annotated[Floats, partial(matrix, shape=(None, None), low=-SLOPE_LIMIT, high=SLOPE_LIMIT)]
    bias: Annotated[Floats, partial(column, low=-BIAS_LIMIT, high=BIAS_LIMIT, least=2)]
    method: ClassVar[str] = "matrix_scaling"

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return int(self.bias.size)

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return softmax(W log p + b), with logarithms of at least -17."""
        return apply_to_vectors(lambda p: softmax(log_probabilities(p) @ self.weight.T + self.bias), prediction)

    def check(self) -> None:
        """Raise CorruptMap if sizes differ."""
        shape = (self.classes, self.classes)
        if self.weight.shape != shape:
            raise CorruptMap(f"weight must have the shape {shape}, got {self.weight.shape}")

    def describe(self) -> str:
        """Describe the map."""
        diagonal = np.diag(self.weight)
        off = np.abs(self.weight - np.diag(diagonal)).max()
        return (
            f"takes log p of {self.classes} classes to W log p + b: {diagonal.min():.4g} to {diagonal.max():.4g} on "
            f"the diagonal of W, at most {off:.4g} off it, b from {self.bias.min():+.4g} to {self.bias.max():+.4g}"
            f"{limit_note(diagonal)}"
        )


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> MatrixScaling:
    count = events.classes
    # With less than one event per parameter, the ridge alone would decide.
    events.require_outcomes(max(10 * count, count * (count + 1)))
    z = np.column_stack([log_probabilities(events.prediction), np.ones(len(events))])
    share, target = events.weight / events.weight.sum(), one_hot(events)
    penalty = _penalty(events, options["ridge"])
    squares = z**2

    def objective(theta: Floats) -> Curved:
        loss, q = softmax_loss(z @ theta.reshape(count, count + 1).T, target, share)
        weighted = share[:, None] * q

        def product(vector: Floats) -> Floats:
            change = z @ vector.reshape(count, count + 1).T
            change = weighted * (change - (q * change).sum(axis=1, keepdims=True))
            return np.asarray((change.T @ z).ravel() + penalty * vector)

        return Curved(
            value=loss + float(penalty @ theta**2) / 2.0,
            gradient=((share[:, None] * (q - target)).T @ z).ravel() + penalty * theta,
            hessian=product,
            diagonal=((weighted * (1.0 - q)).T @ squares).ravel() + penalty,
        )

    lower = np.full((count, count + 1), -SLOPE_LIMIT)
    np.fill_diagonal(lower, 0.0)
    lower[:, -1] = -BIAS_LIMIT
    upper = np.full((count, count + 1), SLOPE_LIMIT)
    upper[:, -1] = BIAS_LIMIT
    theta = minimise(objective, np.eye(count, count + 1).ravel(), lower.ravel(), upper.ravel(), enough=PRECISION)
    weight = theta.reshape(count, count + 1)
    return MatrixScaling(np.ascontiguousarray(weight[:, :-1]), np.ascontiguousarray(weight[:, -1]))


def _penalty(events: LabelledEvents, ridge: OptionValue) -> Floats:
    """Return twice the factor of the square of each parameter, shape (K (K + 1),): 0 on the diagonal."""
    count = events.classes
    numbers = count * (count - 1)
    off, bias = (
        (default_ridge(events, _DEVIATION, numbers), default_ridge(events, BIAS_DEVIATION, count))
        if ridge is None
        else (float(ridge), float(ridge))
    )
    factors = np.full((count, count + 1), 2.0 * off / numbers)
    np.fill_diagonal(factors, 0.0)
    factors[:, -1] = 2.0 * bias / count
    return factors.ravel()


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
    options=ridge_option(
        "Added to the mean log loss: so many times the mean square of the weights off the diagonal, and of the "
        "biases. Null: as if these had standard deviations of .1 and 1 before there are data."
    ),
    binary=False,
    many_classes=True,
)
"""Source: Kull, Perello-Nieto, Kängsepp, Silva Filho, Song, Flach, "Beyond temperature scaling: Obtaining
well-calibrated multiclass probabilities with Dirichlet calibration", 2019, with its ODIR regularisation. The paper
finds the ridge by cross-validation; here it follows from the number of events, and no diagonal weight is below 0."""
