"""The state of a version by its evidence, in a word and a sentence, as pages, REST and the demo show it."""

from typing import Final, Literal, NamedTuple

from monitor.reports.formatting import evidence_text, minute_text
from monitor.store.model_evidence import KIND_OF, NO_EVIDENCE, EvidenceLevel, VersionEvidence, leading

StateName = Literal["waiting", "quiet", "pending", "firing"]

_LABELS: Final = {
    "prior_shift": "prior shift",
    "shape": "shape",
    "both": "prior and shape",
    "missing_labels": "labels may be missing",
    "unclear": "unclear",
    "not_worse": "changed, not worse",
    "harm": "harmful map",
}


class EvidenceState(NamedTuple):
    """What the evidence on a version says: words and numbers are of the detector that speaks most."""

    state: StateName
    """waiting: no labelled prediction is settled; quiet: nothing was found; pending, firing: as alerts are."""
    words: str
    sentence: str
    label: str | None = None
    """What is wrong, of one that is pending or firing."""
    detector: str | None = None
    """Whose words and numbers these are."""
    log10_evidence: float | None = None
    log10_line: float | None = None
    since_ms: int | None = None
    """The change that is pending or firing."""
    to_ms: int | None = None
    """Predictions before this time are in it."""

    @property
    def style(self) -> str:
        """How a terminal shows the words."""
        if self.state == "firing":
            return "yellow" if self.label == "not_worse" else "bold red"
        return {"waiting": "dim", "quiet": "green", "pending": "yellow"}[self.state]


WAITING: Final = EvidenceState("waiting", "no evidence yet", "No labelled prediction is settled yet.")
BEGINS_ANEW: Final = WAITING._replace(
    sentence="Evidence begins anew with what serves since the last promotion or rollback."
)


def evidence_state(known: VersionEvidence | None, revision: int = 0) -> EvidenceState:
    """The state of a version.

    Parameters
    ----------
    revision
        Revision of what serves now, as of a :class:`~monitor.store.recalibrations.Champion`. Evidence on what served
        before says nothing any more, also before the next evaluation lets it begin anew.
    """
    if known is not None and known.revision < revision:
        return BEGINS_ANEW
    levels = {} if known is None else {name: one for name, one in known.levels.items() if _is_there(one)}
    if known is None or not levels:
        resting = "" if known is None else known.resting
        return WAITING._replace(sentence=f"No evidence: {resting}.") if resting else WAITING
    name = leading(levels)
    level = levels[name]
    value = level.log10_evidence
    numbers = name, value, level.log10_line
    where = evidence_text(value, level.log10_line)
    if not level.is_pending:
        sentence = f"The evidence is {where}."
        if known.resting:
            sentence += f" It is about the map alone: {known.resting}."
        return EvidenceState("quiet", "nothing found", sentence, None, *numbers, None, known.to_ms)
    state: StateName = "pending" if level.raised is None else "firing"
    why = known.explanations.get(KIND_OF[name])
    if why is None:
        sentence = f"The evidence since {minute_text(level.since_ms)} is {where}."
        return EvidenceState(state, state, sentence, None, *numbers, level.since_ms, known.to_ms)
    sentence, words = f"{why.sentence} The evidence is {where}.", f"{state}: {_LABELS[why.label]}"
    return EvidenceState(state, words, sentence, why.label, *numbers, level.since_ms, known.to_ms)


def _is_there(level: EvidenceLevel) -> bool:
    """Whether there was a bet since evidence was 0, or an alarm fires."""
    return level.raised is not None or level.log10_evidence > NO_EVIDENCE
