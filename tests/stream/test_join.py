"""The kernels' join against obvious loops, however the events are cut into batches and ordered between logs."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from monitor.events.model import Kind, ModelPolicy
from monitor.events.strata import Caps, Strata
from monitor.scores import GridTable
from monitor.stream.closing import close
from monitor.stream.join import Join
from monitor.stream.journal_loops import NO_OUTCOME
from monitor.stream.log_progress import LogEnds
from tests.long import short_of
from tests.reference.naive_join import NaiveEvent, NaiveJoin, binary_views
from tests.stream.support import START_MS, PaneTables, Traffic, columns_of, tables_of, unruly_events

POLICY = ModelPolicy(horizon_ms=5_000, lateness_ms=2_000, segments=("region",))
PANE_MS = 1_000
CLASSES = tuple("abcdefghi")
BINARY, MIXED = Traffic(), Traffic(models=("a", "of-classes"), classes=len(CLASSES))


def policy_of(model: str) -> ModelPolicy:
    return replace(POLICY, classes=CLASSES) if model == "of-classes" else POLICY


def run(events: list[NaiveEvent], cuts: list[int]) -> tuple[Join, PaneTables]:
    """The join of all events, and the panes of all its predictions."""
    strata = Strata(policy_of)
    join = Join(strata)
    for batch in np.split(np.arange(len(events)), sorted(cuts)):
        if batch.size:
            join.apply(columns_of([events[at] for at in batch], strata))
    return join, tables_of(close(join.copy(), strata, PANE_MS))


def met(join: Join) -> dict[tuple[str, str], int]:
    return {key: count for key, count in join.counters().items() if count}


def expected_panes(naive: NaiveJoin) -> PaneTables:
    result: PaneTables = {}
    for known in naive.predictions.values():
        event = known.event
        for series, p, y in binary_views(event, known.y, CLASSES):
            key = event.time_ms - event.time_ms % PANE_MS, series
            result[key] = result.get(key, GridTable.zero()) + GridTable.from_events([p], [y])
    return result


@pytest.mark.parametrize("traffic", [BINARY, MIXED], ids=["binary", "mixed"])
@pytest.mark.parametrize("seed", short_of(range(20), 4))
def test_every_fate_and_every_pane_as_by_obvious_loops(seed: int, traffic: Traffic) -> None:
    rng = np.random.default_rng(seed)
    events = unruly_events(rng, 600, POLICY, traffic)
    naive = NaiveJoin(POLICY)
    for event in events:
        naive.read(event)
    join, panes = run(events, rng.integers(0, len(events), 7).tolist())
    assert met(join) == naive.counts()
    assert sum(join.counters().values()) == len(events)
    assert panes == expected_panes(naive)
    assert join.predictions == len(naive.predictions)
    assert join.unanswered == sum(known.y == NO_OUTCOME for known in naive.predictions.values())


@pytest.mark.parametrize("traffic", [BINARY, MIXED], ids=["binary", "mixed"])
@pytest.mark.parametrize("seed", short_of(range(10), 3))
def test_how_two_logs_interleave_changes_nothing(seed: int, traffic: Traffic) -> None:
    rng = np.random.default_rng(100 + seed)
    events = [event for event in unruly_events(rng, 500, POLICY, traffic) if event.kind is not Kind.LABELLED]
    predictions = [event for event in events if event.kind is Kind.PREDICTION]
    outcomes = [event for event in events if event.kind is Kind.OUTCOME]
    first_join, first_panes = run(predictions + outcomes, [])
    turns = rng.permutation([True] * len(predictions) + [False] * len(outcomes))
    left, right = iter(predictions), iter(outcomes)
    for order in ([next(left) if turn else next(right) for turn in turns], outcomes + predictions):
        join, panes = run(order, [100, 101, 300])
        assert met(join) == met(first_join)
        assert panes == first_panes


@pytest.mark.parametrize("seed", short_of(range(10), 3))
def test_eviction_changes_no_later_answer(seed: int) -> None:
    """What has left the join could not have changed any more, so every later event meets the same fate."""
    rng = np.random.default_rng(200 + seed)
    events = unruly_events(rng, 2_000, POLICY, Traffic(ids=100, span_ms=200_000))
    kept, _ = run(events, [])
    strata = Strata(lambda _: POLICY)
    join, ends = Join(strata), LogEnds(outcomes_apart=False)
    departed = 0
    for batch in np.split(np.arange(len(events)), 50):
        join.apply(columns_of([events[at] for at in batch], strata))
        departed += sum(rows.size for rows in join.close(ends.settled_ms(join.models, 1)))
    assert departed > 100
    assert join.predictions + departed == kept.predictions
    forgiven = Counter(join.counters())
    forgiven["outcome", "early"] += forgiven.pop(("outcome", "orphan"), 0)
    assert +forgiven == Counter(met(kept))


def test_the_labelled_event_of_a_known_prediction_is_its_outcome() -> None:
    prediction = NaiveEvent(Kind.PREDICTION, "a", "1", START_MS, 0.4)
    labelled = replace(prediction, kind=Kind.LABELLED, time_ms=START_MS + 10, y=1)
    join, panes = run([prediction, labelled, labelled, replace(labelled, y=0, time_ms=START_MS + 20)], [])
    assert met(join) == {
        ("prediction", "accepted"): 1,
        ("labelled", "joined"): 1,
        ("labelled", "duplicate"): 1,
        ("labelled", "corrected"): 1,
    }
    (table,) = panes.values()
    assert table == GridTable.from_events([0.4], [0])


def test_refused_models_are_counted_and_leave_no_trace() -> None:
    strata = Strata(lambda name: POLICY if name == "known" else None, Caps())
    join = Join(strata)
    events = [
        NaiveEvent(Kind.PREDICTION, "unknown", "1", START_MS, 0.4),
        NaiveEvent(Kind.OUTCOME, "unknown", "1", START_MS, y=1),
        NaiveEvent(Kind.PREDICTION, "known", "1", START_MS, 0.4),
    ]
    join.apply(columns_of(events, strata))
    assert met(join) == {
        ("prediction", "refused"): 1,
        ("outcome", "refused"): 1,
        ("prediction", "accepted"): 1,
    }
    assert strata.models == ["known"]


def test_an_early_departure_makes_what_comes_later_late() -> None:
    strata = Strata(lambda _: POLICY)
    join = Join(strata)
    events = [NaiveEvent(Kind.PREDICTION, "a", str(at), START_MS + at, 0.4) for at in range(100)]
    join.apply(columns_of(events, strata))
    (gone,) = join.close(np.array([START_MS + 50]))
    assert gone.size == 50
    join.apply(columns_of(events, strata))
    assert join.counters()["prediction", "late"] == 50
    assert join.counters()["prediction", "duplicate"] == 50
    assert join.predictions == 50
