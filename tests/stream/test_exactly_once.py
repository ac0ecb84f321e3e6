"""Mixed events through a real broker come to what obvious loops make of them, to the last count.

So does the evidence on the models, to the last bit, and so do their alerts. And they do so however often processes are
killed and paused, partitions move, and the broker or the database restarts, hangs or stays away; in every store, for
every reader. What was published once is never revised. The short form has 120,000 events, the long one a million;
there, one process on SQLite reads a quarter of a million, too.

With outages of a minute and every disturbance twenty times::

    EXACTLY_ONCE_ROUNDS=200 EXACTLY_ONCE_OUTAGE_SECONDS=60 pytest -m 'not benchmark' tests/stream/test_exactly_once.py
"""

import itertools
import json
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

import pytest
import sqlalchemy as sa

from monitor.alarms.alarms import Alarms
from monitor.alarms.serving import ServedVersion
from monitor.alarms.watch import VersionWatch
from monitor.clock import SystemClock
from monitor.scores import GridTable
from monitor.scores.steps import Steps
from monitor.sequential.calibration import TOLERANCE
from monitor.store import evidence
from monitor.store.alerts import AlertStore
from monitor.store.base import Bucket, PartitionState
from monitor.store.candidates import Candidates
from monitor.store.closed_samples import ClosedSample
from monitor.store.evidence import StoredEvidence
from monitor.store.model_evidence import ModelEvidence, VersionEvidence
from monitor.store.schema import CLOSED_SAMPLES
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition
from monitor.windows.panes import ClosedPanes, read_closings
from tests.long import short_of
from tests.patience import eventually
from tests.real.child import tail
from tests.real.fleet import Fleet
from tests.real.kafka import KafkaProcess
from tests.real.mixed_log import (
    CLASSES,
    MODELS,
    OF_CLASSES,
    POLICY,
    SAMPLE_CAPACITY,
    SLIDE_MS,
    SPAN_MS,
    START_MS,
    LogLine,
    MixedLog,
    policy_of,
    unjoined_as_one,
)
from tests.real.postgres import PostgresProcess, suspended
from tests.real.produce import produce
from tests.real.stream_worker import (
    KEPT_MS,
    NEVER_FIRES,
    PARTITIONS,
    READY,
    SESSION_SECONDS,
    WIDE_MS,
    FixedLines,
    digest,
    lines_of,
    make_explainer,
    topics,
)
from tests.reference.naive_sample import naive_closed
from tests.stream.published import Pane, PublishedPanes, Unrevised, assert_closed, widened, within

ROUNDS: Final = int(os.environ.get("EXACTLY_ONCE_ROUNDS", "10"))
"""Disturbances of three processes; of one, half as many."""
OUTAGE_SECONDS: Final = float(os.environ.get("EXACTLY_ONCE_OUTAGE_SECONDS", "3"))
"""How long a database is stopped, or hangs."""
PAUSE_SECONDS: Final = SESSION_SECONDS + 2
"""So long that the group expels a process that is paused."""

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800 + ROUNDS * 120)]

NUMBERS: Final = range(12)
NAMES: Final = (*MODELS, OF_CLASSES)


def log_of(events: int) -> MixedLog:
    """A log, and what it comes to: found before any consumer runs, whose heartbeats would starve beside the loops."""
    mixed = MixedLog(events, len(NUMBERS), models=NAMES, features=True)
    assert mixed.expected.panes
    assert mixed.samples
    return mixed


def published_of(log: MixedLog) -> list[dict[str, PublishedPanes]]:
    """What each partition has to publish of each model, by obvious loops."""
    result: list[dict[str, PublishedPanes]] = []
    for number in NUMBERS:
        sketches = log.sketches(SLIDE_MS, number)
        of_models: defaultdict[str, PublishedPanes] = defaultdict(dict)
        for (start, series), table in log.expected.partitions[number].items():
            sketch = sketches.get((start, series))
            of_models[series.model][start, series] = Pane(table, () if sketch is None else tuple(sketch.sums.tolist()))
        result.append(dict(of_models))
    return result


