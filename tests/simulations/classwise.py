"""How often intervals cover, and tests reject: of each class, their mean, the top label and whole vectors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import softmax

from monitor.classes import CLASS_MEASURES
from monitor.classes.canonical_ece import DEFAULT_MIN_SIZE, median_variance_bins
from monitor.classes.gce import DEFAULT_N_BINS
from monitor.measures import REPORT_MEASURES, WINDOW_MEASURES
from monitor.reports.evaluation.evaluate import evaluate_classes
from monitor.reports.evaluation.report import MeasureResult
from monitor.scores import ClassTable, ScoreTable, grid
from tests.simulations.scenarios import Floats
from tests.simulations.simulate import LEVEL, Outcome, has_a_law_value, truths

_POINTS: Final = 400_000
"""Draws of the true logits that stand for the law; their rates are known, so that no outcome is drawn."""

_PAIRED: Final = 1_000
"""Draws of which all pairs are taken at once; the time grows with its square."""


@dataclass(frozen=True, slots=True)
class ClassScenario:
    """True logits ~ Normal(means, 1.2), one a class; the model says slope times them."""

    name: str
    means: tuple[float, ...] = (0.0, 0.0, 0.0)
    slope: float = 1.0

    @property
    def calibrated(self) -> bool:
        return self.slope == 1.0

    def sample(self, rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        """Predictions and true rates, both (n, K)."""
        z = rng.normal(self.means, 1.2, (n, len(self.means)))
        return softmax(self.slope * z, axis=1), softmax(z, axis=1)


CLASS_SCENARIOS: Final = (
    ClassScenario("three classes"),
    ClassScenario("three classes, slope 1.5", slope=1.5),
    ClassScenario("a class of 3%", means=(0.0, 0.0, -3.5)),
    ClassScenario("a class of 3%, slope 1.5", means=(0.0, 0.0, -3.5), slope=1.5),
)


@dataclass(frozen=True, slots=True)
class ClassSetting:
    """What is simulated how often."""

    scenario: ClassScenario
    n: int
    repeats: int
    draws: int = 199
    seed: int = 23
    measures: tuple[str, ...] = tuple(WINDOW_MEASURES)


def _binary(p: Floats, q: Floats) -> Sequence[tuple[Floats, Floats]]:
    """Predictions and rates of each class against the rest, and of the top label."""
    top = np.argmax(p, axis=1)[:, None]
    each = [(p[:, label], q[:, label]) for label in range(p.shape[1])]
    return [*each, (np.take_along_axis(p, top, 1)[:, 0], np.take_along_axis(q, top, 1)[:, 0])]


def _law(p: Floats, q: Floats) -> ScoreTable:
    """One event in all; its rates at predictions alike, those of one cell of the grid, as an average."""
    cell = grid.locate(p)
    count = np.bincount(cell)
    held = count > 0
    score, rate = (np.bincount(cell, each)[held] / count[held] for each in (p, q))
    each = count[held] / p.size
    return ScoreTable(
        score=score,
        positives=each * rate,
        negatives=each * (1.0 - rate),
        positive_sum=each * rate * score,
        negative_sum=each * (1.0 - rate) * score,
        lower=score,
        upper=score,
    )


def _scaled(law: ScoreTable, n: float) -> ScoreTable:
    """The same law of so many events."""
    return replace(
        law,
        positives=n * law.positives,
        negatives=n * law.negatives,
        positive_sum=n * law.positive_sum,
        negative_sum=n * law.negative_sum,
    )


def simulate_classes(setting: ClassSetting) -> Mapping[str, Outcome]:
    """Outcomes of each measure by ``<measure> of a class``, ``... of the mean`` and ``... of the top label``.

    Of a class, all classes count that have enough of both outcomes to be reported; the mean is over these.
    """
    chosen = {name: REPORT_MEASURES[name] for name in setting.measures}
    rng = np.random.default_rng([setting.seed, setting.n])
    laws = [_law(*binary) for binary in _binary(*setting.scenario.sample(rng, _POINTS))]
    of_law = [
        {name: measure.value(_scaled(law, setting.n)) for name, measure in chosen.items() if has_a_law_value(measure)}
        for law in laws
    ]
    wholes = ("a class", "the mean", "the top label")
    counts = {f"{name} of {of}": np.zeros(3, np.int64) for of in wholes for name in chosen}

    def count(of: str, found: Mapping[str, MeasureResult], true: Mapping[str, float]) -> None:
        for name in chosen:
            each = found[name]
            if each.lower is None or each.upper is None or each.p_value is None:
                raise AssertionError(f"{name} of {of} has no interval")
            counts[f"{name} of {of}"] += (1, each.lower <= true[name] <= each.upper, each.p_value <= LEVEL)

    for repeat in range(setting.repeats):
        p, q = setting.scenario.sample(rng, setting.n)
        y = (np.cumsum(q, axis=1) < rng.random(setting.n)[:, None]).sum(axis=1)
        report = evaluate_classes(
            p, y, class_measures={}, measures=chosen, each_class=chosen, draws=setting.draws, seed=repeat
        )
        hits = [*(y == label for label in range(p.shape[1])), y == np.argmax(p, axis=1)]
        true = []
        for (prediction, rate), hit, law, known in zip(_binary(p, q), hits, laws, of_law, strict=True):
            table = ScoreTable.from_events(prediction, hit)
            at = np.unique(prediction, return_index=True)[1]
            true.append(truths(partial(_scaled, law), table, rate[at], known, rng, measures=tuple(chosen)))
        reported = [label for label, each in enumerate(report.each_class) if each.insufficient is None]
        for label in reported:
            count("a class", report.each_class[label].measures, true[label])
        mean = {name: float(np.mean([true[label][name] for label in reported])) for name in chosen}
        count("the mean", report.classwise, mean)
        count("the top label", report.top_label.measures, true[-1])
    return {name: Outcome(*each.tolist()) for name, each in counts.items()}


def _of_vectors(p: Floats, q: Floats) -> dict[str, float]:
    """The measures of whole vectors at the true rates: each event as all of its outcomes, weighed by their rates."""
    n, classes = p.shape
    whole = ClassTable(np.repeat(p, classes, axis=0), np.tile(np.arange(classes), n))
    weight = (classes * q).reshape(1, -1)
    return {
        name: float(measure.prepare(whole).norms(weight)[0])
        for name, measure in CLASS_MEASURES.items()
        if measure.prepare is not None
    }


def _skce(p: Floats, q: Floats) -> float:
    """Of pairs of different events among parts of the law."""
    parts = []
    for start in range(0, 40 * _PAIRED, _PAIRED):
        score, residual = p[start : start + _PAIRED], (q - p)[start : start + _PAIRED]
        kernel = np.exp(-cdist(score, score))
        np.fill_diagonal(kernel, 0.0)
        parts.append(float(np.sum(kernel @ residual * residual)) / (_PAIRED * (_PAIRED - 1)))
    return float(np.mean(parts))


def _canonical_ece(p: Floats, q: Floats) -> float:
    """At the true rates, in the bins of these very predictions: what it is of depends on their number."""
    bins = median_variance_bins(ClassTable(p, np.zeros(len(p), np.int64)), DEFAULT_MIN_SIZE)
    residual = np.zeros((int(bins.max()) + 1, p.shape[1]))
    np.add.at(residual, bins, q - p)
    return float(np.abs(residual).sum() / 2.0 / len(p))


def _top_bins(p: Floats) -> NDArray[np.int64]:
    """The bin of each event's largest probability."""
    return np.asarray(np.minimum(p.max(axis=1) * DEFAULT_N_BINS, DEFAULT_N_BINS - 1), np.int64)


