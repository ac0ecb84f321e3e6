"""The general calibration error: 32 measures from five choices."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product, starmap
from typing import Final, Literal, NamedTuple, get_args

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.classes.base import ClassMeasure, Prepared, require_rows
from monitor.errors import InputError, NotEnoughData
from monitor.scores import ClassTable
from monitor.scores.arguments import require_choice, require_whole

GceBins = Literal["even", "adaptive"]
Probabilities = Literal["top", "all"]
GceNorm = Literal[1, 2, "max"]

DEFAULT_N_BINS: Final = 15
"""Bins of Guo et al. 2017 for ECE, and of most comparisons of deep networks since."""

THRESHOLDS: Final = (0.0, 0.01)
"""The thresholds of the paper's 32 measures."""


class GceMember(NamedTuple):
    """One of the family, by its five properties."""

    bins: GceBins
    probabilities: Probabilities
    class_conditional: bool
    threshold: float
    norm: GceNorm

    @property
    def name(self) -> str | None:
        """Its name in the literature: ECE, SCE, ACE, TACE, RMSCE or MCE; None if it has none."""
        return _NAMES.get(self)

    @property
    def grouping(self) -> str:
        """Its bins, labels and classes in words, for figures."""
        labels = "top label" if self.probabilities == "top" else "all labels"
        classes = "by class" if self.class_conditional else "classes together"
        return f"{self.bins}, {labels}, {classes}"

    @property
    def weighing(self) -> str:
        """Its threshold and norm in words, for figures."""
        values = f"p > {self.threshold:g}" if self.threshold > 0.0 else "every p"
        return f"{values}, {'max' if self.norm == 'max' else f'L{self.norm}'}"


_NAMES: Final = {
    GceMember("even", "top", False, 0.0, 1): "ECE",
    GceMember("even", "all", True, 0.0, 1): "SCE",
    GceMember("adaptive", "all", True, 0.0, 1): "ACE",
    GceMember("adaptive", "all", True, 0.01, 1): "TACE",
    GceMember("adaptive", "top", False, 0.0, 2): "RMSCE",
    GceMember("even", "top", False, 0.0, "max"): "MCE",
}

FAMILY: Final = tuple(
    starmap(GceMember, product(get_args(GceBins), get_args(Probabilities), (True, False), THRESHOLDS, (1, 2)))
)
"""The 32, in the order of the paper's appendix C."""


def gce(
    table: ClassTable,
    *,
    bins: GceBins = "even",
    probabilities: Probabilities = "top",
    class_conditional: bool = False,
    threshold: float = 0.0,
    norm: GceNorm = 1,
    n_bins: int = DEFAULT_N_BINS,
) -> float:
    r"""General calibration error.

    .. math:: \Big( \sum_b \frac{n_b}{n} |\mathrm{acc}(b) - \mathrm{conf}(b)|^q \Big)^{1/q}

    over the bins of the probabilities that count; conf is the mean of a bin's probabilities, acc the frequency with
    which their classes came true.

    Parameters
    ----------
    table
        n events of K classes.
    bins
        ``even``: of equal width, closed on the left and open on the right, but for the last: p = 1 falls in the last
        bin. ``adaptive``: as equally filled as ties allow; equal probabilities stay in one bin, the one of their
        median position.
    probabilities
        ``top``: only the largest probability of each event (the first one of equal ones); ``all``: those of all
        classes.
    class_conditional
        Bin the probabilities of each class separately, and average the classes' errors (for ``norm`` 2 the root of the
        mean of the squares, for ``max`` the largest). Otherwise all are binned together.
    threshold
        Probabilities up to this do not count, in [0, 1); at 0 all do.
    norm
        q: 1, 2 or ``max``, the largest gap of a bin.
    n_bins
        Number of bins, at least 1.

    Returns
    -------
    float
        Ratio in [0, 1]. Biased upwards where bins hold few probabilities, the more the more classes there are:
        compare it with its level under calibration.

    Raises
    ------
    NotEnoughData
        The table is empty, or no probability lies above the threshold.
    InputError
        An option is wrong.

    Notes
    -----
    Source: Nixon, Dusenberry, Jerfel, Nguyen, Liu, Zhang, Tran, "Measuring Calibration in Deep Learning", 2019,
    sections 2.1 and 4 and appendix C.

    Where the paper is silent, this follows the authors' code (uncertainty_metrics): classes have equal weights, however
    many of their probabilities count. There are three departures. A class without any probability that counts is left
    out of the mean rather than counted as perfect. A probability of exactly 0 counts at threshold 0, because a certain
    prediction can be wrong. And adaptive bins do not separate ties.

    Examples
    --------
    >>> table = ClassTable.from_events([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0]], [0, 1])
    >>> round(gce(table), 6)
    0.4
    """
    member = GceMember(bins, probabilities, class_conditional, threshold, norm)
    return float(_GroupBins.of(table, member, n_bins).draws(table.outcome[None].astype(np.int32))[0])


def gce_family(table: ClassTable, *, n_bins: int = DEFAULT_N_BINS) -> Mapping[GceMember, float]:
    """All 32 members, in the order of the paper's appendix C.

    One without a probability above its threshold is left out.

    Raises
    ------
    NotEnoughData
        The table is empty.
    """
    require_rows(table, "GCE")
    outcome = table.outcome[None].astype(np.int32)
    result = {}
    for member in FAMILY[::2]:
        try:
            binned = _GroupBins.of(table, member, n_bins)
        except NotEnoughData:
            continue
        for variant in (binned, replace(binned, norm=2)):
            result[member._replace(norm=variant.norm)] = float(variant.draws(outcome)[0])
    return result


