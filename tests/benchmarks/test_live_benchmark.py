"""What the shadow costs: a look at changed and at unchanged samples, and what an evaluation beside it loses."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pytest

from monitor.app.upkeep import Periodic
from monitor.clock import SystemClock
from monitor.events.model import SeriesKey
from monitor.maps import METHODS, fit_map
from monitor.maps.artifact import to_bytes
from monitor.measures import WINDOW_MEASURES, choose_measures
from monitor.recalibration import live
from monitor.recalibration.live import LiveMonitor
from monitor.reports.evaluation.evaluate import evaluate
from monitor.scores.labelled import LabelledEvents
from monitor.store.base import PaneKey, SampledSpan
from monitor.store.bottom_sample_loops import EDGES
from monitor.store.closed_samples import SCHEMA, ClosedSample
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import JobState, Sample
from monitor.store.sql import SqlStore
from monitor.windows.evaluator import Evaluator
from tests.benchmarks.settled_models import WINDOWS, SettledModels
from tests.recalibration.comparisons import comparison
from tests.store.refits import LEASE_MS, queued, stored_map
from tests.store.samples import HOUR_MS, checkpoint

MODELS: Final = 4
EVENTS: Final = 20_000
FEATURES: Final = 20
SPANS: Final = 16
TICKS: Final = 8
INTERVAL_SECONDS: Final = 30.0


def events(seed: int, n: int) -> LabelledEvents:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, FEATURES))
    p = 1.0 / (1.0 + np.exp(-1.5 * x[:, 0]))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-x[:, 0]))).astype(np.int64)
    return LabelledEvents.of(p, y, time_ms=1 + np.arange(n) * SPANS * HOUR_MS // n, features=x)


def spans(model: str, seed: int) -> list[SampledSpan]:
    """Events as they are in the store."""
    chosen = events(seed, EVENTS)
    rng = np.random.default_rng(seed)
    assert chosen.features is not None
    stratum = np.searchsorted(EDGES, chosen.prediction, "right")
    columns = {
        "id_high": rng.integers(0, 2**63, EVENTS, np.uint64),
        "id_low": rng.integers(0, 2**63, EVENTS, np.uint64),
        "time_ms": chosen.time_ms,
        "confidence": stratum,
        "prediction": chosen.prediction[:, None].tolist(),
        "outcome": chosen.outcome,
        "segments": ["[]"] * EVENTS,
        "features": chosen.features.tolist(),
    }
    table = pa.table([pa.array(columns[name]).cast(SCHEMA.field(name).type) for name in SCHEMA.names], SCHEMA)
    found = []
    for span in range(SPANS):
        inside = (chosen.time_ms // HOUR_MS) == span
        labelled = {each: int(count) for each, count in enumerate(np.bincount(stratum[inside])) if count}
        sample = ClosedSample.of(EVENTS, labelled, table.filter(pa.array(inside)))
        found.append(SampledSpan(PaneKey(HOUR_MS, span * HOUR_MS, SeriesKey(model, "7", "all")), sample))
    return found


class Changing:
    """Samples of the store, of which each reading is another one while ``changing``."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self.changing = True
        self._turn = 0

    def read_sample(
        self, model: str, version: str, *, from_ms: int = 0, to_ms: int | None = None, limit: int | None = None
    ) -> Sample:
        found = self._store.read_sample(model, version, from_ms=from_ms, to_ms=to_ms, limit=limit)
        self._turn += self.changing
        return found._replace(events=found.events.select(slice(self._turn % 100, None)))


@contextmanager
def prepared(folder: Path) -> Iterator[tuple[RecalibrationStore, SqlStore]]:
    """A store with samples, and of each model a champion and a candidate."""
    fit = events(0, 5000)
    artifacts = [to_bytes(fit_map(METHODS[method], fit), {}) for method in ("lore", "beta")]
    with SqlStore.open(f"sqlite:///{folder}/monitor.db", clock=SystemClock()) as store:
        refits = RecalibrationStore(store.database)
        epoch = store.claim(0)
        for model in range(MODELS):
            name = f"model {model}"
            store.save([checkpoint(epoch, model + 1, closed_samples=spans(name, model + 1))])
            for place, artifact in enumerate(artifacts):
                number = 2 * model + place
                refits.add_job(queued(number, model=name))
                job = refits.claim_job("w", lease_ms=LEASE_MS)
                assert job is not None
                ended = replace(
                    job,
                    state=JobState.CANDIDATE,
                    comparison=comparison(until_ms=0),
                    baseline=f"rc_{number - 1}" if place else None,
                )
                refits.finish_job(ended, "w", stored_map(job.id, artifact), {}, promote=place == 0)
        yield refits, store


