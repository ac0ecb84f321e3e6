"""Evidence is the same to the last bit, however often it is updated, saved and taken over."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from monitor.alarms.attribution import Attribution
from monitor.alarms.findings import Explainer
from monitor.alarms.serving import ServedMaps
from monitor.alarms.shocks import Shocks
from monitor.alarms.watcher import Watched, Watcher, WatchPlan
from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.model import ALL, Kind, ModelPolicy, SeriesKey
from monitor.store import backfill, evidence
from monitor.store.closing import Cells, Closing, Panes
from monitor.store.evidence import StoredEvidence
from monitor.store.model_evidence import ModelEvidence
from monitor.store.settled import Elsewhere
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.windows.panes import ClosedPanes, read_closings
from tests.long import short_of
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, batch_of, records_of

POLICY = ModelPolicy(horizon_ms=5_000, lateness_ms=2_000, segments=("region",))
KEPT_MS = {1_000: 600_000, 5_000: 600_000}
FEW_MS = {1_000: 5_000, 5_000: 40_000}
MODELS = ("a", "b")
PARTITIONS = 2


class World:
    """Partitions that publish closings in turns."""

    def __init__(self, folder: Path, seed: int, kept_ms: Mapping[int, int] = KEPT_MS) -> None:
        folder.mkdir(exist_ok=True)
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock())
        settings = PartitionSettings(policy=lambda _: POLICY, kept_ms=kept_ms)
        self._partitions = [
            Partition(number, self.store.claim(number), settings, self.store.load(number))
            for number in range(PARTITIONS)
        ]
        rng = np.random.default_rng(seed)
        self._records = [records_of(list(events(rng)), garbage_every=0) for _ in range(PARTITIONS)]
        self.panes = ClosedPanes(kept_ms, lambda _: POLICY)

    def turn(self, begin: int, size: int) -> None:
        for partition, records in zip(self._partitions, self._records, strict=True):
            partition.apply(batch_of(records[begin : begin + size]), Decoder(), None)
            partition.note_elsewhere(Elsewhere(evidence_ms=self.store.evidence_ms()))
            self.store.save([partition.checkpoint()])
        read_closings(self.store, self.panes)

    @property
    def turns(self) -> int:
        return len(self._records[0])


def events(rng: np.random.Generator) -> list[NaiveEvent]:
    """Labelled events of two models, one of them too sure of itself, of two versions and two regions."""
    made = []
    for at in range(4_000):
        model = MODELS[at % 2]
        p = float(rng.choice([0.1, 0.3, rng.random(), 0.9]))
        truth = p if model == "a" else 0.5 + 0.6 * (p - 0.5)
        segments = (("region", str(rng.choice(["eu", "us"]))),)
        y = int(rng.random() < truth)
        made.append(
            NaiveEvent(
                Kind.LABELLED, model, str(at), START_MS + 25 * at, p, y, version=str(at // 3_000), segments=segments
            )
        )
    return made


def watcher(world: World, panes: ClosedPanes | None = None) -> Watcher:
    return of_budget(world, 1e-200, panes)


def of_budget(world: World, per_year: float, panes: ClosedPanes | None = None, **more: Any) -> Watcher:
    panes = panes or world.panes
    maps = ServedMaps(panes, world.store)
    parts: dict[str, Any] = {
        "plan": lambda _: WatchPlan(),
        "shocks": Shocks(panes, [], lambda _: 0.05, clock=SystemClock()),
        "explainer": Explainer(Attribution(panes, maps.serve), lambda _: 0.05, maps.explain),
    }
    return Watcher(panes, world.store, per_year=per_year, maps=maps, **parts | more)


def states(found: Watched) -> dict[tuple[str, str], StoredEvidence]:
    return {(one.model, one.version): one for of_model in found.evidence.values() for one in of_model.states}


@pytest.mark.parametrize("seed", short_of(range(3), 1))
def test_evidence_does_not_depend_on_when_and_where_it_is_added(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    epochs = dict.fromkeys(MODELS, 1)
    steady = watcher(world)
    rng = np.random.default_rng(seed)
    at = 0
    while at < world.turns:
        size = int(rng.integers(20, 400))
        world.turn(at, size)
        at += size
        known = steady.update(epochs)
        # Another replica takes over, from what the last one saved, at any turn.
        other = watcher(world).update(dict.fromkeys(MODELS, at))
        with world.store.database.writing() as connection:
            evidence.save(connection, world.store.database, states(other).values())
    expected = states(known)
    assert {*expected} == {(model, version) for model in MODELS for version in "01"}
    assert evidence.read(world.store.database, MODELS) == [expected[key] for key in sorted(expected)]
    with world.store.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM evidence")
    assert states(watcher(world).update(epochs)) == expected
    # Windows need panes of these times no longer.
    few = ClosedPanes(FEW_MS, lambda _: POLICY)
    read_closings(world.store, few)
    assert few.steps("a", START_MS) is None
    assert states(watcher(world, few).update(epochs)) == expected
    right, too_sure = (known.evidence[model].versions["0"].levels["calibration"].log10_evidence for model in MODELS)
    assert too_sure > right + 3
    world.store.close()


def widths(world: World) -> set[int]:
    """Widths of the panes in closings."""
    after_ms = dict.fromkeys(range(PARTITIONS), -1)
    parts = [part for model in MODELS for part in world.store.read_closings(model, after_ms).values()]
    return {closing.pane_ms for part in parts for closing in part}


def test_panes_that_evidence_has_not_read_stay_narrow(tmp_path: Path) -> None:
    """An evaluation that comes after windows no longer need a pane adds it as one that came in time would have."""
    steady, behind = World(tmp_path / "steady", 0), World(tmp_path / "behind", 0, FEW_MS)
    known, late, was_behind = watcher(steady), watcher(behind), 0
    for turn in range(40):
        for world in (steady, behind):
            world.turn(100 * turn, 100)
        expected = states(known.update(dict.fromkeys(MODELS, 1)))
        if turn % 8 == 7:
            was_behind += behind.panes.steps("a", max(behind.store.evidence_ms().get("a", 0), START_MS)) is None
            found = states(late.update(dict.fromkeys(MODELS, 1)))
            assert found == expected
            with behind.store.database.writing() as connection:
                evidence.save(connection, behind.store.database, found.values())
    assert was_behind >= 3
    assert widths(behind) == {1_000, 5_000}
    for world in (steady, behind):
        world.store.close()


def test_panes_do_not_stay_narrow_for_ever(tmp_path: Path) -> None:
    """Where nothing evaluates, they do for as long as any panes are kept."""
    world = World(tmp_path, 0, FEW_MS)
    for turn in range(18):
        world.turn(100 * turn, 100)
    assert widths(world) == {1_000}
    for turn in range(18, 40):
        world.turn(100 * turn, 100)
    assert widths(world) == {1_000, 5_000}
    world.store.close()


def test_a_model_that_fails_is_logged_once_until_it_works_again(tmp_path: Path) -> None:
    world = World(tmp_path, 0)
    world.turn(0, 400)
    failing = True

    class Failing(Shocks):
        def add(self, model: str, evidence: ModelEvidence) -> ModelEvidence:
            if failing and model == "a":
                raise ValueError("odd")
            return evidence

    watched = of_budget(world, 1.0, shocks=Failing(world.panes, [], lambda _: 0.05, clock=SystemClock()))
    entries = []
    for failing in (True, True, False, True, True):
        with capture_logs() as logs:
            found = watched.update(dict.fromkeys(MODELS, 1))
        assert found.evidence.keys() == found.findings.keys() == ({"b"} if failing else {"a", "b"})
        entries.append([(entry["model"], entry["reason"]) for entry in logs])
    logged = [("a", "ValueError: odd")]
    assert entries == [logged, [], [], logged, []]
    world.store.close()


def test_the_budget_is_shared_out_by_weights(tmp_path: Path) -> None:
    world = World(tmp_path, 0)
    world.turn(0, 3_000)
    plans = {"a": WatchPlan(weight=3.0), "b": WatchPlan(within_horizon=True)}
    shared = of_budget(
        world, 0.01, plan=plans.__getitem__, detectors={"calibration": 2.0, "prevalence": 0.0, "change": 1.0}
    )
    found = shared.update(dict.fromkeys(MODELS, 1)).evidence
    assert {model: [*of_model.versions] for model, of_model in found.items()} == {"a": ["0"], "b": ["0"]}
    lines = {
        (model, name): 10**level.log10_line
        for model, of_model in found.items()
        for name, level in of_model.versions["0"].levels.items()
    }
    # Of 12 parts, model a has three times those of b; the part of b for changes is left.
    assert lines == pytest.approx(
        {
            ("a", "calibration"): 12 / 6 / 0.01,
            ("a", "change"): 12 / 3 / 0.01,
            ("b", "calibration_even"): 12 / 1 / 0.01,
            ("b", "calibration_odd"): 12 / 1 / 0.01,
        }
    )
    world.store.close()


def test_versions_that_have_stopped_leave_the_budget_and_the_store(tmp_path: Path) -> None:
    """The first one of each model makes predictions for 75 s, and panes are kept for 10."""
    world = World(tmp_path, 0, {1_000: 5_000, 5_000: 10_000})
    shared, seen = of_budget(world, 0.01), []
    for turn in range(40):
        world.turn(100 * turn, 100)
        found = shared.update(dict.fromkeys(MODELS, 1))
        with world.store.database.writing() as connection:
            evidence.save(connection, world.store.database, states(found).values())
        versions = found.evidence["a"].versions
        if versions:
            line = 10 ** versions[max(versions)].levels["calibration"].log10_line
            seen.append(("".join(sorted(versions)), round(line)))
    # A version has a share from its first prediction on. Lines come down only where evidence starts at 0.
    assert list(dict.fromkeys(seen)) == [("0", 600), ("0", 1200), ("01", 1200), ("1", 1200)]
    new = of_budget(world, 0.01)
    assert {len(of_model.versions) for of_model in new.update(dict.fromkeys(MODELS, 2)).evidence.values()} == {1}
    assert len(evidence.read(world.store.database, MODELS)) == 4
    assert evidence.remove_stopped(world.store.database, 10_000) == 2
    assert [one.version for one in evidence.read(world.store.database, MODELS)] == ["1", "1"]
    world.store.close()


@pytest.mark.parametrize("kept_ms", [KEPT_MS, FEW_MS])
def test_evidence_begins_again_with_a_backfill_unless_what_it_was_computed_from_is_gone(
    tmp_path: Path, kept_ms: Mapping[int, int]
) -> None:
    world, epochs = World(tmp_path / "world", 3, kept_ms), dict.fromkeys(MODELS, 1)
    followed = watcher(world)
    for at in range(0, world.turns, 200):
        world.turn(at, 200)
        before = states(followed.update(epochs))
        with world.store.database.writing() as connection:
            evidence.save(connection, world.store.database, before.values())
    start_ms, values = np.array([START_MS - 60_000]), np.array([[9, 1, 0, 0, 0, 0]])
    cells = Cells(np.array([0]), start_ms, np.array([2_000]), values)
    panes = Panes([SeriesKey("a", "0", ALL)], cells)
    backfill.save(world.store.database, "past", [Closing("a", START_MS - 60_000, START_MS - 59_000, 1_000, panes)])
    read_closings(world.store, world.panes)
    with capture_logs() as logs:
        after = states(followed.update(epochs))
    (entry,) = [log for log in logs if log.get("model") == "a"]
    assert {key: after[key] for key in after if key[0] == "b"} == {key: before[key] for key in before if key[0] == "b"}
    # A replica that takes over, from what was stored before or since, comes to the same.
    assert states(watcher(world).update(epochs)) == after
    with world.store.database.writing() as connection:
        evidence.save(connection, world.store.database, after.values())
    assert states(watcher(world).update(epochs)) == after
    if kept_ms is KEPT_MS:
        assert entry["event"] == "evidence begins again with what was backfilled"
        with world.store.database.writing() as connection:
            connection.exec_driver_sql("DELETE FROM evidence")
        assert states(watcher(world).update(epochs)) == after
    else:
        assert entry["event"] == "evidence does not begin with what was backfilled"
        levels = [evidence.decode(one["a", "1"].state) | {"began": None} for one in (before, after)]
        assert evidence.encode(levels[0]) == evidence.encode(levels[1])
