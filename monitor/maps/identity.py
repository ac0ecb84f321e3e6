"""No map: predictions as they are. What every other map is compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CorruptMap
from monitor.maps.base import MapParts, Method, OptionValue
from monitor.maps.labelled import LabelledEvents

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Identity:
    """Predictions as they are."""

    classes: int = 2
    method: ClassVar[str] = "identity"
    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """The predictions themselves."""
        return prediction

    def parts(self) -> MapParts:
        """The number of classes."""
        return MapParts({"classes": self.classes})

    @classmethod
    def from_parts(cls, parts: MapParts) -> "Identity":
        """The map of these parts. Raises CorruptMap where they have no number of classes."""
        classes = parts.settings.get("classes")
        if not isinstance(classes, int) or classes < 2:
            raise CorruptMap(f"classes must be a whole number of at least 2, got {classes!r}")
        return cls(classes)

    def describe(self) -> str:
        """What it does."""
        return "leaves predictions as they are"


def _fit(events: LabelledEvents, options: Mapping[str, OptionValue]) -> Identity:  # noqa: ARG001
    return Identity(events.classes)


METHOD: Final = Method(
    name="identity",
    title="None",
    meaning="Leaves predictions as they are: what every other map is compared with.",
    rank=0,
    fit=_fit,
    load=Identity.from_parts,
    many_classes=True,
)
