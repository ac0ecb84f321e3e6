"""Is it the prior or the model?"""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

from monitor.inference import coarsen
from monitor.inference.calibration_tests import calibration_test
from monitor.inference.cox import fit_cox
from monitor.inference.power import detectable_faults
from monitor.inference.prevalence import LEVEL, prior_shift
from monitor.measures import MEASURES, corp_decomposition, smce
from monitor.options import TOLERANCE
from monitor.reports.evaluation.diagnosis import WEAK, diagnose
from monitor.reports.evaluation.evaluate import evaluate_binary as evaluate
from monitor.reports.evaluation.report import Diagnosis, Report, Severity, Verdict
from monitor.scores import GridTable, ScoreTable
from tests.long import longer, short_rows

Floats = NDArray[np.float64]
FEW, CHECK = "of a calibrated model, so few", "Check where the outcomes come from."
NO_RETRAINING = "the model need not be retrained"
SMCE = {"smce": MEASURES["smce"]}


def simulated(
    seed: int, n: int, *, slope: float = 1.0, offset: float = 0.0, mean: float = 0.0
) -> tuple[Floats, Floats]:
    """Predictions p, and outcomes whose logits are slope * logit p + offset."""
    rng = np.random.default_rng(seed)
    z = rng.normal(mean, 1.2, n)
    return expit(z), (rng.random(n) < expit(slope * z + offset)).astype(np.float64)


def found(seed: int, n: int, **of: float) -> Diagnosis:
    return diagnose(GridTable.from_events(*simulated(seed, n, **of)).to_scores(), draws=199)


