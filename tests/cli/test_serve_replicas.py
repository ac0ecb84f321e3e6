"""`monitor serve` as four processes on one PostgreSQL, one for each role and one with all: killed, paused and stopped.

Whichever is asked answers for the whole log, as obvious loops over it do, and the series of each model are exported by
one of them. Prints how long it took until others exported the models of the one that was gone (``pytest -s``).
"""

import itertools
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pytest

from monitor.clock import SystemClock
from monitor.events.model import SeriesKey
from monitor.store.sql import SqlStore
from monitor.windows.leases import BEAT_SECONDS
from tests.cli.kafka_service import Served, reports_of, topics, write_settings
from tests.long import longer
from tests.patience import eventually, joined
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import MixedLog, unjoined_as_one
from tests.real.postgres import PostgresServer
from tests.real.produce import produce
from tests.reference.naive_windows import NaiveWindows
from tests.stream.published import Pane, assert_closed

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.longer, pytest.mark.timeout(1200)]

EVENTS: Final = longer(12_000, 30_000)
PARTITIONS: Final = 12
MODELS: Final = tuple(f"model-{number}" for number in range(8))
WINDOWS: Final = ("1h", "50m")
"""Of panes of a minute both, as those that the log expects."""
SUFFIX: Final = "replicas"
SESSION_SECONDS: Final = 8.0
SCRAPE_SECONDS: Final = 0.25
OF_WINDOWS: Final = re.compile(rb'^calibration_\w+\{[^}\n]*\bmodel="([^"]*)"[^}\n]*\bwindow="', re.MULTILINE)
ROLES: Final[Mapping[str, Sequence[str]]] = {
    "reading": ["consume"],
    "computing": ["evaluate"],
    "serving": ["serve"],
    "whole": ["consume", "evaluate", "serve"],
}


class Scrape(NamedTuple):
    """One answer of /metrics: the models of whose windows it has series."""

    began: float
    ended: float
    models: frozenset[str]


class Replica:
    """A `monitor serve`, whose /metrics are scraped four times a second as long as it runs."""

    def __init__(self, folder: Path) -> None:
        self.served = Served(folder)
        self.scrapes: list[Scrape] = []
        self.scraping = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._scrape)
        self._thread.start()

    def _scrape(self) -> None:
        while not self._ending.wait(SCRAPE_SECONDS):
            with self.scraping:
                began = time.monotonic()
                status, body = self.served.ask("/metrics")
                if status == 200:
                    models = frozenset(model.decode() for model in OF_WINDOWS.findall(body))
                    self.scrapes.append(Scrape(began, time.monotonic(), models))

    @property
    def exports(self) -> frozenset[str]:
        """The models whose series it exported when it was last scraped."""
        return self.scrapes[-1].models if self.scrapes else frozenset()

    @property
    def partitions(self) -> frozenset[int]:
        """The partitions that it reads."""
        return frozenset(self.served.get("/readyz")[1].get("partitions", ()))

    def exported(self, model: str) -> Iterator[tuple[float, float]]:
        """The times [from, to] in which it certainly exported a model all the time."""
        for one, other in itertools.pairwise(self.scrapes):
            # In less than a beat a lease does not go and come back.
            if model in one.models & other.models and other.ended - one.began < BEAT_SECONDS:
                yield one.ended, other.began

    def signal(self, number: signal.Signals) -> float:
        """Send a signal while no answer is under way, and return when."""
        with self.scraping:
            sent = time.monotonic()
            self.served.process.send_signal(number)
            return sent

    def end(self, how: Callable[[], None]) -> None:
        """End the process, and its scraping."""
        how()
        self._ending.set()
        joined(self._thread)


