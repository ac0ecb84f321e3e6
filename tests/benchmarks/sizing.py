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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import psutil
import yaml
from prometheus_client.parser import text_string_to_metric_families

from monitor.clock import SystemClock
from monitor.sources.base import Message
from monitor.sources.embedded_log import EmbeddedLog
from tests.real.child import free_ports, tail

PAGE: Final = Path(__file__).parents[2] / "docs" / "sizing.md"
TOPIC: Final = "calibration-events"
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000
_BATCH: Final = 20_000
_UNMEASURED: Final = {"interval": "24h", "draws": 0}
_LOOK_SECONDS: Final = 3.0
"""A page of many series takes the service a while to write."""
_REST_SECONDS: Final = 12.0
_REST_SHARE: Final = 0.04
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
    """

    predictions: int
    answered: float = 1.0
    models: int = 1
    segments: int = 0
    days: float = 8.0
    horizon: str = "24h"
    features: int = 0

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
    Size(2_000_000, features=16),
    Size(1_000_000, models=10, segments=4),
    Size(1_000_000, models=40, segments=4),
    Size(1_000_000, models=200, segments=4),
    Size(1_000_000, answered=0.0, horizon="10d"),
    Size(4_000_000, answered=0.0, horizon="10d"),
)


# ---------------------------------------------------------------------- the log


def write_log(folder: Path, size: Size, *, seed: int = 0) -> int:
    """Write the events of a size in the order of their times; how many messages they are."""
    rng = np.random.default_rng(seed)
    log = EmbeddedLog(folder / "log", partitions=4, clock=SystemClock())

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
    messages: list[Message] = []
    try:
        for place in order.tolist():
            if place < count:
                at = int(made_ms[place])
                region = f',"segments":{{"region":"r{segment[place]}"}}' if size.segments else ""
                numbers = f',"features":{rng.normal(size=size.features).round(3).tolist()}' if size.features else ""
                text = (
                    f'{{"type":"prediction","model":"m{model[place]}","version":"1","id":"{place:x}","ts":{at},'
                    f'"p":{p[place]:.6f}{region}{numbers}}}'
                )
                messages.append(Message(TOPIC, text.encode(), key=b"%x" % place, timestamp_ms=at))
            else:
                row = int(answers[place - count])
                at = int(known_ms[row])
                text = f'{{"type":"outcome","model":"m{model[row]}","id":"{row:x}","ts":{at},"y":{int(y[row])}}}'
                messages.append(Message(TOPIC, text.encode(), key=b"%x" % row, timestamp_ms=at))
            if len(messages) == _BATCH:
                log.write(messages)
                messages = []
        log.write(messages)
    finally:
        log.close()
    return len(order)


# ---------------------------------------------------------------------- the service


class Served:
    """A running service, and what it uses."""

    def __init__(self, folder: Path, size: Size, evaluation: Mapping[str, object]) -> None:
        self.port = free_ports(1)[0]
        self._output = folder / "output.txt"
        tree = {
            "source": {"embedded": {"directory": str(folder / "log")}},
            "store": {"url": f"sqlite:///{folder / 'state.db'}"},
            "models": {
                "defaults": {"horizon": size.horizon, "segments": ["region"] if size.segments else []},
            },
            "evaluation": dict(evaluation),
            "access": {"mode": "off"},
            "api": {"port": self.port},
        }
        (folder / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "monitor", "serve", "--config", str(folder / "monitor.yaml")],
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._watched = psutil.Process(self.process.pid)

    def get(self, path: str) -> str:
        """A body; empty while it does not answer with 200."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def wait(self, messages: int) -> None:
        """Until it is ready and that many messages have met their fate."""
        deadline = time.monotonic() + 1800
        while not self.get("/readyz") or self.counted() < messages:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"read {self.counted()} of {messages} messages\n{tail(self._output)}")
            time.sleep(_LOOK_SECONDS)

    def counted(self) -> int:
        """Messages that were read."""
        found = re.findall(r"^calibration_events_total\{.*\} (\S+)$", self.get("/metrics"), re.MULTILINE)
        return round(sum(map(float, found)))

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    def at_rest(self) -> float:
        """Processor time by when all windows and their intervals are known: from then on hardly any is used."""
        before = self.cpu()
        while True:
            time.sleep(_REST_SECONDS)
            now = self.cpu()
            if now - before < _REST_SHARE * _REST_SECONDS:
                return before
            before = now

    def memory(self) -> int:
        """Resident bytes."""
        return int(self._watched.memory_info().rss)


@contextmanager
def serving(folder: Path, size: Size, evaluation: Mapping[str, object]) -> Iterator[Served]:
    """The service on a folder, ended in order."""
    served = Served(folder, size, evaluation)
    try:
        yield served
    finally:
        served.process.terminate()
        served.process.wait(60)


def measure(size: Size, empty_seconds: float) -> Needs:
    """Write the log of a size, let the service read it, start it again on its state, and look."""
    with tempfile.TemporaryDirectory(prefix="sizing-") as name:
        folder = Path(name)
        messages = write_log(folder, size)
        # While it reads, nothing is measured: that is counted on its own.
        with serving(folder, size, _UNMEASURED) as served:
            served.wait(messages)
            ingest = served.cpu() - empty_seconds
        with serving(folder, size, {}) as served:
            served.wait(messages)
            restart = served.at_rest() - empty_seconds
            page = served.get("/metrics")
            families = {family.name: family for family in text_string_to_metric_families(page)}
            return Needs(
                messages=messages,
                ingest_seconds=ingest,
                memory_bytes=served.memory(),
                restart_seconds=max(restart, 0.0),
                pending=round(sum(each.value for each in families["calibration_pending_predictions"].samples)),
                store_bytes=_size(folder, "state.db*"),
                log_bytes=_size(folder / "log", "**/*"),
                page_bytes=len(page),
                samples=sum(len(family.samples) for family in families.values()),
            )


def measure_empty() -> tuple[float, int]:
    """Processor time of a start with nothing to read, and the memory then."""
    size = Size(0)
    with tempfile.TemporaryDirectory(prefix="sizing-") as name, serving(Path(name), size, _UNMEASURED) as served:
        served.wait(0)
        return served.cpu(), served.memory()


def _size(folder: Path, pattern: str) -> int:
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
    predictions = f"{size.predictions:,}" + (f", {size.features} features" if size.features else "")
    cells = [
        predictions,
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
