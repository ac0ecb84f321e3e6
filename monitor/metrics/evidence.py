"""The series of sequential evidence: how much there is, the line at which an alarm is raised, and since when."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from monitor.metrics.series import VERSION_LABELS, Family, Series, read_families
from monitor.store.model_evidence import NO_EVIDENCE, EvidenceLevel, Shock, VersionEvidence
from monitor.windows.snapshot import Snapshot

DETECTOR_LABELS: Final = (*VERSION_LABELS, "detector")


def _change_point(level: EvidenceLevel) -> float | None:
    return level.since_ms / 1000 if level.is_pending else None


DETECTORS: Final[tuple[Series[EvidenceLevel], ...]] = (
    Series(
        "calibration_evidence",
        "Decimal logarithm of the evidence of a detector: 7.2 is evidence of 10^7.2. Of an alarm that fires the "
        "most there was. Absent where there is none: the logarithm of 0.",
        lambda level: level.log10_evidence if level.log10_evidence > NO_EVIDENCE else None,
        DETECTOR_LABELS,
    ),
    Series(
        "calibration_evidence_line",
        "Decimal logarithm of the evidence at which an alarm is raised: the budget of false alarms a year draws this "
        "line.",
        lambda level: level.log10_line,
        DETECTOR_LABELS,
    ),
    Series(
        "calibration_change_point_timestamp_seconds",
        "When the change was that the evidence speaks for, in the time of predictions, seconds since the epoch. Only "
        "while an alarm fires, or evidence is within a factor of ten of the line.",
        _change_point,
        DETECTOR_LABELS,
    ),
)

VERSIONS: Final[tuple[Series[VersionEvidence], ...]] = (
    Series(
        "calibration_evidence_settled_timestamp_seconds",
        "Predictions before this time are in the evidence, seconds since the epoch: the end of the version's last "
        "settled pane.",
        lambda version: version.to_ms / 1000,
        VERSION_LABELS,
    ),
)

SHOCKS: Final[tuple[Series[Shock], ...]] = (
    Series(
        "calibration_shock_logit",
        "Common shock: standard deviation in logits by which all predictions of a period of one horizon are off "
        "together. Absent while there are fewer than two settled periods with outcomes of both kinds.",
        lambda shock: shock.deviation,
        VERSION_LABELS,
    ),
    Series(
        "calibration_shock_logit_lower",
        "Lower end of the common shock's 95% confidence interval. Where twice this is more than the tolerance, there "
        "may be more false alarms than the budget allows.",
        lambda shock: shock.lower,
        VERSION_LABELS,
    ),
    Series(
        "calibration_shock_logit_upper",
        "Upper end of the common shock's 95% confidence interval.",
        lambda shock: shock.upper,
        VERSION_LABELS,
    ),
    Series(
        "calibration_shock_covered",
        "1 if the model's tolerance may cover the common shock, 0 if twice its lower end is more than the tolerance.",
        lambda shock: shock.covered,
        VERSION_LABELS,
    ),
)

EVIDENCE: Final[tuple[Series[Any], ...]] = (*DETECTORS, *VERSIONS, *SHOCKS)


class EvidenceFamilies:
    """The families of the evidence in the latest snapshot.

    Parameters
    ----------
    exported
        Returns the part of the snapshot that this process exports.
    """

    def __init__(self, exported: Callable[[], Snapshot]) -> None:
        self._exported = exported

    def __call__(self) -> Iterator[Family]:
        """Read the latest snapshot."""
        versions = [
            ((model, version), evidence)
            for model, part in self._exported().models.items()
            for version, evidence in sorted(part.evidence.versions.items())
        ]
        levels = [((*key, name), level) for key, evidence in versions for name, level in evidence.levels.items()]
        yield from read_families(DETECTORS, levels)
        yield from read_families(VERSIONS, versions)
        yield from read_families(SHOCKS, [(key, one.shock) for key, one in versions if one.shock is not None])
