"""Heartbeats, leases and evaluations, on SQLite and PostgreSQL."""

from collections import UserDict
from collections.abc import Iterator

import psycopg
import pytest

from monitor.clock import ManualClock, SystemClock
from monitor.errors import StoreUnavailable
from monitor.events.model import SeriesKey
from monitor.store.evaluations import Evaluation, EvaluationStore
from monitor.store.history import Points
from monitor.store.sql import SqlStore
from monitor.windows.history import points_of
from tests.evaluations import save
from tests.patience import eventually
from tests.real.postgres import PostgresServer
from tests.snapshots import report

ROLES = ("evaluate",)
LEASE_SECONDS = 9.0


class Shared:
    """A store whose time a test sets, whichever database it is in."""

    def __init__(self, store: SqlStore, clock: ManualClock) -> None:
        self.clock = clock
        self.store = EvaluationStore(store.database)
        # The time of PostgreSQL cannot be set.
        store.database.now_ms = lambda _: clock.now_ms()  # type: ignore[method-assign, assignment]


@pytest.fixture
def shared(store: SqlStore, clock: ManualClock) -> Shared:
    return Shared(store, clock)


def evaluation(model: str, content: bytes = b"reports", summary: bytes = b"summary", at_ms: int = 7) -> Evaluation:
    return Evaluation(model, at_ms, summary, content)


def test_a_lease_belongs_to_one_replica_until_it_ends(shared: Shared) -> None:
    store, clock = shared.store, shared.clock
    assert store.acquire("a", ["churn", "fraud"]) == {"churn": 1, "fraud": 1}
    assert store.acquire("b", ["churn", "fraud", "new"]) == {"new": 1}
    clock.advance(LEASE_SECONDS - 0.001)
    assert store.acquire("b", ["churn"]) == {}
    assert store.beat("a", ROLES).epochs == {"churn": 1, "fraud": 1}
    clock.advance(LEASE_SECONDS - 0.001)
    assert store.acquire("b", ["churn"]) == {}
    clock.advance(0.001)
    assert store.acquire("b", ["churn"]) == {"churn": 2}
    assert store.beat("a", ROLES).epochs == {"fraud": 1}


def test_a_released_lease_is_free_at_once_and_not_renewed(shared: Shared) -> None:
    store = shared.store
    store.acquire("a", ["churn", "fraud"])
    store.release("b", ["churn"])
    assert store.acquire("b", ["churn"]) == {}
    store.release("a", ["churn"])
    assert store.beat("a", ROLES).epochs == {"fraud": 1}
    assert store.acquire("b", ["churn"]) == {"churn": 2}


def test_models_are_removed_unless_another_replica_has_the_lease(shared: Shared) -> None:
    store = shared.store
    for replica, model in (("a", "mine"), ("b", "other"), ("b", "expired")):
        assert not save(store, replica, store.acquire(replica, [model]), [evaluation(model)])
    shared.clock.advance(LEASE_SECONDS)
    store.acquire("a", ["mine"])
    store.acquire("b", ["other"])
    store.remove("a", ["mine", "other", "expired", "unknown"])
    assert sorted(store.states()) == ["other"]
    assert [found.model for found, _, _ in store.read(dict.fromkeys(["mine", "other", "expired"], -1))] == ["other"]
    # What comes back begins anew, and what was read of it before is not taken for it.
    assert store.acquire("b", ["mine"]) == {"mine": 1}
    assert store.states()["mine"].number == 0


def test_a_replica_that_leaves_leaves_nothing(shared: Shared) -> None:
    store = shared.store
    store.beat("a", ROLES)
    store.acquire("a", ["churn"])
    store.leave("a")
    beat = store.beat("b", ROLES)
    assert [replica.id for replica in beat.replicas] == ["b"]
    assert beat.expired == ["churn"]
    assert store.beat("a", ROLES).epochs == {}


def test_replicas_live_while_they_are_seen(shared: Shared) -> None:
    store, clock = shared.store, shared.clock
    store.beat("a", ("serve", "consume"))
    clock.advance(5)
    beat = store.beat("b", ROLES)
    assert [(replica.id, replica.roles) for replica in beat.replicas] == [("a", ("consume", "serve")), ("b", ROLES)]
    assert [replica.seen_ms - replica.started_ms for replica in store.beat("a", ROLES).replicas] == [5000, 0]
    store.acquire("b", ["churn"])
    assert {replica.id: models for replica, models in store.replicas().items()} == {"a": [], "b": ["churn"]}
    clock.advance(LEASE_SECONDS)
    assert store.replicas() == {}


def test_leases_that_nobody_has_are_named(shared: Shared) -> None:
    store, clock = shared.store, shared.clock
    store.acquire("a", ["churn"])
    assert store.beat("b", ROLES).expired == []
    clock.advance(LEASE_SECONDS)
    assert store.beat("b", ROLES).expired == ["churn"]
    # One's own that has expired is renewed, as nobody has taken it.
    assert store.beat("a", ROLES).expired == []


