"""Leases of replicas whose every step, pause and failure is drawn: no two replicas may ever export one model."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from monitor.clock import ManualClock, SystemClock
from monitor.errors import StoreUnavailable
from monitor.store.evaluations import Beat, EvaluationStore
from monitor.store.sql import SqlStore
from monitor.windows.leases import Leases, owner_of
from tests.long import short_of
from tests.patience import eventually, joined
from tests.real.postgres import PostgresServer

MODELS = [f"m{number}" for number in range(12)]
ROLES = ("evaluate",)
TAKEOVER_SECONDS = 15.0


class LocalClock(ManualClock):
    """The clock of one process, which runs as fast as that of the database and shows another time."""

    def __init__(self, real: ManualClock, offset_seconds: float) -> None:
        super().__init__()
        self._real, self._offset = real, offset_seconds

    def monotonic(self) -> float:
        return self._real.monotonic() + self._offset


class Database(EvaluationStore):
    """The store as one replica reaches it: time may pass before and after each call, and calls may fail."""

    def __init__(self, store: SqlStore, clock: ManualClock, draw: random.Random) -> None:
        super().__init__(store.database)
        self._time, self._draw = clock, draw
        self.away = False

    def beat(self, replica: str, roles: Collection[str]) -> Beat:
        self._reach()
        beat = super().beat(replica, roles)
        self._answer()
        return beat

    def acquire(self, replica: str, models: object) -> Mapping[str, int]:
        self._reach()
        taken = super().acquire(replica, models)  # type: ignore[arg-type]
        self._answer()
        return taken

    def _reach(self) -> None:
        if self.away:
            raise StoreUnavailable("the database is away")
        self._wait()

    def _answer(self) -> None:
        self._wait()
        if self._draw.random() < 0.05:
            raise StoreUnavailable("the answer was lost")

    def _wait(self) -> None:
        if self._draw.random() < 0.1:
            self._time.advance(self._draw.choice([0.1, 1.0, 8.5, 30.0]))


def overlapping(replicas: Collection[Leases]) -> list[str]:
    held = Counter(model for replica in replicas for model in replica.held())
    return sorted(model for model, owners in held.items() if owners > 1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqlStore]:
    with SqlStore.open(f"sqlite:///{tmp_path}/monitor.db", clock=clock) as store:
        yield store


def test_rendezvous_hashing_is_even_and_moves_few() -> None:
    models = [f"model {number}" for number in range(3000)]
    three = {model: owner_of(model, ["a", "b", "c"]) for model in models}
    assert all(900 < number < 1100 for number in Counter(three.values()).values())
    two = {model: owner_of(model, ["c", "a"]) for model in models}
    assert all(two[model] == owner for model, owner in three.items() if owner != "b")


@pytest.mark.parametrize("seed", short_of(range(12), 3))
def test_no_two_replicas_hold_a_model_at_one_time(store: SqlStore, clock: ManualClock, seed: int) -> None:
    draw = random.Random(seed)
    databases = [Database(store, clock, draw) for _ in range(3)]
    replicas = [
        Leases(database, name, ROLES, clock=LocalClock(clock, draw.uniform(0, 1e6)))
        for database, name in zip(databases, "abc", strict=True)
    ]
    paused_until = [0.0] * 3
    for _ in range(150):
        clock.advance(draw.choice([0.0, 0.1, 1.0, 3.0]))
        at = draw.randrange(3)
        if draw.random() < 0.05:
            paused_until[at] = clock.monotonic() + draw.choice([5.0, 20.0])
        databases[at].away = draw.random() < 0.1
        if clock.monotonic() >= paused_until[at]:
            if draw.random() < 0.5:
                replicas[at].beat()
            else:
                replicas[at].acquire(MODELS)
        assert not overlapping(replicas)
    # Once all is well, each model has one owner, and it is the same for all.
    for database in databases:
        database.away = False
        database._draw = random.Random(1)
        database._wait = database._answer = lambda: None  # type: ignore[method-assign]
    for _ in range(4):
        clock.advance(3)
        for replica in replicas:
            replica.beat()
            replica.acquire(MODELS)
            assert not overlapping(replicas)
    for replica in replicas:
        assert set(replica.held()) == {model for model in MODELS if owner_of(model, "abc") == replica.replica}


def test_another_replica_takes_over_within_15_seconds_of_a_death(store: SqlStore, clock: ManualClock) -> None:
    evaluations = EvaluationStore(store.database)
    dead, living = (Leases(evaluations, name, ROLES, clock=clock) for name in "ab")
    for replica in (dead, living, dead, living):
        replica.beat()
        replica.acquire(MODELS)
    lost = set(dead.held())
    assert lost
    assert lost | set(living.held()) == set(MODELS)
    died = clock.monotonic()
    # The least lucky moment for the others: just before the lease ends.
    clock.advance(0.001)
    while not set(living.held()) >= lost:
        clock.advance(3)
        living.beat()
    assert clock.monotonic() - died <= TAKEOVER_SECONDS
    # The dead one was only paused.
    assert not dead.held()
    with capture_logs() as logs:
        dead.beat()
    assert [entry["models"] for entry in logs if entry["log_level"] == "warning"] == [len(lost)]
    assert not overlapping([dead, living])


def test_a_replica_that_leaves_is_followed_at_the_next_beat(store: SqlStore, clock: ManualClock) -> None:
    evaluations = EvaluationStore(store.database)
    first, second = (Leases(evaluations, name, ROLES, clock=clock) for name in "ab")
    first.acquire(MODELS)
    assert set(first.held()) == set(MODELS)
    first.leave()
    assert not first.held()
    second.beat()
    assert set(second.held()) == set(MODELS)
    # It takes nothing any more.
    second.leave()
    assert not first.acquire(MODELS)
    first.beat()
    assert not first.held()


def test_without_the_role_nothing_is_evaluated(store: SqlStore, clock: ManualClock) -> None:
    evaluations = EvaluationStore(store.database)
    serving = Leases(evaluations, "a", ("serve",), clock=clock)
    assert not serving.acquire(MODELS)
    evaluating = Leases(evaluations, "b", ("evaluate", "consume"), clock=clock)
    serving.beat()
    assert set(evaluating.acquire(MODELS)) == set(MODELS)


def test_while_the_database_is_away_leases_end_and_one_line_says_so(store: SqlStore, clock: ManualClock) -> None:
    database = Database(store, clock, random.Random(1))
    database._wait = database._answer = lambda: None  # type: ignore[method-assign]
    replica = Leases(database, "a", ROLES, clock=clock)
    replica.acquire(MODELS)
    database.away = True
    with capture_logs() as logs:
        for _ in range(3):
            clock.advance(3)
            replica.beat()
        assert not replica.held()
        # It goes on, as nobody has taken over.
        assert set(replica.epochs) == set(MODELS)
        database.away = False
        replica.beat()
    assert set(replica.held()) == set(MODELS)
    assert [entry["event"] for entry in logs] == ["leases cannot be renewed", "leases are renewed again"]


@pytest.mark.long
@pytest.mark.postgres
def test_no_two_replicas_hold_a_model_on_postgresql(postgres_server: PostgresServer) -> None:
    """Real threads and the database's own clock; leases so short that pauses break them."""
    url = postgres_server.url(postgres_server.new_database())
    ended = threading.Event()
    overlaps: list[str] = []

    def run(leases: Leases, draw: random.Random) -> None:
        while not ended.is_set():
            leases.beat()
            leases.acquire(MODELS)
            # Beyond the lease, by little and by so much that another takes over.
            time.sleep(draw.choice([0.02, 0.1, 1.4, 2.0]))

    with SqlStore.open(url, clock=SystemClock()) as store:
        evaluations = EvaluationStore(store.database, lease_ms=1300)
        replicas = [Leases(evaluations, name, ROLES, clock=SystemClock()) for name in "abc"]
        threads = [
            threading.Thread(target=run, args=(replica, random.Random(seed)), daemon=True)
            for seed, replica in enumerate(replicas)
        ]
        for thread in threads:
            thread.start()
        owners: dict[str, set[str]] = {model: set() for model in MODELS}

        def every_model_moved() -> bool:
            for one, other in itertools.permutations(replicas, 2):
                epochs, first = one.epochs, set(one.held())
                others = set(other.held())
                # Held before and after, under one epoch: so it was held meanwhile.
                overlaps.extend(
                    model
                    for model in first & others & set(one.held())
                    if one.epochs.get(model, -1) == epochs.get(model, -2)
                )
                for model in first:
                    owners[model].add(one.replica)
            return all(len(names) > 1 for names in owners.values())

        eventually(every_model_moved, shown=lambda: owners, pause_seconds=0.005)
        ended.set()
        joined(*threads)
    assert not overlaps
