"""The spaces in which LoRe finds events alike, as parts of a map."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CorruptMap, InputError
from monitor.local import Embedding, PrincipalComponents, Standardised
from monitor.local.embedding import DEFAULT_DIMENSIONS as DIMENSIONS_OF_TSNE
from monitor.local.features import DEFAULT_DIMENSIONS
from monitor.maps.base import MapParts, Option
from monitor.maps.reading import choice, column, matrix

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

Space = Standardised | PrincipalComponents | Embedding

SPACES: Final = ("pca", "standardised", "tsne")

LARGEST_COORDINATE: Final = 1e30
"""What is farther out counts as this far: sums of differences stay within float32."""

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
    """The space of this name that the features (n, D) with their weights (n,) make.

    Raises
    ------
    NotEnoughData
        There are too few events.
    InputError
        The dimensions do not suit it, or it needs a package that is not installed.
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
    """Where events of these features (n, D) are, float32, shape (n, d)."""
    return np.clip(space.apply(features), -LARGEST_COORDINATE, LARGEST_COORDINATE).astype(np.float32)


def feature_count(space: Space) -> int:
    """Number D of features that it is for."""
    return int(_standardised(space).mean.size)


def name_of(space: Space) -> str:
    """Its name, as in :data:`SPACES`."""
    return {Standardised: "standardised", PrincipalComponents: "pca", Embedding: "tsne"}[type(space)]


def describe(space: Space) -> str:
    """What it is, for people."""
    features = feature_count(space)
    if isinstance(space, Standardised):
        return f"{features} standardised feature{'s' if features > 1 else ''}"
    if isinstance(space, PrincipalComponents):
        count = space.dimensions
        parts = "one principal component" if count == 1 else f"{count} principal components"
        return f"{parts} of {features} feature{'s' if features > 1 else ''}"
    return f"a t-SNE embedding of {features} features in {space.dimensions} dimensions"


def space_arrays(space: Space) -> dict[str, NDArray[Any]]:
    """The arrays that tell of the space."""
    standardised = _standardised(space)
    arrays: dict[str, NDArray[Any]] = {"feature_mean": standardised.mean, "feature_scale": standardised.scale}
    if isinstance(space, PrincipalComponents):
        arrays["axes"] = space.axes
    elif isinstance(space, Embedding):
        arrays |= {"axes": space.components.axes, "landmarks": space.landmarks, "places": space.places}
    return arrays


def space_from_parts(parts: MapParts) -> Space:
    """The space that :func:`space_arrays` and the setting ``space`` tell of. Raises CorruptMap."""
    name = choice(parts, "space", SPACES)
    mean, scale = column(parts, "feature_mean", least=1), column(parts, "feature_scale", low=5e-324)
    if mean.size != scale.size:
        raise CorruptMap(f"feature_mean and feature_scale must be equally long, got {mean.size} and {scale.size}")
    standardised = Standardised(mean, scale)
    if name == "standardised":
        return standardised
    axes = _table(parts, "axes", rows=mean.size)
    if axes.shape[1] > mean.size:
        raise CorruptMap(f"axes must be at most as many as the {mean.size} features, got {axes.shape[1]}")
    components = PrincipalComponents(standardised, axes)
    if name == "pca":
        return components
    landmarks = _table(parts, "landmarks", columns=axes.shape[1])
    return Embedding(components, landmarks, _table(parts, "places", rows=landmarks.shape[0]))


def _standardised(space: Space) -> Standardised:
    if isinstance(space, Standardised):
        return space
    return space.standardised if isinstance(space, PrincipalComponents) else space.components.standardised


def _table(parts: MapParts, name: str, rows: int | None = None, columns: int | None = None) -> Floats:
    """A finite matrix of at least one row and column, of as many as are told. Raises CorruptMap."""
    shape = np.shape(parts.arrays[name]) if name in parts.arrays else ()
    if len(shape) != 2 or 0 in shape:
        raise CorruptMap(f"{name} must be a matrix that is not empty, got the shape {shape}")
    wanted = (shape[0] if rows is None else rows, shape[1] if columns is None else columns)
    return matrix(parts, name, wanted, low=-np.inf, high=np.inf)