class Replicas:
    """Those that run, by name, and those that have ended."""

    def __init__(self, folder: Path) -> None:
        self.running = {name: Replica(folder / name) for name in ROLES}
        self._folder = folder
        self._ended: list[Replica] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for replica in self.running.values():
            replica.served.process.send_signal(signal.SIGCONT)
            replica.end(replica.served.kill)

    def __getitem__(self, name: str) -> Replica:
        return self.running[name]

    def of_role(self, role: str) -> list[Served]:
        """Those that run and have a role."""
        return [replica.served for name, replica in self.running.items() if role in ROLES[name]]

    def start(self, name: str) -> None:
        self.running[name] = Replica(self._folder / name)

    def end(self, name: str, how: Callable[[Served], None]) -> tuple[frozenset[str], float]:
        """End one; returns the models that it exported, and when that was."""
        replica = self.running.pop(name)
        exports, ended = replica.exports, time.monotonic()
        replica.end(lambda: how(replica.served))
        self._ended.append(replica)
        return exports, ended

    @contextmanager
    def paused(self, name: str) -> Iterator[tuple[frozenset[str], float]]:
        """Pause one; yields the models that it exported, and since when it is paused."""
        replica = self.running[name]
        paused = replica.signal(signal.SIGSTOP)
        try:
            yield replica.exports, paused
        finally:
            replica.served.process.send_signal(signal.SIGCONT)

    def wait_until_exported(self) -> None:
        """Wait until every model is exported by one, and none by two."""

        def once() -> bool:
            counts = Counter(model for replica in self.running.values() for model in replica.exports)
            return counts == dict.fromkeys(MODELS, 1)

        eventually(once, shown=lambda: [(one.served.readiness(), one.exports) for one in self.running.values()])

    def takeover_seconds(self, models: frozenset[str], since: float, *, by: str) -> float:
        """Wait until another exports these models; how long that took."""
        scrapes = self.running[by].scrapes

        def taken() -> list[float]:
            return [scrape.ended - since for scrape in scrapes if scrape.began > since and scrape.models >= models]

        return eventually(taken, shown=lambda: (models, scrapes[-1]))[0]

    def assert_exclusive(self) -> None:
        """No two have ever exported a model at one time."""
        replicas = [*self._ended, *self.running.values()]
        for model in MODELS:
            times = [sorted(replica.exported(model)) for replica in replicas]
            assert any(times)
            for one, other in itertools.combinations(times, 2):
                both = [(a, b) for a, b in itertools.product(one, other) if max(a[0], b[0]) < min(a[1], b[1])]
                assert not both, f"{model} was exported by two: {both}"


