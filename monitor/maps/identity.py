"""No map: predictions stay unchanged. The baseline that every other map is compared with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Final

from monitor.arrays import Floats
from monitor.maps.base import Method, PredictionMap
from monitor.maps.parts import whole
from monitor.scores.labelled import LabelledEvents


@dataclass(frozen=True)
class Identity(PredictionMap):
    """Leaves predictions unchanged; ``classes`` is their number K of classes."""

    classes: Annotated[int, partial(whole, least=2)] = 2
    method: ClassVar[str] = "identity"

    def recalibrate(self, prediction: Floats) -> Floats:
        """Return the predictions."""
        return prediction

    def describe(self) -> str:
        """Describe the map."""
        return "leaves predictions as they are"


def _fit(events: LabelledEvents, options: Mapping[str, Any]) -> Identity:  # noqa: ARG001
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
