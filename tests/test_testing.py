"""An assertion on predictions fails where `monitor report --fail-if` does, with the finding in words."""

import doctest
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import monitor.testing
from monitor.cli.main import run
from monitor.errors import InputError, NotEnoughData
from monitor.testing import assert_calibrated


def scores(offset: float = 0.0) -> dict[str, Any]:
    """Predictions whose logits are too low by an offset, in the region us alone."""
    rng = np.random.default_rng(1)
    z, region = rng.normal(0.0, 1.2, 4000), rng.choice(["eu", "us"], 4000)
    return {
        "prediction": expit(z),
        "outcome": (rng.random(4000) < expit(z + offset * (region == "us"))).astype(int),
        "region": region,
    }


def test_of_calibrated_predictions_the_report_comes_back() -> None:
    table = scores()
    report = assert_calibrated(table["prediction"], table["outcome"], measures="smce")
    assert report == monitor.evaluate(table["prediction"], table["outcome"], measures="smce", seed=0)
    assert assert_calibrated(table, fail_if=["verdict", "auc<0.6"], measures="smce").n == 4000


def test_of_a_fault_the_condition_and_the_finding_are_said() -> None:
    table = scores(0.6)
    with pytest.raises(AssertionError) as caught:
        assert_calibrated(table, fail_if=["verdict", "smce.lower>0.01", "auc<0.5"], measures="smce")
    lines = str(caught.value).splitlines()
    assert lines[0] == "verdict (verdict is prior_shift)"
    assert lines[1].startswith("smce.lower>0.01 (smce.lower is 0.0")
    assert lines[2].startswith("Calibration of prediction: 4,000 predictions")
    assert "prior shift. Predictions are too low: " in lines[3]
    assert_calibrated(table, measures="smce", tolerance=0.8)
    with pytest.raises(AssertionError, match=r"segments.severity>=severe \(severity of region=us is severe\)"):
        assert_calibrated(table, fail_if="segments.severity>=severe", segments=["region"], measures="smce")


@pytest.mark.parametrize(("offset", "status"), [(0.0, 0), (0.6, 3)])
def test_it_fails_where_the_command_line_does(
    offset: float, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = scores(offset)
    path = tmp_path / "scores.csv"
    np.savetxt(
        path,
        np.c_[table["prediction"], table["outcome"]],
        delimiter=",",
        header="prediction,outcome",
        comments="",
        fmt=["%.17g", "%d"],
    )
    condition = "severity>=slight"
    assert run(["report", str(path), "--measure", "smce", "--fail-if", condition]) == status
    said = capsys.readouterr().err
    if not status:
        assert_calibrated(str(path), fail_if=condition, measures="smce")
        return
    with pytest.raises(AssertionError) as caught:
        assert_calibrated(str(path), fail_if=condition, measures="smce")
    assert said == f"failed: {str(caught.value).splitlines()[0]}\n"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"draws": 0},
            NotEnoughData,
            "fail_if 'verdict' cannot be decided: there is no verdict; draws 0 leaves it out",
        ),
        ({"fail_if": "segments.verdict"}, NotEnoughData, "no segments; name their columns with segments$"),
        ({"fail_if": "dce_lower>0"}, NotEnoughData, r"name it with measures=\['dce_lower'\]"),
        ({"fail_if": "verdicts"}, InputError, "fail_if 'verdicts': there is no 'verdicts' in a report; did you mean"),
    ],
)
def test_what_cannot_be_decided_does_not_pass(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        assert_calibrated(scores(), **{"measures": "smce", **arguments})


def test_pytest_shows_the_line_of_the_test_and_the_finding(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(
        "from monitor.testing import assert_calibrated\n"
        "from tests.test_testing import scores\n"
        "def test_good(): assert_calibrated(scores(), measures='smce')\n"
        "def test_bad(): assert_calibrated(scores(0.6), measures='smce')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_model.py")],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 1 passed" in done.stdout
    assert "E   AssertionError: verdict (verdict is prior_shift)" in done.stdout
    assert "def assert_calibrated" not in done.stdout


def test_the_examples() -> None:
    result = doctest.testmod(monitor.testing, optionflags=doctest.ELLIPSIS)
    assert result.attempted == 3
    assert result.failed == 0
