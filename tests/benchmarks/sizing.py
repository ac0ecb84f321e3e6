"""What the service needs: processor time, memory and disk of the real process, for a few sizes; for docs/sizing.md.

``python -m tests.benchmarks.sizing`` prints the table, ``--write`` puts it into the page. Memory and disk do not depend
on what else the machine does; of the processor, seconds of its time are counted and not seconds of the clock.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import psutil
import sqlalchemy as sa
import yaml
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from monitor.clock import SystemClock
from monitor.events.model import Message
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.address import parse_url
from tests.real.child import free_ports, tail
from tests.real.kafka import KafkaBroker, KafkaProcess
from tests.real.postgres import PostgresProcess

PAGE: Final = Path(__file__).parents[2] / "docs" / "sizing.md"
TOPIC: Final = "calibration-events"
KAFKA_PARTITIONS: Final = 12
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
_BATCH: Final = 20_000
_UNMEASURED: Final = {"interval": "24h", "draws": 0}
_LOOK_SECONDS: Final = 3.0
"""A page of many series takes the service a while to write."""
_REST_SECONDS: Final = 12.0
_REST_SHARE: Final = 0.1
"""Of a core: evaluations in which nothing is new take half of it with 4,000 windows."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Size:
    """What is asked of the service.

    Attributes
    ----------
    predictions
        Spread evenly over models, segment values and ``days``.
    answered
        Share of the predictions whose outcome is there, up to twelve hours later.
    models, segments
        Models, and values of the one segment key of each: each has a series of its own beside the whole.
    days
        Length of the log.
    horizon
        Of all models.
    features
        Numbers that each prediction carries.
    kafka, postgres
        Whether events come from a Kafka broker, and whether the store is PostgreSQL; otherwise the embedded log
        and SQLite.
    replicas
        Processes of the service, with PostgreSQL alone more than one.
    """

    predictions: int
    answered: float = 1.0
    models: int = 1
    segments: int = 0
    days: float = 8.0
    horizon: str = "24h"
    features: int = 0
    kafka: bool = False
    postgres: bool = False
    replicas: int = 1

    @property
    def series(self) -> int:
        """Series that are measured, in four windows each."""
        return self.models * (1 + self.segments)


class Needs(NamedTuple):
    """What it took."""

    messages: int
    ingest_seconds: float
    """Processor time of reading, joining and keeping all messages."""
    memory_bytes: int
    """Of the largest process."""
    restart_seconds: float
    """Processor time beyond an empty start, to restore the state and to measure every window with its intervals.

    Nearly all of it is the windows. Those that do not change are not measured again.
    """
    pending: int
    store_bytes: int
    log_bytes: int
    page_bytes: int
    samples: int


SIZES: Final = (
    Size(200_000),
    Size(2_000_000),
    Size(2_000_000, kafka=True),
    Size(2_000_000, kafka=True, postgres=True),
    Size(2_000_000, kafka=True, postgres=True, replicas=3),
    Size(2_000_000, features=16),
    Size(1_000_000, models=10, segments=4),
    Size(1_000_000, models=40, segments=4),
    Size(1_000_000, models=200, segments=4),
    Size(1_000_000, models=200, segments=4, kafka=True, postgres=True, replicas=3),
    Size(1_000_000, answered=0.0, horizon="10d"),
    Size(4_000_000, answered=0.0, horizon="10d"),
)


# ---------------------------------------------------------------------- the log


def messages(size: Size, *, seed: int = 0) -> Iterator[list[Message]]:
    """The events of a size in the order of their times, in batches."""
    rng = np.random.default_rng(seed)
    count = size.predictions
    end_ms = SystemClock().now_ms()
    start_ms = end_ms - round(size.days * DAY_MS)
    made_ms = np.sort(rng.integers(start_ms, end_ms, count))
    p = rng.beta(1.5, 2.5, count)
    model = rng.integers(0, size.models, count)
    segment = rng.integers(0, max(size.segments, 1), count)
    answered = rng.random(count) < size.answered
    known_ms = made_ms + rng.integers(1000, 12 * HOUR_MS, count)
    answered &= known_ms < end_ms
    y = rng.random(count) < p
    order = np.argsort(np.concatenate([made_ms, known_ms[answered]]), kind="stable")
    answers = np.flatnonzero(answered)
    for first in range(0, len(order), _BATCH):
        batch: list[Message] = []
        for place in order[first : first + _BATCH].tolist():
            if place < count:
                row, at = place, int(made_ms[place])
                region = f',"segments":{{"region":"r{segment[place]}"}}' if size.segments else ""
                numbers = f',"features":{rng.normal(size=size.features).round(3).tolist()}' if size.features else ""
                text = (
                    f'{{"type":"prediction","model":"m{model[place]}","version":"1","id":"{place:x}","ts":{at},'
                    f'"p":{p[place]:.6f}{region}{numbers}}}'
                )
            else:
                row = int(answers[place - count])
                at = int(known_ms[row])
                text = f'{{"type":"outcome","model":"m{model[row]}","id":"{row:x}","ts":{at},"y":{int(y[row])}}}'
            batch.append(Message(TOPIC, text.encode(), key=b"%x" % row, timestamp_ms=at))
        yield batch


