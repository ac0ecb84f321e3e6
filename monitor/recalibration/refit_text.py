"""A refit of a running service, on a terminal."""

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from monitor.measures import MEASURES
from monitor.recalibration.refit_view import segments_table
from monitor.reports.formatting import interval_text, plain, printable, value_text
from monitor.reports.view import Column, Table, rich_table, row

_MEASURES: Final = ("tce", "kce", "smce", "intce", "ece", "brier", "log_loss")
_LOCAL: Final = {"mlce": "MLCE, excess", "mean_lce": "mean LCE, excess"}
_MAPS: Final = {"none": "no map", "champion": "serves now", "challenger": "new map"}
_STATE_STYLES: Final = {
    "candidate": "bold green",
    "champion": "bold green",
    "rejected": "bold yellow",
    "failed": "bold red",
}


def print_refit(console: Console, job: Mapping[str, Any], options: str = "") -> None:
    """Print what was decided and why: before and after, segment by segment, and the guard's reasons.

    ``options`` are those that the suggested commands need to reach the same service, with a space before them.
    """
    comparison = job["comparison"] or {}
    title = f"{plain(job['model'])} {plain(job['version'])}, {plain(job['method'])} ({plain(job['id'])})"
    console.print(Text(f"{title}: ").append(plain(job["state"]), style=_STATE_STYLES.get(job["state"], "")))
    for part, words in (("fit", "fitted on"), ("held_out", "compared on")):
        if part in comparison:
            span = comparison[part]
            console.print(Text(f"{words} {span['n']:,} events, {_day(span['from'])} to {_day(span['to'])} UTC"))
    documents = comparison.get("maps") or {}
    maps = {name: documents[name] for name in _MAPS if documents.get(name) is not None}
    if maps:
        console.print(rich_table(_measures_table(maps), console.width))
    segments = comparison.get("segments") or []
    if segments:
        console.print(Text("Segments, worst first", style="bold"))
        console.print(rich_table(segments_table(segments, {name: _MAPS[name] for name in maps}), console.width))
    for reason, count in (comparison.get("segments_left_out") or {}).items():
        console.print(Text(f"left out: {count:,} segment{'' if count == 1 else 's'}, {plain(reason)}"))
    guard = comparison.get("guard")
    if guard:
        console.print(Text("The guard passed it:" if guard["passed"] else "The guard did not pass it:", style="bold"))
        for reason in guard["reasons"]:
            console.print(Text(f"  - {printable(reason)}"), soft_wrap=True)
        for note in guard.get("notes", ()):
            console.print(Text(f"note: {printable(note)}", style="dim"), soft_wrap=True)
    meaning = decision(job, options)
    if meaning:
        console.print(Text(meaning), soft_wrap=True)


def decision(job: Mapping[str, Any], options: str = "") -> str:
    """What the state of a refit means and what to do; empty for a failed one, whose reason is an error message."""
    job_id, reason = plain(job["id"]), printable(job["reason"] or "")
    match job["state"]:
        case "candidate":
            if job["links"]["promotion"] is None:
                why = reason or "what it was compared with serves no more, or its map is not kept: refit"
                return f"It cannot be promoted as things stand: {why}"
            because = f"{reason}\n" if reason else ""
            return f"{because}Let it serve with: monitor promote {job_id}{options}"
        case "champion":
            version = f" --version {plain(job['version'])}"
            return f"It serves. Take it back with: monitor rollback {plain(job['model'])}{version}{options}"
        case "rejected":
            guard = (job["comparison"] or {}).get("guard") or {"reasons": ()}
            printed = not reason or any(job["reason"] in line or line in job["reason"] for line in guard["reasons"])
            return "It is rejected, and never promoted." if printed else f"It is rejected, and never promoted: {reason}"
        case "failed":
            return ""
        case state:
            return f"It is {plain(state).replace('_', ' ')}."


def _day(time: str) -> str:
    return plain(time[:16].replace("T", " "))


def _measures_table(maps: Mapping[str, Any]) -> Table:
    """The measures under each map."""
    columns = (
        Column("held-out events", words=True),
        *(Column(_MAPS[name]) for name in maps),
        Column("new map, 95%"),
        Column("chance"),
    )
    rows = []
    for name in _MEASURES:
        results = [document["measures"].get(name) for document in maps.values()]
        if any(results):
            unit, last = MEASURES[name].unit, results[-1] or {}
            rows.append(
                row(
                    MEASURES[name].title,
                    *(value_text((result or {}).get("value"), unit) for result in results),
                    interval_text(last.get("lower"), last.get("upper"), unit),
                    value_text(last.get("null_q95"), unit),
                )
            )
    for name, title in _LOCAL.items():
        results = [(document.get("local") or {}).get(name) for document in maps.values()]
        if any(results):
            excesses = (value_text((result or {}).get("excess"), "ratio") for result in results)
            rows.append(row(title, *excesses, "-", "-"))
    caption = "chance: what a perfectly calibrated model with the new map's predictions stays below in 95% of cases"
    return Table(columns, rows, caption)
