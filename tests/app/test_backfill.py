"""Windows, history and evidence of past predictions are those of a service that has read them."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from monitor.app.backfill import declared_policy, of_tables, past_predictions, widened, write
from monitor.app.offline import report_log
from monitor.app.parts import make_evaluator, make_kept_ms, make_panes, make_watcher, open_store
from monitor.app.settings import Settings, load_settings
from monitor.clock import ManualClock, SystemClock
from monitor.errors import InputError, NotEnoughData
from monitor.events.codec import Decoder
from monitor.events.model import ALL, UNVERSIONED, SeriesKey
from monitor.events.strata import Caps
from monitor.scores import GridTable
from monitor.scores.grid_table import COLUMNS, NEGATIVES
from monitor.sources.tables import Columns, read_table
from monitor.store.base import BACKFILL
from monitor.store.closing import SCHEMA, Closing
from monitor.store.settled import Elsewhere
from monitor.stream.partition import Partition
from monitor.windows.history import History
from monitor.windows.panes import read_closings
from tests.cli.command import inside, one_error_line

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CLOCK = ManualClock(START_MS + 400 * DAY_MS)


class Past(NamedTuple):
    """Predictions of 20 days with their outcomes, as a table and as a log."""

    table: Path
    log: Path
    settings: Settings
    config: Path
    rows: int


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    folder = tmp_path_factory.mktemp("past")
    rng = np.random.default_rng(5)
    rows = 4_000
    time_ms = np.sort(START_MS + rng.integers(0, 20 * DAY_MS, rows))
    p = rng.beta(1.0, 4.0, rows)
    y = (rng.random(rows) < p**0.7).astype(np.float64)
    y[rng.random(rows) < 0.1] = np.nan
    region = rng.choice(["eu", "us", ""], rows)
    columns = {"ts": pa.array(time_ms, pa.timestamp("ms", "UTC")), "p": p, "y": y, "region": region}
    pq.write_table(pa.table(columns), folder / "past.parquet")
    lines: list[tuple[int, dict[str, Any]]] = []
    for at, (ms, score, outcome, group) in enumerate(zip(time_ms.tolist(), p, y, region, strict=True)):
        segments = {"segments": {"region": str(group)}} if group else {}
        event = {"model": "churn", "id": str(at), "ts": ms}
        lines.append((ms, {"type": "prediction", "p": score, **segments, **event}))
        if not np.isnan(outcome):
            lines.append((ms, {"type": "outcome", "y": int(outcome), **event}))
    # The last outcome of all, so that the log of outcomes has passed the last prediction, too.
    text = "".join(json.dumps(event) + "\n" for _, event in sorted(lines, key=lambda line: line[0]))
    (folder / "past.jsonl").write_text(text)
    config = folder / "monitor.yaml"
    tree = {
        "store": {"url": f"sqlite:///{folder}/cli.db"},
        "source": {"embedded": {"directory": str(folder / "log")}},
        "models": {"defaults": {"horizon": "1h", "allowed_lateness": "10m", "segments": ["region"]}},
        "evaluation": {"minimum_events": 20, "draws": 19},
    }
    config.write_text(yaml.safe_dump(tree))
    return Past(folder / "past.parquet", folder / "past.jsonl", load_settings(config, {}), config, rows)


def at(settings: Settings, path: Path) -> Settings:
    """The settings with another store."""
    return settings.model_copy(update={"store": settings.store.model_copy(update={"url": f"sqlite:///{path}"})})


def test_windows_are_those_of_a_service_that_read_the_log(past: Past, tmp_path: Path) -> None:
    settings = at(past.settings, tmp_path / "monitor.db")
    expected = report_log(past.log, settings, CLOCK).snapshot
    table = read_table(past.table, Columns(segments=["region"]))
    found = past_predictions(settings, "churn", table, version=UNVERSIONED)
    with open_store(settings, CLOCK) as store:
        points = write(store.database, settings, found, batch="a", clock=CLOCK)
        assert points == write(store.database, settings, found, batch="a", clock=CLOCK)
        panes = make_panes(settings)
        read_closings(store, panes)
        snapshot = make_evaluator(settings, panes, CLOCK).evaluate()
        assert snapshot.reports.keys() == expected.reports.keys()
        assert {key.series.segment for key in snapshot.reports} == {ALL, "region=eu", "region=us"}
        for key, report in expected.reports.items():
            assert snapshot.reports[key] == report
        # The history has a point for each day and window that holds predictions, the last of which is today's.
        key = max(expected.reports, key=lambda key: expected.reports[key].n)
        history, _ = History(store.database).read(key, max_points=1000)
        assert history.to_ms.size == 21
        assert history.n[-1] == expected.reports[key].n
        # Evidence begins with the first of them.
        evidence = make_watcher(settings, panes, store, SystemClock()).update({"churn": 1}).evidence["churn"]
        level = evidence.versions[UNVERSIONED].levels["calibration"]
        assert level.log10_evidence > level.log10_line
        assert level.raised is not None
        assert level.raised.since_ms < START_MS + 3 * DAY_MS


def test_panes_that_no_window_needs_any_more_are_wide_and_nothing_is_lost(past: Past) -> None:
    whole = past_predictions(
        past.settings, "churn", read_table(past.table, Columns(segments=["region"])), version=UNVERSIONED
    ).closing()
    kept_ms = make_kept_ms(past.settings)
    parts = widened(whole, kept_ms)
    assert [part.from_ms for part in parts[1:]] == [part.to_ms for part in parts[:-1]]
    assert (parts[0].from_ms, parts[-1].to_ms) == (whole.from_ms, whole.to_ms)
    assert [part.pane_ms for part in parts] == sorted((part.pane_ms for part in parts), reverse=True)
    assert len({part.pane_ms for part in parts}) == len(kept_ms)
    assert total(parts) == total([whole])


def total(parts: Sequence[Closing]) -> GridTable:
    key = SeriesKey("churn", UNVERSIONED, ALL)
    cells = [part.panes.cells.of_series(list(part.panes.names).index(key)) for part in parts if key in part.panes.names]
    return GridTable.sum(
        GridTable(pane.cell, pane.values)
        for part in cells
        for pane in (part.take(np.flatnonzero(part.start_ms == at)) for at in np.unique(part.start_ms))
    )


def test_what_the_log_holds_of_those_times_is_late(past: Past) -> None:
    from monitor.app.parts import make_partition_settings  # noqa: PLC0415
    from monitor.sources.files import EventFile  # noqa: PLC0415

    found = past_predictions(
        past.settings, "churn", read_table(past.table, Columns(segments=["region"])), version=UNVERSIONED
    )
    partition = Partition(0, 1, make_partition_settings(past.settings, sampling=False))
    partition.note_elsewhere(Elsewhere(backfilled_ms={"churn": found.to_ms}))
    for batch in EventFile(past.log).batches():
        partition.apply(batch, Decoder(), None)
    counters = partition.event_counters()
    assert counters["prediction", "late"] == found.predictions
    assert counters["prediction", "accepted"] == past.rows - found.predictions
    assert all(part.from_ms == found.to_ms for part in partition.checkpoint().closings)


def test_a_backfill_needs_times_and_settled_predictions(past: Past) -> None:
    table = read_table(past.table, Columns(segments=["region"]))
    with pytest.raises(NotEnoughData, match="no prediction is from before 2023-11-14T22:11:00"):
        past_predictions(past.settings, "churn", table, version=UNVERSIONED, to_ms=START_MS - 100_000)
    with pytest.raises(InputError, match=r"--model must not have '\.', '\.\.' or nothing between slashes"):
        declared_policy(past.settings, "zz/../churn")
    with pytest.raises(InputError, match="name their column with --time"):
        past_predictions(past.settings, "churn", table.__class__(table.prediction, table.outcome), version=UNVERSIONED)


def test_versions_and_values_beyond_the_caps_are_other_however_the_rows_are_divided(past: Past) -> None:
    settings = past.settings.model_copy(update={"caps": Caps(versions=2, segment_values=1)})
    counted = {("1", "all"): 5, ("2", "all"): 7, ("3", "all"): 6, ("other", "all"): 1, ("3", "region=eu"): 2}
    counted |= {("1", "region=us"): 3, ("2", "region=eu"): 2}
    pairs, counts = zip(*counted.items(), strict=True)
    rows = pa.table(
        {
            "version": [version for version, _ in pairs],
            "segment": [segment for _, segment in pairs],
            "pane_start_ms": [START_MS - START_MS % 60_000] * len(pairs),
            **dict.fromkeys(SCHEMA.names[-COLUMNS - 1 :], [0] * len(pairs)),
            "cell": [9] * len(pairs),
            "negatives": counts,
        }
    )
    found = of_tables(settings, "churn", rows, to_ms=START_MS + 3_600_000, not_settled=0)
    negatives = np.bincount(found.panes.cells.series, found.panes.cells.values[:, NEGATIVES])
    assert {name[1:]: count for name, count in zip(found.panes.names, negatives.tolist(), strict=True)} == {
        ("2", "all"): 7,
        ("3", "all"): 6,
        ("other", "all"): 6,
        ("2", "region=eu"): 2,
        ("3", "region=eu"): 2,
        ("other", "region=other"): 3,
    }
    assert found.predictions == 19
    turned = of_tables(settings, "churn", rows.take(list(range(7))[::-1]), to_ms=START_MS + 3_600_000, not_settled=0)
    assert turned.panes.to_bytes() == found.panes.to_bytes()


def test_the_command(past: Past) -> None:
    def run(batch: str, *more: str) -> CompletedProcess[str]:
        given = (str(past.table), "--model", "churn", "--batch", batch, "--config", str(past.config))
        return inside("backfill", *given, *more, cwd=past.table.parent)

    first = run("2023")
    assert first.returncode == 0, first.stderr
    assert re.search("^churn: 3,9[0-9]{2} predictions from 2023-11-14.* are in the store as '2023'", first.stdout)
    assert run("2023").stdout == first.stdout
    assert "backfill '2023' holds predictions" in run("2024").stderr.splitlines()[-1]
    assert "--to must be a time" in one_error_line(run("2023", "--to", "yesterday"))
    with open_store(past.settings, CLOCK) as store:
        assert store.clocks()["churn"].keys() == {BACKFILL}
