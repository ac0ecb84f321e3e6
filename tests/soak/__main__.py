"""A long run of `monitor serve` against a real broker, killed every minute: nothing lost, nothing doubled, no growth.

``python -m tests.soak`` publishes 100 million events of 200 models in an hour; ``--events`` and ``--minutes`` make it
shorter. Every half minute it prints what was published and read, resident memory and the size of the store. At the end
the counts of all events, and the sums of all closings, are compared with what was published. The exit status is 1 if
they differ, or if memory or the store grew after the warm-up.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import psutil
import sqlalchemy as sa
import yaml
from confluent_kafka import Producer

from monitor.clock import SystemClock
from monitor.errors import StoreUnavailable
from monitor.scores import grid
from monitor.scores.grid_table import COLUMNS
from monitor.store.closing import Closing
from monitor.store.schema import COUNTERS
from monitor.store.sql import SqlStore
from monitor.windows.windows import Window
from tests.cli.kafka_service import Served
from tests.real.kafka import KafkaProcess
from tests.soak.traffic import EVENTS_PER_PREDICTION, OUTCOMES, PREDICTIONS, STEP_MS, Ints, Messages, Traffic

PARTITIONS: Final = 4
HORIZON_MS: Final = 20_000
LATENESS_MS: Final = 5_000
LOOK_BACK_MS: Final = 120_000
"""Keeps closings until they are read here, also where a service that was started again works off what it missed."""
ROW_SECONDS: Final = 30.0
READ_SECONDS: Final = 10.0
"""How often closings are read."""
GROWTH: Final = 1.15
"""After the warm-up, the largest of the second half may be so many times as large as the largest of the first ..."""
GROWTH_MIB: Final = 16.0
"""... and by how much more."""
MIN_ROWS: Final = 6
"""Rows after the warm-up, from which on growth is judged."""
_QUEUED: Final = 200_000
_MIB: Final = 1 << 20
_PATIENCE_SECONDS: Final = 300.0


class Sums:
    """The sums of all closings of each model, over all of its panes.

    Parameters
    ----------
    models
        How many there are; they are called ``m000`` and so on.
    """

    def __init__(self, models: int) -> None:
        self.values = np.zeros((models, COLUMNS), np.int64)
        """int64, shape (models, 6): counts, and sums of the predictions in units of the grid."""
        self.closed_to_ms: dict[tuple[int, str], int] = {}
        """(partition, model) -> the time up to which its closings are added."""

    def add(self, partition: int, closing: Closing) -> None:
        """Add a closing, or of a merged one, what is later than those before."""
        done_ms = self.closed_to_ms.get((partition, closing.model), closing.from_ms)
        cells = closing.panes.cells
        # Of the series of the whole model; there are no segments.
        values = cells.values[cells.start_ms >= done_ms].copy()
        anchors = grid.anchors()[cells.cell[cells.start_ms >= done_ms]]
        values[:, 3:] += anchors[:, None] * values[:, :3]
        self.values[int(closing.model[1:])] += values.sum(axis=0)
        self.closed_to_ms[partition, closing.model] = closing.to_ms

    def read(self, store: SqlStore) -> None:
        """Add what a store holds beyond what was added."""
        for model, clocks in store.clocks().items():
            known = {partition: self.closed_to_ms.get((partition, model), -1) for partition in clocks}
            new = {at: done for at, done in known.items() if clocks[at].closed_to_ms > done}
            for partition, closings in (store.read_closings(model, new) if new else {}).items():
                for closing in closings:
                    self.add(partition, closing)


class Row(NamedTuple):
    """A row of the table."""

    minutes: float
    published: int
    read: int
    memory_mib: float
    store_mib: float
    kills: int

    @classmethod
    def head(cls) -> str:
        """Two lines: the names of the columns."""
        return "| minutes | published | read | memory, MiB | store, MiB | kills |\n|---:|---:|---:|---:|---:|---:|"

    def text(self) -> str:
        """A line of the table."""
        return (
            f"| {self.minutes:.1f} | {self.published:,} | {self.read:,} | {self.memory_mib:,.0f} "
            f"| {self.store_mib:,.1f} | {self.kills} |"
        )


@dataclass(frozen=True)
class Options:
    """Arguments of the program."""

    events: int
    minutes: float
    models: int
    kill_seconds: float
    window_seconds: int

    @property
    def window(self) -> Window:
        """The window that every series is measured in."""
        return Window("soak", self.window_seconds * 1000)

    @property
    def warm_up_minutes(self) -> float:
        """Until the join is full, and old closings are removed as new ones come."""
        kept_ms = self.window.length_ms + 2 * self.window.slide_ms + LOOK_BACK_MS
        return (HORIZON_MS + LATENESS_MS + 2 * kept_ms) / 60_000


@dataclass
class Soak:
    """A run: the broker, the service, the producer, and what was seen."""

    folder: Path
    broker: KafkaProcess
    options: Options
    rows: list[Row] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        steps = max(1, round(self.options.minutes * 60_000 / STEP_MS))
        predictions = max(1, round(self.options.events / EVENTS_PER_PREDICTION / steps))
        self._steps = steps
        self.traffic = Traffic(self.options.models, PARTITIONS, predictions, round(time.time() * 1000))
        self._sums = Sums(self.options.models)
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 50,
                # What is not delivered is reported; the rest is noise of a broker that starts and ends.
                "log_level": 2,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 2 * _QUEUED,
            }
        )
        for topic in (PREDICTIONS, OUTCOMES):
            self.broker.create_topic(topic, PARTITIONS, retention_bytes=str(1 << 30), segment_bytes=str(1 << 27))
        self._write_settings()
        self._store = SqlStore.open(f"sqlite:///{self.folder / 'state.db'}", clock=SystemClock())
        self._began = self._read_at = self._shown_at = time.monotonic()
        self._works_since: float | None = None
        """When the service had first saved something."""
        self._read_at_start = 0
        self._served = Served(self.folder)

    def run(self) -> list[str]:
        """Publish everything, wait until it is read, and return what was wrong."""
        print(Row.head(), flush=True)
        with self._store:
            try:
                for step in range(self._steps):
                    self._publish(self.traffic.step())
                    self._wait_until(self._began + (step + 1) * STEP_MS / 1000)
                self._publish(self.traffic.rest())
                wait_ms = HORIZON_MS + LATENESS_MS + 3 * self.options.window.slide_ms
                self._publish(self.traffic.last(wait_ms))
                self._flush()
                read, progressed = -1, time.monotonic()
                while read < self.traffic.expected.events:
                    before, read = read, self._read()
                    progressed = time.monotonic() if read > before else progressed
                    if time.monotonic() > progressed + _PATIENCE_SECONDS:
                        return [f"read {read:,} of {self.traffic.expected.events:,} events, and no more came"]
                    self._wait_until(time.monotonic() + 1.0)
                self._end()
                self._show()
                self._sums.read(self._store)
                return [*self._failures, *self._differences(), *self._growth()]
            finally:
                if self._served.process.poll() is None:
                    self._served.kill()

    def _write_settings(self) -> None:
        tree: dict[str, Any] = {
            "source": {
                "kind": "kafka",
                "kafka": {
                    "bootstrap_servers": self.broker.bootstrap,
                    "group_id": "soak",
                    # A restart takes its own place, and waits for no session to time out.
                    "group_instance_id": "soak",
                },
                "topics": {"predictions": PREDICTIONS, "outcomes": OUTCOMES},
            },
            "store": {"url": f"sqlite:///{self.folder / 'state.db'}"},
            "models": {"defaults": {"horizon": HORIZON_MS / 1000, "allowed_lateness": LATENESS_MS / 1000}},
            "windows": [{"length": self.options.window_seconds}],
            "evaluation": {"interval": "10s", "draws": 0, "look_back": LOOK_BACK_MS / 1000},
            "recalibration": {"sample": 1000, "jobs": 0},
            "dead_letters": {"keep": 1000},
            "caps": {"models": self.options.models},
            "api": {"port": 0},
            "access": {"mode": "off"},
            "log": {"format": "json"},
        }
        (self.folder / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")

    # ------------------------------------------------------------------ the producer

    def _publish(self, parts: Iterable[Messages]) -> None:
        for topic, partition, values in parts:
            while len(self._producer) > _QUEUED:
                self._producer.poll(0.05)
                self._look()
            messages: list[dict[str, Any]] = [{"value": value} for value in values]
            sent = self._producer.produce_batch(topic, messages, partition=partition, on_delivery=self._delivered)
            if sent != len(messages):
                raise RuntimeError(f"the producer took {sent} of {len(messages)} messages: {messages[sent]}")
        self._producer.poll(0)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failures.append(f"a message was not written: {error}")

    def _flush(self) -> None:
        while len(self._producer):
            self._producer.flush(1.0)
            self._look()

    # ------------------------------------------------------------------ the service

    def _wait_until(self, until: float) -> None:
        while True:
            self._look()
            left = until - time.monotonic()
            if left <= 0:
                return
            self._producer.poll(min(left, 0.1))

    def _look(self) -> None:
        """Do what is due: kill the service, read its closings, print a row."""
        now = time.monotonic()
        if self._served.process.poll() is not None:
            raise RuntimeError(f"the service ended by itself:\n{self._served.output.read_text()[-4000:]}")
        if now - self._read_at >= READ_SECONDS:
            self._read_at = now
            try:
                self._sums.read(self._store)
            except StoreUnavailable as error:
                print(f"the store is busy, its closings are read later: {error}", file=sys.stderr)
        if now - self._shown_at >= ROW_SECONDS:
            self._shown_at += ROW_SECONDS
            self._show()
        if self._works_since is None:
            self._works_since = now if self._read() > self._read_at_start else None
        elif now - self._works_since >= self.options.kill_seconds:
            self._served.kill()
            self.kills += 1
            self._works_since, self._read_at_start = None, self._read()
            self._served = Served(self.folder)

    def _end(self) -> None:
        """Let the service save everything and end."""
        self._served.process.terminate()
        self._served.process.wait(_PATIENCE_SECONDS)

    def _read(self) -> int:
        return sum(self._counted().values())

    def _counted(self) -> Counter[tuple[str, str]]:
        of = COUNTERS.c
        sums = sa.select(of.type, of.result, sa.func.sum(of.events)).where(of.type.in_(_TYPES))
        with self._store.database.reading() as connection:
            rows = connection.execute(sums.group_by(of.type, of.result)).all()
            return Counter({(type_, result): int(value) for type_, result, value in rows})

    def _show(self) -> None:
        with_memory = self._served.process.poll() is None
        memory = psutil.Process(self._served.process.pid).memory_info().rss if with_memory else 0
        size = sum(path.stat().st_size for path in self.folder.glob("state.db*"))
        minutes = (time.monotonic() - self._began) / 60
        self.rows.append(
            Row(minutes, self.traffic.expected.events, self._read(), memory / _MIB, size / _MIB, self.kills)
        )
        print(self.rows[-1].text(), flush=True)

    # ------------------------------------------------------------------ the verdict

    def _differences(self) -> Iterator[str]:
        """Differences between what was published and what the store holds."""
        expected, counted = self.traffic.expected, +self._counted()
        for key in sorted(expected.counts.keys() | counted.keys()):
            if counted[key] != expected.counts[key]:
                yield f"{' '.join(key)}: {counted[key]:,} counted, {expected.counts[key]:,} published"
        different = np.flatnonzero((self._sums.values != expected.closings).any(axis=1))
        for model in different[:5].tolist():
            closed, published = _ints(self._sums.values[model]), _ints(expected.closings[model])
            yield f"closings of m{model:03d}: {closed}, and {published} were published"
        if different.size:
            yield f"the closings of {different.size} of {self.options.models} models differ from what was published"

    def _growth(self) -> Iterator[str]:
        """What grew after the warm-up."""
        # The last row is of a service that has ended.
        rows = [row for row in self.rows[:-1] if row.minutes > self.options.warm_up_minutes]
        if len(rows) < MIN_ROWS:
            print(f"growth is not judged: {len(rows)} rows after the warm-up, {MIN_ROWS} are needed")
            return
        for name in ("memory_mib", "store_mib"):
            before, after = (
                max(getattr(row, name) for row in part) for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :])
            )
            print(f"{name} after the warm-up: at most {before:,.0f}, then at most {after:,.0f}")
            if after > GROWTH * before + GROWTH_MIB:
                yield f"{name} grew from {before:,.0f} to {after:,.0f}"


_TYPES: Final = {"prediction", "outcome", "labelled", "unknown"}


def _ints(values: Ints) -> str:
    return ", ".join(f"{value:,}" for value in values.tolist())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the table and the verdict; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--events", type=int, default=100_000_000, help="messages to publish (default: 100 million)")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long to publish them (default: 60)")
    parser.add_argument("--models", type=int, default=200, help="models, 1000 at most (default: 200)")
    parser.add_argument(
        "--kill-seconds",
        type=float,
        default=60.0,
        help="how long a service may save events until it is killed (default: 60)",
    )
    parser.add_argument("--window-seconds", type=int, default=60, help="length of the window (default: 60)")
    options = Options(**vars(parser.parse_args(arguments)))
    # Ends as an interrupt does, and the service with it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        with KafkaProcess(folder / "kafka") as broker:
            (folder / "service").mkdir()
            soak = Soak(folder / "service", broker, options)
            wrong = soak.run()
            expected = soak.traffic.expected
    print(f"\n{expected.events:,} events of {options.models} models, {soak.kills} kills:")
    for (type_, result), count in sorted(expected.counts.items()):
        print(f"  {type_:12} {result:12} {count:>14,}")
    for line in wrong:
        print(f"WRONG: {line}")
    print("failed" if wrong else "nothing lost, nothing doubled")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