def test_only_the_owner_of_the_lease_saves(shared: Shared) -> None:
    store, clock = shared.store, shared.clock
    epochs = {**store.acquire("a", ["churn", "fraud"])}
    assert not save(store, "a", epochs, [evaluation("churn"), evaluation("fraud")])
    clock.advance(LEASE_SECONDS)
    store.acquire("b", ["churn"])
    late = [evaluation("churn", b"late"), evaluation("fraud", b"in time")]
    assert save(store, "a", epochs, late) == {"churn"}
    assert {one.model: one.reports for one, _, _ in store.read({"churn": -1, "fraud": -1})} == {
        "churn": b"reports",
        "fraud": b"in time",
    }
    # Nor under an earlier lease of its own.
    clock.advance(LEASE_SECONDS)
    assert store.acquire("a", ["churn"]) == {"churn": 3}
    assert save(store, "a", epochs, [evaluation("churn", b"late")], {"churn": 8}) == {"churn"}
    assert store.states()["churn"].evaluated_ms == 7


@pytest.mark.postgres
def test_a_replica_that_is_paused_while_it_saves_keeps_no_lease(postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_database())
    with SqlStore.open(url, clock=SystemClock()) as of_a, SqlStore.open(url, clock=SystemClock()) as of_b:
        a, b = (EvaluationStore(store.database, lease_ms=1000) for store in (of_a, of_b))
        taken: dict[str, int] = {}

        class Pause(UserDict[SeriesKey, Points]):
            """Is read in the middle of a save: then nothing goes on until another has the lease."""

            def __iter__(self) -> Iterator[SeriesKey]:
                taken.update(eventually(lambda: b.acquire("b", ["churn"])))
                return iter(())

        epochs = a.acquire("a", ["churn"])
        with pytest.raises(StoreUnavailable):
            save(a, "a", epochs, [evaluation("churn")._replace(points=Pause())])
        assert taken == {"churn": 2}
        assert save(a, "a", epochs, [evaluation("churn")]) == {"churn"}
        assert b.states()["churn"].number == 0


@pytest.mark.postgres
def test_what_holds_leases_locked_is_not_sent_as_a_pipeline(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PostgreSQL ends no session whose client is paused within one.
    def refuse(_: object, query: str, *__: object) -> None:
        raise AssertionError(query)

    with SqlStore.open(postgres_server.url(postgres_server.new_database()), clock=SystemClock()) as store:
        leases, models = EvaluationStore(store.database), [f"model-{number}" for number in range(3)]
        monkeypatch.setattr(psycopg.Cursor, "executemany", refuse)
        leases.beat("a", ROLES)
        points = points_of([report(model=model) for model in models])
        epochs = leases.acquire("a", models)
        new = [evaluation(model)._replace(points=points) for model in models]
        assert not save(leases, "a", epochs, new, dict.fromkeys(models, 9))
        leases.leave("a")
        assert [state.number for state in leases.states().values()] == [1, 1, 1]


def test_what_has_changed_is_read_and_nothing_else(shared: Shared) -> None:
    store = shared.store
    epochs = store.acquire("a", ["churn", "fraud"])
    assert {state.number for state in store.states().values()} == {0}
    assert list(store.read({"churn": -1})) == []
    save(store, "a", epochs, [evaluation("churn")])
    assert list(store.read({"churn": -1})) == [(evaluation("churn"), 1, 1)]
    # The summary alone.
    save(store, "a", epochs, [Evaluation("churn", 8, b"other", None)])
    assert list(store.read({"churn": 1})) == [(Evaluation("churn", 8, b"other", None), 2, 1)]
    # The time alone.
    save(store, "a", epochs, [], {"churn": 9})
    state = store.states()["churn"]
    assert (state.number, state.evaluated_ms) == (2, 9)
    save(store, "a", epochs, [evaluation("churn", b"new", at_ms=10)])
    assert list(store.read({"churn": 1})) == [(evaluation("churn", b"new", at_ms=10), 3, 3)]


def test_thousands_of_models(shared: Shared) -> None:
    store = shared.store
    models = [f"m{number:05}" for number in range(3000)]
    epochs = store.acquire("a", models)
    assert sorted(epochs) == models
    assert not save(store, "a", epochs, [evaluation(model) for model in models[:1500]], dict.fromkeys(models[1500:], 5))
    assert len(list(store.read(dict.fromkeys(models, -1)))) == 1500
    store.release("a", models[:2500])
    assert len(store.beat("a", ROLES).epochs) == 500


def test_any_name_of_a_model(shared: Shared) -> None:
    store = shared.store
    name = "a\0b\\c'; drop"
    epochs = store.acquire("a", [name])
    save(store, "a", epochs, [evaluation(name)])
    assert [one.model for one, _, _ in store.read({name: -1})] == [name]
    assert store.beat("a", ROLES).epochs == epochs
