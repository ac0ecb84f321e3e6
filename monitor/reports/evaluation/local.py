"""Local calibration: how right a model is among events whose features are alike."""

from __future__ import annotations  # so that signatures are shown as they are written

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from monitor.arrays import Floats
from monitor.errors import InputError, NotEnoughData
from monitor.inference import NullLevel
from monitor.local import LocalMap, Standardised, local_calibration_error, local_error_map
from monitor.local.calibration import DEFAULT_GAMMA, MAX_POINTS, MIN_NEIGHBOURS, confidence_and_hit
from monitor.local.features import DEFAULT_DIMENSIONS
from monitor.measures import ece
from monitor.reports.evaluation.features import FeatureColumns
from monitor.reports.evaluation.inputs import predictions_of
from monitor.scores import ScoreTable
from monitor.scores.arguments import numbers, require_same_index, require_whole
from monitor.scores.labelled import feature_table
from monitor.sources.tables import SegmentColumn

DRAWS: Final = 199
"""Default draws for the level under calibration, which take half as long as the measures."""

_SIGNIFICANT: Final = 0.05
"""A p-value up to this is called more than chance."""


@dataclass(frozen=True, slots=True)
class LocalMeasure:
    """A local measure and its level under calibration; ratios in [0, 1].

    Attributes
    ----------
    value
        The measure.
    null_mean, null_q95, p_value, excess
        Mean and 95% point of the measure if the model were perfectly calibrated, the share of perfectly calibrated
        draws that are at least as far off, and value - null_mean. None where levels were left out.
    """

    value: float
    null_mean: float | None = None
    null_q95: float | None = None
    p_value: float | None = None
    excess: float | None = None

    @classmethod
    def of(cls, value: float, level: NullLevel | None) -> LocalMeasure:
        """Combine a value with its level, if there is one."""
        if level is None:
            return cls(value)
        return cls(value, level.mean, level.q95, level.p_value, value - level.mean)


@dataclass(frozen=True, slots=True)
class WorstPlace:
    """The neighbourhood with the largest error.

    Attributes
    ----------
    row
        Row of the event in its middle.
    features
        That event's features, by name: numbers, None where one is missing, or text.
    prediction, outcome
        Mean prediction and share of positives in the neighbourhood; of many classes, of the largest probability and of
        the hits.
    n_eff
        Number of equally weighted events that the neighbourhood is worth.
    place
        The neighbourhood in words, by the features that matter: ``age 62 to 70, region=eu``. None without such words.
    """

    row: int
    features: Mapping[str, float | str | None]
    prediction: float
    outcome: float
    n_eff: float
    place: FeatureRegion | None = None


@dataclass(frozen=True, slots=True)
class FeatureRegion:
    """The events that meet some conditions; all are counted, not only the nearest ones.

    Attributes
    ----------
    conditions
        ``age 62 to 70``, ``region=eu or us``.
    n
        Number of events.
    prediction, outcome
        Mean prediction and share of positives among them.
    """

    conditions: tuple[str, ...]
    n: int
    prediction: float
    outcome: float

    @property
    def sentence(self) -> str:
        """The place and its error in words."""
        return (
            f"That is about where {', '.join(self.conditions)}: of {self.n:,} such events, {self.prediction:.3f} was "
            f"predicted and {self.outcome:.3f} came true"
        )


