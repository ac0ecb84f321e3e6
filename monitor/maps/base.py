"""The contract of recalibration maps: how one is fitted, applied, kept and described."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from monitor.maps.labelled import LabelledEvents

Floats = NDArray[np.float64]
Groups = NDArray[np.str_]

OptionValue = bool | int | float | str | None


@dataclass(frozen=True)
class MapParts:
    """A map taken apart, so that it can be kept in a form that any language reads.

    Attributes
    ----------
    settings
        What is small: JSON scalars, and lists and objects of them. No nan, no infinities.
    arrays
        What is large: arrays of float64, float32, int64 or int32, of one or two dimensions, by name.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@runtime_checkable
class RecalibrationMap(Protocol):
    """Makes better probabilities of a model's. Immutable; safe for use from several threads."""

    method: ClassVar[str]
    """Name of the method that fits it."""

    @property
    def classes(self) -> int:
        """Number K of classes of the predictions that it is for; 2 for P(y = 1) alone."""
        ...

    @property
    def feature_count(self) -> int | None:
        """How many features an event must have; None if features are not used."""
        ...

    @property
    def segment_key(self) -> str | None:
        """The segment key whose value ``group`` must hold; None if groups are not used."""
        ...

    def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:
        """Recalibrated predictions. Callers other than tests use :func:`monitor.maps.apply_map`, which checks.

        Parameters
        ----------
        prediction
            float64, shape (n,) where ``classes`` is 2, else (n, K).
        features
            float64, shape (n, D), D = ``feature_count``.
        group
            Text, shape (n,): values of ``segment_key``. For one that the fit did not know the map falls back to what
            it makes of all groups.

        Returns
        -------
        float64, of the shape of ``prediction``, in [0, 1]; rows of several classes add up to 1.
        """
        ...

    def parts(self) -> MapParts:
        """The map taken apart."""
        ...

    @classmethod
    def from_parts(cls, parts: MapParts) -> Self:
        """The map of these parts.

        Raises
        ------
        CorruptMap
            They are not of such a map: something is missing, or out of its range.
        """
        ...

    def describe(self) -> str:
        """What it does, in a sentence with its numbers: for people."""
        ...


@dataclass(frozen=True)
class Option:
    """An option of a method.

    Attributes
    ----------
    kind
        Of its values. ``text`` is one of ``choices``, if there are any.
    default
        None where the method finds a value itself.
    meaning
        One sentence or two.
    above, at_least, at_most
        Limits of a number.
    """

    kind: Literal["number", "whole", "text", "flag"]
    default: OptionValue
    meaning: str
    choices: tuple[str, ...] = ()
    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class Method:
    """How one kind of map is fitted. A file of this folder that declares ``METHOD`` (or ``METHODS``) adds it.

    Attributes
    ----------
    name
        As in requests and settings, such as ``lore``.
    title, meaning
        For people: a name, and what it does and when to take it, in a sentence or two.
    rank
        Place in lists; ascending.
    fit
        (events, checked options) -> map. Events are as :meth:`LabelledEvents.of` leaves them; ``weight`` counts.
        Deterministic. May raise NotEnoughData, and InputError where the events lack what it needs.
    load
        :meth:`RecalibrationMap.from_parts` of the kind of map that it fits.
    options
        Its options by name.
    binary, many_classes
        Which predictions it is for.
    needs_features, needs_segments
        What events must have.
    """

    name: str
    title: str
    meaning: str
    rank: int
    fit: Callable[[LabelledEvents, Mapping[str, OptionValue]], RecalibrationMap]
    load: Callable[[MapParts], RecalibrationMap]
    options: Mapping[str, Option] = field(default_factory=dict)
    binary: bool = True
    many_classes: bool = False
    needs_features: bool = False
    needs_segments: bool = False
