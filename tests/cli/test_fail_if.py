"""`monitor report --fail-if`, --tolerance and severity on the command line."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from monitor.errors import InputError, NotEnoughData
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.evaluate import evaluate_classes
from monitor.reports.fail_if import FailCondition
from tests.cli.command import inside, one_error_line


def report(file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return inside("report", file.name, *options, cwd=file.parent)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions whose logits are too low by .3: a moderate prior shift."""
    rng = np.random.default_rng(1)
    z = rng.normal(0.0, 1.2, 4000)
    y = rng.random(z.size) < expit(z + 0.3)
    path = tmp_path_factory.mktemp("fail_if") / "scores.csv"
    np.savetxt(path, np.c_[expit(z), y], delimiter=",", header="prediction,outcome", comments="", fmt=["%.8f", "%d"])
    return path


def test_a_condition_that_holds_ends_with_three_and_says_which(file: Path) -> None:
    done = report(file, "--measure", "smce", "--fail-if", "smce>0.5", "--fail-if", "verdict")
    assert done.returncode == 3
    assert done.stderr == "failed: verdict (verdict is prior_shift)\n"
    assert "\nModerate prior shift. Predictions are too low" in done.stdout


def test_the_report_is_printed_and_written_all_the_same(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = report(file, "--measure", "smce", "--json", "--html", str(page), "--fail-if", "severity>=moderate")
    assert done.returncode == 3
    assert json.loads(done.stdout)["diagnosis"]["severity"] == "moderate"
    assert "Moderate prior shift" in page.read_text()


def test_where_none_holds_all_is_well(file: Path) -> None:
    done = report(file, "--measure", "smce", "--fail-if", "severity>=severe", "--fail-if", "auc<0.6")
    assert (done.returncode, done.stderr) == (0, "")


def test_up_to_the_tolerance_nothing_is_a_fault(file: Path) -> None:
    done = report(file, "--measure", "smce", "--tolerance", "0.45", "--fail-if", "verdict")
    assert (done.returncode, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert "Calibrated. There is an error that chance does not explain" in said
    assert "up to 0.45 is tolerated" in said
    two = report(file, "--compare", str(file), "--measure", "smce", "--tolerance", "0.45", "--json")
    assert [json.loads(two.stdout)[each]["diagnosis"]["tolerance"] for each in ("first", "second")] == [0.45, 0.45]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be like verdict, severity>=moderate or smce>0.02, got ''"),
        ("smce > ", "must be like verdict"),
        ("smce >> 1", "must be like verdict"),
        ("smce=>0.1", "must be like verdict"),
        ("smce", "say how smce is compared, such as smce>0.1"),
        ("severity", "say how severity is compared, such as severity>=moderate"),
        ("smc>0.1", "there is no 'smc' in a report; did you mean smce?"),
        ("smce>high", "smce is compared with a number, got 'high'"),
        ("severity>=bad", "severity is one of none, slight, moderate, severe, got 'bad'"),
        ("verdict==shape", "verdict is one of calibrated, prior_shift, shape_miscalibration, both"),
        ("verdict>=both", "a verdict is compared by == and != alone"),
        ("smce.middle>0", "only a measure has fields (value, lower, upper, null_mean"),
        ("offset.lower>0", "only a measure has fields"),
    ],
)
def test_what_is_no_condition_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        FailCondition.parse(text)
    assert message in str(refused.value)
    assert "--fail-if" in str(refused.value)


def test_a_wrong_condition_is_bad_use(file: Path) -> None:
    done = report(file, "--fail-if", "smce>>1")
    assert done.returncode == 2
    one_error_line(done)
    both = report(file, "--fail-if", "verdict", "--compare", str(file))
    assert both.returncode == 2
    assert "leave --compare out" in both.stderr


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("verdict", "verdict (verdict is prior_shift)"),
        ("verdict == prior_shift", "verdict == prior_shift (verdict is prior_shift)"),
        ("verdict!=prior_shift", None),
        ("severity>=slight", "severity>=slight (severity is moderate)"),
        ("severity > moderate", None),
        ("severity==moderate", "severity==moderate (severity is moderate)"),
        ("n<=400", "n<=400 (n is 400)"),
        ("offset<-0.1", None),
        ("offset>-1e-3", "offset>-1e-3 (offset is 0.2)"),
        ("p_value<=.01", "p_value<=.01 (p_value is 0.001)"),
        ("tce>=12.5", "tce>=12.5 (tce is 12.5)"),
        ("tce.lower>12.5", None),
        ("tce.upper>=20", "tce.upper>=20 (tce.upper is 20)"),
        ("auc<0.7", "auc<0.7 (auc is 0.65)"),
        ("log_loss>0.4", "log_loss>0.4 (log_loss is 0.5)"),
        ("prevalence<0.2", "prevalence<0.2 (prevalence is 0.1)"),
    ],
)
def test_conditions_are_of_the_report_as_it_is_in_json(text: str, failure: str | None) -> None:
    document = {
        "n": 400,
        "prevalence": 0.1,
        "insufficient": None,
        "omitted": {},
        "measures": {"tce": {"value": 12.5, "lower": 3.0, "upper": 20.0}},
        "diagnosis": {"verdict": "prior_shift", "severity": "moderate", "offset": 0.2, "p_value": 0.001},
        "performance": {"accuracy": 0.8, "auc": 0.65, "average_precision": 0.4, "log_loss": 0.5},
    }
    assert FailCondition.parse(text).failure(document) == failure


