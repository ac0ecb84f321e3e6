"""Maps for many classes from the binary methods: one map for each class against the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from monitor.arrays import Floats
from monitor.errors import CorruptMap, NotEnoughData
from monitor.maps import beta, histogram, isotonic, platt
from monitor.maps.base import Method, OptionValue, PredictionMap, RecalibrationMap, apply_to_vectors
from monitor.maps.labelled import LabelledEvents
from monitor.maps.parts import MapParts, join_parts, load_joined
from monitor.scores.probability_loops import normalise_rows


@dataclass(frozen=True, eq=False)
class Classwise(PredictionMap):
    """One map per class, then rows divided by their sums unless these are 1 within 1e-6.

    Attributes
    ----------
    inner
        The method of the classes' maps.
    maps
        K maps; None for a class that had too few events and keeps its probability.
    """

    inner: Method
    maps: tuple[RecalibrationMap | None, ...]

    @property
    def method(self) -> str:
        """Name of the method that fits it."""
        return f"{self.inner.name}_classwise"

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return len(self.maps)

    def recalibrate(self, prediction: Floats) -> Floats:
        """Recalibrate predictions (n, K), or (n,) as vectors of two classes."""
        return apply_to_vectors(self._by_class, prediction)

    def _by_class(self, prediction: Floats) -> Floats:
        """Apply each class' map, then divide by the sum; a row whose classes all become 0 stays unchanged."""
        result = np.column_stack(
            [
                prediction[:, label] if own is None else own.apply(np.ascontiguousarray(prediction[:, label]))
                for label, own in enumerate(self.maps)
            ]
        )
        all_zero = ~result.any(axis=1)
        result[all_zero] = prediction[all_zero]
        normalise_rows(result)
        return result

    def parts(self) -> MapParts:
        """Return the parts of the classes' maps."""
        return join_parts({}, [None if own is None else own.parts() for own in self.maps])

    @classmethod
    def load(cls, inner: Method, parts: MapParts) -> "Classwise":
        """Build the map. Raises CorruptMap."""
        maps = load_joined(parts, inner.load)
        if len(maps) < 2:
            raise CorruptMap(f"maps must hold one for each of two classes or more, got {len(maps)}")
        return cls(inner, tuple(maps))

    def describe(self) -> str:
        """Describe the map."""
        text = f"{self.inner.title} of each of {self.classes} classes against the rest, then divided by their sum"
        unchanged = [str(label) for label, own in enumerate(self.maps) if own is None]
        if unchanged:
            text += (
                f"; without enough events to fit on, and as they are before the division: class {', '.join(unchanged)}"
            )
        return text


def _fit(inner: Method, events: LabelledEvents, options: Mapping[str, OptionValue]) -> Classwise:
    """Fit one map per class. Raises NotEnoughData where no class has enough events."""
    maps: list[RecalibrationMap | None] = []
    reason: NotEnoughData | None = None
    for label in range(events.classes):
        one_class = replace(
            events,
            prediction=np.ascontiguousarray(events.prediction[:, label]),
            outcome=(events.outcome == label).astype(np.int64),
        )
        try:
            maps.append(inner.fit(one_class, options))
        except NotEnoughData as error:
            reason = error
            maps.append(None)
    if reason is not None and not any(maps):
        raise NotEnoughData(f"no class has enough events; of the last: {reason}") from reason
    return Classwise(inner, tuple(maps))


METHODS: Final = tuple(
    Method(
        name=f"{inner.name}_classwise",
        title=f"{inner.title}, class by class",
        meaning=(
            f"{inner.title} of each class against the rest; the results are divided by their sum. A class without "
            "enough events keeps its probability. The most probable class can change."
        ),
        rank=inner.rank + 30,
        fit=partial(_fit, inner),
        load=partial(Classwise.load, inner),
        options=inner.options,
        binary=False,
        many_classes=True,
    )
    for inner in (platt.METHOD, beta.METHOD, isotonic.METHOD, histogram.METHOD)
)
"""Source: Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002."""
