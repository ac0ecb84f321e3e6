"""TCE by obvious loops straight from its paper, and the data of its synthetic experiments."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

Block = tuple[int, int]
"""(positives, events) of a bin."""

LOGISTIC_MODEL: Final = {
    0.5: (0.2582340869548939, -0.02803069435647275),
    0.01: (0.27276707569962133, -4.664906501306633),
}
"""Slope and intercept of the logistic regression that section 4.1 fits, by the prevalence of its training data."""


def synthetic_data(train_prevalence: float, test_prevalence: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Predictions and outcomes of the 6,000 test events of section 4.1."""
    np.random.seed(0)  # noqa: NPY002 - the paper's own generator
    train = np.asarray(stats.bernoulli.rvs(train_prevalence, size=14000), np.int64)
    test = np.asarray(stats.bernoulli.rvs(test_prevalence, size=6000), np.int64)
    # scipy's norm.rvs draws as numpy does; the training features only move the generator on.
    np.random.normal(0.5 * (2 * train - 1), 2.0)  # noqa: NPY002
    feature = np.random.normal(0.5 * (2 * test - 1), 2.0)  # noqa: NPY002
    slope, intercept = LOGISTIC_MODEL[train_prevalence]
    return np.asarray(expit(slope * feature + intercept), np.float64), test


def pava_bc(outcomes: Sequence[int], min_size: int, max_size: int) -> list[Block]:
    """Algorithm 2, event by event, as printed: outcomes in ascending order of their (distinct) predictions."""
    n = len(outcomes)
    positives: list[int] = []
    sizes: list[int] = []
    for i in range(n - min_size):
        positives.append(outcomes[i])
        sizes.append(1)
        while len(sizes) > 1:
            if sizes[-2] + sizes[-1] > min_size:
                if sizes[-2] + sizes[-1] > max_size:
                    break
                if Fraction(positives[-2], sizes[-2]) < Fraction(positives[-1], sizes[-1]):
                    break
            positives[-2:] = [sum(positives[-2:])]
            sizes[-2:] = [sum(sizes[-2:])]
    if min_size > 0:
        rest = sum(outcomes[n - min_size :])
        if sizes and sizes[-1] + min_size <= max_size:
            positives[-1] += rest
            sizes[-1] += min_size
        else:
            positives.append(rest)
            sizes.append(min_size)
    return list(zip(positives, sizes, strict=True))


def quantile_blocks(
    predictions: NDArray[np.float64], outcomes: NDArray[np.int64], n_bins: int
) -> tuple[list[Block], NDArray[np.int64]]:
    """Bins between numpy's quantiles, right-open but for the last, and the bin of each prediction."""
    edges = np.quantile(predictions, np.linspace(0, 1, n_bins + 1))
    place = np.array([min(max(int((edges <= p).sum()) - 1, 0), n_bins - 1) for p in predictions])
    return [(int(outcomes[place == b].sum()), int((place == b).sum())) for b in range(n_bins)], place


def published_quantile_blocks(outcomes: NDArray[np.int64], n_bins: int) -> list[Block]:
    """Bins between ranks, as the published numbers show them: the products of shares and size, cut to whole numbers.

    0.58 * 6000 is 3479.9999999999995 in floating point, so that some bins end one event early.
    """
    ranks = (np.linspace(0, 1, n_bins + 1) * outcomes.size).astype(np.int64)
    return [(int(outcomes[s:e].sum()), int(e - s)) for s, e in itertools.pairwise(ranks)]


def is_rejected(positives: int, size: int, prediction: float, alpha: float = 0.05) -> bool:
    return bool(stats.binomtest(positives, size, prediction).pvalue <= alpha)


def is_rejected_by_t(positives: int, size: int, prediction: float, alpha: float = 0.05) -> bool:
    """Student's test of one sample, of the outcomes themselves."""
    if prediction == positives / size or size == 1:
        return False
    if positives in {0, size}:
        return True  # outcomes without any deviation, of which scipy warns
    outcomes = np.repeat([1.0, 0.0], [positives, size - positives])
    return bool(stats.ttest_1samp(outcomes, prediction).pvalue <= alpha)


def is_rejected_by_published_t(positives: int, size: int, prediction: float, alpha: float = 0.05) -> bool:
    """The t-test of Table 11, as its numbers show it: the variance stands where the standard deviation should."""
    mean = positives / size
    if prediction == mean:
        return False
    if positives in {0, size}:
        return True
    statistic = np.sqrt(size) * abs(mean - prediction) / (mean * (1 - mean))
    return bool(2 * stats.t.sf(statistic, size - 1) <= alpha)


def tce(
    predictions: NDArray[np.float64],
    blocks: Sequence[Block],
    alpha: float = 0.05,
    verdict: Callable[[int, int, float, float], bool] = is_rejected,
) -> float:
    """Algorithm 1: blocks of consecutive predictions in ascending order, each prediction tested."""
    refuted, start = 0, 0
    for positives, size in blocks:
        refuted += sum(verdict(positives, size, float(p), alpha) for p in predictions[start : start + size])
        start += size
    return 100 * refuted / len(predictions)
