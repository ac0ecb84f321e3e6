"""Refits in Spark: the service's sample and its maps, to the bit, however the rows lie."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from monitor.arrays import Floats, Ints
from monitor.clock import SystemClock
from monitor.errors import InputError, NotEnoughData
from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy
from monitor.maps import METHODS, fit_map
from monitor.maps import apply_map as apply_to_arrays
from monitor.maps.artifact import to_bytes
from monitor.maps.base import RecalibrationMap
from monitor.recalibration.data import HELD_OUT, part_in_time
from monitor.recalibration.runner import MAX_EVENTS
from monitor.results import Recalibration
from monitor.scores import GridTable
from monitor.scores.labelled import LabelledEvents
from monitor.sources.tables import Columns
from monitor.spark import apply_map, refit, samples
from monitor.store.closed_samples import SCHEMA, ClosedSample
from monitor.store.recalibrations import Sample
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.stream.sampling import SampleSettings
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, batch_of, records_of

MINUTE_MS = 60_000
POLICY = ModelPolicy(horizon_ms=48 * MINUTE_MS, lateness_ms=0, segments=("region",))
# Buckets of two minutes and spans of ten, each of which has several times as many events as it keeps.
SAMPLES = SampleSettings(size=lambda _: 8_000, span_ms=10 * MINUTE_MS, kept_ms=400 * MINUTE_MS)
ROWS = 20_000


class Log(NamedTuple):
    """Predictions with their outcomes, -1 for none."""

    p: Floats
    y: Ints
    time_ms: Ints
    x: Floats
    region: list[str]

    @property
    def columns(self) -> dict[str, object]:
        at = np.arange(self.p.size)
        outcome = np.where(self.y < 0, np.nan, self.y)
        return {
            "id": [f"p{number}" for number in at],
            "time": self.time_ms,
            "p": self.p,
            "y": outcome,
            "a": self.x[:, 0],
            "b": self.x[:, 1],
            "region": self.region,
        }


def log() -> Log:
    """Three hours whose predictions have ties, and miss a feature and half of a group's outcomes."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(ROWS, 2)).astype(np.float32).astype(np.float64)
    p = np.round(1.0 / (1.0 + np.exp(-1.5 * x[:, 0])), 3)
    region = rng.choice(["eu", "us"], ROWS)
    y = (rng.random(ROWS) < p**1.4 * np.where(region == "us", 0.8, 1.0)).astype(np.int64)
    y[rng.random(ROWS) < 0.2] = -1
    time_ms = START_MS + np.sort(rng.integers(0, 180 * MINUTE_MS, ROWS))
    return Log(p, y, time_ms, x, region.tolist())


@pytest.fixture(scope="module")
def events() -> Log:
    return log()


