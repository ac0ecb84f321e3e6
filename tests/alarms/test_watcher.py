"""Evidence is the same to the last bit, however often it is updated, saved and taken over."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from monitor.alarms.watcher import Watcher
from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy
from monitor.store import evidence
from monitor.store.evidence import StoredEvidence
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.windows.panes import ClosedPanes, read_closings
from monitor.windows.snapshot import ModelEvidence
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, batch_of, records_of

POLICY = ModelPolicy(horizon_ms=5_000, lateness_ms=2_000, segments=("region",))
KEPT_MS = {1_000: 600_000, 5_000: 600_000}
MODELS = ("a", "b")
PARTITIONS = 2


class World:
    """Partitions that publish closings in turns."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.store = SqlStore.open(f"sqlite:///{folder}/state.db")
        settings = PartitionSettings(policy=lambda _: POLICY, kept_ms=KEPT_MS)
        self._partitions = [
            Partition(number, self.store.claim(number), settings, self.store.load(number))
            for number in range(PARTITIONS)
        ]
        rng = np.random.default_rng(seed)
        self._records = [records_of(list(events(rng)), garbage_every=0) for _ in range(PARTITIONS)]
        self.panes = ClosedPanes(KEPT_MS, lambda _: POLICY)

    def turn(self, begin: int, size: int) -> None:
        for partition, records in zip(self._partitions, self._records, strict=True):
            partition.apply(batch_of(records[begin : begin + size]), Decoder(), None)
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
    return Watcher(panes or world.panes, world.store, per_year=1e-200, tolerance=lambda _: 0.05)


def states(found: Mapping[str, ModelEvidence]) -> dict[tuple[str, str], StoredEvidence]:
    return {(one.model, one.version): one for of_model in found.values() for one in of_model.states}


@pytest.mark.parametrize("seed", range(3))
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
    few = ClosedPanes({1_000: 5_000, 5_000: 60_000}, lambda _: POLICY)
    read_closings(world.store, few)
    assert few.steps("a", START_MS) is None
    assert states(watcher(world, few).update(epochs)) == expected
    right, too_sure = (known[model].versions["0"].levels["calibration"].log10_evidence for model in MODELS)
    assert too_sure > right + 3
    world.store.close()
