"""The spaces in which LoRe measures how similar events are, and their parts of a map."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.errors import CorruptMap, InputError
from monitor.local import Embedding, PrincipalComponents, Standardised
from monitor.local.embedding import DEFAULT_DIMENSIONS as DIMENSIONS_OF_TSNE
from monitor.local.features import DEFAULT_DIMENSIONS
from monitor.maps.base import Option
from monitor.maps.parts import MapParts, choice, column, matrix

Singles = NDArray[np.float32]

Space = Standardised | PrincipalComponents | Embedding

SPACES: Final = ("pca", "standardised", "tsne")

MAX_COORDINATE: Final = 1e30
"""Larger coordinates are limited to this, so that sums of differences stay within float32."""

SPACE: Final = Option(
    kind="text",
    default="pca",
    choices=SPACES,
    meaning="Where events are compared: principal components of the features, the features as they are but "
    "standardised, or a frozen t-SNE embedding, whose fit needs the extra tsne.",
)
DIMENSIONS: Final = Option(
    kind="whole",
    default=None,
    at_least=1,
    at_most=1000,
    meaning="Of the space; null: 20 principal components, or as many as there are features; 2 of t-SNE, which may have "
    "2 or 3. Not for standardised features.",
)


def fit_space(name: str, features: Floats, weight: Floats, dimensions: int | None) -> Space:
    """Fit the space of this name to features (n, D) with weights (n,).

    Raises
    ------
    NotEnoughData
        There are too few events.
    InputError
        The dimensions are not allowed, or a package is not installed.
    """
    if name == "standardised":
        if dimensions is not None:
            raise InputError(
                f"option dimensions must be null for the space standardised, which has those of the features, "
                f"got {dimensions}"
            )
        return Standardised.fit(features, weight)
    if name == "tsne":
        return Embedding.fit(features, DIMENSIONS_OF_TSNE if dimensions is None else dimensions, weight)
    return PrincipalComponents.fit(features, DEFAULT_DIMENSIONS if dimensions is None else dimensions, weight)


def coordinates(space: Space, features: Floats) -> Singles:
    """Map features (n, D) to coordinates, float32, shape (n, d)."""
    return np.clip(space.apply(features), -MAX_COORDINATE, MAX_COORDINATE).astype(np.float32)


def feature_count(space: Space) -> int:
    """Return the number D of features."""
    return int(_standardised(space).mean.size)


def name_of(space: Space) -> str:
    """Return its name, as in :data:`SPACES`."""
    return {Standardised: "standardised", PrincipalComponents: "pca", Embedding: "tsne"}[type(space)]


def describe(space: Space) -> str:
    """Describe the space for people."""
    features = feature_count(space)
    if isinstance(space, Standardised):
        return f"{features} standardised feature{'s' if features > 1 else ''}"
    if isinstance(space, PrincipalComponents):
        count = space.dimensions
        parts = "one principal component" if count == 1 else f"{count} principal components"
        return f"{parts} of {features} feature{'s' if features > 1 else ''}"
    return f"a t-SNE embedding of {features} features in {space.dimensions} dimensions"


def space_parts(space: Space) -> MapParts:
    """Return the space as parts of a map."""
    standardised = _standardised(space)
    arrays: dict[str, NDArray[Any]] = {"feature_mean": standardised.mean, "feature_scale": standardised.scale}
    if isinstance(space, PrincipalComponents):
        arrays["axes"] = space.axes
    elif isinstance(space, Embedding):
        arrays |= {"axes": space.components.axes, "landmarks": space.landmarks, "places": space.places}
    return MapParts({"space": name_of(space)}, arrays)


def read_space(parts: MapParts, key: str) -> Space:
    """Read what :func:`space_parts` returned. Raises CorruptMap."""
    name = choice(parts, key, SPACES)
    mean, scale = column(parts, "feature_mean", least=1), column(parts, "feature_scale", low=5e-324)
    if mean.size != scale.size:
        raise CorruptMap(f"feature_mean and feature_scale must be equally long, got {mean.size} and {scale.size}")
    standardised = Standardised(mean, scale)
    if name == "standardised":
        return standardised
    axes = matrix(parts, "axes", shape=(mean.size, None))
    if axes.shape[1] > mean.size:
        raise CorruptMap(f"axes must be at most as many as the {mean.size} features, got {axes.shape[1]}")
    components = PrincipalComponents(standardised, axes)
    if name == "pca":
        return components
    landmarks = matrix(parts, "landmarks", shape=(None, axes.shape[1]))
    return Embedding(components, landmarks, matrix(parts, "places", shape=(landmarks.shape[0], None)))


def _standardised(space: Space) -> Standardised:
    if isinstance(space, Standardised):
        return space
    return space.standardised if isinstance(space, PrincipalComponents) else space.components.standardised
