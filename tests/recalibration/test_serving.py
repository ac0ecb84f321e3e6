"""What serves: seen at once after an own promotion, seconds after another's, and on while the store is away."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from monitor.clock import ManualClock
from monitor.errors import CorruptMap, InputError, StoreUnavailable
from monitor.maps import RecalibrationMap
from monitor.maps.artifact import to_bytes
from monitor.maps.identity import Identity
from monitor.recalibration import serving as module
from monitor.recalibration.serving import RecalibratedBatch, ServingMaps
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Champion, JobState, StoredMap
from tests.maps_of_refits import fitted, overconfident
from tests.patience import PATIENCE_SECONDS, joined
from tests.store.refits import LEASE_MS, queued, stored_map


class Counting(RecalibrationStore):
    """A store that counts what it is asked, and may be away."""

    def __init__(self, refits: RecalibrationStore) -> None:
        super().__init__(refits._database)
        self.asked = 0
        self.loaded: list[str] = []
        self.away = False

    def champions(self) -> Sequence[Champion]:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("the store is away")
        return super().champions()

    def artifact(self, map_id: str) -> StoredMap:
        self.loaded.append(map_id)
        return super().artifact(map_id)


@pytest.fixture
def store(refits: RecalibrationStore) -> Counting:
    return Counting(refits)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def serving(store: Counting, clock: ManualClock) -> ServingMaps:
    return ServingMaps(store, clock=clock)


def promote(store: Counting, number: int, chosen: RecalibrationMap | bytes, **told: Any) -> None:
    """Let a map serve, as another replica would."""
    store.add_job(queued(number, **told))
    claimed = store.claim_job("w", lease_ms=LEASE_MS)
    assert claimed is not None
    artifact = chosen if isinstance(chosen, bytes) else to_bytes(chosen, {"id": claimed.id})
    serving = {(each.model, each.version): each.map_id for each in RecalibrationStore.champions(store)}
    ended = replace(claimed, state=JobState.CANDIDATE, baseline=serving.get((claimed.model, claimed.version)))
    store.finish_job(ended, "w", stored_map(claimed.id, artifact), {}, promote=True)


def test_without_a_map_predictions_are_as_they_are_and_checked_all_the_same(serving: ServingMaps) -> None:
    assert serving.champion("churn", "7") == Champion("churn", "7", None, 0, 0)
    assert serving.apply("churn", "7", [0.25, 1.0]) == RecalibratedBatch([0.25, 1.0], None)
    assert serving.apply("churn", "7", [[0.25, 0.5, 0.25]]).prediction == [[0.25, 0.5, 0.25]]
    assert serving.apply("churn", "7", []).prediction == []
    for wrong in ([0.25, 1.5], ["x"], [[0.5, 0.5], [1.0]], [[0.5, 0.6]], [[[0.5]]]):
        with pytest.raises(InputError):
            serving.apply("churn", "7", wrong)


def test_predictions_are_as_the_map_makes_them(serving: ServingMaps, store: Counting) -> None:
    chosen, events = fitted("beta"), overconfident(500)
    promote(store, 1, chosen)
    applied = serving.apply("churn", "7", events.prediction)
    assert applied.map_id == "rc_1"
    assert applied.prediction == chosen.apply(events.prediction).tolist()
    assert serving.apply("churn", "8", [0.9]) == RecalibratedBatch([0.9], None)


def test_a_map_that_needs_more_says_what(serving: ServingMaps, store: Counting) -> None:
    events = overconfident(100)
    promote(store, 1, fitted("lore"))
    with pytest.raises(InputError, match="the map needs 2 features an event, and there are none"):
        serving.apply("churn", "7", events.prediction)
    applied = serving.apply("churn", "7", events.prediction, features=events.features)
    assert np.shape(applied.prediction) == (100,)


def test_the_store_is_asked_once_until_the_next_refresh_and_maps_are_loaded_once(
    serving: ServingMaps, store: Counting
) -> None:
    promote(store, 1, Identity())
    for _ in range(5):
        serving.apply("churn", "7", [0.5])
        serving.champion("fraud", "7")
    assert (store.asked, store.loaded) == (1, ["rc_1"])
    promote(store, 2, Identity())
    assert serving.apply("churn", "7", [0.5]).map_id == "rc_1"
    serving.refresh()
    assert serving.apply("churn", "7", [0.5]).map_id == "rc_2"
    promote(store, 3, Identity())
    serving.note_change()
    for _ in range(2):
        assert serving.champion("churn", "7").map_id == "rc_3"
    assert (store.asked, store.loaded) == (3, ["rc_1", "rc_2"])


def test_what_served_goes_on_serving_while_the_store_is_away(
    serving: ServingMaps, store: Counting, clock: ManualClock
) -> None:
    store.away = True
    with pytest.raises(StoreUnavailable):
        serving.apply("churn", "7", [0.5])
    store.away = False
    promote(store, 1, Identity())
    assert serving.apply("churn", "7", [0.5]).map_id == "rc_1"
    store.away = True
    with capture_logs() as logs:
        for _ in range(3):
            serving.refresh()
            assert serving.apply("churn", "7", [0.5]).map_id == "rc_1"
        clock.advance(60.0)
        store.away = False
        serving.refresh()
    assert [entry.get("detail") for entry in logs] == ["the store is away", None]


class Hanging(Counting):
    """A store that answers only once it is let."""

    def __init__(self, refits: RecalibrationStore) -> None:
        super().__init__(refits)
        self.entered = threading.Event()
        self.let = threading.Event()

    def champions(self) -> Sequence[Champion]:
        self.entered.set()
        assert self.let.wait(PATIENCE_SECONDS)
        return super().champions()


def test_a_store_that_hangs_keeps_no_request_waiting(refits: RecalibrationStore, clock: ManualClock) -> None:
    store = Hanging(refits)
    serving = ServingMaps(store, clock=clock)
    promote(store, 1, Identity())
    store.let.set()
    assert serving.apply("churn", "7", [0.5]).map_id == "rc_1"
    store.let.clear()
    store.entered.clear()
    promote(store, 2, Identity())
    refreshing = threading.Thread(target=serving.refresh)
    refreshing.start()
    try:
        assert store.entered.wait(PATIENCE_SECONDS)
        # In this very thread: if it waited, nobody would let the store answer.
        assert serving.apply("churn", "7", [0.5]).map_id == "rc_1"
    finally:
        store.let.set()
        joined(refreshing)
    assert serving.champion("churn", "7").map_id == "rc_2"


def test_a_change_is_seen_after_its_refresh_though_an_earlier_one_is_under_way(
    refits: RecalibrationStore, clock: ManualClock
) -> None:
    store = Hanging(refits)
    serving = ServingMaps(store, clock=clock)
    threads = [threading.Thread(target=serving.refresh)]
    threads[0].start()
    assert store.entered.wait(PATIENCE_SECONDS)
    promote(store, 1, Identity())
    threads.append(threading.Thread(target=serving.refresh))
    threads[1].start()
    store.let.set()
    joined(*threads)
    assert serving.champion("churn", "7").map_id == "rc_1"
    assert store.asked == 2


def test_a_damaged_map_is_an_error_and_not_silence(serving: ServingMaps, store: Counting) -> None:
    promote(store, 1, b"garbage")
    for _ in range(2):
        with pytest.raises(CorruptMap):
            serving.apply("churn", "7", [0.5])


def test_only_so_many_maps_are_kept_loaded(
    serving: ServingMaps, store: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_MAPS", 2)
    for number, model in enumerate("abc", 1):
        promote(store, number, Identity(), model=model)
    for model in "abacab":
        serving.apply(model, "7", [0.5])
    # a, b; a again; c pushes b out; a again; b anew.
    assert store.loaded == ["rc_1", "rc_2", "rc_3", "rc_2"]


def test_many_threads_get_the_same_answers(serving: ServingMaps, store: Counting) -> None:
    chosen, events = fitted("beta"), overconfident(300)
    promote(store, 1, chosen)
    expected = chosen.apply(events.prediction).tolist()
    found: list[bool] = []

    def apply() -> None:
        found.extend(serving.apply("churn", "7", events.prediction).prediction == expected for _ in range(20))

    threads = [threading.Thread(target=apply) for _ in range(8)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert found == [True] * 160
    assert store.loaded == ["rc_1"]
