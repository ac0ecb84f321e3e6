"""The demonstration on a terminal, and as plain lines where there is none."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from rich.console import Group, RenderableType
from rich.text import Text

from monitor.app.service import Service
from monitor.cli.service import USUAL_URL
from monitor.demo import MODELS, Simulator
from monitor.events.model import ALL
from monitor.reports.evaluation.report import Report
from monitor.reports.formatting import time_text, value_text
from monitor.reports.report_view import judge_report, reports_table
from monitor.stream import event_results
from monitor.stream.status import PipelineStatus
from monitor.windows.snapshot import Snapshot

_ORDER: Final = [model.name for model in MODELS]
_LINE_WINDOW: Final = "1h"


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of the demonstration."""

    url: str
    directory: Path

    def text(self) -> Text:
        """The addresses, one per line."""
        at = "" if urlsplit(self.url).port == urlsplit(USUAL_URL).port else f" --url {self.url}"
        rows = {
            "all pages": f"{self.url}/",
            "refits": f"{self.url}/recalibrations",
            "Prometheus": f"{self.url}/metrics",
            "REST, to try": f"{self.url}/docs",
            "a report": f"{self.url}/v1/models/overconfident/report?window={_LINE_WINDOW}",
            "settings, log": f"{self.directory}/",
        }
        text = Text(f"Calibration monitor: {len(MODELS)} simulated models. Ctrl-C ends it.\n", style="bold")
        for name, where in rows.items():
            text.append(f"  {name:<14}", style="dim").append(f"{where}\n", style="not bold")
        for model in MODELS:
            text.append(f"  {model.name:<14}", style="cyan").append(f"{model.story}\n", style="not bold")
        text.append("To repair two of them, two minutes from now, in another terminal:\n", style="bold")
        for arguments in ("overconfident --wait --promote", "local-error --wait"):
            text.append(f"  monitor recalibrate {arguments}{at}\n", style="not bold")
        return text


def view(service: Service, simulator: Simulator, width: int) -> RenderableType:
    """The live display: the measures of each model and window, and the results of the events."""
    whole = _whole(service.evaluator.latest)
    reports = [report for report in whole if report.n or report.predictions]
    reports.sort(key=lambda report: (_ORDER.index(report.model), report.window))
    parts: list[RenderableType] = [_time_line(simulator)]
    if reports:
        parts.append(reports_table(reports, columns=("model", "window"), width=width))
    else:
        parts.append(Text("the first windows are being filled", style="dim"))
    # One line stands for all models.
    empty = {report.window: report.insufficient for report in whole if not report.predictions}
    parts += [Text(f"{window} {reason}", style="dim") for window, reason in sorted(empty.items())]
    parts.append(_events_line(service.status))
    return Group(*parts)


def plain_line(service: Service, simulator: Simulator) -> str:
    """The same in one line."""
    models = [_one(report) for report in _in_order(service.evaluator.latest)]
    return f"{time_text(simulator.now_ms)} simulated | {' | '.join(models) or 'the first windows are being filled'}"


def final_lines(snapshot: Snapshot) -> Iterator[Text]:
    """The final verdict on each model."""
    for report in _in_order(snapshot):
        verdict = judge_report(report)
        line = Text(f"{report.model:<14} {report.window}: ")
        yield line.append(verdict.value, style=verdict.style).append(f" ({_smce(report)}, {report.n:,} predictions)")


def _whole(snapshot: Snapshot) -> list[Report]:
    return [report for key, report in snapshot.reports.items() if key.series.segment == ALL and report.model in _ORDER]


def _in_order(snapshot: Snapshot) -> list[Report]:
    reports = [report for report in _whole(snapshot) if report.window == _LINE_WINDOW]
    return sorted(reports, key=lambda report: _ORDER.index(report.model))


def _one(report: Report) -> str:
    return f"{report.model} {_smce(report)} {judge_report(report).value}"


def _smce(report: Report) -> str:
    result = report.measures.get("smce")
    if result is None:
        return "smCE -"
    return f"smCE {value_text(result.value, result.unit)} (null 95% {value_text(result.null_q95, result.unit)})"


def _time_line(simulator: Simulator) -> Text:
    text = Text(f"simulated time {time_text(simulator.now_ms)}", style="bold")
    left_ms = simulator.change_ms - simulator.now_ms
    if left_ms > 0:
        return text.append(f"   the models begin to change in {left_ms // 60_000 + 1} simulated minutes", style="dim")
    return text.append(f"   the models began to change at {time_text(simulator.change_ms)}", style="dim")


def _events_line(status: PipelineStatus) -> Text:
    counts = status.counters
    numbers = {
        "read": status.records_read,
        "predictions": counts.get((event_results.PREDICTION, event_results.ACCEPTED), 0),
        "joined": counts.get((event_results.OUTCOME, event_results.JOINED), 0),
        "corrected": counts.get((event_results.OUTCOME, event_results.CORRECTED), 0),
        "duplicates": sum(count for (_, result), count in counts.items() if result == event_results.DUPLICATE),
        "too late": counts.get((event_results.OUTCOME, event_results.AFTER_HORIZON), 0),
        "dead letters": counts.get((event_results.UNKNOWN, event_results.DEAD_LETTER), 0),
        "pending": status.unanswered,
        "lag": sum(status.lag.values()),
    }
    line = Text("events ", style="dim")
    for name, count in numbers.items():
        line.append(f" {name} ", style="dim").append(f"{count:,}")
    if status.detail:
        line.append(f"\n{status.phase.value}: {status.detail}", style="bold red")
    return line
