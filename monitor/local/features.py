"""Feature maps: from the features of an event to the space in which similarity is measured."""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats, Ints
from monitor.errors import InputError, NotEnoughData
from monitor.scores import ClassTable
from monitor.scores.arguments import number_text, numbers, require_whole
from monitor.scores.table import check

DEFAULT_DIMENSIONS: Final = 20
"""Of the principal components of a table's features (paper, section 3.2; 50 for images)."""


MAX_FEATURE: Final = 1e150
"""Sums of squares of larger numbers overflow float64. Such values usually encode missing ones."""


class FeatureMap(Protocol):
    """Maps features to the space of the kernel; fitted once."""

    @property
    def dimensions(self) -> int:
        """Number d of coordinates."""
        ...

    def apply(self, features: ArrayLike) -> Floats:
        """Features (n, D) -> coordinates (n, d), float64."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Standardised:
    """Each feature minus its mean, divided by its standard deviation.

    Otherwise the feature with the largest numbers would dominate distances.

    Attributes
    ----------
    mean, scale
        float64, shape (D,). A feature that does not vary has the scale 1.
    """

    mean: Floats
    scale: Floats

    @classmethod
    def fit(cls, features: ArrayLike, weight: ArrayLike | None = None) -> "Standardised":
        """Fit to features (n, D) with weights (n,).

        Raises
        ------
        NotEnoughData
            There are no rows.
        InputError
            Features are not a table of finite numbers, or weights are not above 0, one an event.
        """
        x = feature_table(features)
        if x.shape[0] == 0:
            raise NotEnoughData("a feature map needs at least 1 event, got 0")
        if weight is None:
            mean, deviation = x.mean(axis=0), x.std(axis=0)
        else:
            share = _shares(weight, x.shape[0])
            mean = share @ x
            deviation = np.sqrt(share @ (x - mean) ** 2)
        # Rounding: the deviation of equal numbers is not always 0.
        varies = deviation > 1e-12 * np.abs(x).max(axis=0)
        return cls(mean, np.where(varies, deviation, 1.0))

    @property
    def dimensions(self) -> int:
        """Number D of features."""
        return int(self.mean.size)

    def apply(self, features: ArrayLike) -> Floats:
        """Standardise features (n, D).

        Raises
        ------
        InputError
            Features are not a table of D finite numbers a row.
        """
        x = feature_table(features)
        if x.shape[1] != self.mean.size:
            raise InputError(f"the feature map is of {self.mean.size} features, got {x.shape[1]}")
        return (x - self.mean) / self.scale


@dataclass(frozen=True, eq=False, slots=True)
class PrincipalComponents:
    """The directions in which standardised features vary most.

    The paper reduces features by PCA or by t-SNE; for the latter see :class:`~monitor.local.embedding.Embedding`.

    Attributes
    ----------
    standardised
        Applied first.
    axes
        float64, shape (D, d), orthonormal columns.
    """

    standardised: Standardised
    axes: Floats

    @classmethod
    def fit(
        cls, features: ArrayLike, dimensions: int = DEFAULT_DIMENSIONS, weight: ArrayLike | None = None
    ) -> "PrincipalComponents":
        """Fit to features (n, D) with weights (n,); at most D dimensions.

        Raises
        ------
        NotEnoughData
            There are no rows.
        InputError
            Features are not a table of finite numbers, ``dimensions`` is no whole number of at least 1, or weights are
            not above 0, one an event.
        """
        return cls._of(Standardised.fit(features, weight), features, dimensions, weight)

    @classmethod
    def of_scaled(cls, coordinates: Floats, dimensions: int) -> "PrincipalComponents":
        """Fit to coordinates (n, D) with comparable units, which are centred but not scaled."""
        centre = coordinates.mean(axis=0)
        return cls._of(Standardised(centre, np.ones_like(centre)), coordinates, dimensions)

    @classmethod
    def _of(
        cls, standardised: Standardised, features: ArrayLike, dimensions: int, weight: ArrayLike | None = None
    ) -> "PrincipalComponents":
        require_whole("dimensions", dimensions, 1)
        x = standardised.apply(features)
        if weight is not None:
            x *= np.sqrt(_shares(weight, x.shape[0]))[:, None]
        # The right singular vectors of x, from the D x D matrix of covariances: x may have a million rows.
        _, vectors = np.linalg.eigh(x.T @ x)
        return cls(standardised, np.ascontiguousarray(vectors[:, ::-1][:, :dimensions]))

    @property
    def dimensions(self) -> int:
        """Number d of components."""
        return int(self.axes.shape[1])

    def apply(self, features: ArrayLike) -> Floats:
        """Map features (n, D) to components (n, d), the most varying first.

        Raises
        ------
        InputError
            Features are not a table of D finite numbers a row.
        """
        return self.standardised.apply(features) @ self.axes


def check_outcomes(prediction: ArrayLike, outcome: ArrayLike) -> tuple[Floats, Ints]:
    """Check predictions P(y = 1), shape (n,), or class probabilities (n, K), and their outcomes.

    Raises
    ------
    InputError
        A value is out of its range, or shapes do not fit. Names key and value.
    """
    p, y = numbers("prediction", prediction), numbers("outcome", outcome)
    if p.ndim == 2:
        table = ClassTable.from_events(p, y)
        return table.prediction, table.outcome.astype(np.int64)
    if p.ndim != 1 or p.shape != y.shape:
        raise InputError(f"prediction and outcome must be equally long, got shapes {p.shape} and {y.shape}")
    check(p, (p >= 0.0) & (p <= 1.0), "prediction must be in [0, 1]")
    check(y, (y == 0.0) | (y == 1.0), "outcome must be 0 or 1")
    return p, y.astype(np.int64)


def checked_weight(weight: ArrayLike, events: int) -> Floats:
    """Check the weights of ``events`` events; float64, shape (n,). Raises InputError."""
    w = numbers("weight", weight)
    if w.shape != (events,):
        raise InputError(f"weight must have the shape ({events},), got {w.shape}")
    check(w, np.isfinite(w) & (w > 0.0), "weight must be finite and above 0")
    return w


def _shares(weight: ArrayLike, events: int) -> Floats:
    """Divide weights by their sum."""
    w = checked_weight(weight, events)
    return np.asarray(w / w.sum())


def feature_table(features: ArrayLike) -> Floats:
    """Check features and convert them to float64, shape (n, D).

    Raises
    ------
    InputError
        They are not a table of numbers up to 1e150 in size. Names the first wrong value.
    """
    x = np.ascontiguousarray(numbers("features", features))
    if x.ndim != 2 or x.shape[1] == 0:
        raise InputError(f"features must have the shape (events, features), got {x.shape}")
    usable = np.abs(x) <= MAX_FEATURE
    if not usable.all():
        row, column = np.argwhere(~usable)[0]
        got = number_text(x[row, column])
        raise InputError(
            f"features must be finite and up to {MAX_FEATURE:g} in size, got {got} in row {row}, column {column}"
        )
    return x
