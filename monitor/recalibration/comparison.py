"""A comparison of maps on later events, as it is stored, sent and shown (docs/recalibration.md, "comparison")."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

import msgspec

from monitor.known_types import learn
from monitor.recalibration.guard import Guard, MapEvidence
from monitor.reports.evaluation.classes import ClassMeasureResult
from monitor.reports.evaluation.report import Diagnosis, MeasureResult


class JsonObject(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object with finite numbers, whose members are typed."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read one from JSON types."""
        return msgspec.convert(document, cls)

    def plain(self) -> Self:
        """The same as a reader of the JSON has it: without numpy's numbers, and null for infinite and nan."""
        return msgspec.json.decode(msgspec.json.encode(self, enc_hook=lambda number: number.item()), type=type(self))

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types."""
        return msgspec.json.decode(msgspec.json.encode(self), type=dict[str, Any])


class EventSpan(JsonObject, frozen=True, kw_only=True):
    """Some events in order of time; ``start`` and ``end`` are None if they have no times."""

    n: int
    start: str | None = msgspec.field(name="from")
    end: str | None = msgspec.field(name="to")
    data_hash: str


class FitSpan(EventSpan, frozen=True, kw_only=True):
    """The events that a map was fitted on."""

    changed_at: str | None
    """The change of calibration since which events were used; None without one."""
    change_p_value: float | None
    left_out: Mapping[str, int]
    """Reason -> number of events of the sample that did not match the others."""


class HeldOutSpan(EventSpan, frozen=True, kw_only=True):
    """The later events, which no fit saw."""

    weighted: bool


class MapReport(JsonObject, frozen=True, kw_only=True):
    """The report on the predictions of one map; ``omitted`` says why measures are missing."""

    id: str | None
    method: str | None
    describe: str | None
    measures: Mapping[str, MeasureResult]
    verdict: Diagnosis | None
    insufficient: str | None
    omitted: Mapping[str, str]


class LeveledError(JsonObject, frozen=True, kw_only=True):
    """A local error, with its level for a calibrated model that makes the same predictions."""

    value: float
    null_mean: float
    null_q95: float
    p_value: float
    excess: float
    """``value`` less ``null_mean``."""


class LocalErrors(JsonObject, frozen=True, kw_only=True):
    """Errors among events that are alike, at ``points`` of ``n`` events with coordinates of so many dimensions."""

    mlce: LeveledError
    mean_lce: LeveledError
    gamma: float
    dimensions: int
    n: int
    points: int
    valid_share: float


class ComparedMap(MapReport, frozen=True, kw_only=True):
    """One of the compared maps; of many classes the report is of the top label, beside measures of whole vectors."""

    canonical: Mapping[str, ClassMeasureResult] | msgspec.UnsetType = msgspec.UNSET
    classwise: Mapping[str, MeasureResult] | msgspec.UnsetType = msgspec.UNSET
    local: LocalErrors | None


class ComparedMaps(JsonObject, frozen=True, kw_only=True):
    """No map, the map that serves, if it could be applied, and the new one."""

    none: ComparedMap
    champion: ComparedMap | None
    challenger: ComparedMap

    def by_name(self) -> dict[str, ComparedMap]:
        """The maps that were compared, by name."""
        maps = {"none": self.none, "champion": self.champion, "challenger": self.challenger}
        return {name: report for name, report in maps.items() if report is not None}


class SegmentErrors(JsonObject, frozen=True, kw_only=True):
    """Calibration errors of one segment under one map."""

    smce: float
    ece: float
    mce: float


class ComparedSegment(JsonObject, frozen=True, kw_only=True):
    """The errors of one segment under each map."""

    segment: str
    n: int
    positives: int
    none: SegmentErrors
    champion: SegmentErrors | None
    challenger: SegmentErrors


class MapEvidences(JsonObject, frozen=True, kw_only=True):
    """The evidence that the new map is better than no map, and than the one that serves."""

    against_none: MapEvidence
    against_champion: MapEvidence | None


class Rewards(JsonObject, frozen=True, kw_only=True):
    """The mean reward of answering above a threshold, by map."""

    cost_ratio: float
    threshold: float
    none: float
    champion: float | msgspec.UnsetType = msgspec.UNSET
    challenger: float


class DecisionValue(JsonObject, frozen=True, kw_only=True):
    """The value of each map for decisions."""

    prediction_rejection_ratio: Mapping[str, float | None]
    reward: Sequence[Rewards]


class Comparison(JsonObject, frozen=True, kw_only=True):
    """A new map beside the map that serves and no map, on later events."""

    fit: FitSpan
    held_out: HeldOutSpan
    maps: ComparedMaps
    segments: Sequence[ComparedSegment]
    """The worst before recalibration first."""
    segments_left_out: Mapping[str, int]
    """Reason -> number of segments."""
    evidence: MapEvidences
    guard: Guard
    decision: DecisionValue

    @property
    def used_until_ms(self) -> int | None:
        """The end of the events that the refit used, milliseconds since the epoch; None without times."""
        end = self.held_out.end
        return None if end is None else round(datetime.fromisoformat(end).timestamp() * 1000)


class LiveMap(MapReport, frozen=True, kw_only=True):
    """No map, or one that serves or could serve, on live events."""

    missing: str | None
    """Why it is not measured."""


class LiveMaps(JsonObject, frozen=True, kw_only=True):
    """No map, the champion and the candidate."""

    none: LiveMap
    champion: LiveMap | None = None
    candidate: LiveMap | None = None

    def by_name(self) -> dict[str, LiveMap]:
        """The maps that serve or wait, by name."""
        maps = {"none": self.none, "champion": self.champion, "candidate": self.candidate}
        return {name: report for name, report in maps.items() if report is not None}


class LiveComparison(JsonObject, frozen=True, kw_only=True):
    """Raw and recalibrated predictions side by side on live events (docs/recalibration.md, "live")."""

    since: str
    until: str | None
    changed: str
    n: int
    population: int
    weighted: bool
    left_out: Mapping[str, int]
    insufficient: str | None
    maps: LiveMaps
    evidence: Mapping[str, MapEvidence | None]
    """``champion_against_none``, ... -> evidence that the first is better."""


learn(Comparison, LiveComparison)
