"""Refits on DataFrames: maps fitted on earlier rows, and compared on a sample of later ones as the service does."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from monitor.data import Names, listed, shown_progress
from monitor.errors import InputError, NotEnoughData
from monitor.events.model import ModelPolicy
from monitor.functions import methods_for
from monitor.maps.base import Method
from monitor.options import in_python
from monitor.recalibration.compare import DRAWS
from monitor.recalibration.data import HELD_OUT, RefitData
from monitor.recalibration.refit_file import LabelledRows, refit_rows
from monitor.recalibration.runner import MAX_EVENTS
from monitor.reports.evaluation.evaluate import UNNAMED
from monitor.results import Recalibration
from monitor.scores.labelled import LabelledEvents
from monitor.sources.columns import UNLABELLED
from monitor.sources.tables import Columns
from monitor.spark.panes import TIME, with_times
from monitor.spark.reports import Counted
from monitor.spark.samples import FEATURES, ID, SEGMENTS, SamplePlan, draw_samples, features_of, segments_of
from monitor.spark.tables import OUTCOME, REASON, column_of, count_cells, id_of, with_values
from monitor.store.closed_samples import merge
from monitor.stream.sampling import SampleSettings


def refit(
    df: DataFrame,
    columns: Columns = Columns(),  # noqa: B008 - a value that nothing changes
    *,
    methods: Names | Mapping[str, Mapping[str, Any]] = (),
    model: str = UNNAMED,
    sample: int | SampleSettings = MAX_EVENTS,
    policy: ModelPolicy | None = None,
    held_out: float = HELD_OUT,
    since_change: bool = False,
    draws: int = DRAWS,
    seed: int = 0,
) -> Recalibration:
    """Fit recalibration maps on the earlier rows, and compare them with no map on the later ones.

    Methods that need predictions and outcomes alone are fitted on the score table of all earlier rows. Methods with
    features or segments are fitted on a sample of them, and all are compared on the sample of the later rows: the
    sample that a service with these settings keeps of the same events (of one partition; with several, each partition
    has a sample of its own).

    Parameters
    ----------
    df
        A row for each prediction of one model and version; cached, if it takes long to compute: it is read four times.
    columns
        Names of its columns, by default those of their roles. ``prediction``, ``outcome`` and ``positive`` are as of
        :func:`~monitor.spark.score_tables`; ``id`` holds the ids of the events, on which the sample depends, and not on
        the order of rows; ``time`` timestamps, with a zone or without one, which is UTC then, or milliseconds since the
        epoch; ``features`` numbers, which become floats of 32 bits, as in the service; ``segments`` text.
    methods, held_out, since_change, draws, seed
        As of :func:`monitor.recalibrate`.
    model
        Name of the model, as in the service's events: ids are hashed with it.
    sample
        About how many events to sample; or the service's settings, as
        :func:`monitor.app.parts.make_sample_settings` has them, to draw its sample.
    policy
        The model's horizon and lateness, which the service's sample depends on, and whether a prediction without an
        outcome is a negative.

    Returns
    -------
    Recalibration
        As of :func:`monitor.recalibrate`; :func:`~monitor.spark.apply_map` takes it.

    Raises
    ------
    InputError
        A column does not exist or cannot be read, ids are missing or not unique, or a method or option is wrong.
    NotEnoughData
        There are too few rows, or too few of an outcome.
    """
    policy = policy or ModelPolicy(horizon_ms=0, lateness_ms=0)
    unread = {"weight": columns.weight, "logits": columns.logits, "skip_bad_rows": columns.skip_bad_rows}
    for name in (name for name, value in unread.items() if value):
        raise InputError(f"Columns({name}=...) is not for DataFrames of Spark, got {unread[name]!r}")
    names = listed(columns.prediction) or ("prediction",)
    if len(names) > 1:
        raise InputError(f"prediction must name one column of P(y = 1), got {len(names)}")
    (prediction,), outcome = names, columns.outcome or "outcome"
    features, segments = listed(columns.features), listed(columns.segments)
    with in_python(), shown_progress() as report_progress:
        report_progress("reading", 0.0)
        others = [
            F.col(TIME),
            id_of(df, columns.id or "id").alias(ID),
            features_of([column_of(df, name, "features") for name in features]).alias(FEATURES),
            segments_of({name: column_of(df, name, "segments") for name in segments}).alias(SEGMENTS),
        ]
        values = with_values(
            with_times(df, columns.time or "time"),
            others,
            prediction=prediction,
            outcome=outcome,
            positive=columns.positive,
        )
        if policy.implied_negative:
            values = values.withColumn(OUTCOME, F.when(F.col(OUTCOME) == UNLABELLED, 0).otherwise(F.col(OUTCOME)))
        reason = F.coalesce(
            F.col(REASON), F.when(F.col(TIME).isNull(), "missing_time"), F.when(F.col(ID).isNull(), "missing_id")
        )
        values = values.withColumn(REASON, reason)
        left_out, from_ms, to_ms = _summary(values)
        rows = values.where(F.col(REASON).isNull())
        if isinstance(sample, SampleSettings):
            plan, limit = SamplePlan.of_service(model, policy, sample), MAX_EVENTS
        else:
            plan, limit = SamplePlan.of_length(sample, to_ms - from_ms + 1), max(sample, 1)
        sampled = merge(draw_samples(rows, plan, model=model), limit=limit)
        events = sampled.events
        notes = (f"compared on a sample of {len(events):,} of {sampled.population:,} rows with an outcome",)
        chosen = methods_for(methods, events)
        tables: list[LabelledEvents] = []

        def fit_on(method: Method, data: RefitData) -> LabelledEvents:
            if method.needs_features or method.needs_segments:
                return data.fit
            if not tables:
                tables.append(_counted(rows, data))
            return tables[0]

        trial = refit_rows(
            LabelledRows(events, timed=True, left_out={**left_out, **sampled.left_out}, notes=notes),
            chosen,
            fit_on=fit_on,
            held_out=held_out,
            since_change=since_change,
            draws=draws,
            seed=seed,
            progress=report_progress,
        )
    needed = {"prediction": [prediction], "features": list(features)}
    return Recalibration.of(trial, model=model, columns=needed)


def _summary(values: DataFrame) -> tuple[dict[str, int], int, int]:
    """Reason -> rows that are left out; and the times of the first and the last of the others."""
    is_unlabelled = (F.col(OUTCOME) == UNLABELLED).alias("is_unlabelled")
    times = F.min(TIME).alias("first_ms"), F.max(TIME).alias("last_ms")
    left_out: Counter[str] = Counter()
    spans = []
    for group in values.groupBy(REASON, is_unlabelled).agg(F.count("*").alias("rows"), *times).collect():
        if group[REASON] is not None:
            left_out[group[REASON].replace("_", " ")] += group["rows"]
            continue
        spans.append((group["first_ms"], group["last_ms"]))
        if group["is_unlabelled"]:
            left_out["no outcome"] += group["rows"]
    if not spans:
        raise NotEnoughData(
            "there are no rows that can be counted" + "".join(f"; {n:,}: {r}" for r, n in left_out.items())
        )
    return dict(sorted(left_out.items())), min(first for first, _ in spans), max(last for _, last in spans)


def _counted(rows: DataFrame, data: RefitData) -> LabelledEvents:
    """All rows of the time that maps are fitted on, counted."""
    earlier = F.col(TIME) < int(data.held_out.time_ms[0])
    if data.change is not None:
        earlier &= F.col(TIME) >= data.change.time_ms
    return LabelledEvents.counted(Counted.of(count_cells(rows.where(earlier), []).toArrow()).scores)
