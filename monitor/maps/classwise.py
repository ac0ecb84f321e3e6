"""Maps of one class against the rest, for many classes: the binary methods, class by class."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray

from monitor.errors import CorruptMap, NotEnoughData
from monitor.maps import beta, histogram, isotonic, platt
from monitor.maps.base import MapParts, Method, OptionValue, RecalibrationMap
from monitor.maps.labelled import LabelledEvents
from monitor.maps.nested import join_parts, part_maps
from monitor.scores.probability_loops import normalise_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Classwise:
    """One map a class, after which rows are divided by their sums unless these are 1 within 1e-6.

    Attributes
    ----------
    maps
        K of them; None for a class that had too few events of its own and keeps its probability.
    """

    maps: tuple[RecalibrationMap | None, ...]
    method: ClassVar[str]
    inner: ClassVar[Method]
    feature_count: ClassVar[int | None] = None
    segment_key: ClassVar[str | None] = None

    @property
    def classes(self) -> int:
        """Number K of classes."""
        return len(self.maps)

    def apply(
        self,
        prediction: Floats,
        features: Floats | None = None,  # noqa: ARG002
        group: NDArray[np.str_] | None = None,  # noqa: ARG002
    ) -> Floats:
        """Each class by its own map, then divided by the sum; a row all of whose classes become 0 stays as it is."""
        p = prediction if prediction.ndim == 2 else np.column_stack([1.0 - prediction, prediction])
        each = np.column_stack(
            [
                p[:, label] if one is None else one.apply(np.ascontiguousarray(p[:, label]))
                for label, one in enumerate(self.maps)
            ]
        )
        none_left = ~each.any(axis=1)
        each[none_left] = p[none_left]
        normalise_rows(each)
        return each if prediction.ndim == 2 else np.ascontiguousarray(each[:, 1])

    def parts(self) -> MapParts:
        """Those of the classes' maps."""
        return join_parts({}, self.maps)

    @classmethod
    def from_parts(cls, parts: MapParts) -> Self:
        """The map of these parts. Raises CorruptMap."""
        maps = part_maps(parts, cls.inner.load)
        if len(maps) < 2:
            raise CorruptMap(f"maps must hold one for each of two classes or more, got {len(maps)}")
        return cls(tuple(maps))

    def describe(self) -> str:
        """What it does."""
        said = f"{self.inner.title} of each of {self.classes} classes against the rest, then divided by their sum"
        left = [str(label) for label, one in enumerate(self.maps) if one is None]
        if left:
            said += f"; without enough events to fit on, and as they are before the division: class {', '.join(left)}"
        return said

    @classmethod
    def fit(cls, events: LabelledEvents, options: Mapping[str, OptionValue]) -> Self:
        """Fit one map a class. Raises NotEnoughData where no class has enough."""
        maps: list[RecalibrationMap | None] = []
        reason: NotEnoughData | None = None
        for label in range(events.classes):
            one = replace(
                events,
                prediction=np.ascontiguousarray(events.prediction[:, label]),
                outcome=(events.outcome == label).astype(np.int64),
            )
            try:
                maps.append(cls.inner.fit(one, options))
            except NotEnoughData as error:
                reason = error
                maps.append(None)
        if reason is not None and not any(maps):
            raise NotEnoughData(f"no class has enough events; of the last: {reason}") from reason
        return cls(tuple(maps))


class HistogramClasswise(Classwise):
    """Histogram binning, class by class."""

    method: ClassVar[str] = "histogram_classwise"
    inner: ClassVar[Method] = histogram.METHOD


class IsotonicClasswise(Classwise):
    """Isotonic regression, class by class."""

    method: ClassVar[str] = "isotonic_classwise"
    inner: ClassVar[Method] = isotonic.METHOD


class PlattClasswise(Classwise):
    """Platt scaling, class by class."""

    method: ClassVar[str] = "platt_classwise"
    inner: ClassVar[Method] = platt.METHOD


class BetaClasswise(Classwise):
    """Beta calibration, class by class."""

    method: ClassVar[str] = "beta_classwise"
    inner: ClassVar[Method] = beta.METHOD


def _method(kind: type[Classwise]) -> Method:
    inner = kind.inner
    return Method(
        name=kind.method,
        title=f"{inner.title}, class by class",
        meaning=(
            f"{inner.title} of each class against the rest; the results are divided by their sum. A class without "
            "enough events keeps its probability. The most probable class can change."
        ),
        rank=inner.rank + 30,
        fit=kind.fit,
        load=kind.from_parts,
        options=inner.options,
        binary=False,
        many_classes=True,
    )


METHODS: Final = tuple(_method(kind) for kind in (PlattClasswise, BetaClasswise, IsotonicClasswise, HistogramClasswise))
"""Source: Zadrozny, Elkan, "Transforming classifier scores into accurate multiclass probability estimates", 2002."""