def with_bumps(seed: int, n: int, size: float) -> ScoreTable:
    """Logits that are too low in some quarters of the predictions and too high in the others, with no slope."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.2, n)
    ranks = np.argsort(np.argsort(z)) / n
    y = rng.random(n) < expit(z + size * np.sign(np.cos(4.0 * math.pi * ranks)))
    return GridTable.from_events(expit(z), y).to_scores()


@pytest.mark.parametrize(
    ("of", "verdict"),
    [
        ({}, Verdict.CALIBRATED),
        ({"mean": -4.0}, Verdict.CALIBRATED),
        ({"offset": 0.5}, Verdict.PRIOR_SHIFT),
        ({"offset": -0.7, "mean": -3.0}, Verdict.PRIOR_SHIFT),
        ({"slope": 1.4}, Verdict.SHAPE),
        ({"slope": 0.7}, Verdict.SHAPE),
        ({"slope": 0.6, "offset": 0.6}, Verdict.BOTH),
        ({"slope": 1.5, "mean": -2.0}, Verdict.BOTH),  # far from logit 0, a slope moves the mean too
    ],
)
def test_each_fault_has_its_verdict(of: dict[str, float], verdict: Verdict) -> None:
    verdicts = [found(seed, 8000, **of).verdict for seed in range(25)]
    # By chance one in a hundred may be taken for another.
    assert verdicts.count(verdict) >= 24


@pytest.mark.longer
def test_a_calibrated_model_is_seldom_called_anything_else() -> None:
    """Each number of events and each prevalence; the level is .01."""
    for n, mean in ((2000, -3.0), (300, 0.0))[: longer(1, 2)]:
        verdicts = [found(seed, n, mean=mean).verdict for seed in range(200)]
        assert sum(verdict not in {Verdict.CALIBRATED, Verdict.INSUFFICIENT} for verdict in verdicts) / 200 <= 0.04


def test_a_certain_error_too_small_to_matter_is_no_fault() -> None:
    tiny = found(1, 2_000_000, offset=0.6 * TOLERANCE)
    assert tiny.p_value is not None
    assert tiny.p_value < 1e-9
    assert tiny.verdict is Verdict.CALIBRATED
    assert "too small to matter" in tiny.sentence
    assert found(1, 2_000_000, offset=1.6 * TOLERANCE).verdict is Verdict.PRIOR_SHIFT
    assert found(1, 2_000_000, slope=1.0 + 0.5 * TOLERANCE).verdict is Verdict.CALIBRATED
    assert found(1, 2_000_000, slope=1.0 + 2.0 * TOLERANCE).verdict is Verdict.SHAPE


def test_a_fault_with_neither_offset_nor_slope_is_one_of_shape() -> None:
    bumps = diagnose(with_bumps(2, 8000, 0.5), draws=199)
    assert bumps.verdict is Verdict.SHAPE
    assert bumps.slope == pytest.approx(1.0, abs=0.1)
    assert bumps.logit_error_after_offset == pytest.approx(0.45, abs=0.15)
    assert "too high in parts of their range and too low in others" in bumps.sentence


def test_the_numbers_are_those_of_the_tests() -> None:
    table = GridTable.from_events(*simulated(3, 4000, slope=1.3, offset=0.4)).to_scores()
    diagnosis = diagnose(table, draws=199)
    fit, shift = fit_cox(table), prior_shift(table)
    assert (diagnosis.offset, diagnosis.offset_error) == (fit.offset, fit.offset_error)
    assert (diagnosis.slope, diagnosis.slope_error) == (fit.slope, fit.slope_error)
    assert diagnosis.p_value == calibration_test(table).p_value
    assert diagnosis.prior_shift_p_value == shift.p_value
    assert diagnosis.error == smce(table)
    assert diagnosis.error_after_offset == shift.error_after_offset
    assert diagnosis.logit_error_after_offset == shift.logit_error_after_offset
    assert diagnosis.offset_interval == pytest.approx(
        (fit.offset - 1.96 * fit.offset_error, fit.offset + 1.96 * fit.offset_error)
    )
    assert diagnosis == diagnose(table, draws=199)


def test_of_many_predictions_it_is_that_of_their_cells() -> None:
    table = ScoreTable.from_events(*simulated(4, 20_000, slope=0.9))
    assert diagnose(table, draws=99) == diagnose(coarsen(table), draws=99)


@pytest.mark.parametrize(
    ("p", "y", "reason", "told"),
    [
        ([0.5] * 49, [0, 1] * 24 + [0], "only 49 of at least 50 predictions have an outcome", ""),
        (
            [0.02] * 200,
            [1] * 4 + [0] * 196,
            "only 4 positives: at least 5 are needed",
            f" 2% predicted, 2% came true; {FEW} positives have the probability 0.63.",
        ),
        (
            [0.5] * 200,
            [0] + [1] * 199,
            "only 1 negative: at least 5 are needed",
            f" 50% predicted, 99.5% came true; {FEW} negatives have the probability 1.3e-58. {CHECK}",
        ),
        (
            [0.5] * 400,
            [1] * 400,
            "no negatives: at least 5 are needed",
            f" 50% predicted, 100% came true; {FEW} negatives have the probability 3.9e-121. {CHECK}",
        ),
    ],
)
def test_too_little_is_said_and_values_remain(p: list[float], y: list[int], reason: str, told: str) -> None:
    report = evaluate(p, y, measures=SMCE)
    assert report.insufficient is None
    assert set(report.measures) == {"smce"}
    assert report.diagnosis == Diagnosis(Verdict.INSUFFICIENT, f"Too little data to tell: {reason}.{told}")


def test_too_little_for_any_measure_is_too_little_for_a_verdict() -> None:
    for draws in (0, 19):
        report = evaluate([0.3], [1], draws=draws)
        assert report.insufficient is not None
        assert report.diagnosis == Diagnosis(Verdict.INSUFFICIENT, f"Too little data to tell: {report.insufficient}.")
        assert report.decomposition == {}


def test_just_enough_is_judged() -> None:
    p = np.linspace(0.05, 0.95, 50)
    report = evaluate(p, (p > 0.9) | (np.arange(50) < 2), measures=SMCE)
    assert report.positives == 5
    assert report.diagnosis is not None
    assert report.diagnosis.verdict is not Verdict.INSUFFICIENT
    assert "With only 5 positives, read intervals of TCE" in report.diagnosis.sentence
    enough = evaluate(p, (p > 0.5) | (np.arange(50) < 2), measures=SMCE)
    assert enough.diagnosis is not None
    assert "With only" not in enough.diagnosis.sentence


def test_weights_count_by_what_they_are_worth() -> None:
    p, y = simulated(5, 3000, offset=0.8)
    rng = np.random.default_rng(6)
    report = evaluate(p, y, weight=rng.exponential(1.0, p.size), measures=SMCE)
    assert report.diagnosis is not None
    assert report.diagnosis.verdict is Verdict.PRIOR_SHIFT
    # A thousand times the weight is no more evidence, and one event that outweighs all others is hardly more than one.
    once, often = (evaluate(p[:60], y[:60], weight=np.full(60, w), measures=SMCE).diagnosis for w in (1.0, 1000.0))
    assert once is not None
    assert often is not None
    assert often.verdict is once.verdict
    assert (often.offset_error, often.slope_error, often.logit_error_after_offset) == pytest.approx(
        (once.offset_error, once.slope_error, once.logit_error_after_offset)
    )
    lopsided = evaluate(p, y, weight=np.where(np.arange(p.size) == 0, 1e6, 1.0), measures=SMCE)
    assert lopsided.diagnosis is not None
    assert lopsided.diagnosis.verdict is Verdict.INSUFFICIENT


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ({"offset": -0.5, "mean": -2.0}, ["too high: ", "% predicted, ", "% came true", "Add -0.", "be excluded"]),
        ({"offset": 0.5}, ["too low: ", "Add +0.", "multiplies the odds by 1."]),
        ({"slope": 0.7}, ["too sure of themselves", "slope of the logits 0.", "recalibrate on recent data"]),
        ({"slope": 1.4}, ["not sure enough of themselves", "slope of the logits 1."]),
        ({"slope": 0.6, "offset": 0.6}, ["too low (", "too sure", "takes smCE from 0.", "retrain the model"]),
        ({}, ["No evidence of miscalibration (p = 0.", "With this many events, an offset of the logits of 0.", "0.8."]),
    ],
)
def test_the_sentence_says_what_by_how_much_and_what_to_do(of: dict[str, float], said: list[str]) -> None:
    sentence = found(8, 6000, **of).sentence
    for part in said:
        assert part in sentence
    assert sentence.endswith(".")
    assert len(sentence) < 400


def test_predictions_that_part_the_outcomes_are_not_sure_enough() -> None:
    p = np.r_[np.linspace(0.3, 0.45, 100), np.linspace(0.55, 0.7, 100)]
    diagnosis = diagnose(ScoreTable.from_events(p, p > 0.5), draws=99)
    assert diagnosis.verdict is Verdict.SHAPE
    assert diagnosis.slope is diagnosis.slope_error is None
    assert diagnosis.slope_interval is None
    assert "they part the outcomes perfectly" in diagnosis.sentence


def test_equal_predictions_have_no_shape() -> None:
    diagnosis = diagnose(ScoreTable.from_events([0.2] * 500, [1] * 200 + [0] * 300), draws=99)
    assert diagnosis.verdict is Verdict.PRIOR_SHIFT
    assert diagnosis.slope is None
    assert diagnosis.offset == pytest.approx(math.log(0.4 / 0.6) - math.log(0.2 / 0.8))


def test_evidence_of_neither_alone_is_put_down_to_the_likelier() -> None:
    """Some window whose tests together are sure, and neither of its parts."""
    for seed in range(400):
        table = GridTable.from_events(*simulated(seed, 400, slope=0.8, offset=0.15)).to_scores()
        fit, shift, p_value = fit_cox(table), prior_shift(table), calibration_test(table).p_value
        if p_value <= LEVEL < min(fit.offset_p_value, shift.p_value):
            break
    likelier = Verdict.PRIOR_SHIFT if fit.offset_p_value < shift.p_value else Verdict.SHAPE
    assert p_value <= LEVEL < min(fit.offset_p_value, shift.p_value)
    assert diagnose(table, draws=199).verdict is likelier


def test_scores_come_in_parts_where_they_are_finite() -> None:
    p, y = simulated(9, 2000)
    report = evaluate(p, y, measures=SMCE, draws=0)
    table = ScoreTable.from_events(p, y)
    assert report.decomposition == {score: corp_decomposition(table, score) for score in ("brier", "log_loss")}
    assert report.diagnosis is None
    told = report.to_dict()["decomposition"]["brier"]
    assert told == {
        part: getattr(report.decomposition["brier"], part)
        for part in ("miscalibration", "discrimination", "uncertainty")
    }
    assert set(evaluate([0.0, 0.5], [1, 1], draws=0).decomposition) == {"brier"}


def test_an_error_bound_that_bounds_nothing_is_null_in_json() -> None:
    report = evaluate(*simulated(1, 50), measures=SMCE, draws=0)
    unbounded = {"smce": replace(report.measures["smce"], error_bound=math.inf)}
    measures = Report.to_dict(replace(report, measures=unbounded))["measures"]
    assert measures["smce"]["error_bound"] is None


def test_a_boosted_model_that_is_too_sure_needs_more_than_an_offset() -> None:
    features, outcome = load_breast_cancer(return_X_y=True)
    model = GradientBoostingClassifier(random_state=0)
    p = cross_val_predict(model, features, outcome, cv=5, method="predict_proba")[:, 1]
    diagnosis = diagnose(ScoreTable.from_events(p, outcome), draws=199)
    assert diagnosis.verdict is Verdict.SHAPE
    assert diagnosis.slope is not None
    assert diagnosis.slope < 0.8
    assert diagnosis.logit_error_after_offset is not None
    assert diagnosis.logit_error_after_offset > 0.5
    assert "too sure of themselves" in diagnosis.sentence
    assert NO_RETRAINING not in diagnosis.sentence


@pytest.mark.parametrize(("surest", "events"), [(0.0, 500), (1.0, 500), (1e-6, 5000)])
def test_outcomes_that_were_as_good_as_excluded_are_seen(surest: float, events: int) -> None:
    for seed in range(10):
        p, y = simulated(seed, 5000)
        right = np.full(events, round(surest))
        wrong = np.where(np.arange(events) < 3, 1 - right, right)
        calibrated, contradicted = (
            diagnose(ScoreTable.from_events(np.r_[np.full(events, surest), p], np.r_[of, y]), draws=199)
            for of in (right, wrong)
        )
        assert calibrated.verdict is Verdict.CALIBRATED
        assert contradicted.verdict is Verdict.SHAPE
        assert "too sure" in contradicted.sentence
        if "slope" not in contradicted.sentence:
            said = "high end: 3 failed to come true where" if surest == 1.0 else "low end: 3 came true where"
            assert said in contradicted.sentence


def test_contradicted_predictions_of_exactly_0_and_1_are_named_whatever_the_verdict() -> None:
    p, y = simulated(1, 5000)
    exclude = "which such predictions exclude: let the model say neither 0 nor 1 exactly."
    high = "1 of 4 predictions of exactly 1 came out negative"

    def with_certain(surest: list[float], outcome: list[int], p: Floats = p, y: Floats = y) -> str:
        exact = ScoreTable.from_events(np.r_[surest, p], np.r_[outcome, y])
        of_cells = GridTable.from_events(np.r_[surest, p], np.r_[outcome, y]).to_scores()
        (sentence, same) = (diagnose(table, draws=99).sentence for table in (exact, of_cells))
        assert (exclude in sentence) == (exclude in same)
        return sentence

    assert f"{high}, {exclude}" in with_certain([1.0] * 4, [1, 1, 0, 1])
    assert f"2 of 2 predictions of exactly 0 came out positive and {high}, {exclude}" in with_certain(
        [0.0] * 2 + [1.0] * 4, [1, 1, 1, 1, 0, 1]
    )
    for surest, outcome in (([0.0] * 3 + [1.0] * 3, [0] * 3 + [1] * 3), ([1.0 - 1e-9] * 9, [0] + [1] * 8)):
        assert exclude not in with_certain(surest, outcome)
    # One among a million such is no evidence, if each stands for as little as the rounding of a float.
    many = with_certain([1.0] * 1_000_000, [0] + [1] * 999_999)
    assert many.startswith("No evidence of miscalibration")
    assert f"1 of 1,000,000 predictions of exactly 1 came out negative, {exclude}" in many
    few = with_certain([1.0] * 4, [1, 1, 0, 1], p[:20], y[:20])
    assert few.startswith("Too little data")
    assert f"{high}, {exclude}" in few
    weighted = diagnose(
        ScoreTable.from_events(np.r_[[1.0] * 4, p], np.r_[[1, 1, 0, 1], y], np.full(5004, 0.3)), draws=99
    )
    assert f"25% of predictions of exactly 1 came out negative, {exclude}" in weighted.sentence


def test_nothing_is_to_be_done_is_not_said_where_certainty_was_contradicted() -> None:
    p, y = simulated(1, 2_000_000, offset=0.6 * TOLERANCE)
    for wrong, said in ((0, True), (1, False)):
        outcome = np.r_[np.ones(100 - wrong), np.zeros(wrong), y]
        diagnosis = diagnose(GridTable.from_events(np.r_[np.ones(100), p], outcome).to_scores(), draws=99)
        assert diagnosis.verdict is Verdict.CALIBRATED
        assert ("Nothing is to be done." in diagnosis.sentence) == said


@pytest.mark.parametrize(
    ("p", "rate", "verdict"),
    [
        (0.3, 0.3, Verdict.CALIBRATED),
        (0.3, 0.4, Verdict.PRIOR_SHIFT),
        (0.01, 0.01, Verdict.CALIBRATED),
        (0.01, 0.04, Verdict.PRIOR_SHIFT),
    ],
)
def test_equal_predictions_are_right_or_off_by_an_offset(p: float, rate: float, verdict: Verdict) -> None:
    verdicts = []
    for seed in range(100):
        y = np.random.default_rng(seed).random(2000) < rate
        verdicts.append(diagnose(ScoreTable.from_events(np.full(y.size, p), y), draws=199).verdict)
    assert verdicts.count(verdict) >= 96


def test_unequal_weights_are_refused_only_where_they_are_worth_too_little() -> None:
    """Kish's number of equal weights decides, not its square."""
    rng = np.random.default_rng(7)
    verdicts = []
    for seed in range(20):
        p, y = simulated(seed, 2000, offset=0.8)
        weight = rng.lognormal(0.0, 1.5, p.size)
        assert weight.sum() ** 2 / (weight**2).sum() > 50
        verdicts.append(diagnose(ScoreTable.from_events(p, y, weight), draws=99).verdict)
    assert Verdict.INSUFFICIENT not in verdicts
    p, y = simulated(1, 200)
    few = diagnose(ScoreTable.from_events(p, y, np.where(np.arange(200) < 30, 1000.0, 1.0)), draws=99)
    assert few.verdict is Verdict.INSUFFICIENT
    assert "the predictions with an outcome are worth only 30.3 of equal weight" in few.sentence


