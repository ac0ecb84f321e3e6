"""A t-SNE embedding that is frozen, so that it maps events which it was not fitted on."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from monitor.errors import InputError, NotEnoughData
from monitor.local.features import PrincipalComponents
from monitor.measures.checks import require_whole

Floats = NDArray[np.float64]

DEFAULT_DIMENSIONS: Final = 2
LEAST_EVENTS: Final = 100
"""Below them an embedding at the usual perplexity is a picture of chance."""

MAX_LANDMARKS: Final = 2000
_PERPLEXITY: Final = 30.0
_COMPONENTS: Final = 30
"""Distances between events are taken among so many principal components, as is usual before t-SNE."""

_NEAREST: Final = 10
_ROWS: Final = 1024
"""At a time: their distances from all landmarks are 16 MB."""


@dataclass(frozen=True, eq=False, slots=True)
class Embedding:
    """Places of landmarks that t-SNE found, and any other event between those of the landmarks it is most like.

    t-SNE itself gives places to the events that it is fitted on, and to no other. Here it is fitted once, on landmarks;
    an event's place is the mean of those of its ten nearest landmarks, weighted by exp(-(r / h)^2), r being the
    distance among the principal components and h half that of the tenth. A landmark's own place is so to a good part
    its own. Applying needs neither t-SNE nor scikit-learn.

    Attributes
    ----------
    components
        Applied first.
    landmarks
        float64, shape (m, c): their principal components.
    places
        float64, shape (m, d): where t-SNE puts them; each coordinate has the mean 0 and the standard deviation 1.
    """

    components: PrincipalComponents
    landmarks: Floats
    places: Floats

    @classmethod
    def fit(
        cls, features: ArrayLike, dimensions: int = DEFAULT_DIMENSIONS, weight: ArrayLike | None = None
    ) -> "Embedding":
        """The embedding that the features (n, D) make. Of more than 2,000 events the first are the landmarks.

        Deterministic. Up to ten seconds; needs scikit-learn. Weights (n,) count for the principal components alone.

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
        if rows.shape[0] < LEAST_EVENTS:
            raise NotEnoughData(f"{rows.shape[0]} events, t-SNE needs at least {LEAST_EVENTS}")
        landmarks = components.apply(rows)
        start = _spread_out(PrincipalComponents.fit(rows, dimensions).apply(rows), dimensions)
        tsne = TSNE(
            n_components=dimensions, perplexity=_PERPLEXITY, init=1e-4 * start, learning_rate="auto", random_state=0
        )
        # On a busy machine its threads wait for each other most of the time, and add up in another order every time.
        with threadpool_limits(1):
            places = np.asarray(tsne.fit_transform(landmarks), np.float64)
        return cls(components, landmarks, _standard(places))

    @property
    def dimensions(self) -> int:
        """Number d of coordinates."""
        return int(self.places.shape[1])

    def apply(self, features: ArrayLike) -> Floats:
        """Features (n, D) -> places (n, d).

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
            distance = cdist(x[rows], self.landmarks)
            chosen = np.argpartition(distance, nearest - 1, axis=1)[:, :nearest]
            near = np.take_along_axis(distance, chosen, axis=1)
            least, most = near.min(axis=1, keepdims=True), near.max(axis=1, keepdims=True)
            # Squares are counted from the nearest one, so that not all weights vanish far from all landmarks.
            half = np.where(most > 0.0, most / 2.0, 1.0)
            weight = np.exp(-((near - least) / half) * ((near + least) / half))
            weight /= weight.sum(axis=1, keepdims=True)
            result[rows] = np.einsum("ij,ijk->ik", weight, self.places[chosen])
        return result


def _standard(places: Floats) -> Floats:
    deviation = places.std(axis=0)
    return np.asarray((places - places.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0))


def _spread_out(components: Floats, dimensions: int) -> Floats:
    """Where t-SNE starts: the first components in one unit, or less of them if there are fewer features."""
    padded = np.zeros((components.shape[0], dimensions))
    padded[:, : components.shape[1]] = components
    return padded / max(float(padded[:, 0].std()), 1e-12)
