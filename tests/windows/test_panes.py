"""The panes of all partitions against obvious loops, in whatever order the partitions publish them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy, SeriesKey
from monitor.scores import GridTable
from monitor.store.base import Checkpoint, ModelClock
from monitor.store.closing import Closing
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from monitor.windows.panes import ClosedPanes, read_closings
from tests.long import short_of
from tests.reference.naive_join import NaiveEvent, NaiveJoin, binary_views
from tests.stream.support import START_MS, Traffic, batch_of, records_of, unruly_events

POLICY = ModelPolicy(horizon_ms=5_000, lateness_ms=2_000, segments=("region",))
KEPT_MS = {1_000: 10**9, 5_000: 10**9, 15_000: 10**9}
SETTINGS = PartitionSettings(policy=lambda _: POLICY, kept_ms={1_000: 10**9}, unsettled_cells=True)
PARTITIONS = 3
SPAN_MS = 120_000


class Written:
    """Unruly events, spread over partitions by their ids, and what obvious loops make of them."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        events = unruly_events(rng, 3_000, POLICY, Traffic(ids=200, span_ms=SPAN_MS))
        self.logs: list[list[NaiveEvent]] = [[] for _ in range(PARTITIONS)]
        for event in events:
            self.logs[sum(event.id.encode()) % PARTITIONS].append(event)
        self.views: list[tuple[SeriesKey, int, float, int]] = []
        for log in self.logs:
            naive = NaiveJoin(POLICY)
            for event in log:
                naive.read(event)
            for known in naive.predictions.values():
                self.views += [
                    (series, known.event.time_ms, p, y) for series, p, y in binary_views(known.event, known.y, ())
                ]

    def table(self, series: SeriesKey, from_ms: int, to_ms: int) -> GridTable:
        found = [(p, y) for key, time_ms, p, y in self.views if key == series and from_ms <= time_ms < to_ms]
        return GridTable.from_events([p for p, _ in found], [y for _, y in found])

    def checkpoints(self, rng: np.random.Generator) -> list[list[Checkpoint]]:
        """The checkpoints of each partition, taken at random instants."""
        result = []
        for number, log in enumerate(self.logs):
            partition = Partition(number, 1, SETTINGS)
            cuts = np.sort(rng.integers(0, len(log), 12)).tolist()
            records, taken = records_of(log, garbage_every=0), []
            for first, last in zip([0, *cuts], [*cuts, len(log)], strict=True):
                if last > first:
                    partition.apply(batch_of(records[first:last]), Decoder(), None)
                taken.append(partition.checkpoint())
            result.append(taken)
        return result


def published(
    checkpoints: list[list[Checkpoint]], rng: np.random.Generator, kept_ms: Mapping[int, int] = KEPT_MS
) -> ClosedPanes:
    panes = ClosedPanes(kept_ms, lambda _: POLICY)
    order = rng.permutation(np.repeat(np.arange(PARTITIONS), [len(taken) for taken in checkpoints]))
    left = [iter(taken) for taken in checkpoints]
    for number in order.tolist():
        panes.add_checkpoint(next(left[number]))
        for series in panes.series():
            # Windows that are kept up give what they would if they were summed anew.
            edge_ms = panes.edge_ms(series.model) // 5_000 * 5_000
            if edge_ms > START_MS:
                panes.sum(series, 5_000, edge_ms - 30_000, edge_ms)
    return panes