def looked(monitor: LiveMonitor) -> float:
    """Milliseconds a version, without rests."""
    monitor.update()
    return 1000 * monitor.latest.duration_seconds / MODELS


def tick(evaluator: Evaluator, settled: SettledModels, first: int) -> float:
    """Milliseconds of wall time of an evaluation after another minute; the mean, for rests come in between."""
    spent = 0.0
    for minute in range(first, first + TICKS):
        settled.close_minute(minute)
        began = time.perf_counter()
        evaluator.evaluate()
        spent += time.perf_counter() - began
    return 1000 * spent / TICKS


@pytest.mark.benchmark
def test_the_shadow_beside_an_evaluation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = SettledModels(40)
    evaluator = Evaluator(settled.panes, WINDOWS[:1], draws=0, clock=SystemClock())
    evaluator.evaluate()  # kernels are compiled
    measures = choose_measures({*WINDOW_MEASURES, "brier", "log_loss"})
    with prepared(tmp_path) as (refits, store):
        samples = Changing(store)
        measured = partial(evaluate, measures=measures)
        monitor = LiveMonitor(refits, samples.read_sample, evaluate_of=lambda _: measured, clock=SystemClock())
        with monkeypatch.context() as patch:
            patch.setattr(live, "_REST_FACTOR", 0.0)
            looked(monitor)
            changed = looked(monitor)
            samples.changing = False
            looked(monitor)
            unchanged = looked(monitor)
        began = time.perf_counter()
        store.read_sample("model 0", "7", limit=live.MAX_EVENTS)
        read = 1000 * (time.perf_counter() - began)
        samples.changing = True

        # As the service sets it (monitor/app/tuning.py): without it, evaluations wait 5 ms at a time for the lock.
        usual = sys.getswitchinterval()
        sys.setswitchinterval(0.001)
        alone = tick(evaluator, settled, 0)
        beside = {}
        for turn, rest in enumerate((live._REST_FACTOR, 0.0), start=1):
            with monkeypatch.context() as patch:
                patch.setattr(live, "_REST_FACTOR", rest)
                again = LiveMonitor(refits, samples.read_sample, evaluate_of=lambda _: measured, clock=SystemClock())
                looking = Periodic("live maps", 0.001, again.update, at_once=True)
                looking.start()
                beside[rest] = tick(evaluator, settled, turn * TICKS)
                again.stop()
                looking.stop(60.0)
        sys.setswitchinterval(usual)
        assert len(monitor.latest.documents) == MODELS
    work = MODELS * changed / 1000
    share = work / (work * (1.0 + live._REST_FACTOR) + INTERVAL_SECONDS)
    with capsys.disabled():
        print(
            f"\nlive maps: {MODELS} versions, {EVENTS:,} events with {FEATURES} features each; none, lore and beta"
            f"\n  a version whose sample changed {changed:8.0f} ms"
            f"\n  one whose sample did not       {unchanged:8.0f} ms, of which reading {read:.0f} ms"
            f"\n  an evaluation alone            {alone:8.0f} ms"
            f"\n  beside live maps without pause {beside[live._REST_FACTOR]:8.0f} ms:"
            f" {beside[live._REST_FACTOR] / alone:.2f} times as long"
            f"\n  the same without rests         {beside[0.0]:8.0f} ms:"
            f" {beside[0.0] / alone:.2f} times as long"
            f"\n  by default, with looks {INTERVAL_SECONDS:g} s apart, {share:.0%} of the time is spent so"
        )
    assert all(
        shown.missing is None
        for document in monitor.latest.documents.values()
        for shown in document.maps.by_name().values()
    )