class World:
    """A log that is being written, processes that read it, their broker and their store."""

    def __init__(
        self,
        log: MixedLog,
        broker: KafkaProcess,
        url: str,
        folder: Path,
        *,
        database: PostgresProcess | None = None,
        registry: str | None = None,
    ) -> None:
        self.log, self.broker, self.database, self.url, self.folder = log, broker, database, url, folder
        self.suffix = folder.name
        self._formats = () if registry is None else (registry,)
        self.store = SqlStore.open(url, clock=SystemClock())
        self.unrevised = Unrevised(self.store, NAMES, NUMBERS)
        self.fleet = Fleet(folder, self._command, READY.encode())
        self.results: list[Mapping[str, Any]] = []
        """What each process that ended in order had summed."""
        for topic in topics(self.suffix):
            broker.create_topic(topic, log.partitions)

    def _command(self, name: str) -> Sequence[str]:
        group, result = self.suffix, self.folder / f"{name}.json"
        arguments = (self.broker.bootstrap, group, self.url, self.suffix, str(result), *self._formats)
        return ["tests.real.stream_worker", *arguments]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.fleet.__exit__(None, None, None)
        self.store.close()
        if kind is not None:
            print(tail(self.broker.log))

    def end(self, *names: str) -> None:
        """End processes in order, and take up what they had summed."""
        self.fleet.stop(*names)
        for name in names:
            result = json.loads((self.folder / f"{name}.json").read_text())
            assert result["phase"] == "stopped", result["detail"]
            self.results.append(result)

    def saved(self) -> int:
        """How far the saved offsets have come, over all partitions."""
        self.fleet.check()
        return sum(self.store.saved_offsets().values())

    def ends(self) -> dict[tuple[str, int], int]:
        """How many messages each partition of each topic has."""
        return dict(Counter((f"{line.topic}-{self.suffix}", line.partition) for line in self.log.lines))

    @contextmanager
    def written(self, lines: Sequence[LogLine]) -> Iterator[None]:
        """Write lines beside the block."""
        with ThreadPoolExecutor(1) as writer:
            writing = writer.submit(produce, self.broker.bootstrap, lines, self.suffix)
            yield
            writing.result()


# ---------------------------------------------------------------------- what happens


def a_process_is_killed(world: World, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 1))
    world.fleet.kill(chance.choice(world.fleet.names))
    world.fleet.start()


def all_processes_are_killed(world: World, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 1))
    names = world.fleet.names
    for name in names:
        world.fleet.kill(name)
    for _ in names:
        world.fleet.start()


def a_process_is_paused(world: World, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 1))
    with world.fleet.paused(chance.choice(world.fleet.names)):
        time.sleep(PAUSE_SECONDS)


def a_process_joins(world: World, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 1))
    world.fleet.start()


def a_process_leaves(world: World, chance: random.Random) -> None:
    world.fleet.start()
    time.sleep(chance.uniform(0, 3))
    # The one that leaves may have just come, or own every partition.
    world.end(chance.choice(world.fleet.names))


def the_broker_restarts(world: World, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 1))
    world.broker.restart()


def the_broker_crashes(world: World, chance: random.Random) -> None:
    time.sleep(chance.uniform(0, 1))
    world.broker.kill()
    world.broker.start()


def the_database_crashes(world: World, chance: random.Random) -> None:
    assert world.database is not None
    time.sleep(chance.uniform(0, 1))
    world.database.stop(signal.SIGQUIT)
    world.database.start()


def the_database_is_away(world: World, chance: random.Random) -> None:
    assert world.database is not None
    time.sleep(chance.uniform(0, 1))
    world.database.stop()
    time.sleep(OUTAGE_SECONDS)
    world.database.start()


def the_database_hangs(world: World, chance: random.Random) -> None:
    assert world.database is not None
    time.sleep(chance.uniform(0, 1))
    with suspended(world.database):
        time.sleep(OUTAGE_SECONDS)


Disturbance = Callable[[World, random.Random], None]
OF_ONE: Final[tuple[Disturbance, ...]] = (
    a_process_is_killed,
    the_broker_restarts,
    a_process_is_paused,
    a_process_is_killed,
    the_broker_crashes,
)
OF_SEVERAL: Final[tuple[Disturbance, ...]] = (
    a_process_is_killed,
    a_process_is_paused,
    a_process_joins,
    a_process_leaves,
    all_processes_are_killed,
    the_broker_restarts,
    the_broker_crashes,
    the_database_crashes,
    the_database_is_away,
    the_database_hangs,
)


