"""What came of several recalibration methods on a file, in words: for a terminal and for a page alike."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from monitor.recalibration.guard import LEAST_E
from monitor.recalibration.refit_trial import Candidate, MeanLoss, Trial
from monitor.reports.evaluation.report import Verdict
from monitor.reports.plain import plain
from monitor.reports.tables import interval_text, p_text, time_text, value_text
from monitor.reports.verdict import Word

BEST: Final = Word("best", "bold green")
BETTER: Final = Word("better", "green")
UNSURE: Final = Word("not certain", "yellow")
LOCALLY_WORSE: Final = Word("worse among alike", "bold red")
WORSE: Final = Word("worse", "bold red")
NOT_FITTED: Final = Word("not fitted", "dim")
NOTHING: Final = Word("", "")

_NO_FEATURES: Final = (
    "Whether it is worse among rows that are alike was not looked at: name columns of numbers that tell with --feature."
)

HEADINGS: Final = ("method", "log loss", "Brier score", "smCE", "MLCE excess", "E", "better than no map?")


_FAULTS: Final = (Verdict.PRIOR_SHIFT, Verdict.SHAPE, Verdict.BOTH)
_TOO_MANY: Final = 100
"""Times as many rows, beyond which their number is no advice."""


class Cell(NamedTuple):
    """A value, and below it how certain it is."""

    text: str
    below: str = ""


class Row(NamedTuple):
    """One map in a table."""

    name: str
    log_loss: Cell
    brier: Cell
    smce: Cell
    mlce: Cell
    evidence: str
    verdict: Word


def word_of(candidate: Candidate, best: Candidate | None) -> Word:
    """What is to be thought of a method."""
    if candidate.comparison is None:
        return NOT_FITTED
    if candidate is best:
        return BEST
    if candidate.better:
        return BETTER
    if float(candidate.evidence["lower"]) > 0.0:
        return WORSE
    return LOCALLY_WORSE if candidate.sure else UNSURE


def rows_of(trial: Trial) -> list[Row]:
    """No map, and then the methods, as they were named."""
    return [_row(trial, each) for each in (None, *trial.candidates)]


def columns_shown(trial: Trial, *, brier: bool = True) -> list[str]:
    """The headings that have anything below them."""
    local = trial.data.held_out.features is not None
    return [name for name in HEADINGS if (local or name != "MLCE excess") and (brier or name != "Brier score")]


def legend_of(trial: Trial) -> list[str]:
    """What the columns are, a sentence each."""
    least = trial.candidates[0].least_e
    several = len(trial.candidates) > 1
    found = ["Below the values: 95% intervals" + (", and p of the excess." if _is_local(trial) else ".")]
    if not trial.data.held_out.is_binary:
        found.append("smCE is that of the most probable class.")
    if _is_local(trial):
        found.append("MLCE excess: the largest error among rows that are alike, less what chance shows.")
    found.append(
        f"E: evidence that later rows are better predicted than with no map; {least:,.0f} is needed"
        + (f", 20 for each of {len(trial.candidates)} methods." if several else ".")
    )
    return found


def head_lines(trial: Trial, name: str) -> list[str]:
    """What was compared, in lines."""
    fit, held = trial.data.fit, trial.data.held_out
    lines = [f"{plain(name)}: fitted on {len(fit):,} rows, compared on the {len(held):,} later ones"]
    if trial.timed:
        first, cut, last = (_day(each) for each in (fit.time_ms[0], held.time_ms[0], held.time_ms[-1]))
        lines.append(f"from {first}, later ones from {cut} to {last} UTC")
    compared = next((each.comparison for each in trial.candidates if each.comparison is not None), None)
    verdict = None if compared is None else compared.document["maps"]["none"]["verdict"]
    if verdict is not None:
        lines.append(f"with no map, later rows show: {verdict['sentence']}")
    return lines


def advice(trial: Trial) -> str:
    """What to do, in a few sentences."""
    best = trial.best
    if best is None:
        return _advice_against(trial)
    change = best.evidence["log_loss_difference"]
    if change is None:
        before, after = (loss_text(trial.losses(each).log_loss) for each in (None, best))
        gained = f"is {after}, and {before} without a map"
    else:
        gained = (
            f"is {-change['value']:.4f} lower than without a map (95% {-change['upper']:.4f} to {-change['lower']:.4f})"
        )
    rows = len(trial.data.held_out)
    words = f"Take {best.method.name}: on {rows:,} later rows its log loss {gained}, with evidence E = {_e(best)}."
    alike = trial.alike(best)
    if alike:
        simplest = min(alike, key=lambda each: each.method.rank)
        names = _listed([each.method.name for each in alike])
        words += f" {names} {'is' if len(alike) == 1 else 'are'} within chance of it"
        is_simpler = simplest.method.rank < best.method.rank
        words += f"; {simplest.method.name} is the simplest of them." if is_simpler else "."
    return words


def reasons_of(trial: Trial) -> list[str]:
    """Why each method that is not better is not, a sentence or two each; of the best, what speaks for it."""
    found = []
    for each in trial.candidates:
        if each.comparison is None:
            found.append(f"{each.method.name} was not fitted: {each.failure}.")
        elif each is trial.best:
            found += each.comparison.guard.notes if _is_local(trial) else [_NO_FEATURES]
        elif not each.better:
            faults = () if each.comparison.guard.passed else each.comparison.guard.reasons
            # The guard knows of one method only.
            one, several = (f"at least {least:,.0f} is needed" for least in (LEAST_E, each.least_e))
            told = " ".join(faults).replace(one, several) or (
                f"Not evidently better than no map: evidence {_e(each)}, and {each.least_e:,.0f} is needed of each of "
                f"{len(trial.candidates)} methods, so that chance makes none of them better."
            )
            found.append(f"{each.method.name}: {told}")
    return list(dict.fromkeys(found))


def describe(candidate: Candidate) -> str:
    """What a map does."""
    return "" if candidate.map is None else f"{candidate.method.name}: {candidate.map.describe()}."


def loss_text(loss: MeanLoss) -> str:
    """A mean loss."""
    return value_text(loss.value, "nats") if math.isfinite(loss.value) else "infinite"


def _advice_against(trial: Trial) -> str:
    none = trial.shown.comparison
    p_value = local_p = verdict = None
    if none is not None:
        before = none.document["maps"]["none"]
        verdict = (before["verdict"] or {}).get("verdict")
        p_value = (before["measures"].get("smce") or {}).get("p_value")
        local_p = ((before["local"] or {}).get("mlce") or {}).get("p_value")
    several = len(trial.candidates) > 1
    words = (
        "No method is better than no map for certain"
        if several
        else (f"{trial.candidates[0].method.name} is not better than no map for certain")
    )
    if any(word_of(each, None) is LOCALLY_WORSE for each in trial.candidates):
        return (
            f"{words}: what is better on the whole is worse among rows that are alike. "
            "Try a method that looks at features or groups: lore, group_wise_beta."
        )
    if verdict in _FAULTS:
        return (
            f"{words}, although the later rows are miscalibrated: that they are takes fewer rows to show than that one "
            f"map, fitted on others, repairs them. Leave predictions as they are for now. {_power(trial)}"
        )
    if p_value is not None and p_value > 0.05:
        if local_p is not None and local_p <= 0.05:
            tried = any(each.method.needs_features for each in trial.candidates)
            return (
                f"{words}. On the whole the later rows show no miscalibration beyond chance (smCE, p = "
                f"{p_text(p_value)}), but among rows that are alike they do (MLCE, p = {p_text(local_p)}): "
                f"{'come again with more rows' if tried else 'try lore'}."
            )
        return (
            f"{words}, and on the later rows there is no miscalibration beyond chance to repair (smCE, "
            f"p = {p_text(p_value)}): leave predictions as they are."
            + ("" if _is_local(trial) else " Errors among rows that are alike were not looked at: name --feature.")
        )
    return f"{words}: leave predictions as they are, or come again with more rows. {_power(trial)}"


def _power(trial: Trial) -> str:
    """How many later rows would be enough, a sentence."""
    shown, held = trial.shown, len(trial.data.held_out)
    needed = trial.rows_needed(shown)
    if needed is None:
        return (
            f"On these later rows {shown.method.name} predicts no better than no map: more rows like them would not "
            "change that."
        )
    least, rounded = f"E = {shown.least_e:,.0f}", _two_digits(needed)
    if needed > _TOO_MANY * held:
        return f"At the rate of these rows {shown.method.name} needs more than {_TOO_MANY} times as many for {least}."
    total = _two_digits(needed * (held + len(trial.data.fit)) / held)
    return (
        f"At the rate of these {held:,} later rows, {shown.method.name} is expected to reach {least} on about "
        f"{rounded:,} of them, or {total:,} rows in all."
    )


def _two_digits(number: float) -> int:
    """Rounded up to two digits: more would promise what an estimate cannot hold."""
    unit = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit) * unit)


def _row(trial: Trial, candidate: Candidate | None) -> Row:
    """That of a candidate; None: of no map."""
    if candidate is None:
        name, evidence, verdict, side, source = "no map", "", NOTHING, "none", trial.shown
    else:
        name, evidence, verdict = candidate.method.name, _e(candidate), word_of(candidate, trial.best)
        side, source = "challenger", candidate
    if source.comparison is None:
        nothing = Cell("-")
        return Row(name, nothing, nothing, nothing, nothing, evidence, verdict)
    found: Mapping[str, Any] = source.comparison.document["maps"][side]
    losses = trial.losses(candidate)
    smce = found["measures"].get("smce")
    local = (found["local"] or {}).get("mlce")
    return Row(
        name,
        Cell(loss_text(losses.log_loss), _interval(losses.log_loss)),
        Cell(loss_text(losses.brier), _interval(losses.brier)),
        Cell("-")
        if smce is None
        else Cell(value_text(smce["value"], "ratio"), interval_text(smce["lower"], smce["upper"], "ratio")),
        Cell("-") if local is None else Cell(value_text(local["excess"], "ratio"), f"p {p_text(local['p_value'])}"),
        evidence,
        verdict,
    )


def _interval(loss: MeanLoss) -> str:
    return interval_text(loss.lower, loss.upper, "nats")


def _e(candidate: Candidate) -> str:
    if not candidate.evidence:
        return "-"
    power = float(candidate.evidence["log10_e"])
    if power >= 6.0:
        return f"10^{power:.0f}"
    value = float(candidate.evidence["e_value"])
    # What two digits round to 100 would be told as 1e+02.
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def _is_local(trial: Trial) -> bool:
    return trial.data.held_out.features is not None


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _day(milliseconds: int) -> str:
    return time_text(int(milliseconds))[:16]