@dataclass(frozen=True, slots=True)
class _GroupBins(Prepared):
    """The probabilities that count, in bins; ``sums`` has the shape (groups, n_bins), with a group per class or one.

    Attributes
    ----------
    counts
        float64, shape (groups, n_bins): probabilities in each bin.
    norm
        Of the bins' gaps.
    """

    counts: Floats
    norm: GceNorm

    @classmethod
    def of(cls, table: ClassTable, member: GceMember, n_bins: int) -> "_GroupBins":
        _check(member, n_bins)
        require_rows(table, "GCE")
        p = table.prediction
        counting = p > member.threshold if member.threshold > 0.0 else np.ones(p.shape, np.bool_)
        if member.probabilities == "top":
            top = np.zeros(p.shape, np.bool_)
            top[np.arange(table.rows), np.argmax(p, axis=1)] = True
            counting &= top
        if not counting.any():
            raise NotEnoughData(f"GCE needs a probability above the threshold of {member.threshold:g}, there is none")
        bins = np.full(p.shape, -1, np.int32)
        place = _even if member.bins == "even" else _adaptive
        groups = [slice(k, k + 1) for k in range(table.classes)] if member.class_conditional else [slice(None)]
        for group, columns in enumerate(groups):
            chosen = counting[:, columns]
            of_group = bins[:, columns]  # a view
            of_group[chosen] = group * n_bins + place(p[:, columns][chosen], n_bins)
        shape = len(groups), n_bins
        index, size = bins[counting], len(groups) * n_bins
        return cls(
            table,
            bins,
            np.bincount(index, weights=p[counting], minlength=size).astype(np.float64).reshape(shape),
            np.bincount(index, minlength=size).astype(np.float64).reshape(shape),
            member.norm,
        )

    def functional(self, residual: Floats) -> Floats:
        filled = np.maximum(self.counts, 1.0)
        if self.norm == "max":
            worst = np.unravel_index(np.argmax(np.abs(residual) / filled), residual.shape)
            functional = np.zeros(residual.shape)
            functional[worst] = np.sign(residual[worst]) / filled[worst]
            return functional
        total = self.counts.sum(axis=1, keepdims=True)
        # Groups without probabilities have residual 0.
        weight = 1.0 / (np.maximum(total, 1.0) * np.count_nonzero(total))
        if self.norm == 1:
            return np.asarray(np.sign(residual) * weight)
        error = float(self.errors(residual[None])[0])
        return residual / filled * weight / error if error > 0.0 else np.zeros(residual.shape)

    def errors(self, residual: Floats) -> Floats:
        residual = np.abs(residual)
        if self.norm == 1:
            gaps = residual  # n_b cancels, so empty bins need no special case
        else:
            filled = np.maximum(self.counts, 1.0)  # an empty bin's residual is 0
            if self.norm == "max":
                return np.asarray((residual / filled).max(axis=(1, 2)))
            gaps = residual**2 / filled
        total = self.counts.sum(axis=1)
        counted = total > 0.0
        error = (gaps.sum(axis=2)[:, counted] / total[counted]).mean(axis=1)
        return np.asarray(error if self.norm == 1 else np.sqrt(error))


def _even(values: Floats, n_bins: int) -> Ints:
    """Bins of equal width, shape (m,) -> (m,)."""
    return np.searchsorted(np.arange(1, n_bins) / n_bins, values, side="right")


def _adaptive(values: Floats, n_bins: int) -> Ints:
    """Bins as equally filled as ties allow, shape (m,) -> (m,)."""
    _, row, count = np.unique(values, return_inverse=True, return_counts=True)
    # Twice the median position of equal values; integers avoid rounding.
    middle = 2 * np.cumsum(count) - count
    return np.asarray((middle * n_bins // (2 * max(1, values.size)))[row], np.int64)


def _check(member: GceMember, n_bins: int) -> None:
    require_choice("bins", member.bins, get_args(GceBins))
    require_choice("probabilities", member.probabilities, get_args(Probabilities))
    require_choice("norm", member.norm, get_args(GceNorm))
    if not 0.0 <= member.threshold < 1.0:
        raise InputError(f"threshold must be at least 0 and below 1, got {member.threshold}")
    require_whole("n_bins", n_bins, 1)


def _measure(name: str, key: str, help_: str, rank: int) -> ClassMeasure:
    """Declare a member that has a name as a measure."""
    member = next(member for member, known_as in _NAMES.items() if known_as == name)
    options = member._asdict()
    return ClassMeasure(
        name=key,
        # Binary measures with the same names but other bins are also reported for the top label.
        title=f"top-label {name}, {DEFAULT_N_BINS} bins" if member.probabilities == "top" else name,
        help=help_,
        unit="ratio",
        value=lambda table: gce(table, **options),
        prepare=lambda table: _GroupBins.of(table, member, DEFAULT_N_BINS),
        rank=rank,
    )


MEASURES: Final = (
    _measure("ECE", "top_label_ece", "Mean gap between confidence and accuracy over 15 bins of equal width.", 40),
    _measure("SCE", "sce", "Static calibration error: the mean over the classes of each one's ECE.", 41),
    _measure("ACE", "ace", "Adaptive calibration error: as SCE, over bins that are equally filled.", 42),
    _measure("TACE", "tace", "Thresholded ACE: as ACE, of the probabilities above 0.01 alone.", 43),
    _measure("RMSCE", "rmsce", "Root mean square of the gaps of the top label over 15 equally filled bins.", 44),
    _measure("MCE", "mce", "Maximum calibration error: the largest gap of a bin of the top label.", 45),
)
"""The members that have a name in the literature."""
