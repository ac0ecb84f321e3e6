"""What the evidence on a model amounts to: a finding for each version and kind of alert."""

from collections.abc import Callable, Mapping
from typing import Final

from monitor.alarms.attribution import Attribution
from monitor.events.model import SeriesKey
from monitor.store.alerts import Finding, Kind
from monitor.windows.snapshot import EvidenceLevel, VersionEvidence

_KINDS: Final[Mapping[Kind, tuple[str, ...]]] = {"calibration": ("calibration", "prevalence"), "change": ("change",)}
"""Kind of an alert -> the detectors that raise it."""

_EXPLAINED_LOG10: Final = 1.0
"""Evidence is explained from so far below its line on: from there an alert is pending."""

_Key = tuple[str, str, Kind]


class Explainer:
    """Makes findings of evidence. What has not moved since the last time is not explained again.

    Parameters
    ----------
    attribution
        Explains alarms.
    tolerance
        Model -> error of its logits up to which nothing is called a fault.
    """

    def __init__(self, attribution: Attribution, tolerance: Callable[[str], float]) -> None:
        self._attribution = attribution
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
        levels = {name: known.levels[name] for name in _KINDS[kind] if name in known.levels}
        level = max(levels.values(), key=_strength)
        strongest = level.log10_evidence if level.raised is None else max(level.log10_evidence, level.raised.log10_evidence)
        finding = Finding(
            model=model,
            version=version,
            kind=kind,
            log10_evidence=strongest,
            log10_line=level.log10_line,
            settled_ms=known.to_ms,
            since_ms=level.since_ms,
            from_ms=level.since_ms,
            to_ms=level.since_ms,
            events=0,
            fires=level.raised is not None,
        )
