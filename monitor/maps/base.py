"""The contract of recalibration maps: how a map is fitted, applied, stored and described."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, get_origin, get_type_hints, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from monitor.arrays import Floats
from monitor.maps.parts import MapParts
from monitor.scores.labelled import LabelledEvents

Groups = NDArray[np.str_]

OptionValue = bool | int | float | str | None


@runtime_checkable
class RecalibrationMap(Protocol):
    """Improves the probabilities of a model. Immutable; safe for use from several threads."""

    @property
    def method(self) -> str:
        """Name of the method that fits it."""
        ...

    @property
    def classes(self) -> int:
        """Number K of classes of the predictions; 2 for P(y = 1) alone."""
        ...

    @property
    def feature_count(self) -> int | None:
        """Number of features of an event; None if features are not used."""
        ...

    @property
    def segment_key(self) -> str | None:
        """The segment key whose value ``group`` must hold; None if groups are not used."""
        ...

    def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:
        """Recalibrate predictions that were checked; callers use :func:`monitor.maps.apply_map`, which checks them.

        Parameters
        ----------
        prediction
            float64, shape (n,) where ``classes`` is 2, else (n, K).
        features
            float64, shape (n, D), D = ``feature_count``.
        group
            Text, shape (n,): values of ``segment_key``. A value that the fit did not see gets the map of all groups.

        Returns
        -------
        float64, of the shape of ``prediction``, in [0, 1]; rows of several classes add up to 1.
        """
        ...

    def parts(self) -> MapParts:
        """Return the map's values for an artifact."""
        ...

    def describe(self) -> str:
        """Describe in one sentence, with numbers, what the map does."""
        ...


class FieldMap:
    """Base of maps whose parts are the fields of a dataclass.

    Each field is annotated with a function of :mod:`monitor.maps.parts` that reads and checks it. A field that is not
    one setting or array is annotated with a second function, which returns its parts.
    """

    _fields: ClassVar[Mapping[str, tuple[Callable[..., Any], ...]]]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        cls._fields = {name: hint.__metadata__ for name, hint in hints.items() if get_origin(hint) is Annotated}

    def parts(self) -> MapParts:
        """Return the fields."""
        settings: dict[str, Any] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for name, (_, *to_parts) in self._fields.items():
            value = getattr(self, name)
            if to_parts:
                inner = to_parts[0](value)
                settings |= inner.settings
                arrays |= inner.arrays
            elif isinstance(value, np.ndarray):
                arrays[name] = value
            else:
                settings[name] = value
        return MapParts(settings, arrays)

    @classmethod
    def from_parts(cls, parts: MapParts) -> Self:
        """Build the map. Raises CorruptMap if a part is missing or out of its range."""
        loaded = cls(**{name: read(parts, name) for name, (read, *_) in cls._fields.items()})
        loaded.check()
        return loaded

    def check(self) -> None:
        """Raise CorruptMap if fields do not fit together."""


class PredictionMap(FieldMap, ABC):
    """Base of maps that use neither features nor groups."""

    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    @abstractmethod
    def recalibrate(self, prediction: Floats) -> Floats:
        """Recalibrate predictions of the shape (n,) or (n, K)."""

    def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:  # noqa: ARG002
        """Recalibrate predictions: see :meth:`RecalibrationMap.apply`."""
        return self.recalibrate(prediction)


class BinaryMap(PredictionMap):
    """Base of maps of P(y = 1): ``recalibrate`` takes the shape (n,)."""

    classes: ClassVar[int] = 2

    def apply(self, prediction: Floats, features: Floats | None = None, group: Groups | None = None) -> Floats:  # noqa: ARG002
        """Recalibrate predictions (n,), or the second column of (n, 2)."""
        if prediction.ndim == 1:
            return self.recalibrate(prediction)
        positive = self.recalibrate(np.ascontiguousarray(prediction[:, 1]))
        return np.column_stack([1.0 - positive, positive])


def apply_to_vectors(recalibrate: Callable[[Floats], Floats], prediction: Floats) -> Floats:
    """Apply a function of probability vectors (n, K) to predictions (n, K), or (n,) as vectors of two classes."""
    if prediction.ndim == 2:
        return recalibrate(prediction)
    return np.ascontiguousarray(recalibrate(np.column_stack([1.0 - prediction, prediction]))[:, 1])


@dataclass(frozen=True)
class MethodOption:
    """An option of a method.

    Attributes
    ----------
    kind
        Type of its values. ``text`` is one of ``choices``, if there are any.
    default
        None where the method chooses a value itself.
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
        For people: a name, and in a sentence or two what it does and when to use it.
    rank
        Position in lists; ascending.
    fit
        (events, checked options) -> map. Events come from :meth:`LabelledEvents.of`; ``weight`` counts.
        Deterministic. May raise NotEnoughData, and InputError where the events lack something.
    load
        Builds a map from its parts. Raises CorruptMap if one is missing or out of its range.
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
    fit: Callable[[LabelledEvents, Mapping[str, Any]], RecalibrationMap]
    load: Callable[[MapParts], RecalibrationMap]
    options: Mapping[str, MethodOption] = field(default_factory=dict)
    binary: bool = True
    many_classes: bool = False
    needs_features: bool = False
    needs_segments: bool = False