def test_no_retraining_is_needed_only_where_the_data_exclude_it() -> None:
    """With few events a slope that is off, too, is often not seen: it is called a shift of the prior, and no more."""
    shifts = [
        found
        for seed in range(60)
        for found in [diagnose(ScoreTable.from_events(*simulated(seed, 300, slope=0.7, offset=0.8)), draws=99)]
        if found.verdict is Verdict.PRIOR_SHIFT
    ]
    assert len(shifts) >= 20
    for shift in shifts:
        assert NO_RETRAINING not in shift.sentence
        interval = shift.slope_interval
        assert interval is not None
        assert f"a slope between {interval[0]:.2f} and {interval[1]:.2f}" in shift.sentence
    many = found(1, 200_000, offset=0.5)
    assert many.verdict is Verdict.PRIOR_SHIFT
    assert NO_RETRAINING in many.sentence
    assert "cannot be excluded" not in many.sentence


def test_errors_in_parts_of_the_range_are_excluded_later_than_a_slope() -> None:
    sentences = [found(seed, 14_000, offset=0.5).sentence for seed in range(12)]
    assert any("in parts of their range cannot be excluded" in sentence for sentence in sentences)


def test_the_limits_hold_in_95_of_100_tables() -> None:
    slopes, stretches = 0, 0
    for seed in range(200):
        p, y = simulated(seed, 2000, slope=0.9)
        limits = prior_shift(ScoreTable.from_events(p, y))
        # The slope alone: (1 - .9) times the standard deviation of the logits, weighted by information.
        q = expit(0.9 * np.log(p / (1.0 - p)))
        truth = 0.1 * math.sqrt(float(np.cov(np.log(p / (1.0 - p)), aweights=q * (1.0 - q), ddof=0)))
        slopes += limits.slope_limit >= truth
        # A stretch has one error, which is a little less than the root mean square within it.
        stretches += limits.stretch_limit >= 0.95 * truth
    assert slopes >= 188
    assert stretches >= 184


