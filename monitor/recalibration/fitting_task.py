"""What a refit is told, and what comes of it: the two ends of a worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from monitor.inference.prevalence import TOLERANCE
from monitor.maps.labelled import LabelledEvents

HELD_OUT: Final = 0.3
"""Share of the events, the latest ones, that a fit never sees and maps are compared on, unless said otherwise."""


@dataclass(frozen=True, eq=False)
class RefitTask:
    """One refit, with all that it needs: whoever does it asks nobody.

    Attributes
    ----------
    id
        Of the job; its map is called the same.
    model, version
        Whose predictions.
    method, options
        See :data:`monitor.maps.METHODS`; options left out are at their defaults.
    created_ms
        When the refit began, milliseconds since the epoch: stands in the artifact.
    events
        The sample, in the order of time.
    window_ms
        How far back from the newest event others are taken; None: since the last change of calibration, or all.
    held_out
        Share of the latest events that the fit never sees, above 0 and below 1.
    left_out
        Reason, in words -> events of the sample that did not fit the others.
    champion
        The artifact of the map that serves, as it is stored; None if none does.
    seed
        Of what is drawn for the comparison.
    tolerance
        Error of the model's logits up to which the verdicts of the comparison call nothing a fault.
    """

    id: str
    model: str
    version: str
    method: str
    options: Mapping[str, Any]
    created_ms: int
    events: LabelledEvents
    window_ms: int | None = None
    held_out: float = HELD_OUT
    left_out: Mapping[str, int] = field(default_factory=dict)
    champion: bytes | None = None
    seed: int = 0
    tolerance: float = TOLERANCE


@dataclass(frozen=True, eq=False)
class RefitOutcome:
    """What came of a refit: a map with its comparison and its pictures; or, instead, why there is none.

    Attributes
    ----------
    artifact
        The map, as :func:`monitor.maps.artifact.to_bytes` wrote it; None if it failed.
    comparison
        The document of docs/recalibration.md ("comparison"); None if it failed.
    figures
        Name -> SVG.
    error
        ``NotEnoughData``, ``InputError`` or ``CorruptMap`` (of the champion's map), if it failed for a reason that lies
        in what it was given: another attempt would fail alike.
    detail
        That reason, in words.
    """

    artifact: bytes | None = None
    comparison: Mapping[str, Any] | None = None
    figures: Mapping[str, bytes] = field(default_factory=dict)
    error: str | None = None
    detail: str | None = None
