"""Refits on a terminal: a comparison of methods on a file as a view with advice, and a refit of a running service."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from monitor.measures import MEASURES
from monitor.measures.base import Unit
from monitor.options import Option
from monitor.recalibration.compare import Candidate
from monitor.recalibration.comparison import ComparedMap, ComparedSegment, Comparison
from monitor.recalibration.guard import MIN_E_VALUE
from monitor.recalibration.refit_file import LossInterval, Trial
from monitor.reports.evaluation.groups import measure_columns
from monitor.reports.evaluation.report import MeasureResult, Verdict
from monitor.reports.formatting import interval_text, p_text, plain, printable, time_text, value_text
from monitor.reports.view import (
    WIDE,
    Cell,
    Column,
    Lead,
    Table,
    View,
    ViewSection,
    Word,
    print_view,
    rich_table,
    row,
)

_BEST: Final = Word("best", "bold green")
_BETTER: Final = Word("better", "green")
_UNSURE: Final = Word("not certain", "yellow")
_LOCALLY_WORSE: Final = Word("worse among alike", "bold red")
_WORSE: Final = Word("worse", "bold red")
_NOT_FITTED: Final = Word("not fitted", "dim")

_READING: Final = (
    "Maps were fitted on the earlier rows, and all numbers are of the later ones, which no fit saw. A method is better "
    "than no map where betting on it against the predictions as they are multiplies the stake by E or more: if it were "
    "no better, that would happen to any of these methods at most once in twenty such files. Nor may it be worse among "
    "rows that are alike, where there are features. Of the better ones, the best has the smallest log loss."
)
_FAULTS: Final = (Verdict.PRIOR_SHIFT, Verdict.SHAPE, Verdict.BOTH)
_MAX_FACTOR: Final = 100
"""How many times as many rows are still a useful estimate."""
_BRIER_WIDTH: Final = 108
"""Width from which a terminal has room for the Brier score."""
_MAX_SEGMENTS: Final = 5
"""Segments that a terminal shows."""

_MEASURES: Final = ("tce", "kce", "smce", "intce", "ece", "brier", "log_loss")
_LOCAL: Final = {"mlce": "MLCE, excess", "mean_lce": "mean LCE, excess"}
_MAPS: Final = {"none": "no map", "champion": "serves now", "challenger": "new map"}
_STATE_STYLES: Final = {
    "candidate": "bold green",
    "champion": "bold green",
    "rejected": "bold yellow",
    "failed": "bold red",
}


def trial_view(trial: Trial, name: str) -> View:
    """Build the view of a trial of methods; ``name`` is what the predictions are called."""
    after = [*_legend(trial), *([_describe(trial.shown)] if trial.best is not None else []), *reasons_of(trial)]
    sections = [ViewSection("The methods", _head_lines(trial, name), _methods_table(trial), after, implied=True)]
    shown = trial.shown
    segments = [] if shown.comparison is None else shown.comparison.segments
    if segments:
        table = segments_table(segments, {"none": "no map", "challenger": shown.method.name})
        sections.append(ViewSection("Segments, worst first", table=table))
    lead = Lead(advice(trial), "bold green" if trial.best else "bold yellow")
    return View(f"Recalibration of {plain(name)}", lead, sections, trial.notes, trial.cautions, _READING)


def trial_rows(trial: Trial) -> list[dict[str, Any]]:
    """Rows of the table of methods as numbers, no map first: losses and measures of the later rows."""
    rows: list[dict[str, Any]] = []
    for candidate in (None, *trial.candidates):
        source = trial.shown if candidate is None else candidate
        named = {
            "method": "none" if candidate is None else candidate.method.name,
            "better": None if candidate is None else candidate.better,
        }
        if source.comparison is None:
            rows.append(named)
            continue
        maps = source.comparison.maps
        report = maps.none if candidate is None else maps.challenger
        losses = {
            column: value
            for name, loss in trial.losses(candidate)._asdict().items()
            for column, value in ((name, loss.value), (f"{name}_lower", loss.lower), (f"{name}_upper", loss.upper))
        }
        evidence = None if candidate is None else source.comparison.evidence.against_none.e_value
        rows.append({**named, "e_value": evidence, **measure_columns(report.measures), **losses})
    return rows


def print_trial(console: Console, trial: Trial, name: str) -> None:
    """Print what to do and why."""
    print_view(console, trial_view(trial, name))


def print_advice(console: Console, trial: Trial, name: str) -> None:
    """Print what to do, with the methods beside each other."""
    view = trial_view(trial, name)
    print_view(console, view._replace(sections=[view.sections[0]._replace(after=())], notes=(), cautions=()))


def segments_table(segments: Sequence[ComparedSegment], names: Mapping[str, str]) -> Table:
    """One row per segment of a comparison; ``names`` says what each map is called."""
    columns = [
        Column("segment", words=True, folds=True),
        Column("n"),
        *(Column(f"smCE, {name}") for name in names.values()),
        *(Column(f"ECE, {name}", min_width=WIDE) for name in names.values()),
    ]
    rows = [
        row(
            plain(segment.segment),
            f"{segment.n:,}",
            *(
                value_text(getattr(getattr(segment, side), measure, None), "ratio")
                for measure in ("smce", "ece")
                for side in names
            ),
        )
        for segment in segments
    ]
    return Table(columns, rows, max_rows=_MAX_SEGMENTS)


def judge_candidate(candidate: Candidate, best: Candidate | None) -> Word:
    """The verdict on a method."""
    if candidate.comparison is None:
        return _NOT_FITTED
    if candidate is best:
        return _BEST
    if candidate.better:
        return _BETTER
    if candidate.comparison.evidence.against_none.lower > 0.0:
        return _WORSE
    return _LOCALLY_WORSE if candidate.sure else _UNSURE


def advice(trial: Trial) -> str:
    """What to do, in a few sentences."""
    best = trial.best
    if best is None:
        return _advice_against(trial)
    change = None if best.evidence is None else best.evidence.log_loss_difference
    if change is None:
        before, after = (value_text(trial.losses(candidate).log_loss.value, "nats") for candidate in (None, best))
        gain = f"is {after}, and {before} without a map"
    else:
        gain = f"is {-change.value:.4f} lower than without a map (95% {-change.upper:.4f} to {-change.lower:.4f})"
    rows = len(trial.data.held_out)
    text = f"Take {best.method.name}: on {rows:,} later rows its log loss {gain}, with evidence E = {_e_text(best)}."
    alike = trial.alike(best)
    if alike:
        simplest = min(alike, key=lambda candidate: candidate.method.rank)
        names = _listed([candidate.method.name for candidate in alike])
        text += f" {names} {'is' if len(alike) == 1 else 'are'} within chance of it"
        is_simpler = simplest.method.rank < best.method.rank
        text += f"; {simplest.method.name} is the simplest of them." if is_simpler else "."
    return text


def reasons_of(trial: Trial) -> list[str]:
    """Why each method that is not better is not, and what speaks for the best one."""
    reasons = []
    for candidate in trial.candidates:
        name = candidate.method.name
        if candidate.comparison is None:
            reasons.append(f"{name} was not fitted: {candidate.failure}.")
        elif candidate is trial.best and _is_local(trial):
            reasons += candidate.comparison.guard.notes
        elif candidate is trial.best:
            reasons.append(
                f"Whether it is worse among rows that are alike was not tested: name columns with {Option.FEATURE}."
            )
        elif not candidate.better:
            faults = () if candidate.comparison.guard.passed else candidate.comparison.guard.reasons
            # The guard knows of one method only.
            one, several = (f"at least {least:,.0f} is needed" for least in (MIN_E_VALUE, candidate.min_e_value))
            reason = " ".join(faults).replace(one, several) or (
                f"Not evidently better than no map: evidence {_e_text(candidate)}, and {candidate.min_e_value:,.0f} is "
                f"needed of each of {len(trial.candidates)} methods, so that chance makes none of them better."
            )
            reasons.append(f"{name}: {reason}")
    return list(dict.fromkeys(reasons))


def _head_lines(trial: Trial, name: str) -> list[str]:
    """What was compared."""
    fit, held = trial.data.fit, trial.data.held_out
    lines = [f"{plain(name)}: fitted on {len(fit):,} rows, compared on the {len(held):,} later ones"]
    if trial.timed:
        first, cut, last = (time_text(int(ms))[:16] for ms in (fit.time_ms[0], held.time_ms[0], held.time_ms[-1]))
        lines.append(f"from {first}, later ones from {cut} to {last} UTC")
    compared = next((candidate.comparison for candidate in trial.candidates if candidate.comparison is not None), None)
    verdict = None if compared is None else compared.maps.none.verdict
    if verdict is not None:
        lines.append(f"with no map, later rows show: {verdict.sentence}")
    return lines


def _legend(trial: Trial) -> list[str]:
    """What the columns are."""
    least, local = trial.candidates[0].min_e_value, _is_local(trial)
    lines = ["Below the values: 95% intervals" + (", and p of the excess." if local else ".")]
    if not trial.data.held_out.is_binary:
        lines.append("smCE is that of the most probable class.")
    if local:
        lines.append("MLCE excess: the largest error among rows that are alike, less what chance shows.")
    several = f", 20 for each of {len(trial.candidates)} methods." if len(trial.candidates) > 1 else "."
    lines.append(f"E: evidence that later rows are better predicted than with no map; {least:,.0f} is needed{several}")
    return lines


def _methods_table(trial: Trial) -> Table:
    """No map first, then the methods as they were named."""
    local = _is_local(trial)
    columns = [
        Column("method", words=True, folds=True),
        Column("log loss"),
        Column("Brier score", min_width=_BRIER_WIDTH),
        Column("smCE"),
        *([Column("MLCE excess")] if local else []),
        Column("E"),
        Column("better than no map?", words=True, folds=True),
    ]
    rows = []
    for candidate in (None, *trial.candidates):
        source = trial.shown if candidate is None else candidate
        verdict = Word("", "") if candidate is None else judge_candidate(candidate, trial.best)
        values = [Cell("-")] * (4 if local else 3)
        if source.comparison is not None:
            report = source.comparison.maps.none if candidate is None else source.comparison.maps.challenger
            losses = trial.losses(candidate)
            values = [
                _value_cell(losses.log_loss, "nats"),
                _value_cell(losses.brier, "nats"),
                _value_cell(report.measures.get("smce"), "ratio"),
            ]
            values += [_mlce_cell(report)] if local else []
        rows.append(
            row(
                Cell("no map" if candidate is None else candidate.method.name, _BEST.style if verdict is _BEST else ""),
                *values,
                "" if candidate is None else _e_text(candidate),
                verdict,
            )
        )
    return Table(columns, rows)


def _value_cell(result: LossInterval | MeasureResult | None, unit: Unit) -> Cell:
    if result is None:
        return Cell("-")
    return Cell(value_text(result.value, unit), below=interval_text(result.lower, result.upper, unit))


def _mlce_cell(report: ComparedMap) -> Cell:
    if report.local is None:
        return Cell("-")
    mlce = report.local.mlce
    return Cell(value_text(mlce.excess, "ratio"), below=f"p {p_text(mlce.p_value)}")


def _describe(candidate: Candidate) -> str:
    """What a map does."""
    return "" if candidate.map is None else f"{candidate.method.name}: {candidate.map.describe()}."


def _advice_against(trial: Trial) -> str:
    none = trial.shown.comparison
    p_value = local_p = verdict = None
    if none is not None:
        before = none.maps.none
        verdict = None if before.verdict is None else before.verdict.verdict
        p_value = before.measures["smce"].p_value if "smce" in before.measures else None
        local_p = None if before.local is None else before.local.mlce.p_value
    subject = f"{trial.candidates[0].method.name} is not" if len(trial.candidates) == 1 else "No method is"
    text = f"{subject} better than no map for certain"
    if any(judge_candidate(candidate, None) is _LOCALLY_WORSE for candidate in trial.candidates):
        return (
            f"{text}: what is better on the whole is worse among rows that are alike. "
            "Try a method that looks at features or groups: lore, group_wise_beta."
        )
    if verdict in _FAULTS:
        return (
            f"{text}, although the later rows are miscalibrated: that they are takes fewer rows to show than that one "
            f"map, fitted on others, corrects them. Leave predictions as they are for now. {_power(trial)}"
        )
    if p_value is not None and p_value > 0.05:
        if local_p is not None and local_p <= 0.05:
            tried = any(candidate.method.needs_features for candidate in trial.candidates)
            return (
                f"{text}. On the whole the later rows show no miscalibration beyond chance (smCE, p = "
                f"{p_text(p_value)}), but among rows that are alike they do (MLCE, p = {p_text(local_p)}): "
                f"{'try again with more rows' if tried else 'try lore'}."
            )
        return (
            f"{text}, and on the later rows there is no miscalibration beyond chance to correct (smCE, "
            f"p = {p_text(p_value)}): leave predictions as they are."
            + ("" if _is_local(trial) else f" Errors among rows that are alike were not tested: name {Option.FEATURE}.")
        )
    return f"{text}: leave predictions as they are, or try again with more rows. {_power(trial)}"


def _power(trial: Trial) -> str:
    """How many later rows would be enough."""
    shown, held = trial.shown, len(trial.data.held_out)
    needed = trial.rows_needed(shown)
    if needed is None:
        return (
            f"On these later rows {shown.method.name} predicts no better than no map: more rows like them would not "
            "change that."
        )
    least = f"E = {shown.min_e_value:,.0f}"
    if needed > _MAX_FACTOR * held:
        return f"At the rate of these rows {shown.method.name} needs more than {_MAX_FACTOR} times as many for {least}."
    total = _two_digits(needed * (held + len(trial.data.fit)) / held)
    return (
        f"At the rate of these {held:,} later rows, {shown.method.name} is expected to reach {least} on about "
        f"{_two_digits(needed):,} of them, or {total:,} rows in all."
    )


def _two_digits(number: float) -> int:
    """Round up to two digits: an estimate holds no more."""
    unit = 10.0 ** max(0, math.floor(math.log10(number)) - 1)
    return round(math.ceil(number / unit) * unit)


def _e_text(candidate: Candidate) -> str:
    if candidate.evidence is None:
        return "-"
    power, value = candidate.evidence.log10_e, candidate.evidence.e_value
    if power >= 6.0:
        return f"10^{power:.0f}"
    # Two digits of 99.6 would be written 1e+02.
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def _is_local(trial: Trial) -> bool:
    return trial.data.held_out.features is not None


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def print_refit(console: Console, job: Mapping[str, Any], options: str = "") -> None:
    """Print what was decided and why: before and after, segment by segment, and the guard's reasons.

    ``options`` are those that the suggested commands need to reach the same service, with a space before them.
    """
    title = f"{plain(job['model'])} {plain(job['version'])}, {plain(job['method'])} ({plain(job['id'])})"
    console.print(Text(f"{title}: ").append(plain(job["state"]), style=_STATE_STYLES.get(job["state"], "")))
    comparison = _comparison_of(job)
    if comparison is not None:
        _print_comparison(console, comparison)
    meaning = decision(job, options)
    if meaning:
        console.print(Text(meaning), soft_wrap=True)


def _comparison_of(job: Mapping[str, Any]) -> Comparison | None:
    return None if job["comparison"] is None else Comparison.of(job["comparison"])


def _print_comparison(console: Console, comparison: Comparison) -> None:
    for span, words in ((comparison.fit, "fitted on"), (comparison.held_out, "compared on")):
        console.print(Text(f"{words} {span.n:,} events, {_day(span.start)} to {_day(span.end)} UTC"))
    maps = comparison.maps.by_name()
    console.print(rich_table(_measures_table(maps), console.width))
    if comparison.segments:
        console.print(Text("Segments, worst first", style="bold"))
        table = segments_table(comparison.segments, {name: _MAPS[name] for name in maps})
        console.print(rich_table(table, console.width))
    for reason, count in comparison.segments_left_out.items():
        console.print(Text(f"left out: {count:,} segment{'' if count == 1 else 's'}, {plain(reason)}"))
    guard = comparison.guard
    console.print(Text("The guard passed it:" if guard.passed else "The guard did not pass it:", style="bold"))
    for reason in guard.reasons:
        console.print(Text(f"  - {printable(reason)}"), soft_wrap=True)
    for note in guard.notes:
        console.print(Text(f"note: {printable(note)}", style="dim"), soft_wrap=True)


def decision(job: Mapping[str, Any], options: str = "") -> str:
    """What the state of a refit means and what to do; empty for a failed one, whose reason is an error message."""
    job_id, reason = plain(job["id"]), printable(job["reason"] or "")
    match job["state"]:
        case "candidate":
            if job["links"]["promotion"] is None:
                why = reason or "what it was compared with serves no more, or its map is not kept: refit"
                return f"It cannot be promoted now: {why}"
            because = f"{reason}\n" if reason else ""
            return f"{because}Let it serve with: monitor promote {job_id}{options}"
        case "champion":
            version = f" --version {plain(job['version'])}"
            return f"It serves. Take it back with: monitor rollback {plain(job['model'])}{version}{options}"
        case "rejected":
            comparison = _comparison_of(job)
            reasons = () if comparison is None else comparison.guard.reasons
            printed = not reason or any(job["reason"] in line or line in job["reason"] for line in reasons)
            return "It is rejected, and never promoted." if printed else f"It is rejected, and never promoted: {reason}"
        case "failed":
            return ""
        case state:
            return f"It is {plain(state).replace('_', ' ')}."


def _day(time: str | None) -> str:
    return plain((time or "")[:16].replace("T", " "))


def _measures_table(maps: Mapping[str, ComparedMap]) -> Table:
    """The measures under each map."""
    columns = (
        Column("held-out events", words=True),
        *(Column(_MAPS[name]) for name in maps),
        Column("new map, 95%"),
        Column("chance"),
    )
    rows = []
    for name in _MEASURES:
        results = [report.measures.get(name) for report in maps.values()]
        if any(results):
            unit, last = MEASURES[name].unit, results[-1]
            rows.append(
                row(
                    MEASURES[name].title,
                    *(value_text(None if result is None else result.value, unit) for result in results),
                    "-" if last is None else interval_text(last.lower, last.upper, unit),
                    value_text(None if last is None else last.null_q95, unit),
                )
            )
    for name, title in _LOCAL.items():
        if any(report.local for report in maps.values()):
            errors = (getattr(report.local, name, None) for report in maps.values())
            excesses = (value_text(getattr(error, "excess", None), "ratio") for error in errors)
            rows.append(row(title, *excesses, "-", "-"))
    caption = "chance: what a perfectly calibrated model with the new map's predictions stays below in 95% of cases"
    return Table(columns, rows, caption)