@pytest.mark.long
def test_every_role_is_killed_and_the_whole_log_is_answered_for(
    kafka_broker: KafkaBroker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.url(postgres_server.new_database())
    for name, roles in ROLES.items():
        write_settings(
            tmp_path / name,
            kafka_broker,
            SUFFIX,
            roles,
            store={"url": url},
            source={"kafka": {"session_timeout": f"{SESSION_SECONDS:g}s"}},
            evaluation={"interval": "1s"},
            # None of the last so many: while it is empty, its reason names the newest event of an earlier time.
            windows=[{"length": length} for length in WINDOWS],
        )
    log = MixedLog(EVENTS, PARTITIONS, models=MODELS, settled=True)
    for topic in topics(SUFFIX):
        kafka_broker.create_topic(topic, PARTITIONS)
    parts = iter([log.lines[EVENTS * at // 6 : EVENTS * (at + 1) // 6 if at < 5 else None] for at in range(6)])
    chance = random.Random(12)

    def write() -> None:
        """Write the next part, and let some of it be read."""
        produce(kafka_broker.bootstrap, next(parts), SUFFIX)
        time.sleep(chance.uniform(0, 1))

    # Two parts, so that there are windows from the beginning on.
    write()
    write()
    with Replicas(tmp_path) as replicas:
        replicas.wait_until_exported()
        # Of every model something is settled, measured and saved.
        eventually(lambda: {one["model"] for one in replicas["serving"].served.reports() if one["n"]} == set(MODELS))
        assert replicas["whole"].partitions
        assert replicas["reading"].partitions

        for name in ("reading", "serving"):
            write()
            replicas.end(name, Served.kill)
            replicas.start(name)

        write()
        models, killed = replicas.end("computing", Served.kill)
        after_kill = replicas.takeover_seconds(models, killed, by="whole")
        replicas.start("computing")
        # Until then the other one exports all models.
        replicas["computing"].served.ready()
        replicas.wait_until_exported()

        write()
        with replicas.paused("whole") as (models, paused):
            assert models
            scrapes = len(replicas["whole"].scrapes)
            after_pause = replicas.takeover_seconds(models, paused, by="computing")
            eventually(lambda: len(replicas["reading"].partitions) == PARTITIONS)
        # What was asked while it was paused, it answers when it wakes up: of what others export, it has nothing.
        answered = eventually(lambda: replicas["whole"].scrapes[scrapes:])[0]
        assert answered.ended - paused > after_pause
        assert not answered.models & models
        replicas.wait_until_exported()

        assert_as_the_log(log, replicas, reports_of(tmp_path / "whole", log.lines), url)
        assert_once_at_rest(replicas)

        models, stopped = replicas.end("whole", Served.stop)
        after_stop = replicas.takeover_seconds(models, stopped, by="computing")
        replicas.assert_exclusive()
    print(
        f"others exported the models after {after_kill:.1f} s (kill -9), {after_pause:.1f} s (SIGSTOP) and "
        f"{after_stop:.1f} s (SIGTERM)"
    )


def assert_as_the_log(log: MixedLog, replicas: Replicas, expected: list[dict[str, Any]], url: str) -> None:
    """Counts, closings, windows and history are those of obvious loops over the log, from every replica."""
    reading, serving = replicas.of_role("consume"), replicas.of_role("serve")

    def all_counted() -> Counter[tuple[str, str]] | None:
        counted = sum((Counter(served.counted()) for served in reading), Counter[tuple[str, str]]())
        return counted if counted.total() == len(log.lines) else None

    counted = eventually(all_counted, pause_seconds=0.2)
    assert counted is not None
    assert unjoined_as_one(counted) == unjoined_as_one(log.expected.counters)
    for served in serving:
        served.reports_as(expected)
    with SqlStore.open(url, clock=SystemClock()) as store:
        for model in MODELS:
            closings = store.read_closings(model, dict.fromkeys(range(PARTITIONS), -1))
            for number, panes in enumerate(log.expected.partitions):
                of_model = {key: Pane(table) for key, table in panes.items() if key[1].model == model}
                assert_closed(closings[number], of_model)
    windows = NaiveWindows(log.joins)
    for report in expected:
        windows.assert_report(SeriesKey(report["model"], report["version"], report["segment"]), report)
    ends: set[str] = set()
    for series, window in itertools.product(windows.series, WINDOWS):
        query = f"/v1/models/{series.model}/history?version={series.version}&segment={series.segment}&window={window}"
        eventually(
            lambda query=query: len({served.ask(query) for served in serving}) == 1,  # type: ignore[misc]
            pause_seconds=0.2,
        )
        status, history = serving[0].get(query)
        assert status == 200, history
        for point in history["points"]:
            windows.assert_report(series, point)
        ends.update(point["to"] for point in history["points"])
    assert len(ends) > 1


def assert_once_at_rest(replicas: Replicas) -> None:
    """Each series of a model is exported by one replica, as often as one looks; the roles and models are listed."""
    replicas.wait_until_exported()
    since = time.monotonic()
    for replica in replicas.running.values():
        rest = eventually(
            lambda replica=replica: [part for part in replica.scrapes if part.began > since][4:]  # type: ignore[misc]
        )
        assert {scrape.models for scrape in rest} == {replica.exports}
    samples = (sample for replica in replicas.running.values() for sample in replica.served.samples())
    series = Counter((name, labels) for name, labels in samples if "model" in dict(labels))
    assert set(series.values()) == {1}
    assert not replicas["reading"].exports | replicas["serving"].exports
    assert replicas["reading"].partitions | replicas["whole"].partitions == set(range(PARTITIONS))
    listed = replicas["serving"].served.get("/v1/replicas")[1]["replicas"]
    assert sorted(one["roles"] for one in listed) == sorted(sorted(roles) for roles in ROLES.values())
    assert sorted(model for one in listed for model in one["models"]) == sorted(MODELS)
    assert "consume" in replicas["reading"].served.get("/v1/reports")[1]["detail"]
