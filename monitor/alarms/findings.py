"""What the evidence on a model amounts to: a finding for each version and kind of alert."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from monitor.alarms.attribution import Attribution, ChangeSet
from monitor.alarms.watch import restore_detector
from monitor.events.model import ALL, SeriesKey
from monitor.store import evidence
from monitor.store.alert import Finding, Kind, Witness
from monitor.store.model_evidence import (
    DETECTORS_OF,
    NO_EVIDENCE,
    EvidenceLevel,
    Explanation,
    ModelEvidence,
    VersionEvidence,
    leading,
)

_SETS: Final = frozenset({"calibration", "prevalence"})
"""Detectors whose bets on earlier panes can be repeated."""

_Key = tuple[str, str, Kind]


class _Explained(NamedTuple):
    levels: Mapping[str, EvidenceLevel]
    """Levels of the version that the finding is about."""
    change: ChangeSet | None
    finding: Finding

    def holds(
        self, levels: Mapping[str, EvidenceLevel], known: VersionEvidence, ended_by_settings_ms: int | None
    ) -> bool:
        """Whether nothing has moved since."""
        of = self.finding
        return (self.levels, of.settled_ms, of.revision, of.ended_by_settings_ms) == (
            levels,
            known.to_ms,
            known.revision,
            ended_by_settings_ms,
        )


class Explainer:
    """Makes findings of evidence. What has not moved since the last time is not explained again.

    Parameters
    ----------
    attribution
        Explains alarms about predictions.
    tolerance
        Model -> error of its logits up to which nothing is called a fault.
    explain_map
        Explains alarms about the map that serves.
    """

    def __init__(
        self,
        attribution: Attribution,
        tolerance: Callable[[str], float],
        explain_map: Callable[[str, str, int, int], tuple[str, int, dict[str, Any]]],
    ) -> None:
        self._attribution = attribution
        self._tolerance = tolerance
        self._explain_map = explain_map
        self._known: dict[_Key, _Explained] = {}
        self._stored: dict[_Key, Finding] = {}

    def remember(self, model: str, findings: Iterable[Finding]) -> None:
        """Go on from the findings that the open alerts on a model were stored with: what they say of the past stays."""
        self._stored = {key: one for key, one in self._stored.items() if key[0] != model}
        self._stored |= {(model, one.version, one.kind): one for one in findings}

    def findings(self, model: str, of_model: ModelEvidence) -> tuple[Sequence[Finding], ModelEvidence]:
        """One for each version and kind of alert, and the evidence with what it amounts to."""
        states = {one.version: one.state for one in of_model.states}
        explained: dict[_Key, _Explained] = {}
        versions = {}
        for version, known in of_model.versions.items():
            ended, short = of_model.ended_by_settings.get(version, {}), dict[str, Explanation]()
            for kind, names in DETECTORS_OF.items():
                levels = {name: known.levels[name] for name in names if name in known.levels}
                ended_ms = max((ended[name] for name in names if name in ended), default=None)
                if levels or ended_ms is not None:
                    one = self._explained((model, version, kind), levels, known, states.get(version), ended_ms)
                    explained[model, version, kind] = one
                    if one.finding.summary:
                        short[kind] = Explanation(
                            one.finding.document["label"], one.finding.summary, one.finding.raised_ms is not None
                        )
            versions[version] = known._replace(explanations=short)
        self._known = {key: one for key, one in self._known.items() if key[0] != model} | explained
        return [one.finding for one in explained.values()], of_model._replace(versions=versions)

    def _explained(
        self,
        key: _Key,
        levels: Mapping[str, EvidenceLevel],
        known: VersionEvidence,
        state: bytes | None,
        ended_by_settings_ms: int | None,
    ) -> _Explained:
        model, version, kind = key
        to_ms = known.to_ms
        before = self._known.get(key)
        if before is not None and before.holds(levels, known, ended_by_settings_ms):
            return before
        name = leading(levels) if levels else ""
        level = levels.get(name, EvidenceLevel(NO_EVIDENCE, 0.0, ALL, to_ms, None))
        raised = level.raised
        change, summary, events = None, "", 0
        document: dict[str, Any] = {}
        if level.is_pending and kind == "map":
            summary, events, document = self._explain_map(model, version, level.since_ms, to_ms)
        elif level.is_pending:
            series = SeriesKey(model, version, level.segment)
            kept = _kept(before, level)
            change = kept or self._change(series, name, level.since_ms, state, raised.end_ms if raised else to_ms)
            prevalence = levels.get("prevalence")
            summary, events, document = self._attribution.explain(
                series,
                change,
                to_ms,
                tolerance=self._tolerance(model),
                robust=prevalence is not None and prevalence.raised is not None,
                changed=kind == "change",
                segments={} if raised is None else dict(zip(raised.segments, raised.segments_log10, strict=False)),
                last=_last(self._stored.get(key) if before is None else before.finding, change, level),
            )
        at = change or ChangeSet.at(level.since_ms)
        return _Explained(
            levels,
            change,
            Finding(
                model=model,
                version=version,
                kind=kind,
                log10_evidence=level.log10_evidence,
                log10_line=level.log10_line,
                settled_ms=to_ms,
                since_ms=at.at_ms,
                from_ms=at.from_ms,
                to_ms=at.to_ms,
                events=events,
                raised_ms=None if raised is None else raised.end_ms,
                first_raised_ms=min((one.raised.first_ms for one in levels.values() if one.raised), default=None),
                ended_by_settings_ms=ended_by_settings_ms,
                revision=known.revision,
                summary=summary,
                witnesses=_witnesses(kind, levels, name),
                document=document,
            ),
        )

    def _change(self, series: SeriesKey, name: str, since_ms: int, state: bytes | None, until_ms: int) -> ChangeSet:
        """When the change was that a detector speaks for."""
        if name not in _SETS or state is None:
            return ChangeSet.at(since_ms)
        detector = restore_detector(evidence.decode(state), name, series.segment)
        if detector is None:
            return ChangeSet.at(since_ms)
        return self._attribution.change_set(series, detector, since_ms, until_ms)


def _witnesses(kind: Kind, levels: Mapping[str, EvidenceLevel], leader: str) -> list[Witness]:
    """The detectors that have raised an alarm or are about to, the leader first."""
    return [
        Witness(
            detector=name,
            kind=kind,
            log10_evidence=level.log10_evidence,
            log10_line=level.log10_line,
            firing=level.raised is not None,
        )
        for name, level in sorted(levels.items(), key=lambda item: (item[0] != leader, item[0]))
        if level.is_pending
    ]


def _last(finding: Finding | None, change: ChangeSet, level: EvidenceLevel) -> Mapping[str, Any]:
    """The last document about this change of an alarm that fires; empty if there is none."""
    if finding is None or level.raised is None or finding.since_ms != change.at_ms:
        return {}
    segment = None if level.segment == ALL else level.segment
    return finding.document if finding.document.get("segment") == segment else {}


def _kept(before: _Explained | None, level: EvidenceLevel) -> ChangeSet | None:
    """The set of an alarm that goes on firing: the panes that it came from are not kept for ever."""
    if level.raised is None or before is None or before.change is None or before.finding.raised_ms is None:
        return None
    return before.change if before.change.at_ms == level.since_ms else None
