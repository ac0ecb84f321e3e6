"""A frozen t-SNE embedding, which can map events that it was not fitted on."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import InputError, NotEnoughData
from monitor.local.features import PrincipalComponents
from monitor.scores.arguments import require_whole

DEFAULT_DIMENSIONS: Final = 2
MIN_EVENTS: Final = 100
"""With fewer events, an embedding at the usual perplexity shows mostly chance."""

MAX_LANDMARKS: Final = 2000
_PERPLEXITY: Final = 30.0
_COMPONENTS: Final = 30
"""Number of principal components from which distances are computed, as is usual before t-SNE."""

_NEAREST: Final = 10
_ROWS: Final = 1024
"""Block size: distances from all landmarks take 16 MB."""


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
        cls, features: ArrayLike, dimensions: int = DEFAULT_DIMENSIONS, weight: ArrayLike | None = None
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
        return cls(components, landmarks, _standardise(places))

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


def _standardise(places: Floats) -> Floats:
    deviation = places.std(axis=0)
    return np.asarray((places - places.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0))


def _initial_positions(components: Floats, dimensions: int) -> Floats:
    """Return the start of t-SNE: the first components, padded with zeros if there are fewer features."""
    padded = np.zeros((components.shape[0], dimensions))
    padded[:, : components.shape[1]] = components
    return padded / max(float(padded[:, 0].std()), 1e-12)