@pytest.mark.parametrize(("n", "mean"), short_rows([(500, 0.0), (1_000, -2.0), (20_000, -4.0)], 1))
@pytest.mark.parametrize("fault", ["offset", "slope_below", "slope_above"])
def test_the_smallest_fault_that_is_named_is_found_in_eight_of_ten_samples(n: int, mean: float, fault: str) -> None:
    rng = np.random.default_rng(n)
    z = rng.normal(mean, 1.2, n)
    p = expit(z)
    size = getattr(detectable_faults(ScoreTable.from_events(p, np.zeros(n)), tolerance=TOLERANCE), fault)
    middle = np.average(z, weights=p * (1.0 - p))
    verdicts = []
    for at in range(80):
        # Either sign of an offset, half the time each.
        change = size * (1 - 2 * (at % 2)) if fault == "offset" else (size - 1.0) * (z - middle)
        y = rng.random(n) < expit(z + change)
        verdicts.append(diagnose(GridTable.from_events(p, y).to_scores(), draws=99).verdict)
    judged = [each for each in verdicts if each is not Verdict.INSUFFICIENT]
    missed = judged.count(Verdict.CALIBRATED)
    # .8, with a standard error of .045.
    assert 0.67 <= 1.0 - missed / len(judged) <= 0.97


