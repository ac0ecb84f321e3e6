"""`monitor.simulate_alarms`."""

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import monitor
import monitor.alarm_functions
from monitor.errors import InputError


def test_it_is_what_the_command_line_does_on_predictions_at_hand(tmp_path: Path) -> None:
    p = np.random.default_rng(0).beta(1.0, 6.0, 500)
    shares: list[float] = []
    options: dict[str, Any] = {"tolerance": 0.05, "budget": [2, 3], "fleet": monitor.Fleet(4), "runs": 2, "days": 2}
    with monitor.show_progress(shares.append):
        found = monitor.simulate_alarms(p, scenario=["none", "offset=1"], **options)
    assert shares == [0.25, 0.5, 0.75, 1.0]
    assert found.predictions == "drawn from 500 predictions"
    assert found.plan.shown == (0.05, 2.0)
    changed = [one.detection for one in found.results if one.scenario == "offset" and one.detector == "any"]
    assert [None if one is None else one.share for one in changed] == [1.0, 1.0]
    assert repr(found).startswith(
        "With a tolerance of 0.05 and 2 false alarms a year for 4 models: offset 1 is noticed"
    )
    assert "<table" in found._repr_html_()
    found.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8").count("<svg") == 2
    assert found.plot()._repr_png_()[:4] == b"\x89PNG"  # type: ignore[attr-defined]
    assert found.to_dict()["settled_hours"] == 25.0
    assert monitor.simulate_alarms(p, scenario=["none", "offset=1"], **options) == found
    assert len(shares) == 4


def test_the_usual_setting_is_shown() -> None:
    fleet = monitor.Fleet.of(horizon="2h")
    found = monitor.simulate_alarms(scenario="none", per_hour=500, runs=1, days=1, fleet=fleet)
    assert found.plan.shown == (0.05, 1.0)
    assert found.fleet.settled_hours == 3.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: monitor.simulate_alarms(monitor.NormalLogits(prevalence=2.0)),
            "^prevalence must be above 0 and below 1, such as 0.05 for 5%, got 2",
        ),
        (lambda: monitor.simulate_alarms(per_hour=-1.0), "^per_hour must be above 0"),
        (lambda: monitor.simulate_alarms(budget=[]), "^budget must be given at least once"),
        (lambda: monitor.simulate_alarms(scenario="slop"), "^scenario: there is no 'slop'"),
        (lambda: monitor.Fleet.of(horizon="soon"), "^horizon must be a duration such as 90s.*, got 'soon'"),
        (lambda: monitor.simulate_alarms([0.5, 2.0]), r"predictions must be in \[0, 1\]"),
    ],
)
def test_errors_name_arguments(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_the_example_is_right() -> None:
    result = doctest.testmod(monitor.alarm_functions)
    assert result.attempted
    assert not result.failed