def write_log(folder: Path, size: Size) -> int:
    """Write the events of a size to an embedded log in the folder; how many messages they are."""
    log = EmbeddedLog(folder / "log", partitions=4, clock=SystemClock())
    written = 0
    try:
        for batch in messages(size):
            log.write(batch)
            written += len(batch)
    finally:
        log.close()
    return written


def produce_log(broker: KafkaBroker, size: Size) -> int:
    """Write the events of a size to a topic of a broker; how many messages they are."""
    broker.create_topic(TOPIC, KAFKA_PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": "lz4", "linger.ms": 20})
    written = 0
    for batch in messages(size):
        for message in batch:
            producer.produce(TOPIC, message.value, message.key)
        written += len(batch)
        producer.flush()
    return written


# ---------------------------------------------------------------------- the service


class Served:
    """Running replicas of the service, and what they use together.

    Parameters
    ----------
    folder
        For their settings and what they print.
    tree
        Their settings; each has a port of its own.
    replicas
        How many.
    """

    def __init__(self, folder: Path, tree: Mapping[str, object], replicas: int = 1) -> None:
        self._ports = free_ports(replicas)
        self.port = self._ports[0]
        self._outputs = [folder / f"output-{port}.txt" for port in self._ports]
        self._processes = [self._start(folder, tree, *each) for each in zip(self._ports, self._outputs, strict=True)]
        self._watched = [psutil.Process(process.pid) for process in self._processes]

    def _start(self, folder: Path, tree: Mapping[str, object], port: int, output: Path) -> subprocess.Popen[bytes]:
        file = folder / f"monitor-{port}.yaml"
        file.write_text(yaml.safe_dump({**tree, "api": {"port": port}}), encoding="utf-8")
        with output.open("wb") as stream:
            return subprocess.Popen(
                [sys.executable, "-m", "monitor", "serve", "--config", str(file)],
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                stdout=stream,
                stderr=subprocess.STDOUT,
            )

    def get(self, path: str, port: int | None = None) -> str:
        """A body; empty while it does not answer with 200."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def pages(self) -> list[str]:
        """/metrics of every replica."""
        return [self.get("/metrics", port) for port in self._ports]

    def wait(self, messages: int) -> None:
        """Until all are ready and that many messages have met their fate."""
        deadline = time.monotonic() + 1800
        while not all(self.get("/readyz", port) for port in self._ports) or self.counted() < messages:
            if any(process.poll() is not None for process in self._processes) or time.monotonic() > deadline:
                outputs = "\n".join(map(tail, self._outputs))
                raise RuntimeError(f"read {self.counted()} of {messages} messages\n{outputs}")
            time.sleep(_LOOK_SECONDS)

    def counted(self) -> int:
        """Messages that were read."""
        found = re.findall(r"^calibration_events_total\{.*\} (\S+)$", "\n".join(self.pages()), re.MULTILINE)
        return round(sum(map(float, found)))

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        return float(sum(sum(process.cpu_times()[:2]) for process in self._watched))

    def at_rest(self) -> float:
        """Processor time by when all windows and their intervals are known: from then on hardly any is used."""
        before = self.cpu()
        while True:
            time.sleep(_REST_SECONDS)
            now = self.cpu()
            if now - before < _REST_SHARE * _REST_SECONDS * len(self._watched):
                return before
            before = now

    def memory(self) -> int:
        """Resident bytes of the largest."""
        return max(int(process.memory_info().rss) for process in self._watched)

    def stop(self) -> None:
        """End them in order."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(60)


@contextmanager
def serving(
    folder: Path, size: Size, evaluation: Mapping[str, object], place: "Place | None" = None
) -> Iterator[Served]:
    """The service, on the folder alone where nothing else is named, ended in order."""
    tree = {
        **(place or Place(folder)).settings(),
        "models": {"defaults": {"horizon": size.horizon, "segments": ["region"] if size.segments else []}},
        "evaluation": dict(evaluation),
        "access": {"mode": "off"},
    }
    served = Served(folder, tree, size.replicas)
    try:
        yield served
    finally:
        served.stop()


@dataclass(frozen=True, slots=True)
class Place:
    """Where events come from, and where what is kept of them is stored.

    Attributes
    ----------
    folder
        Of an embedded log and a SQLite store, where no other is named.
    broker, database
        A Kafka broker; the address of a PostgreSQL database.
    """

    folder: Path
    broker: KafkaBroker | None = None
    database: str | None = None

    def settings(self) -> dict[str, object]:
        """The sections of the settings."""
        source: dict[str, object] = {"embedded": {"directory": str(self.folder / "log")}}
        if self.broker is not None:
            kafka = {"bootstrap_servers": self.broker.bootstrap, "group_id": "sizing"}
            source = {"kind": "kafka", "kafka": kafka, "topics": {"events": TOPIC}}
        return {"source": source, "store": {"url": self.database or f"sqlite:///{self.folder / 'state.db'}"}}

    def write(self, size: Size) -> int:
        """Write the events of a size; how many messages they are."""
        return write_log(self.folder, size) if self.broker is None else produce_log(self.broker, size)

    def store_bytes(self) -> int:
        """Size of the store on disk."""
        if self.database is None:
            return _bytes_of(self.folder, "state.db*")
        with sa.create_engine(parse_url(self.database)).connect() as connection:
            return int(connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one())

    def log_bytes(self) -> int:
        """Size of the log on disk."""
        return _bytes_of(self.folder, "log/**/*" if self.broker is None else f"kafka/**/{TOPIC}-*/*.log")


@contextmanager
def place_of(size: Size) -> Iterator[Place]:
    """A new folder, and the servers that a size asks for."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sizing-")))
        broker = stack.enter_context(KafkaProcess(folder / "kafka")) if size.kafka else None
        server = stack.enter_context(PostgresProcess()) if size.postgres else None
        yield Place(folder, broker, None if server is None else server.url(server.new_database()))


def measure(size: Size, empty_seconds: float) -> Needs:
    """Write the log of a size, let the service read it, start it again on its state, and look."""
    with place_of(size) as place:
        messages = place.write(size)
        # While it reads, nothing is measured: that is counted on its own.
        with serving(place.folder, size, _UNMEASURED, place) as served:
            served.wait(messages)
            ingest = served.cpu() - size.replicas * empty_seconds
        with serving(place.folder, size, {}, place) as served:
            served.wait(messages)
            restart = served.at_rest() - size.replicas * empty_seconds
            pages = served.pages()
            samples = [
                (family.name, sample.value)
                for page in pages
                for family in text_string_to_metric_families(page)
                for sample in family.samples
            ]
            return Needs(
                messages=messages,
                ingest_seconds=ingest,
                memory_bytes=served.memory(),
                restart_seconds=max(restart, 0.0),
                pending=round(sum(value for name, value in samples if name == "calibration_pending_predictions")),
                store_bytes=place.store_bytes(),
                log_bytes=place.log_bytes(),
                page_bytes=sum(map(len, pages)),
                samples=len(samples),
            )


def measure_empty() -> tuple[float, int]:
    """Processor time of a start with nothing to read, and the memory then."""
    size = Size(0)
    with tempfile.TemporaryDirectory(prefix="sizing-") as name, serving(Path(name), size, _UNMEASURED) as served:
        served.wait(0)
        return served.cpu(), served.memory()


def _bytes_of(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


# ---------------------------------------------------------------------- the page

_HEAD: Final = (
    "| predictions | with outcome | models | series | events per processor second | memory, MiB | restart, s "
    "| store, MiB | log, MiB | /metrics, MiB | samples |\n"
    "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def row(size: Size, needs: Needs) -> str:
    """A row of the table."""
    rate = needs.messages / max(needs.ingest_seconds, 0.01)
    how = {
        f"{size.features} features": size.features,
        "Kafka": size.kafka,
        "PostgreSQL": size.postgres,
        f"{size.replicas} replicas": size.replicas > 1,
    }
    cells = [
        ", ".join([f"{size.predictions:,}", *(words for words, there in how.items() if there)]),
        f"{size.answered:.0%}" + (f" ({needs.pending / 1e6:.1f}M pending)" if not size.answered else ""),
        f"{size.models}",
        f"{size.series}",
        f"{round(rate, -3):,.0f}",
        f"{needs.memory_bytes / _MIB:,.0f}",
        f"{needs.restart_seconds:.1f}",
        f"{needs.store_bytes / _MIB:,.0f}",
        f"{needs.log_bytes / _MIB:,.0f}",
        f"{needs.page_bytes / _MIB:.2f}",
        f"{needs.samples:,}",
    ]
    return f"| {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all, print the table, and write it where it stands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/sizing.md")
    options = parser.parse_args(arguments)
    measure_empty()  # compiles what is not compiled yet
    seconds, memory = measure_empty()
    lines = [f"An empty start: {seconds:.1f} s of processor time, {memory / _MIB:.0f} MiB.", "", _HEAD]
    print("\n".join(lines), flush=True)
    for size in SIZES:
        lines.append(row(size, measure(size, seconds)))
        print(lines[-1], flush=True)
    if options.write:
        text = PAGE.read_text(encoding="utf-8")
        begin, end = "<!-- measured -->", "<!-- end -->"
        before, _, rest = text.partition(begin)
        after = rest.partition(end)[2]
        table = "\n".join(lines)
        PAGE.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