def test_the_faults_that_would_have_been_found_are_said() -> None:
    calibrated = found(3, 4000)
    assert calibrated.detectable_offset is not None
    assert calibrated.detectable_slope_below is not None
    assert calibrated.detectable_slope_above is not None
    assert calibrated.detectable_slope_below < 1.0 < calibrated.detectable_slope_above
    assert (
        f"an offset of the logits of {calibrated.detectable_offset:.2g} or a slope of "
        f"{calibrated.detectable_slope_below:.2f} or {calibrated.detectable_slope_above:.2f} would have been found "
        "with probability 0.8."
    ) in calibrated.sentence
    equal = diagnose(ScoreTable.from_events([0.2] * 500, [1] * 100 + [0] * 400), draws=99)
    assert equal.detectable_slope_below is equal.detectable_slope_above is None
    assert "slope" not in equal.sentence
    # What is smaller than the tolerance is never called a fault.
    certain = found(3, 2_000_000)
    assert certain.detectable_offset is not None
    assert certain.detectable_offset > TOLERANCE


def test_a_weight_is_worth_the_events_that_vary_alike() -> None:
    p, y = simulated(1, 800)
    once, often = (
        detectable_faults(ScoreTable.from_events(p, y, np.full(800, weight)), tolerance=TOLERANCE)
        for weight in (1.0, 7.0)
    )
    assert once == detectable_faults(ScoreTable.from_events(p, y), tolerance=TOLERANCE)
    assert (often.offset, often.slope_below) == pytest.approx((once.offset, once.slope_below))


