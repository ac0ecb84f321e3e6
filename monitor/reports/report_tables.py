"""Segments, and two reports side by side, as tables for people."""

from collections.abc import Collection, Sequence
from operator import attrgetter

from rich import box
from rich.table import Table
from rich.text import Text

from monitor.measures import MEASURES
from monitor.reports.evaluation.compare import Comparison
from monitor.reports.evaluation.diagnosis import offset_interval, slope_interval
from monitor.reports.evaluation.difference import Difference
from monitor.reports.evaluation.files import SearchReport
from monitor.reports.evaluation.report import MeasureResult, Verdict
from monitor.reports.evaluation.segments import SegmentReport
from monitor.reports.plain import plain
from monitor.reports.tables import ROOMY, interval_text, p_text, share_text, value_text
from monitor.reports.verdict import BEYOND_CHANCE, WITHIN_CHANCE, Word, of_report

_UNKNOWN = Word("too little data", "dim")
_FAULTS = 132
"""Characters from which on a comparison has offsets and slopes with their intervals."""
_SMALL = 5
"""Groups of too little data that are listed; a column of many values has dozens."""
_NAMED = 8
"""Columns that a sentence lists at most."""
_BETTER = Word("better", "green")
_WORSE = Word("worse", "bold red")
_ALIKE = Word("not certain", "dim")
_LOWER = Word("lower", "")
_HIGHER = Word("higher", "")


def of_segment(segment: SegmentReport) -> Word:
    """The verdict on a group, given how many were looked at."""
    if segment.q_value is None:
        return _UNKNOWN
    if not segment.real:
        return WITHIN_CHANCE
    diagnosis = segment.report.diagnosis
    # Certain, and too small to matter.
    small = diagnosis is not None and diagnosis.verdict in {Verdict.CALIBRATED, Verdict.INSUFFICIENT}
    return BEYOND_CHANCE if small or diagnosis is None else of_report(segment.report)


def of_difference(difference: Difference, *, comparable: bool = True) -> Word:
    """Whether the second is better by one measure; or has the lower value alone, where that says nothing better."""
    if not difference.certain:
        return _ALIKE
    if not comparable:
        return _LOWER if difference.difference < 0.0 else _HIGHER
    return _BETTER if difference.difference < 0.0 else _WORSE


def short_texts(result: MeasureResult) -> tuple[str, str, str]:
    """A measure, its interval, and what chance gives."""
    unit = result.unit
    return (
        value_text(result.value, unit),
        interval_text(result.lower, result.upper, unit),
        value_text(result.null_q95, unit),
    )


def leading_of(segments: Sequence[SegmentReport]) -> str:
    """The measure that a table of segments shows: smCE, or the first there is."""
    names = dict.fromkeys(name for each in segments for name in each.report.measures)
    return "smce" if "smce" in names or not names else next(iter(names))


def segment_text(segment: SegmentReport) -> str:
    """The verdict on a group, with the reason where there is none."""
    reason = segment.report.insufficient
    return of_segment(segment).value if reason is None or segment.q_value is not None else f"{_UNKNOWN.value}: {reason}"


