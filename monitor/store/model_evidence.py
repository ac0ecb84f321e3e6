"""The evidence on a model as an evaluation shows it: what each detector says, and what it amounts to."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from monitor.store.alert import Kind
from monitor.store.evidence import StoredEvidence

NO_EVIDENCE: Final = -308.0
"""Stands for the decimal logarithm of evidence that is 0."""
PENDING_LOG10: Final = 1.0
"""Evidence is pending from so far below its line on: a factor of ten."""


class Raised(NamedTuple):
    """The alarm behind an alert that fires: when it was raised, and by which evidence."""

    end_ms: int
    """Settled time at which it was raised, for the last time."""
    first_ms: int
    """The same for the first time."""
    log10_evidence: float
    segment: str
    """Segment whose series is the strongest evidence for it."""
    since_ms: int
    """When the change was."""
    segments: Sequence[str]
    """All segments and classes to blame, the strongest first; few of them wrongly."""
    segments_log10: Sequence[float] = ()
    """Their evidence."""


DETECTORS_OF: Final[Mapping[Kind, tuple[str, ...]]] = {
    "map": ("serving_map",),
    "calibration": ("calibration", "prevalence", "calibration_even", "calibration_odd"),
    "change": ("change",),
}
"""Kind of a finding -> the detectors that speak for it. Of several that fire, the first says what is wrong since when.

So it is of kinds: to roll back a map that does harm repairs what else is wrong, and "wrong" says more than "changed".
"""
KIND_OF: Final[Mapping[str, Kind]] = {name: kind for kind, names in DETECTORS_OF.items() for name in names}


def leading(levels: Mapping[str, "EvidenceLevel"]) -> str:
    """The detector that speaks for all: of those that fire the first, else the one nearest to its line."""
    return max((name for name in KIND_OF if name in levels), key=lambda name: levels[name].strength)


class EvidenceLevel(NamedTuple):
    """The evidence of one detector on one version."""

    log10_evidence: float
    """Since it was 0; NO_EVIDENCE while it is. Of an alarm that fires the most there was, as it starts again at 0."""
    log10_line: float
    """At which an alarm is raised."""
    segment: str
    """Segment whose series is the strongest evidence."""
    since_ms: int
    """The change that it speaks for."""
    raised: Raised | None
    """While an alarm fires."""

    @property
    def is_pending(self) -> bool:
        """Whether it is about to raise an alarm, or has."""
        return self.raised is not None or self.log10_evidence >= self.log10_line - PENDING_LOG10

    @property
    def strength(self) -> tuple[bool, float]:
        """The larger, the more it says: of alarms that fire all are alike, so that the first detector speaks."""
        return self.raised is not None, 0.0 if self.raised is not None else self.log10_evidence - self.log10_line


class Explanation(NamedTuple):
    """What evidence amounts to, in short."""

    label: str
    """Such as ``prior_shift``: see :mod:`monitor.alarms.attribution`."""
    sentence: str
    is_firing: bool
    """Or pending."""


class Shock(NamedTuple):
    """How much the logits of all events of a period of one horizon are off together, from period to period."""

    deviation: float
    """Standard deviation in logits, as the two that follow."""
    lower: float
    upper: float
    """Ends of its 95% interval."""
    periods: int
    """Periods with outcomes."""
    tolerance: float
    """Tolerance of the model, in logits."""

    @property
    def covered(self) -> bool:
        """Whether the tolerance may cover it: False where twice the deviation is surely larger."""
        return 2.0 * self.lower <= self.tolerance

    @property
    def sentence(self) -> str:
        """What it means for alarms, and what to do."""
        swing = "Outcomes of this model swing together from horizon to horizon"
        size = f"{self.deviation:.2f} logits ({self.lower:.2f} to {self.upper:.2f} by {self.periods} horizons)"
        if self.covered:
            return f"{swing}, by {size}, which its tolerance of {self.tolerance:g} may cover."
        enough = math.ceil(200.0 * self.deviation) / 100.0
        return (
            f"{swing}, so alerts may be false more often than promised. A drift swings them, too: repair that first. "
            f"If it is normal here, raise the model's tolerance to {enough:g}, or set its dependence to "
            f"within_horizon. The swing is {size}, more than the tolerance of {self.tolerance:g} covers."
        )


class VersionEvidence(NamedTuple):
    """The evidence on one version."""

    to_ms: int
    """Predictions before this time are in it."""
    levels: Mapping[str, EvidenceLevel]
    """Levels by detector."""
    explanations: Mapping[str, Explanation] = {}
    """Explanations by kind of alert, where one is pending or firing."""
    shock: Shock | None = None
    """None while there are too few periods, or outcomes of one kind alone."""
    resting: str = ""
    """Why detectors that judge predictions have no evidence; empty where they have."""
    revision: int = 0
    """Revision of the serving map that the evidence is on; 0 if no map ever served."""


class ModelEvidence(NamedTuple):
    """The evidence on a model."""

    versions: Mapping[str, VersionEvidence] = MappingProxyType({})
    states: Sequence[StoredEvidence] = ()
    """What each version's detectors continue from; empty where another replica evaluates the model."""
    ended_by_settings: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """Version -> detector -> event time up to which it had read when other settings ended its alarm."""