@pytest.fixture(scope="module")
def served(events: Log, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """The sample that the service has after it has read these events."""
    told = []
    for row in range(ROWS):
        features, segments = tuple(events.x[row].tolist()), (("region", events.region[row]),)
        y, time_ms, p = int(events.y[row]), int(events.time_ms[row]), float(events.p[row])
        told.append(NaiveEvent(Kind.PREDICTION, "churn", f"p{row}", time_ms, p, segments=segments, features=features))
        if y >= 0:
            told.append(NaiveEvent(Kind.OUTCOME, "churn", f"p{row}", time_ms, y=y))
    # Later events of both kinds, so that all before are settled.
    told += [NaiveEvent(Kind.LABELLED, "churn", "end", START_MS + 300 * MINUTE_MS, 0.5, 1)]
    settings = PartitionSettings(policy=lambda _: POLICY, kept_ms={MINUTE_MS: 10**9}, samples=SAMPLES)
    with SqlStore.open(f"sqlite:///{tmp_path_factory.mktemp('store')}/state.db", clock=SystemClock()) as store:
        partition = Partition(0, store.claim(0), settings, store.load(0))
        records = records_of(told, garbage_every=0)
        for at in range(0, len(records), 3_000):
            partition.apply(batch_of(records[at : at + 3_000]), Decoder(), None)
            store.save([partition.checkpoint()])
        return store.read_sample("churn", "1", from_ms=0, to_ms=None, limit=MAX_EVENTS)


def maps(result: Recalibration) -> dict[str, RecalibrationMap]:
    return {item.method.name: item.map for item in result.candidates if item.map is not None}


def test_the_sample_and_the_maps_are_those_of_the_service(
    frame: Callable[..., DataFrame], events: Log, served: Sample
) -> None:
    df = frame(**events.columns)
    shuffled = df.repartition(7, F.rand(3)).sortWithinPartitions(F.rand(4))
    results = [
        refit(
            rows,
            Columns(prediction="p", outcome="y", features=["a", "b"], segments=["region"]),
            methods=["beta", "isotonic", "histogram", "group_wise_beta", "lore"],
            model="churn",
            sample=SAMPLES,
            policy=POLICY,
            draws=0,
        )
        for rows in (df, shuffled)
    ]
    fit, later = part_in_time(served.events, HELD_OUT)
    assert 3_000 < len(served.events) < (events.y >= 0).sum() / 3
    for result in results:
        assert result.data.fit.content_hash() == fit.content_hash()
        assert result.data.held_out.content_hash() == later.content_hash()
    found = maps(results[0])
    for name in ("group_wise_beta", "lore"):
        assert to_bytes(found[name], {}) == to_bytes(fit_map(METHODS[name], fit), {})
    rows = (events.y >= 0) & (events.time_ms < later.time_ms[0])
    counted = LabelledEvents.counted(GridTable.from_events(events.p[rows], events.y[rows]).to_scores())
    for name in ("beta", "isotonic", "histogram"):
        assert to_bytes(found[name], {}) == to_bytes(fit_map(METHODS[name], counted), {})
    # Documents hold everything that was computed.
    assert results[0].to_dict() == results[1].to_dict()
    document = results[0].to_dict()
    methods = {item["method"]: item["comparison"]["fit"]["n"] for item in document["methods"]}
    assert methods == {"beta": rows.sum(), "isotonic": rows.sum(), "histogram": rows.sum()} | {
        name: len(fit) for name in ("group_wise_beta", "lore")
    }
    assert f"{(events.y < 0).sum():,} rows left out: no outcome" in document["notes"]


def test_a_sample_of_a_size_serves_a_notebook(frame: Callable[..., DataFrame], events: Log) -> None:
    df = frame(**events.columns)
    found = refit(df, Columns(prediction="p", outcome="y"), methods="beta", sample=3000, draws=0)
    n = len(found.data.fit) + len(found.data.held_out)
    assert 2_500 < n <= 3_000
    rows = df.where("y is not null").select("id", "p", apply_map(found, "p").alias("q")).orderBy("id").toArrow()
    assert found.map is not None
    assert np.array_equal(rows["q"].to_numpy(), apply_to_arrays(found.map, rows["p"].to_numpy()))
    # A sample as large as the log is the log.
    whole = refit(df, Columns(prediction="p", outcome="y"), methods="platt", sample=10 * ROWS, draws=0).data
    answered = np.flatnonzero(events.y >= 0)
    assert sorted(np.r_[whole.fit.prediction, whole.held_out.prediction]) == sorted(events.p[answered])
    assert whole.fit.is_whole


def test_rows_that_cannot_be_counted_are_reported(frame: Callable[..., DataFrame], events: Log) -> None:
    columns = events.columns
    p, ids = events.p.copy(), [*columns["id"]]  # type: ignore[misc]
    time = [None, *events.time_ms.tolist()[1:]]
    p[1], p[2], ids[3] = np.nan, 1.5, None
    x = events.x[:, 0].copy()
    x[4] = np.inf
    y = events.y.astype(float)
    y[:6], y[y < 0] = 1.0, np.nan
    y[5] = 2.0
    df = frame(**{**columns, "p": p, "id": ids, "time": time, "a": x, "y": y})
    found = refit(df, Columns(prediction="p", outcome="y", features=["a"]), methods=["lore"], sample=10 * ROWS, draws=0)
    left_out = {
        "1 row left out: missing time",
        "2 rows left out: invalid prediction",
        "1 row left out: missing id",
        "1 row left out: invalid outcome",
        "1 row left out: features missing",
        f"{np.isnan(y).sum():,} rows left out: no outcome",
    }
    assert left_out <= set(found.to_dict()["notes"])
    assert len(found.data.fit) + len(found.data.held_out) == ROWS - 6 - np.isnan(y).sum()
    with pytest.raises(InputError, match=r"2 of .* sampled rows have an id of another one"):
        refit(
            df.withColumn(
                "id", F.when(F.col("id") == "p9", "p8").when(F.col("id") == "p7", "p8").otherwise(F.col("id"))
            ),
            Columns(prediction="p", outcome="y"),
            sample=10 * ROWS,
        )
    with pytest.raises(InputError, match="there is no column 'key' for the id"):
        refit(df, Columns(id="key"))
    with pytest.raises(NotEnoughData, match="no rows that can be counted; 20,000: missing prediction"):
        refit(df.withColumn("p", F.lit(None).cast("double")), Columns(prediction="p", outcome="y"))


def test_predictions_without_an_outcome_are_negatives_where_the_policy_says_so(
    frame: Callable[..., DataFrame], events: Log
) -> None:
    policy = ModelPolicy(horizon_ms=0, lateness_ms=0, implied_negative=True)
    found = refit(
        frame(**events.columns),
        Columns(prediction="p", outcome="y"),
        methods=["isotonic"],
        sample=10 * ROWS,
        policy=policy,
        draws=0,
    )
    rows = events.time_ms < found.data.held_out.time_ms[0]
    table = GridTable.from_events(events.p[rows], np.maximum(events.y[rows], 0)).to_scores()
    expected = fit_map(METHODS["isotonic"], LabelledEvents.counted(table))
    assert to_bytes(maps(found)["isotonic"], {}) == to_bytes(expected, {})


def test_a_task_forgets_what_is_in_no_sample_and_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    n = 5_000
    rows = pa.table(
        {
            samples.ID: [f"p{number}" for number in range(n)],
            "bucket_ms": rng.integers(0, 3, n) * 1_000,
            "time_ms": rng.integers(0, 3_000, n),
            "confidence": rng.choice(4, n, p=[0.9, 0.08, 0.015, 0.005]),
            "prediction": pa.array([[0.5]] * n),
            "outcome": rng.integers(-1, 2, n),
            "segments": ["[]"] * n,
            "features": pa.nulls(n, pa.list_(pa.float32())),
        }
    )
    whole = samples._hashed(rows.combine_chunks().to_batches()[0], 3)
    for pending in (100, 10 * n):
        monkeypatch.setattr(samples, "_PENDING_ROWS", pending)
        drawn = next(iter(samples._of_task(rows.to_batches(max_chunksize=70), 3, 50)))
        assert sorted(drawn["bucket_ms"].to_pylist()) == [0, 1_000, 2_000]
        for start, data in zip(drawn["bucket_ms"].to_pylist(), drawn["sample"].to_pylist(), strict=True):
            of_bucket = whole.filter(pc.equal(whole["bucket_ms"], start)).select(SCHEMA.names)
            assert ClosedSample.from_bytes(data) == ClosedSample.of(50, {}, of_bucket)