def test_verdict_and_table_agree_on_evidence_between_one_and_five_per_cent() -> None:
    said = {}
    for seed in range(120):
        diagnosis = found(seed, 400, offset=0.2)
        assert diagnosis.p_value is not None
        if diagnosis.verdict is Verdict.CALIBRATED:
            # As printed, a p-value is on its own side of both levels.
            printed = float(diagnosis.sentence.split("p = ")[1].split(")")[0].split(",")[0])
            for level in (LEVEL, WEAK):
                assert (printed <= level) == (diagnosis.p_value <= level)
            said[diagnosis.sentence.split(" evidence of miscalibration")[0]] = diagnosis.p_value <= WEAK
    assert said == {"No": False, "Weak": True}


@pytest.mark.parametrize(
    ("of", "severity"),
    [
        ({}, Severity.NONE),
        ({"offset": 0.13}, Severity.SLIGHT),
        ({"slope": 0.92}, Severity.SLIGHT),
        ({"offset": -0.35}, Severity.MODERATE),
        ({"slope": 0.7}, Severity.MODERATE),
        ({"offset": 0.4, "slope": 0.65}, Severity.SEVERE),
        ({"offset": 0.8}, Severity.SEVERE),
    ],
)
def test_the_severity_is_the_size_of_the_fault_that_the_verdict_names(of: dict[str, float], severity: Severity) -> None:
    diagnosis = found(1, 100_000, **of)
    assert diagnosis.severity is severity
    words = diagnosis.verdict.words
    assert diagnosis.words == (words if severity is Severity.NONE else f"{severity.value} {words}")


