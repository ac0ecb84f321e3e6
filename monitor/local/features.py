"""Feature maps: from the features of an event to the space in which similarity is measured."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import InputError, NotEnoughData
from monitor.scores.arguments import numbers, require_whole
from monitor.scores.labelled import feature_table
from monitor.scores.table import check

DEFAULT_DIMENSIONS: Final = 20
"""Principal components of a table's features that are kept (paper, section 3.2; 50 for images)."""


TSNE_DIMENSIONS: Final = 2
MIN_EVENTS: Final = 100
"""Events below which an embedding at the usual perplexity shows mostly chance."""

MAX_LANDMARKS: Final = 2000
_PERPLEXITY: Final = 30.0
_COMPONENTS: Final = 30
"""Number of principal components from which distances are computed, as is usual before t-SNE."""

_NEAREST: Final = 10
_ROWS: Final = 1024
"""Block size: distances from all landmarks take 16 MB."""


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

    The paper reduces features by PCA or by t-SNE; for the latter see :class:`Embedding`.

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


@dataclass(frozen=True, eq=False, slots=True)
class Embedding:
    """Positions of landmarks from t-SNE; other events are placed between their nearest landmarks.

    t-SNE only places the events that it is fitted on. Here it is fitted once, on landmarks; the position of an event is
    the mean of those of its ten nearest landmarks, weighted by exp(-(r / h)^2), where r is the distance in principal
    components and h half the distance of the tenth. Applying needs neither t-SNE nor scikit-learn.

    Attributes
    ----------
    components
        Applied first.
    landmarks
        float64, shape (m, c): their principal components.
    places
        float64, shape (m, d): their positions from t-SNE; each coordinate has mean 0 and standard deviation 1.
    """

    components: PrincipalComponents
    landmarks: Floats
    places: Floats

    @classmethod
    def fit(
        cls, features: ArrayLike, dimensions: int = TSNE_DIMENSIONS, weight: ArrayLike | None = None
    ) -> "Embedding":
        """Fit to features (n, D). With more than 2,000 events the first ones are the landmarks.

        Deterministic. Takes up to ten seconds; needs scikit-learn. Weights (n,) only affect the principal components.

        Raises
        ------
        NotEnoughData
            There are fewer than 100 rows.
        InputError
            Features are not a table of finite numbers, ``dimensions`` is not 2 or 3, or scikit-learn is not installed.
        """
        if require_whole("dimensions", dimensions, 2) > 3:
            raise InputError(f"dimensions of t-SNE must be 2 or 3, got {dimensions}")
        try:
            from sklearn.manifold import TSNE  # noqa: PLC0415 - an extra, and two seconds to load
            from threadpoolctl import threadpool_limits  # noqa: PLC0415 - it comes with scikit-learn
        except ImportError as error:
            raise InputError(
                "t-SNE needs scikit-learn, which is not installed: pip install 'calibration-monitor[tsne]', "
                "or take the space pca"
            ) from error
        components = PrincipalComponents.fit(features, _COMPONENTS, weight)
        rows = np.asarray(features, np.float64)[:MAX_LANDMARKS]
        if rows.shape[0] < MIN_EVENTS:
            raise NotEnoughData(f"{rows.shape[0]} events, t-SNE needs at least {MIN_EVENTS}")
        landmarks = components.apply(rows)
        start = _initial_positions(PrincipalComponents.fit(rows, dimensions).apply(rows), dimensions)
        tsne = TSNE(
            n_components=dimensions, perplexity=_PERPLEXITY, init=1e-4 * start, learning_rate="auto", random_state=0
        )
        # With several threads, sums are not reproducible, and on a busy machine the threads wait for each other.
        with threadpool_limits(1):
            places = np.asarray(tsne.fit_transform(landmarks), np.float64)
        return cls(components, landmarks, Standardised.fit(places).apply(places))

    @property
    def dimensions(self) -> int:
        """Number d of coordinates."""
        return int(self.places.shape[1])

    def apply(self, features: ArrayLike) -> Floats:
        """Map features (n, D) to positions (n, d).

        Raises
        ------
        InputError
            Features are not a table of D finite numbers a row.
        """
        x = self.components.apply(features)
        result = np.empty((x.shape[0], self.dimensions))
        nearest = min(_NEAREST, self.landmarks.shape[0])
        for start in range(0, x.shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            distance = scipy.spatial.distance.cdist(x[rows], self.landmarks)
            chosen = np.argpartition(distance, nearest - 1, axis=1)[:, :nearest]
            near = np.take_along_axis(distance, chosen, axis=1)
            least, most = near.min(axis=1, keepdims=True), near.max(axis=1, keepdims=True)
            # Squares relative to the nearest one, so that not all weights are 0 far from all landmarks.
            half = np.where(most > 0.0, most / 2.0, 1.0)
            weight = np.exp(-((near - least) / half) * ((near + least) / half))
            weight /= weight.sum(axis=1, keepdims=True)
            result[rows] = np.einsum("ij,ijk->ik", weight, self.places[chosen])
        return result


def _initial_positions(components: Floats, dimensions: int) -> Floats:
    """Return the start of t-SNE: the first components, padded with zeros if there are fewer features."""
    padded = np.zeros((components.shape[0], dimensions))
    padded[:, : components.shape[1]] = components
    return padded / max(float(padded[:, 0].std()), 1e-12)
