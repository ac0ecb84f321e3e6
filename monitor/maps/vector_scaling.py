"""Vector and matrix scaling: factors and offsets for the logarithms of class probabilities."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import CorruptMap
from monitor.inference.newton import Curved, minimise
from monitor.maps.base import Method, MethodOption, PredictionMap, apply_to_vectors
from monitor.maps.parts import column, matrix
from monitor.maps.scales import SLOPE_LIMIT, log_probabilities, softmax
from monitor.scores.labelled import LabelledEvents
from monitor.scores.table import effective_number

BIAS_LIMIT: Final = 50.0
"""The largest bias. Without a ridge, the bias of a class that never came true would be minus infinity."""

PRECISION: Final = 1e-13
"""A fit stops when the mean log loss improves by less than half of this, as it does when predictions separate the
outcomes."""

BIAS_DEVIATION: Final = 1.0
"""Prior standard deviation of a bias where no ridge is given: odds within a factor of about 7."""


@dataclass(frozen=True, eq=False)
class VectorScaling(PredictionMap):
    """Softmax of a log p + b.

    Attributes
    ----------
    scale, bias
        float64, shape (K,): a, from 0 to 100, and b, from -50 to 50.
    """

    scale: Annotated[Floats, partial(column, low=0.0, high=SLOPE_LIMIT, least=2)]
    bias: Annotated[Floats, partial(column, low=-BIAS_LIMIT, high=BIAS_LIMIT, least=2)]
    method: ClassVar[str] = "vector_scaling"

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return int(self.bias.size)

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return softmax(a log p + b), with logarithms of at least -17."""
        return apply_to_vectors(lambda p: softmax(self.scale * log_probabilities(p) + self.bias), prediction)

    def check(self) -> None:
        """Raise CorruptMap if sizes differ."""
        if self.scale.size != self.bias.size:
            raise CorruptMap(f"scale and bias must be equally long, got {self.scale.size} and {self.bias.size}")

    def describe(self) -> str:
        """Describe the map."""
        return (
            f"multiplies log p of each of {self.classes} classes by {self.scale.min():.4g} to {self.scale.max():.4g} "
            f"and adds {self.bias.min():+.4g} to {self.bias.max():+.4g}{limit_note(self.scale)}"
        )


def limit_note(scale: Floats) -> str:
    """Return the end of a description if a factor is at its limit."""
    return "; a factor is at its limit: a larger one would fit better still" if (scale == SLOPE_LIMIT).any() else ""


def default_ridge(events: LabelledEvents, deviation: float, numbers: int) -> float:
    """Return the ridge on a mean of squares that gives ``numbers`` numbers this prior standard deviation.

    Weighted events count as (sum w)^2 / sum w^2 events.
    """
    effective = float(effective_number(events.weight.sum(), (events.weight**2).sum()))
    return numbers / (2.0 * effective * deviation**2)


def ridge_option(meaning: str) -> dict[str, MethodOption]:
    """Return the option ``ridge``."""
    return {"ridge": MethodOption("number", None, meaning, at_least=0.0, at_most=1e6)}


def one_hot(events: LabelledEvents) -> Floats:
    """Return the outcomes as vectors, float64, shape (n, K)."""
    result = np.zeros((len(events), events.classes))
    result[np.arange(len(events)), events.outcome] = 1.0
    return result


def softmax_loss(eta: Floats, target: Floats, share: Floats) -> tuple[float, Floats]:
    """Return the mean log loss of softmax(eta), and the softmax, shape (n, K), as ``target``; ``share`` sums to 1."""
    highest = eta.max(axis=1, keepdims=True)
    odds = np.exp(eta - highest)
    total = odds.sum(axis=1, keepdims=True)
    loss = float(share @ ((highest + np.log(total)).ravel() - (eta * target).sum(axis=1)))
    return loss, odds / total


def _fit_vector(events: LabelledEvents, options: Mapping[str, Any]) -> VectorScaling:
    count = events.classes
    events.require_outcomes(10 * count)
    z, share, target = log_probabilities(events.prediction), events.weight / events.weight.sum(), one_hot(events)
    given = options["ridge"]
    ridge = default_ridge(events, BIAS_DEVIATION, count) if given is None else given
    penalty = 2.0 * ridge / count

    def objective(theta: Floats) -> Curved:
        scale, bias = theta[:count], theta[count:]
        loss, q = softmax_loss(scale * z + bias, target, share)
        miss = share[:, None] * (q - target)
        # The Hessian in eta is diag(q) - q q^T; its products with the columns of z and with 1 follow.
        weighted = share[:, None] * q
        zq = z * q
        mixed = np.diag((weighted * z).sum(axis=0)) - (zq.T * share) @ q
        hessian = np.block(
            [
                [np.diag((weighted * z**2).sum(axis=0)) - (zq.T * share) @ zq, mixed],
                [mixed.T, np.diag(weighted.sum(axis=0) + penalty) - (q.T * share) @ q],
            ]
        )
        return Curved(
            value=loss + penalty / 2.0 * float(bias @ bias),
            gradient=np.r_[(miss * z).sum(axis=0), miss.sum(axis=0) + penalty * bias],
            hessian=hessian,
        )

    theta = minimise(
        objective,
        np.r_[np.ones(count), np.zeros(count)],
        np.r_[np.zeros(count), np.full(count, -BIAS_LIMIT)],
        np.r_[np.full(count, SLOPE_LIMIT), np.full(count, BIAS_LIMIT)],
        enough=PRECISION,
    )
    return VectorScaling(theta[:count], theta[count:])


METHOD: Final = Method(
    name="vector_scaling",
    title="Vector scaling",
    meaning=(
        "Softmax of a factor and an offset for the log probability of each class, found by log loss: for many classes "
        "of which some are predicted too often, or too surely."
    ),
    rank=40,
    fit=_fit_vector,
    load=VectorScaling.from_parts,
    options=ridge_option(
        "Added to the mean log loss: so many times the mean square of the offsets. Null: as if each had a standard "
        "deviation of 1 before there are data."
    ),
    binary=False,
    many_classes=True,
)
"""Source: Guo, Pleiss, Sun, Weinberger, "On Calibration of Modern Neural Networks", 2017, section 4.2, on log p in
place of a network's logits. These differ from log p by a number for each event, which the softmax removes only where
all factors are equal: so the map is not that of the logits, which a service does not know."""


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


def _fit_matrix(events: LabelledEvents, options: Mapping[str, Any]) -> MatrixScaling:
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


def _penalty(events: LabelledEvents, ridge: float | None) -> Floats:
    """Return twice the factor of the square of each parameter, shape (K (K + 1),): 0 on the diagonal."""
    count = events.classes
    numbers = count * (count - 1)
    off, bias = (
        (default_ridge(events, _DEVIATION, numbers), default_ridge(events, BIAS_DEVIATION, count))
        if ridge is None
        else (ridge, ridge)
    )
    factors = np.full((count, count + 1), 2.0 * off / numbers)
    np.fill_diagonal(factors, 0.0)
    factors[:, -1] = 2.0 * bias / count
    return factors.ravel()


_MATRIX: Final = Method(
    name="matrix_scaling",
    title="Matrix scaling",
    meaning=(
        "Softmax of a matrix times log p plus a bias, found by log loss with a ridge on what is off the diagonal: "
        "Dirichlet calibration. For few classes, many events, and classes that are taken for one another."
    ),
    rank=45,
    fit=_fit_matrix,
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

METHODS: Final = (_MATRIX,)