def test_up_to_the_tolerance_nothing_is_a_fault() -> None:
    table = GridTable.from_events(*simulated(1, 100_000, slope=0.94)).to_scores()
    usual, tolerant = diagnose(table, draws=99), diagnose(table, draws=99, tolerance=0.2)
    assert (usual.verdict, usual.severity, usual.tolerance) == (Verdict.SHAPE, Severity.SLIGHT, TOLERANCE)
    assert (tolerant.verdict, tolerant.severity, tolerant.tolerance) == (Verdict.CALIBRATED, Severity.NONE, 0.2)
    assert "up to 0.2 is tolerated. Nothing is to be done." in tolerant.sentence
    assert tolerant.p_value == usual.p_value
    # Of few events, what is too small by the best estimate may be larger.
    few = GridTable.from_events(*simulated(4, 600, slope=0.5)).to_scores()
    assert "a larger error cannot be excluded" in diagnose(few, draws=99, tolerance=0.7).sentence


def test_predictions_that_point_the_wrong_way_are_said_to_be_inverted() -> None:
    for slope in (-1.0, -0.3):
        inverted = found(3, 5000, slope=slope)
        assert inverted.slope_upper is not None
        assert inverted.slope_upper < 0.0
        assert "point the wrong way" in inverted.sentence
        assert "Check whether the outcomes or the predictions are inverted" in inverted.sentence


def test_a_slope_that_excludes_1_is_not_said_to_be_only_possible() -> None:
    """Between the levels of 5% and 1% of the slope's own test, in a prior shift."""
    sentences = [found(seed, 3000, offset=-0.9, slope=1.12).sentence for seed in range(12)]
    weak = [sentence for sentence in sentences if "weak evidence of a slope between" in sentence]
    assert weak
    for sentence in sentences:
        limits = re.search(r"a slope between ([\d.]+) and ([\d.]+)", sentence)
        if limits is not None:
            holds_1 = float(limits[1]) <= 1.0 <= float(limits[2])
            assert holds_1 == ("cannot be excluded" in sentence), sentence
