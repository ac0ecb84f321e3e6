"""Two topics with all that can go wrong in them, as a log that the service reads and as tables in a lake."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from monitor.app.parts import make_decoder, make_partition_settings, open_store
from monitor.app.settings import Settings, load_settings
from monitor.clock import ManualClock
from monitor.events.log import Topics
from monitor.events.model import Kind, Message
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.stream.pipeline import DeadLetterSettings, Pipeline, PipelineSettings
from tests.stream.support import PaneTables, closings_in, tables_of

START_MS: Final = 1_700_000_000_000 - 1_700_000_000_000 % 86_400_000
HOUR_MS: Final = 3_600_000
DAYS: Final = 6
PARTITIONS: Final = 3
CLOCK: Final = ManualClock(START_MS + (DAYS + 1) * 24 * HOUR_MS)
KINDS: Final[Mapping[str, Kind | None]] = {"scores": Kind.PREDICTION, "labels": Kind.OUTCOME}

Rows = list[dict[str, Any]]


class Landed(NamedTuple):
    """Events by topic, each with its partition and offset."""

    scores: Rows
    labels: Rows

    def until(self, share: float) -> "Landed":
        """What has landed when each log has been read up to a share of it."""
        return Landed(*(self._first(rows, share) for rows in self))

    @staticmethod
    def _first(rows: Rows, share: float) -> Rows:
        ends: defaultdict[int, int] = defaultdict(int)
        for row in rows:
            ends[row["partition"]] = max(ends[row["partition"]], row["offset"] + 1)
        return [row for row in rows if row["offset"] < ends[row["partition"]] * share]


def make_events(seed: int, size: int) -> Landed:
    """Predictions, some two or late; and outcomes: late, corrected, twice, of equal times, too old, or for nothing."""
    rng = np.random.default_rng(seed)
    landed = Landed([], [])
    span_ms = DAYS * 24 * HOUR_MS
    for partition in range(PARTITIONS):
        scores: list[tuple[float, dict[str, Any]]] = []
        labels: list[tuple[float, dict[str, Any]]] = []
        for number in range(size // PARTITIONS):
            ts = START_MS + int(rng.integers(0, span_ms))
            event: dict[str, Any] = {"id": f"{partition}-{number}", "ts": ts}
            p = float(rng.choice([rng.beta(1.0, 3.0), 0.0, 1.0, 0.3], p=[0.94, 0.02, 0.02, 0.02]))
            region = [None, {"region": "eu"}, {"region": "us"}][int(rng.integers(3))]
            score = {**event, "p": p, "version": str(1 + (ts - START_MS) // (span_ms // 2)), "segments": region}
            written = float(ts + rng.integers(0, HOUR_MS))
            if rng.random() < 0.02:
                written += 6 * HOUR_MS
            scores.append((written, score))
            if rng.random() < 0.05:
                again = ts + int(rng.integers(-HOUR_MS, HOUR_MS) * rng.integers(2))
                scores.append((written + float(rng.integers(0, HOUR_MS)), {**score, "ts": again, "p": p / 2}))
            if rng.random() < 0.1:
                continue
            if rng.random() < 0.03:
                event["id"] += "-unknown"
            delay = int(rng.integers(-HOUR_MS, 3 * HOUR_MS) if rng.random() < 0.2 else rng.integers(0, 2 * HOUR_MS))
            y = int(rng.random() < p**0.7)
            label: dict[str, Any] = {**event, "ts": ts + delay, "y": y}
            written = label["ts"] + rng.integers(0, int(0.4 * HOUR_MS) if rng.random() < 0.95 else 2 * HOUR_MS)
            labels.append((written, label))
            for _ in range(int(rng.choice([0, 1, 2], p=[0.8, 0.15, 0.05]))):
                other = {
                    **label,
                    "ts": label["ts"] + int(rng.choice([0, 0, 60_000, -60_000])),
                    "y": int(rng.integers(2)),
                }
                labels.append((written + rng.integers(0, HOUR_MS // 4), other))
        # The last events of all partitions are of one time, so that none holds the others back.
        last: dict[str, Any] = {"id": f"{partition}-last", "ts": START_MS + span_ms + HOUR_MS}
        scores.append((np.inf, {**last, "p": 0.5, "version": "2", "segments": None}))
        labels.append((np.inf, {**last, "y": 1}))
        for rows, events in zip(landed, (scores, labels), strict=True):
            ordered = sorted(events, key=lambda event: event[0])
            rows += [{**event, "partition": partition, "offset": at} for at, (_, event) in enumerate(ordered)]
    return landed


def landed_table(rows: Rows) -> pa.Table:
    """The rows of a topic as a table, in no order."""
    table = pa.Table.from_pylist([rows[at] for at in np.random.default_rng(0).permutation(len(rows))])
    ts = pa.array(table["ts"].to_numpy() * 1000, pa.timestamp("us", "UTC"))
    return table.set_column(table.schema.get_field_index("ts"), "ts", ts)


def write_lake(folder: Path, landed: Landed) -> None:
    """Write what has landed as Parquet, in files that hold rows of all partitions."""
    for name, rows in landed._asdict().items():
        (folder / name).mkdir(exist_ok=True)
        table, step = landed_table(rows), len(rows) // 3 + 1
        for number in range(3):
            pq.write_table(table.slice(number * step, step), folder / name / f"{number}.parquet")


def options(folder: Path, store: str, table: str = "{}") -> tuple[str, ...]:
    """The command that joins what was written to a folder; ``table`` is how a table is named."""
    tables = ("--predictions", table.format(folder / "scores"), "--outcomes", table.format(folder / "labels"))
    return (
        "backfill",
        "--spark",
        "--settled",
        *tables,
        "--model",
        "churn",
        "--batch",
        "lake",
        "--config",
        f"{store}.yaml",
    )


def settings_of(folder: Path, store: str) -> Settings:
    """Settings with a store of this name; written to a file, too."""
    tree = {
        "store": {"url": f"sqlite:///{folder}/{store}.db"},
        "models": {"defaults": {"horizon": "2h", "allowed_lateness": "30m", "segments": ["region"]}},
        # Panes stay as narrow as they are, so that evidence is of the same ones.
        "evaluation": {"minimum_events": 20, "draws": 19, "look_back": "10d"},
    }
    (folder / f"{store}.yaml").write_text(yaml.safe_dump(tree))
    return load_settings(folder / f"{store}.yaml", {})


def panes_of(settings: Settings, *partitions: int) -> PaneTables:
    """All panes of the model that partitions have closed."""
    with open_store(settings, CLOCK) as store:
        closings = [part.panes for number in partitions for part in closings_in(store, "churn", partition=number)]
    return tables_of(*closings)


def serve(folder: Path, settings: Settings, landed: Landed) -> Mapping[tuple[str, str], int]:
    """Let the pipeline of the service read the same events; returns its counts."""
    with ExitStack() as at_the_end:
        store = at_the_end.enter_context(open_store(settings, CLOCK))
        log = EmbeddedLog(folder / "log", partitions=PARTITIONS, clock=CLOCK)
        at_the_end.callback(log.close)
        log.write(_messages(landed))
        clock = ManualClock(CLOCK.now_ms())
        pipeline = Pipeline(
            EmbeddedSource(log, Topics(KINDS)),
            store,
            make_decoder(settings, clock),
            partitions=make_partition_settings(settings, sampling=False),
            settings=PipelineSettings(),
            dead_letters=DeadLetterSettings(),
            kinds=KINDS,
            poll_seconds=0,
            clock=clock,
        )
        at_the_end.callback(pipeline.run)
        at_the_end.callback(pipeline.stop)
        for _ in range(60):
            pipeline.step()
            clock.advance(1.0)
        return dict(pipeline.status.counters)


def _messages(landed: Landed) -> Sequence[Message]:
    messages = []
    for topic, rows in landed._asdict().items():
        for row in rows:
            fields = {name: value for name, value in row.items() if name not in {"partition", "offset"}}
            value = json.dumps({"model": "churn", **fields}).encode()
            messages.append(Message(topic, value, row["id"].encode(), partition=row["partition"]))
    return messages