def disturb(world: World, disturbances: Sequence[Disturbance], *, rounds: int, processes: int, seed: int) -> None:
    """Write the log part by part, each beside a disturbance; then let everything be read, and stop."""
    chance = random.Random(seed)
    order = list(itertools.islice(itertools.cycle(disturbances), rounds))
    chance.shuffle(order)
    for _ in range(processes):
        world.fleet.start()
    lines = world.log.lines
    cuts = [len(lines) * at // rounds for at in range(rounds + 1)]
    for at, (first, last, happens) in enumerate(zip(cuts[:-1], cuts[1:], order, strict=True)):
        if at in {rounds * 3 // 5, rounds * 4 // 5}:
            # All partitions are that far, and evidence has read them: then their old closings are widened.
            wait_until_saved(world, first)
            eventually(lambda: is_watched(world.store), shown=world.store.evidence_ms)
        before = world.saved()
        with world.written(lines[first:last]):
            happens(world, chance)
        eventually(lambda before=before: world.saved() > before, shown=lambda happens=happens: happens)  # type: ignore[misc]
        world.unrevised.look()
        while len(world.fleet.names) > processes + 1:
            world.end(chance.choice(world.fleet.names))
    wait_until_saved(world, len(lines))
    assert world.store.saved_offsets() == world.ends()
    world.unrevised.look()
    world.end(*world.fleet.names)
    assert world.unrevised.look() > len(lines) // 1_000


def is_watched(store: SqlStore) -> bool:
    """Whether the evidence on each model has come as far as its closings, up to a few panes."""
    read_ms = store.evidence_ms()
    closed_ms = {model: clock.closed_to_ms for model, clock in store.model_clocks().items()}
    return all(closed_ms[model] - read_ms.get(model, -1) <= WIDE_MS for model in NAMES)


def wait_until_saved(world: World, messages: int) -> None:
    """Wait until so many messages are saved; however long that takes, as long as it goes on."""
    while (before := world.saved()) != messages:
        eventually(lambda before=before: world.saved() > before, shown=world.store.saved_offsets)  # type: ignore[misc]


# ---------------------------------------------------------------------- what it comes to


def assert_as_expected(world: World, published: Sequence[Mapping[str, PublishedPanes]]) -> None:
    """Compare everything in the store, and everything that any process has summed, with obvious loops."""
    log = world.log
    assert_counts_as_expected(world)
    assert_closings_as_expected(world, published)
    assert_windows_as_expected(world)
    assert_evidence_as_expected(world)
    for result in world.results:
        assert_summed_as_expected(log, result)
    assert_samples_as_expected(log, world.store)


def assert_counts_as_expected(world: World) -> None:
    """The results of all events, and the predictions, are those of obvious loops."""
    log = world.log
    counters, predictions = Counter[tuple[str, str]](), 0
    for number in NUMBERS:
        partition = Partition(number, 0, PARTITIONS, world.store.load(number))
        counters.update(partition.event_counters())
        predictions += partition.join.predictions + sum(partition.departed.values())
    assert unjoined_as_one(counters) == unjoined_as_one(log.expected.counters)
    assert predictions == log.expected.predictions


def assert_closings_as_expected(world: World, published: Sequence[Mapping[str, PublishedPanes]]) -> None:
    """The blobs of each partition and model are what obvious loops make of its part of the log."""
    wait_ms = POLICY.horizon_ms + POLICY.lateness_ms
    wide = 0
    for model in NAMES:
        closings = world.store.read_closings(model, dict.fromkeys(NUMBERS, -1))
        for number in NUMBERS:
            assert_closed(closings[number], published[number][model])
            newest = world.log.joins[number].newest
            settled_ms = min(newest[model, "prediction"], newest[model, "outcome"]) - wait_ms
            assert closings[number][-1].to_ms >= settled_ms - settled_ms % SLIDE_MS
            wide += any(part.pane_ms == WIDE_MS for part in closings[number])
    # Old ones were merged and widened meanwhile.
    assert wide == len(NAMES) * len(NUMBERS)


def assert_windows_as_expected(world: World) -> None:
    """Whoever reads the store now has every pane: closed, or not settled yet."""
    panes = ClosedPanes(KEPT_MS, policy_of)
    read_closings(world.store, panes)
    assert set(panes.series()) == {series for _, series in world.log.expected.panes}
    for slide_ms in KEPT_MS:
        expected = widened({key: Pane(table) for key, table in world.log.expected.panes.items()}, slide_ms)
        sketches = world.log.sketches(slide_ms)
        for series in panes.series():
            first_ms = panes.kept_from_ms(series, slide_ms)
            counted = panes.counts(series, slide_ms, first_ms, START_MS + 2 * SPAN_MS)
            assert [count.start_ms for count in counted] == sorted(
                start for start, key in within(expected, first_ms, START_MS + 2 * SPAN_MS) if key == series
            )
            for start_ms, _, _ in counted:
                table = panes.sum(series, slide_ms, start_ms, start_ms + slide_ms)
                assert table == expected[start_ms, series].table
                sketch = panes.sketch(series, slide_ms, start_ms, start_ms + slide_ms)
                known = sketches.get((start_ms, series))
                assert (sketch is None or not sketch.sums.any()) == (known is None)
                assert known is None or sketch is None or known.sums.tolist() == sketch.sums.tolist()


def assert_evidence_as_expected(world: World) -> None:
    """Evidence and alerts are, to the last bit, what one process makes of the panes of obvious loops in one go."""
    database, panes = world.store.database, ClosedPanes(KEPT_MS, policy_of)
    by_version: defaultdict[tuple[str, str], dict[str, list[tuple[int, GridTable]]]] = defaultdict(dict)
    read_closings(world.store, panes)
    for (start_ms, series), table in sorted(world.log.expected.panes.items()):
        if start_ms + SLIDE_MS <= panes.edge_ms(series.model):
            of_version = by_version[series.model, series.version]
            of_version.setdefault(series.segment, []).append((start_ms + SLIDE_MS, table))
    assert {(one.model, one.version) for one in evidence.read(database, NAMES)} == by_version.keys()
    # Another process takes over, and adds what these had not added when they ended.
    watcher = FixedLines(world.store, panes)
    watched = watcher.update(dict.fromkeys(NAMES, 0))
    with database.writing() as connection:
        evidence.save(
            connection, database, [state for of_model in watched.evidence.values() for state in of_model.states]
        )
        Alarms(database, lambda _: False).save(connection, NAMES, watched.findings)
    expected: defaultdict[str, dict[str, VersionEvidence]] = defaultdict(dict)
    states: defaultdict[str, list[StoredEvidence]] = defaultdict(list)
    for one in evidence.read(database, NAMES):
        tables = by_version[one.model, one.version]
        steps = {segment: Steps.of(of_series) for segment, of_series in tables.items()}
        begin_ms = min(int(of_series.end_ms[0]) for of_series in steps.values()) - 1
        watch = VersionWatch(one.model, one.version, TOLERANCE, begin_ms, block_ms=POLICY.horizon_ms)
        watch.update(steps, lines_of(one.model))
        # It began with no backfill, and the first pane of the log.
        state = {**ServedVersion(watch).state(), "began": [0, begin_ms + 1]}
        assert one == StoredEvidence(one.model, one.version, watch.to_ms, evidence.encode(state))
        expected[one.model][one.version] = VersionEvidence(watch.to_ms, watch.levels(lines_of(one.model)))
        states[one.model].append(one)
    explainer = make_explainer(world.store, panes)
    findings = {
        model: explainer.findings(model, ModelEvidence(versions, states[model]))[0]
        for model, versions in expected.items()
    }
    with SqlStore.open(f"sqlite:///{world.folder}/alone.db", clock=SystemClock()) as alone:
        with alone.database.writing() as connection:
            Alarms(alone.database, lambda _: False).save(connection, NAMES, findings)
        of_one_process = alerts_of(alone)
    assert {model for model, *_ in of_one_process} == {*NAMES} - {NEVER_FIRES}
    assert alerts_of(world.store) == of_one_process


def alerts_of(store: SqlStore) -> list[tuple[Any, ...]]:
    """All alerts with their changes, without ids and wall-clock times."""
    alerts, rows = AlertStore(store.database), []
    for alert_id in sorted(alert.id for alert in alerts.alerts(limit=1_000)):
        alert, changes = alerts.alert(alert_id), alerts.changes_of(alert_id)
        rows.append((*alert.key, alert.state, alert.reason, asdict(alert.finding), [change[3:] for change in changes]))
    return sorted(rows, key=lambda row: row[:3])


def assert_summed_as_expected(log: MixedLog, result: Mapping[str, Any]) -> None:
    """What a process had summed of the closings of all partitions, which it read one by one as they came."""
    expected: dict[str, str] = {}
    for slide_ms, kept_ms in KEPT_MS.items():
        wide = widened({key: Pane(table) for key, table in log.expected.panes.items()}, slide_ms)
        for (start_ms, series), pane in wide.items():
            edge_ms = result["edges"].get(series.model, -1)
            first_ms = max(edge_ms - kept_ms, 0)
            if first_ms - first_ms % slide_ms <= start_ms <= edge_ms - slide_ms:
                expected[f"{slide_ms} {start_ms} {'/'.join(series)}"] = digest(pane.table)
    assert result["panes"] == expected


def assert_samples_as_expected(log: MixedLog, store: SqlStore) -> None:
    """What the store holds of samples is what obvious loops keep, of the buckets that it has dropped."""
    with store._database.reading() as connection:
        rows = connection.execute(sa.select(CLOSED_SAMPLES)).all()
    parts: dict[tuple[int, str, str, int], list[ClosedSample]] = {}
    for row in rows:
        key = (row.partition, row.model, row.version, row.start_ms)
        parts.setdefault(key, []).append(ClosedSample.from_bytes(row.sample))
    stored = {key: naive_closed(ClosedSample.sum(of_span)) for key, of_span in parts.items()}
    expected, open_buckets = {}, set()
    for partition, samples in enumerate(log.samples):
        state = store.load(partition)
        not_dropped = {batch.bucket for batch in state.journal}
        open_buckets |= not_dropped
        for span, closed in samples.closed(lambda bucket, kept=not_dropped: bucket in kept).items():  # type: ignore[misc]
            expected[partition, *span] = closed
        waiting = {cell: items for cell, items in samples.candidates.items() if cell[0] in not_dropped}
        saved = _candidates(state)
        assert set(saved) == set(waiting)
        for cell, items in waiting.items():
            assert {(item.id_hash, item.confidence, item.features) for item in items} <= saved[cell]
    assert open_buckets
    assert len(stored) > 4 * len(NUMBERS) * 8
    assert sum(len(closed.events) == SAMPLE_CAPACITY for closed in stored.values()) > len(stored) // 2
    assert stored == expected
    events = store.read_sample(OF_CLASSES, "1").events
    assert events.classes == len(CLASSES)
    assert events.features is not None
    assert events.features.shape[1] == 4


def _candidates(state: PartitionState) -> dict[tuple[Bucket, str], set[tuple[int, int, tuple[float, ...]]]]:
    """Hash, stratum of confidence and features of what was saved, by bucket and version."""
    candidates: dict[tuple[Bucket, str], set[tuple[int, int, tuple[float, ...]]]] = defaultdict(set)
    for batch in state.candidates:
        for row in Candidates.from_bytes(batch.rows).table.to_pylist():
            version = state.strata[int(row["stratum"])].stratum.version
            candidate = row["id_high"] << 64 | row["id_low"], row["confidence"], tuple(row["features"] or ())
            candidates[batch.bucket, version].add(candidate)
    return candidates


# ---------------------------------------------------------------------- the worlds


@pytest.mark.long
def test_one_process_on_sqlite(own_broker: KafkaProcess, tmp_path: Path) -> None:
    log = log_of(250_000)
    published = published_of(log)
    with World(log, own_broker, f"sqlite:///{tmp_path}/state.db", tmp_path) as world:
        disturb(world, OF_ONE, rounds=max(ROUNDS // 2, 1), processes=1, seed=7)
        assert_as_expected(world, published)


@pytest.mark.postgres
@pytest.mark.parametrize("events", short_of([120_000, 1_000_000], 1))
def test_replicas_on_postgresql(
    own_broker: KafkaProcess, own_postgres: PostgresProcess, tmp_path: Path, events: int
) -> None:
    log = log_of(events)
    published = published_of(log)
    url = own_postgres.url(own_postgres.new_database())
    with World(log, own_broker, url, tmp_path, database=own_postgres) as world:
        disturb(world, OF_SEVERAL, rounds=ROUNDS, processes=3, seed=3)
        assert_as_expected(world, published)