def _top_gaps(p: Floats, q: Floats) -> Floats:
    """The gap of the law in each bin of the top label, 0 where it has none."""
    prediction, rate = _binary(p, q)[-1]
    bins = _top_bins(p)
    residual = np.bincount(bins, rate - prediction, minlength=DEFAULT_N_BINS)
    return np.abs(residual) / np.maximum(np.bincount(bins, minlength=DEFAULT_N_BINS), 1)


def simulate_vectors(setting: ClassSetting) -> Mapping[str, Outcome]:
    """Outcomes of each measure of whole vectors, by name."""
    rng = np.random.default_rng([setting.seed, setting.n, 1])
    p, q = setting.scenario.sample(rng, _POINTS)
    of_law, gaps = {**_of_vectors(p, q), "skce": _skce(p, q)}, _top_gaps(p, q)
    counts = {name: np.zeros(3, np.int64) for name in CLASS_MEASURES}
    for repeat in range(setting.repeats):
        p, q = setting.scenario.sample(rng, setting.n)
        y = (np.cumsum(q, axis=1) < rng.random(setting.n)[:, None]).sum(axis=1)
        found = evaluate_classes(p, y, measures=("smce",), each_class=(), draws=setting.draws, seed=repeat).measures
        # The largest gap is that of bins that hold events.
        true = {**of_law, "canonical_ece": _canonical_ece(p, q), "mce": float(gaps[np.unique(_top_bins(p))].max())}
        for name, each in found.items():
            if each.lower is None or each.upper is None or each.p_value is None:
                raise AssertionError(f"{name} has no interval")
            counts[name] += (1, each.lower <= true[name] <= each.upper, each.p_value <= LEVEL)
    return {name: Outcome(*each.tolist()) for name, each in counts.items()}
