"""What came of a refit, on a terminal."""

from collections.abc import Mapping
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from monitor.measures import MEASURES
from monitor.reports.plain import plain
from monitor.reports.tables import interval_text, value_text
from monitor.reports.text import plain_line

_SHOWN: Final = ("tce", "kce", "smce", "intce", "ece", "brier", "log_loss")
_LOCAL: Final = {"mlce": "MLCE, excess", "mean_lce": "mean LCE, excess"}
_SEGMENTS: Final = 5
_SIDES: Final = {"none": "no map", "champion": "serves now", "challenger": "new map"}

STYLES: Final = {
    "candidate": "bold green",
    "champion": "bold green",
    "rejected": "bold yellow",
    "failed": "bold red",
}


def print_refit(console: Console, job: Mapping[str, Any], options: str = "") -> None:
    """Say what was decided, and what on: before and after, segment by segment, and what the guard says.

    The options are those that the commands it names need to reach the same service, with a space before them.
    """
    told = job["comparison"] or {}
    console.print(Text(f"{_title(job)}: ").append(plain(job["state"]), style=STYLES.get(job["state"], "")))
    for part, words in (("fit", "fitted on"), ("held_out", "compared on")):
        if part in told:
            span = told[part]
            console.print(Text(f"{words} {span['n']:,} events, {_day(span['from'])} to {_day(span['to'])} UTC"))
    maps = {side: each for side, each in (told.get("maps") or {}).items() if each is not None and side in _SIDES}
    if maps:
        console.print(_measures_table(maps))
    segments = told.get("segments") or []
    if segments:
        console.print(segments_table(segments[:_SEGMENTS], [side for side in _SIDES if side in maps]))
    for reason, count in (told.get("segments_left_out") or {}).items():
        console.print(Text(f"left out: {count:,} segment{'' if count == 1 else 's'}, {plain(reason)}"))
    guard = told.get("guard")
    if guard:
        console.print(Text("The guard passed it:" if guard["passed"] else "The guard did not pass it:", style="bold"))
        for reason in guard["reasons"]:
            console.print(Text(f"  - {plain_line(reason)}"), soft_wrap=True)
        for note in guard.get("notes", ()):
            console.print(Text(f"note: {plain_line(note)}", style="dim"), soft_wrap=True)
    meaning = decision(job, options)
    if meaning:
        console.print(Text(meaning), soft_wrap=True)


def decision(job: Mapping[str, Any], options: str = "") -> str:
    """What the state of a refit means, and what to do; nothing of one that failed, whose reason is an error message."""
    job_id, reason = plain(job["id"]), plain_line(job["reason"] or "")
    match job["state"]:
        case "candidate":
            if job["links"]["promotion"] is None:
                why = reason or "what it was compared with serves no more, or its map is not kept: refit"
                return f"It cannot be promoted as things stand: {why}"
            because = f"{reason}\n" if reason else ""
            return f"{because}Let it serve with: monitor promote {job_id}{options}"
        case "champion":
            return f"It serves. Take it back with: monitor rollback {plain(job['model'])}{_version(job)}{options}"
        case "rejected":
            told = (job["comparison"] or {}).get("guard") or {"reasons": ()}
            is_said = not reason or any(job["reason"] in each or each in job["reason"] for each in told["reasons"])
            return "It is rejected, and never promoted." if is_said else f"It is rejected, and never promoted: {reason}"
        case "failed":
            return ""
        case state:
            return f"It is {plain(state).replace('_', ' ')}."


def _title(job: Mapping[str, Any]) -> str:
    return f"{plain(job['model'])} {plain(job['version'])}, {plain(job['method'])} ({plain(job['id'])})"


def _version(job: Mapping[str, Any]) -> str:
    return f" --version {plain(job['version'])}"


def _day(time: str) -> str:
    return plain(time[:16].replace("T", " "))


def _measures_table(maps: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out events", no_wrap=True)
    sides = [side for side in _SIDES if side in maps]
    for side in sides:
        table.add_column(_SIDES[side], justify="right", no_wrap=True)
    table.add_column("new map, 95%", justify="right", no_wrap=True)
    table.add_column("chance", justify="right", no_wrap=True)
    table.caption = (
        "chance: what a perfectly calibrated model with the new map's predictions stays below in 95% of cases"
    )
    table.caption_justify = "left"
    for name in _SHOWN:
        results = [maps[side]["measures"].get(name) for side in sides]
        if any(results):
            unit, last = MEASURES[name].unit, results[-1] or {}
            table.add_row(
                MEASURES[name].title,
                *(value_text(None if each is None else each["value"], unit) for each in results),
                interval_text(last.get("lower"), last.get("upper"), unit),
                value_text(last.get("null_q95"), unit),
            )
    for name, title in _LOCAL.items():
        found = [(maps[side].get("local") or {}).get(name) for side in sides]
        if any(found):
            table.add_row(
                title, *(value_text(None if each is None else each["excess"], "ratio") for each in found), "-", "-"
            )
    return table


def segments_table(segments: list[Mapping[str, Any]], sides: list[str], new: str = _SIDES["challenger"]) -> Table:
    """Segments of a comparison under each map; the new one is called ``new``."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="worst segments, smCE", title_justify="left")
    table.add_column("segment")
    table.add_column("n", justify="right", no_wrap=True)
    for side in sides:
        table.add_column(new if side == "challenger" else _SIDES[side], justify="right", no_wrap=True)
    for each in segments:
        values = (value_text(None if each[side] is None else each[side]["smce"], "ratio") for side in sides)
        table.add_row(plain(each["segment"]), f"{each['n']:,}", *values)
    return table