@pytest.fixture(scope="module")
def segmented(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calibrated predictions in three regions, and in a fourth logits that are too low by 1."""
    rng = np.random.default_rng(2)
    z, region = rng.normal(-1.0, 1.2, 12_000), rng.integers(4, size=12_000)
    y = rng.random(z.size) < expit(z + np.where(region == 3, 1.0, 0.0))
    path = tmp_path_factory.mktemp("segmented") / "scores.csv"
    rows = (f"{p:.8f},{int(one)},r{at}" for p, one, at in zip(expit(z), y, region, strict=True))
    path.write_text("\n".join(["prediction,outcome,region", *rows]) + "\n")
    return path


def test_the_worst_segment_is_named_first_and_fails_a_pipeline(segmented: Path) -> None:
    options = ["--measure", "smce", "--segment", "region"]
    conditions = ["severity>=severe", "segments.severity>=severe", "segments.smce.lower>0.9", "segments.verdict"]
    done = report(segmented, *options, *(f"--fail-if={one}" for one in conditions))
    said = " ".join(done.stdout.split())
    assert "Worse for region=r3: severe prior shift, 31.5% predicted, 51.3% came true." in said
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "failed: segments.severity>=severe (severity of region=r3 is severe)",
        "failed: segments.verdict (verdict of region=r3 is prior_shift)",
    ]


def test_where_the_whole_is_as_bad_no_segment_is_named_before_it(file: Path, segmented: Path) -> None:
    assert "Worse for" not in report(file, "--measure", "smce").stdout
    undecided = report(segmented, "--measure", "smce", "--fail-if", "segments.severity>=severe")
    assert undecided.returncode == 1
    assert "the report has no segments; name their columns with --segment" in undecided.stderr


def test_what_cannot_be_decided_does_not_pass() -> None:
    few = evaluate([0.2] * 40, [0, 1] * 20, measures="smce", draws=19).to_dict()
    for text in ("verdict", "severity>=slight", "offset>1"):
        with pytest.raises(NotEnoughData, match=r"cannot be decided: Too little data to tell: only 40 of at least 50"):
            FailCondition.parse(text).failure(few)
    assert FailCondition.parse("verdict==insufficient_data").failure(few) is not None
    assert FailCondition.parse("smce>0.9").failure(few) is None
    with pytest.raises(NotEnoughData, match=r"the report does not have it; name it with --measure mce"):
        FailCondition.parse("mce>0.1").failure(few)
    with pytest.raises(NotEnoughData, match=r"--draws 0 leaves it out"):
        FailCondition.parse("verdict").failure(evaluate([0.2] * 60, [0, 1] * 30, draws=0).to_dict())
    weighted = evaluate([0.2] * 60, [0, 1] * 30, weight=[1.0, 2.0] * 30, measures=("tce", "smce"), draws=0).to_dict()
    with pytest.raises(NotEnoughData, match=r"'tce>1' cannot be decided: needs whole counts, not weights"):
        FailCondition.parse("tce>1").failure(weighted)


def test_a_gate_that_cannot_be_decided_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("prediction,outcome\n" + "0.2,0\n0.7,1\n" * 20)
    done = inside("report", "few.csv", "--measure", "smce", "--fail-if", "verdict", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot be decided: Too little data to tell" in done.stderr


def test_of_many_classes_the_verdict_is_of_the_most_probable_one() -> None:
    rng = np.random.default_rng(2)
    p = rng.dirichlet([1.0, 1.0, 1.0], 400)
    found = evaluate_classes(p, rng.integers(0, 3, 400), draws=19, each_class=()).to_dict()
    assert FailCondition.parse("verdict").failure(found) is not None
    assert FailCondition.parse("accuracy<0.5").failure(found) is not None
    assert FailCondition.parse("prevalence<0.5").failure(found) is not None
    assert FailCondition.parse("skce>0.0001").failure(found) is not None
    assert FailCondition.parse("smce>0.05").failure(found) is not None