@pytest.mark.parametrize("seed", short_of(range(2), 1))
def test_a_settled_span_is_that_of_obvious_loops_from_wide_panes_and_from_narrow_ones(seed: int) -> None:
    written, rng = Written(seed), np.random.default_rng(seed)
    panes, widths = published(written.checkpoints(rng), rng, {1_000: 20_000, 5_000: 10**9}), set()
    for series in panes.series():
        edge_ms = panes.edge_ms(series.model) // 1_000 * 1_000
        for back_ms in (80_300, 41_700, 12_300):
            width_ms = 1_000 if panes.kept_from_ms(series, 1_000) <= edge_ms - back_ms else 5_000
            widths.add((back_ms, width_ms))
            first_ms = -(-(edge_ms - back_ms) // width_ms) * width_ms
            # What is not settled is left out.
            for to_ms in (edge_ms + 60_000, edge_ms - 7_000):
                begin_ms, table = panes.settled_span(series, edge_ms - back_ms, to_ms)
                assert begin_ms == first_ms
                assert table == written.table(series, first_ms, min(to_ms, edge_ms))
                assert table.predictions > 0
    assert widths == {(80_300, 5_000), (41_700, 5_000), (12_300, 1_000)}


@pytest.mark.parametrize("seed", short_of(range(4), 1))
def test_every_sum_and_count_is_that_of_obvious_loops_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    written = Written(seed)
    checkpoints = written.checkpoints(rng)
    for _ in range(2):
        panes = published(checkpoints, rng)
        assert set(panes.series()) == {series for series, *_ in written.views}
        for series in panes.series():
            edge_ms = panes.edge_ms(series.model)
            assert START_MS + SPAN_MS // 2 < edge_ms < START_MS + SPAN_MS
            for slide_ms in KEPT_MS:
                last_ms = edge_ms - edge_ms % slide_ms
                for from_ms, to_ms in ((last_ms - 30_000, last_ms), (last_ms - 60_000, last_ms + 60_000)):
                    expected = written.table(series, from_ms, to_ms)
                    assert panes.sum(series, slide_ms, from_ms, to_ms) == expected
                    counts = panes.counts(series, slide_ms, from_ms, to_ms)
                    assert sum(pane.predictions for pane in counts) == expected.predictions
                    assert sum(pane.labelled for pane in counts) == expected.labelled
                first_ms = last_ms - slide_ms * int(rng.integers(1, 40))
                assert panes.sum_settled(series, slide_ms, first_ms, last_ms) == written.table(
                    series, first_ms, last_ms
                )


def test_a_store_gives_the_same_panes_to_whoever_reads_it_and_whenever(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    written = Written(5)
    checkpoints = written.checkpoints(rng)
    eager = ClosedPanes(KEPT_MS, lambda _: POLICY)
    with SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()) as store:
        for number in range(PARTITIONS):
            store.claim(number)
        for turn in range(len(checkpoints[0])):
            for taken in checkpoints:
                store.save([taken[turn]])
            read_closings(store, eager)
            read_closings(store, eager)  # there is nothing new, and nothing is added twice
        late = ClosedPanes(KEPT_MS, lambda _: POLICY)
        read_closings(store, late)
    for series in eager.series():
        edge_ms = eager.edge_ms(series.model)
        assert late.edge_ms(series.model) == edge_ms
        assert late.watermark_ms(series.model) == eager.watermark_ms(series.model)
        last_ms = edge_ms - edge_ms % 5_000
        expected = written.table(series, last_ms - 45_000, last_ms)
        assert expected.predictions > 10
        assert eager.sum(series, 5_000, last_ms - 45_000, last_ms) == expected
        assert late.sum(series, 5_000, last_ms - 45_000, last_ms) == expected


def test_what_no_window_needs_is_let_go() -> None:
    rng = np.random.default_rng(6)
    panes = ClosedPanes({1_000: 20_000, 5_000: 40_000}, lambda _: POLICY)
    for taken in Written(6).checkpoints(rng):
        for checkpoint in taken:
            panes.add_checkpoint(checkpoint)
    series = panes.series()[0]
    edge_ms = panes.edge_ms(series.model)
    for slide_ms, kept_ms in ((1_000, 20_000), (5_000, 40_000)):
        first_ms = panes.kept_from_ms(series, slide_ms)
        assert first_ms == (edge_ms - kept_ms) // slide_ms * slide_ms
        assert panes.counts(series, slide_ms, 0, first_ms) == []
        assert panes.counts(series, slide_ms, first_ms, edge_ms)


def test_a_window_that_moves_on_by_more_than_is_kept_is_summed_anew() -> None:
    rng = np.random.default_rng(6)
    few, plain = ClosedPanes({5_000: 20_000}, lambda _: POLICY), ClosedPanes(KEPT_MS, lambda _: POLICY)
    for turn in zip(*Written(6).checkpoints(rng), strict=True):
        for checkpoint in turn:
            few.add_checkpoint(checkpoint)
            plain.add_checkpoint(checkpoint)
        for series in few.series():
            edge_ms = few.edge_ms(series.model) // 5_000 * 5_000
            if edge_ms > START_MS:
                assert few.sum(series, 5_000, edge_ms - 20_000, edge_ms) == plain.sum(
                    series, 5_000, edge_ms - 20_000, edge_ms
                )


def test_the_steps_of_a_model_are_its_narrowest_settled_panes() -> None:
    written = Written(8)
    panes = ClosedPanes(KEPT_MS, lambda _: POLICY)
    kept = ClosedPanes({1_000: 20_000}, lambda _: POLICY)
    implied = ClosedPanes(KEPT_MS, lambda _: replace(POLICY, implied_negative=True))
    for turn in zip(*written.checkpoints(np.random.default_rng(8)), strict=True):
        for checkpoint in turn:
            for each in (panes, kept, implied):
                each.add_checkpoint(checkpoint)
    model = panes.series()[0].model
    edge_ms = panes.edge_ms(model)
    from_ms = edge_ms - 30_000
    steps = panes.steps(model, from_ms)
    assert steps is not None
    for series in (series for series in panes.series() if series.model == model):
        tables = [(at + 1_000, written.table(series, at, at + 1_000)) for at in range(from_ms, edge_ms, 1_000)]
        tables = [(end_ms, table) for end_ms, table in tables if table.predictions]
        assert steps[series].end_ms.tolist() == [end_ms for end_ms, _ in tables]
        assert steps[series].tables() == [table for _, table in tables]
        of_implied = (implied.steps(model, from_ms) or {})[series].tables()
        assert of_implied == [table.with_implied_negatives() for _, table in tables]
    assert kept.steps(model, from_ms) is None
    assert panes.steps("unknown", from_ms) == {}


def test_of_a_merged_closing_only_the_rest_is_added() -> None:
    rng = np.random.default_rng(7)
    taken = Written(7).checkpoints(rng)[0]
    plain, merged = (ClosedPanes(KEPT_MS, lambda _: POLICY) for _ in range(2))
    for checkpoint in taken:
        plain.add_checkpoint(checkpoint)
    first = next(checkpoint for checkpoint in taken if len(checkpoint.closings) > 1)
    merged.add_checkpoint(first)
    for state in taken[-1].models:
        closings = [closing for checkpoint in taken for closing in checkpoint.closings if closing.model == state.name]
        clock = ModelClock(state.prediction_watermark_ms, state.outcome_watermark_ms, state.closed_to_ms)
        merged.advance(0, state.name, clock, [Closing.merged(closings)])
        merged.settle(state.name)
    for series in plain.series():
        span = START_MS - 60_000, plain.edge_ms(series.model)
        assert merged.sum(series, 1_000, *span) == plain.sum(series, 1_000, *span)


def test_a_version_that_stopped_is_no_series_once_no_pane_holds_it() -> None:
    """A version for each ten seconds; what is left of the others is their predictions, in what was summed before."""
    panes, every = ClosedPanes({1_000: 20_000, 5_000: 40_000}, lambda _: POLICY), ClosedPanes(KEPT_MS, lambda _: POLICY)
    partition = Partition(0, 1, SETTINGS)
    events = [
        NaiveEvent(Kind.PREDICTION, "a", str(at), START_MS + 100 * at, 0.3, version=str(at // 100))
        for at in range(1_800)
    ]
    most = 0
    for at in range(0, 1_800, 50):
        partition.apply(batch_of(records_of(events[at : at + 50], garbage_every=0)), Decoder(), None)
        checkpoint = partition.checkpoint()
        for reader in (panes, every):
            reader.add_checkpoint(checkpoint)
        most = max(most, len(panes.series()))
        if at % 500 == 0:
            for series in panes.series():
                edge_ms = panes.edge_ms("a") // 5_000 * 5_000
                assert panes.sum(series, 5_000, edge_ms - 30_000, edge_ms) == every.sum(
                    series, 5_000, edge_ms - 30_000, edge_ms
                )
    # Of five panes of ten seconds, one is only begun, and one not settled.
    assert most <= 7
    assert {series.version for series in every.series()} == {str(version) for version in range(18)}
    assert min(int(series.version) for series in panes.series()) >= 11
