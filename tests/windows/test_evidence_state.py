"""The state of a version by its evidence."""

import pytest

from monitor.store.model_evidence import NO_EVIDENCE, EvidenceLevel, Explanation, Raised, VersionEvidence
from monitor.windows.evidence_state import BEGINS_ANEW, WAITING, EvidenceState, evidence_state

SINCE_MS = 1_790_000_100_000
RAISED = Raised(SINCE_MS + 10, SINCE_MS + 10, 7.24, "all", SINCE_MS, [])
SHAPE = Explanation("shape", "Predictions of churn 7 are too sure of themselves since noon.", is_firing=True)


def level(log10_evidence: float, raised: Raised | None = None) -> EvidenceLevel:
    return EvidenceLevel(log10_evidence, 5.1, "all", SINCE_MS, raised)


def test_without_a_settled_label_there_is_none() -> None:
    assert evidence_state(None) is WAITING
    assert evidence_state(VersionEvidence(5, {})) is WAITING
    assert evidence_state(VersionEvidence(5, {"change": level(NO_EVIDENCE)})) is WAITING


def test_evidence_on_what_served_before_says_nothing() -> None:
    known = VersionEvidence(5, {"calibration": level(7.24, RAISED)}, revision=1)
    assert evidence_state(known, 2) is BEGINS_ANEW
    assert evidence_state(known, 1).state == "firing"
    # Whoever asks has not read yet what it is on.
    assert evidence_state(known, 0).state == "firing"


def test_where_nothing_is_found_the_strongest_is_shown_beside_its_line() -> None:
    known = VersionEvidence(5, {"change": level(NO_EVIDENCE), "calibration": level(-2.0), "prevalence": level(1.23)})
    state = evidence_state(known)
    assert (state.state, state.words, state.detector) == ("quiet", "nothing found", "prevalence")
    assert state.sentence == "The evidence is below the alert line (1/7,400 of it)."
    assert (state.label, state.since_ms, state.to_ms) == (None, None, 5)


def test_within_a_factor_of_ten_of_the_line_it_is_pending() -> None:
    assert evidence_state(VersionEvidence(5, {"calibration": level(4.0)})).state == "quiet"
    known = VersionEvidence(5, {"calibration": level(4.2)}, {"calibration": SHAPE._replace(is_firing=False)})
    state = evidence_state(known)
    assert (state.state, state.words, state.since_ms) == ("pending", "pending: shape", SINCE_MS)


def test_what_fires_is_said_before_what_is_larger() -> None:
    levels = {"prevalence": level(9.0), "calibration": level(7.24, RAISED)}
    state = evidence_state(VersionEvidence(5, levels, {"calibration": SHAPE}))
    said = f"{SHAPE.sentence} The evidence is well past the alert line (140 x)."
    assert state == EvidenceState("firing", "firing: shape", said, "shape", "calibration", 7.24, 5.1, SINCE_MS, 5)
    assert state.style == "bold red"


def test_of_two_explanations_that_of_what_fires_is_shown() -> None:
    levels = {"calibration": level(4.5), "change": level(1.0, RAISED)}
    pending = Explanation("unclear", "Not yet.", is_firing=False)
    better = Explanation("not_worse", "Outcomes have changed.", is_firing=True)
    state = evidence_state(VersionEvidence(5, levels, {"calibration": pending, "change": better}))
    assert (state.words, state.style) == ("firing: changed, not worse", "yellow")


def test_words_and_numbers_are_of_the_same_detector() -> None:
    wrong = SHAPE._replace(is_firing=False)
    changed = Explanation("prior_shift", "Outcomes have changed.", is_firing=False)
    levels = {"calibration": level(4.2), "change": level(4.9)}
    state = evidence_state(VersionEvidence(5, levels, {"calibration": wrong, "change": changed}))
    assert (state.label, state.detector, state.log10_evidence) == ("prior_shift", "change", 4.9)
    assert state.sentence == "Outcomes have changed. The evidence is close to the alert line (63% of it)."


@pytest.mark.parametrize("raised", [None, RAISED])
def test_evidence_that_is_not_explained_says_since_when(raised: Raised | None) -> None:
    state = evidence_state(VersionEvidence(5, {"serving_map": level(4.9, raised)}))
    assert state.words == ("pending" if raised is None else "firing")
    assert state.sentence == "The evidence since 2026-09-21 14:15 UTC is close to the alert line (63% of it)."