def segments_table(segments: Sequence[SegmentReport], width: int, title: str = "segments, worst first") -> Table:
    """Groups, worst first, in a terminal of so many characters."""
    name, roomy = leading_of(segments), width >= ROOMY
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.title, table.title_justify, table.title_style = title, "left", "bold"
    table.add_column("segment", overflow="fold")
    shares = ("prevalence", "mean p") if roomy else ()
    for heading in ("n", *shares, MEASURES[name].title, "95% interval", *(("chance", "p") if roomy else ()), "q"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    judged = [each for each in segments if each.q_value is not None]
    small = [each for each in segments if each.q_value is None]
    if len(small) > _SMALL:
        table.caption = f"and {len(small) - _SMALL} more of too little data, which --json lists"
        table.caption_justify = "left"
    for each in (*judged, *small[:_SMALL]):
        report = each.report
        result = report.measures.get(name)
        value, interval, chance = ("-", "-", "-") if result is None else short_texts(result)
        table.add_row(
            plain(report.segment),
            f"{report.n:,}",
            *((share_text(report.prevalence), share_text(report.mean_prediction)) if roomy else ()),
            value,
            interval,
            *((chance, p_text(each.p_value)) if roomy else ()),
            p_text(each.q_value),
            Text(segment_text(each), style=of_segment(each).style),
        )
    return table


def segments_sentence(segments: Sequence[SegmentReport]) -> str:
    """Which of the groups are really miscalibrated."""
    tested = [each for each in segments if each.q_value is not None]
    real = [each for each in tested if each.real]
    if not tested and any(each.report.measures for each in segments):
        return "Segments are not judged: without draws there are no verdicts."
    if not tested:
        return f"None of {len(segments)} segments holds enough outcomes to be judged."
    left = len(segments) - len(tested)
    small = f" {left} {'holds' if left == 1 else 'hold'} too little data to be judged." if left else ""
    if not real:
        return (
            f"No segment is miscalibrated beyond what looking at {len(tested)} of them gives by chance (q > 0.05)."
            f"{small}"
        )
    # The name of a segment of two columns has a comma in it.
    named = "; ".join(plain(each.report.segment) for each in real[:5]) + ("; ..." if len(real) > 5 else "")
    be = "is" if len(real) == 1 else "are"
    return (
        f"{len(real)} of {len(tested)} segments {be} miscalibrated (q <= 0.05: at most one in twenty of those named so "
        f"is by chance): {named}.{small}"
    )


def search_sentences(search: SearchReport) -> list[str]:
    """What a search for segments came to."""
    columns = ", ".join(map(plain, search.columns[:_NAMED])) + (", ..." if len(search.columns) > _NAMED else "")
    groups = f"{search.groups:,} group{'' if search.groups == 1 else 's'} of one and two columns ({columns})"
    if not search.groups:
        return [f"No segment could be looked for: no column has groups of enough outcomes ({columns or 'none'})."]
    lines = []
    if search.segments:
        named = "; ".join(plain(each.report.segment) for each in search.segments[:5])
        more = "; ..." if len(search.segments) > 5 else ""
        be = "is" if len(search.segments) == 1 else "are"
        lines.append(
            f"Of {groups}, {len(search.segments)} {be} off in a way of {'its' if be == 'is' else 'their'} own, beyond "
            f"what is wrong with the whole and with each other (q <= 0.05: where nothing is wrong, one search in "
            f"twenty names a group): {named}{more}."
        )
    else:
        lines.append(
            f"None of {groups} is off in a way of its own, beyond what is wrong with the whole and what looking at so "
            "many gives by chance (q > 0.05)."
        )
    if search.closest is not None:
        lines.append(f"Next would be {plain(search.closest[0])} (q = {p_text(search.closest[1])}).")
    return lines


def differences_table(found: Comparison, width: int, shown: Collection[str] | None = None) -> Table:
    """The measures of two reports, or those of these names, a row each, in a terminal of so many characters."""
    roomy = width >= ROOMY
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    first, second = plain(found.first.model), plain(found.second.model)
    table.add_column("measure", no_wrap=True)
    for name in (first, second):
        table.add_column(name, justify="right", overflow="fold")
    for heading in ("difference", "95% interval", "p") if roomy else ("95% of difference",):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(f"{second} is", overflow="fold")
    for name, each in found.differences.items():
        if shown is not None and name not in shown:
            continue
        verdict = of_difference(each, comparable=not found.cautions)
        interval = interval_text(each.lower, each.upper, each.unit)
        table.add_row(
            MEASURES[name].title,
            value_text(each.first, each.unit),
            value_text(each.second, each.unit),
            *((value_text(each.difference, each.unit), interval, p_text(each.p_value)) if roomy else (interval,)),
            Text(verdict.value, style=verdict.style),
        )
    if width >= _FAULTS:
        for name, of_first, of_second in fault_rows(found):
            table.add_row(name, of_first, of_second)
    return table


def fault_rows(found: Comparison) -> list[tuple[str, str, str]]:
    """What compares models of any prevalences: offset and slope of the logits, each with its 95% interval."""
    first, second = found.first.diagnosis, found.second.diagnosis
    if first is None or second is None:
        return []
    rows = [
        (name, _fault_text(value(first), interval(first)), _fault_text(value(second), interval(second)))
        for name, value, interval in (
            ("offset of the logits", attrgetter("offset"), offset_interval),
            ("slope of the logits", attrgetter("slope"), slope_interval),
        )
    ]
    return [row for row in rows if row[1:] != ("-", "-")]


def _fault_text(value: float | None, interval: tuple[float, float] | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if interval is None else f"{value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"


def comparison_sentence(found: Comparison) -> str:
    """Which of the two is better calibrated, by the measure that a table of many reports would show."""
    if not found.differences:
        return "The two cannot be compared: there is too little data."
    name = "smce" if "smce" in found.differences else next(iter(found.differences))
    each, title = found.differences[name], MEASURES[name].title
    first, second = plain(found.first.model), plain(found.second.model)
    one, two = value_text(each.first, each.unit), value_text(each.second, each.unit)
    if each.lower is None or each.upper is None:
        return f"{title} is {one} for {first} and {two} for {second}; how certain that is was not asked for."
    if not each.certain:
        return (
            f"Neither is better calibrated for certain: {title} of {second} less that of {first} is "
            f"{value_text(each.difference, each.unit)} (95% {interval_text(each.lower, each.upper, each.unit)})."
        )
    better, worse = (second, first) if each.difference < 0.0 else (first, second)
    low, high = sorted((abs(each.lower), abs(each.upper)))
    if found.cautions:
        return (
            f"{title} of {better} is lower than that of {worse} by {value_text(abs(each.difference), each.unit)} (95% "
            f"{interval_text(low, high, each.unit)}), which of different prevalences does not say which is better "
            "calibrated."
        )
    return (
        f"{better} is better calibrated than {worse}: {title} is lower by "
        f"{value_text(abs(each.difference), each.unit)} (95% {interval_text(low, high, each.unit)})."
    )
