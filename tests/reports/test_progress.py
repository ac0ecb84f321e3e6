"""Progress: the clock goes on until the work is done, and callers in Python see it only where it takes a while."""

import re
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from monitor.reports.progress import patient_progress, stages_progress
from tests.patience import eventually


def test_the_clock_goes_on_after_a_stage_that_reached_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with stages_progress() as progress:
        progress("measuring", 1.0)
        progress("measuring region=eu", 0.2)
        time.sleep(1.3)
    # A slow machine may show a later second first.
    assert re.search(r"0:00:0[1-9]|0:0[1-9]|0:00:[1-5]\d", capsys.readouterr().err)


class Notebook:
    """What a notebook shows: IPython's display, as far as progress uses it."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.bars: list[str] = []

    def display(self, data: dict[str, str], **options: Any) -> "Notebook":
        assert options == {"raw": True, "display_id": True}
        self.update(data, raw=True)
        return self

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(data["text/plain"])
        self.bars.append(data.get("text/html", ""))


def in_notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    notebook, module = Notebook(), ModuleType("IPython")
    vars(module).update(get_ipython=lambda: SimpleNamespace(kernel=object()), display=notebook)
    monkeypatch.setitem(sys.modules, "IPython", module)
    return notebook


def test_a_notebook_shows_a_line_while_long_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = in_notebook(monkeypatch)
    monkeypatch.setattr("monitor.reports.progress._PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr("monitor.reports.progress._REFRESH_SECONDS", 0.01)
    with patient_progress() as progress:
        progress("measuring region=<b>", 0.25)
        line = re.compile(r"measuring region=<b> 25% \d:\d\d:\d\d")
        eventually(lambda: any(map(line.fullmatch, notebook.shown)), shown=lambda: notebook.shown)
    assert (notebook.shown[-1], notebook.bars[-1]) == ("", "")
    assert any('<progress max="1" value="0.250"></progress> measuring region=&lt;b&gt;' in bar for bar in notebook.bars)


def test_quick_work_shows_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = in_notebook(monkeypatch)
    with patient_progress() as progress:
        progress("measuring", 0.5)
    assert notebook.shown == []
    assert capsys.readouterr().err == ""
