"""What the evidence on a model amounts to: a finding for each version and kind of alert."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from monitor.alarms.attribution import Attribution
from monitor.alarms.serving import SERVING_MAP, ServedMaps
from monitor.events.model import SeriesKey
from monitor.store.alerts import Finding, Kind
from monitor.windows.snapshot import EvidenceLevel, VersionEvidence

_KINDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "calibration": ("calibration", "prevalence", "calibration_even", "calibration_odd"),
    "change": ("change",),
    "map": (SERVING_MAP,),
}
"""Kind of an alert -> the detectors that raise it."""

_EXPLAINED_LOG10: Final = 1.0
"""Evidence is explained from so far below its line on: from there an alert is pending."""

_Key = tuple[str, str, Kind]


class Explainer:
    """Makes findings of evidence. What has not moved since the last time is not explained again.

    Parameters
    ----------
    attribution
        Explains alarms about predictions.
    maps
        Explain alarms about the map that serves.
    tolerance
        Model -> error of its logits up to which nothing is called a fault.
    """

    def __init__(self, attribution: Attribution, maps: ServedMaps, tolerance: Callable[[str], float]) -> None:
        self._attribution = attribution
        self._maps = maps
        self._tolerance = tolerance
        self._known: dict[_Key, Finding] = {}

    def findings(self, model: str, versions: Mapping[str, VersionEvidence]) -> list[Finding]:
        """One for each version and kind of alert."""
        found = [
            self._finding(model, version, kind, known)
            for version, known in versions.items()
            for kind in _KINDS
            if any(name in known.levels for name in _KINDS[kind])
        ]
        kept = {(one.model, one.version, one.kind): one for one in found}
        self._known = {key: one for key, one in self._known.items() if key[0] != model} | kept
        return found

    def _finding(self, model: str, version: str, kind: Kind, known: VersionEvidence) -> Finding:
        before = self._known.get((model, version, kind))
        if before is not None and before.settled_ms == known.to_ms:
            return before
        level = max((known.levels[name] for name in _KINDS[kind] if name in known.levels), key=_strength)
        raised = level.raised
        summary, events = "", 0
        document: dict[str, Any] = {}
        if raised is None and level.log10_evidence < level.log10_line - _EXPLAINED_LOG10:
            pass
        elif kind == "map":
            summary, events, document = self._maps.explain(model, version, level.since_ms, known.to_ms)
        else:
            prevalence = known.levels.get("prevalence")
            summary, events, document = self._attribution.explain(
                SeriesKey(model, version, level.segment),
                level.since_ms,
                known.to_ms,
                tolerance=self._tolerance(model),
                robust=kind == "calibration" and prevalence is not None and prevalence.raised is not None,
                changed=kind == "change",
            )
            document["segments"] = [] if raised is None else list(raised.segments)
        return Finding(
            model=model,
            version=version,
            kind=kind,
            log10_evidence=level.log10_evidence if raised is None else max(level.log10_evidence, raised.log10_evidence),
            log10_line=level.log10_line,
            settled_ms=known.to_ms,
            since_ms=level.since_ms,
            from_ms=level.since_ms,
            to_ms=level.since_ms,
            events=events,
            raised_ms=None if raised is None else raised.end_ms,
            summary=summary,
            document=document,
        )


def _strength(level: EvidenceLevel) -> tuple[bool, float]:
    return level.raised is not None, level.log10_evidence - level.log10_line