@dataclass(frozen=True, slots=True)
class LocalReport:
    """The local calibration of some data.

    Attributes
    ----------
    n
        Predictions whose outcome is known.
    features
        Names of the features.
    dimensions
        Number of coordinates in which events are compared.
    components
        Whether those are principal components; else they are the standardised features.
    gamma, bins, least_neighbours
        See :func:`~monitor.local.calibration.local_calibration_error`.
    points
        Number of events at which the error was measured.
    valid_share
        Share of those with enough neighbours; the measures are of these.
    measures
        ``mlce``, the largest local error, and ``mean_lce``, the mean one; empty when ``insufficient``.
    ece
        Expected calibration error over the same bins, without regard to features.
    worst
        Where the local error is largest.
    insufficient
        Why there are no measures, in words, or None.
    """

    n: int
    features: tuple[str, ...]
    dimensions: int
    components: bool
    gamma: float
    least_neighbours: float
    bins: int | None = None
    points: int = 0
    valid_share: float = 0.0
    measures: Mapping[str, LocalMeasure] = field(default_factory=dict)
    ece: float | None = None
    worst: WorstPlace | None = None
    insufficient: str | None = None

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.worst is None:
            return f"Local calibration is not known: {self.insufficient}."
        largest = self.measures["mlce"]
        gap = self.worst.prediction - self.worst.outcome
        where = (
            f"Among events alike, predictions are {abs(gap):.3f} too {'high' if gap > 0.0 else 'low'} at worst "
            f"({self.worst.prediction:.3f} predicted, {self.worst.outcome:.3f} came true)"
        )
        if self.worst.place is not None:
            where = f"{where}. {self.worst.place.sentence}"
        if largest.null_q95 is None or largest.p_value is None:
            return f"{where}."
        verdict = "more than chance" if largest.p_value <= _SIGNIFICANT else "no more than chance"
        return (
            f"{where}. A calibrated model shows up to {largest.null_q95:.3f} in 95% of cases: this is {verdict} "
            f"(p = {largest.p_value:.3g})."
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON shows it."""
        return asdict(self) | {"features": list(self.features), "sentence": self.sentence}


def evaluate_local(
    p: ArrayLike,
    y: ArrayLike,
    features: ArrayLike | Mapping[str, ArrayLike | SegmentColumn],
    *,
    dimensions: int = DEFAULT_DIMENSIONS,
    gamma: float = DEFAULT_GAMMA,
    bins: int | None = None,
    least_neighbours: float = MIN_NEIGHBOURS,
    max_points: int | None = MAX_POINTS,
    draws: int = DRAWS,
    seed: int | None = None,
) -> LocalReport:
    """Measure the local calibration of predictions, given their features.

    Parameters
    ----------
    p
        Predictions P(y = 1), shape (n,), or the probabilities of 0 and 1, shape (n, 2); or those of K classes, shape
        (n, K).
    y
        Outcomes, shape (n,): 0 or 1, or the class that came true; nan for a prediction whose outcome is not known.
    features
        Features in which events are compared: by name, shape (n,) each, numbers (nan where one is missing) or
        categories; or numbers of shape (n, D).
    dimensions
        More coordinates are reduced to so many principal components; fewer stay as they are, see
        :meth:`~monitor.reports.evaluation.features.FeatureColumns.coordinates`.
    gamma, bins, least_neighbours, max_points, seed
        See :func:`~monitor.local.calibration.local_calibration_error`.
    draws
        Draws for the level under calibration, at least 19; 0 leaves it out.

    Returns
    -------
    LocalReport
        With its ``insufficient`` set where no event has enough neighbours.

    Raises
    ------
    InputError
        A value is out of its range or an option is wrong, or shapes do not fit.
    """
    require_same_index(p=p, y=y, features=features)
    if not isinstance(features, Mapping):
        features = {f"feature {number}": column for number, column in enumerate(feature_table(features).T)}
    columns = FeatureColumns.of(features)
    names = tuple(columns.columns)
    require_whole("dimensions", dimensions, 1)
    outcome = numbers("y", y)
    labelled = ~np.isnan(outcome)
    # Checked before unknown outcomes are left out, so that indices are those of the caller.
    confidence, hit = confidence_and_hit(predictions_of(p), np.where(labelled, outcome, 0.0))
    if columns.size != confidence.size:
        raise InputError(f"features must be as long as p, got {columns.size} and {confidence.size}")
    rows = np.flatnonzero(labelled)
    report = LocalReport(
        n=rows.size,
        features=names,
        dimensions=min(dimensions, len(names)),
        components=False,
        gamma=gamma,
        least_neighbours=least_neighbours,
    )
    if rows.size == 0:
        return replace(report, insufficient="no prediction has an outcome")
    confidence, hit, columns = confidence[rows], hit[rows], columns.select(rows)
    phi, share, reduced = columns.coordinates(dimensions)
    report = replace(report, dimensions=phi.shape[1], components=reduced)
    try:
        local = local_calibration_error(
            confidence,
            hit,
            phi,
            gamma=share * gamma,
            bins=bins,
            least_neighbours=least_neighbours,
            max_points=max_points,
            draws=draws,
            seed=seed,
        )
    except NotEnoughData as error:
        return replace(report, insufficient=str(error))
    level, worst = local.level, local.worst
    middle, gap = int(local.points[worst]), float(local.error[worst])
    return replace(
        report,
        bins=local.bins,
        points=local.points.size,
        valid_share=local.valid_share,
        measures={
            "mlce": LocalMeasure.of(local.mlce, None if level is None else level.mlce),
            "mean_lce": LocalMeasure.of(local.mean_lce, None if level is None else level.mean_lce),
        },
        ece=ece(ScoreTable.from_events(confidence, hit), n_bins=local.bins),
        worst=WorstPlace(
            row=int(rows[middle]),
            features={name: columns.value(name, middle) for name in names},
            prediction=float(local.prediction[worst]),
            outcome=float(local.prediction[worst] - local.error[worst]),
            n_eff=float(local.n_eff[worst]),
            place=_place(columns, confidence, hit, middle, higher=gap > 0.0),
        ),
    )


def _place(
    columns: FeatureColumns, prediction: Floats, outcome: Floats, row: int, *, higher: bool
) -> FeatureRegion | None:
    conditions = columns.place(prediction, prediction - outcome, row, higher=higher, min_events=MIN_NEIGHBOURS)
    if not conditions:
        return None
    inside = np.logical_and.reduce([condition.inside for condition in conditions])
    texts = tuple(condition.text for condition in conditions)
    return FeatureRegion(texts, int(inside.sum()), float(prediction[inside].mean()), float(outcome[inside].mean()))


MAX_MAPPED_EVENTS: Final = 40_000
"""Events beyond which a random sample is drawn: the map looks the same, and a million would take a minute."""


def plane_of(prediction: Floats, outcome: Floats, plane: Floats, *, seed: int) -> LocalMap:
    """Map local errors over the plane of two features, in the features' own units.

    Parameters
    ----------
    prediction
        P(y = 1), shape (n,); or the probabilities of K classes, shape (n, K).
    outcome
        Shape (n,): 0 or 1, or the class that came true; nan where it is not known.
    plane
        The two features, shape (n, 2).
    seed
        Seed of the sample.

    Raises
    ------
    NotEnoughData
        There are no outcomes, or a feature hardly varies.
    """
    rows = np.flatnonzero(~np.isnan(outcome))
    if rows.size > MAX_MAPPED_EVENTS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MAX_MAPPED_EVENTS, replace=False))
    scaling = Standardised.fit(plane[rows])
    local = local_error_map(prediction[rows], outcome[rows], scaling.apply(plane[rows]))
    if local.x[0] == local.x[-1] or local.y[0] == local.y[-1]:
        raise NotEnoughData("a map needs two features that vary")
    x, y = (axis * scaling.scale[k] + scaling.mean[k] for k, axis in enumerate((local.x, local.y)))
    return replace(local, x=x, y=y)
