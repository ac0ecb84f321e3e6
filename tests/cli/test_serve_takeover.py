"""Three `monitor serve` of one consumer group on one PostgreSQL, killed, paused and stopped one after the other.

Whichever is asked answers for the whole log, and the series of each model are exported by one of them.
"""

import itertools
import random
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Self

import pytest
import yaml

from tests.cli.kafka_service import Served, reports_of, topics, unjoined_as_one, write_settings
from tests.patience import eventually, joined
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import MixedLog
from tests.real.postgres import PostgresServer
from tests.real.produce import produce

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.timeout(1200)]

EVENTS: Final = 30_000
PARTITIONS: Final = 12
MODELS: Final = tuple(f"model-{number}" for number in range(6))
SUFFIX: Final = "takeover"
SESSION_SECONDS: Final = 8.0
TAKEOVER_SECONDS: Final = 15.0
SCRAPE_SECONDS: Final = 0.5
OF_WINDOWS: Final = re.compile(rb'^calibration_\w+\{[^}\n]*\bmodel="([^"]*)"[^}\n]*\bwindow="', re.MULTILINE)


class Scrape(NamedTuple):
    """One answer of /metrics: the models of whose windows it has series."""

    began: float
    ended: float
    models: frozenset[str]


class Replica:
    """A `monitor serve`, whose /metrics are scraped twice a second as long as it runs."""

    def __init__(self, folder: Path) -> None:
        self.served = Served(folder)
        self.scrapes: list[Scrape] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._scrape)
        self._thread.start()

    def _scrape(self) -> None:
        while not self._ending.wait(SCRAPE_SECONDS):
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
    def exported(self) -> Iterator[tuple[str, float, float]]:
        """(model, first, last) of scrapes in a row that had series of the model."""
        for model in MODELS:
            runs = itertools.groupby(self.scrapes, lambda scrape: model in scrape.models)  # noqa: B023
            for has, run in runs:
                if has:
                    times = [scrape.ended for scrape in run]
                    yield model, times[0], times[-1]

    def end(self, how: Callable[[], None]) -> None:
        """End the process, and its scraping."""
        how()
        self._ending.set()
        joined(self._thread)


class Replicas:
    """Those that run, by their folders, and those that have ended."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.running = {folder: Replica(folder) for folder in folders}
        self.ended: list[Replica] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for replica in self.running.values():
            replica.served.process.send_signal(signal.SIGCONT)
            replica.end(replica.served.kill)

    def start(self, folder: Path) -> None:
        self.running[folder] = Replica(folder)

    def end(self, folder: Path, how: Callable[[Served], None]) -> None:
        replica = self.running.pop(folder)
        replica.end(lambda: how(replica.served))
        self.ended.append(replica)

    def wait_until_exported(self, *, without: Path | None = None) -> None:
        """Wait until every model is exported by one of these, and none by two."""
        replicas = [replica for folder, replica in self.running.items() if folder != without]

        def once() -> bool:
            counts = Counter(model for replica in replicas for model in replica.exports)
            return counts == dict.fromkeys(MODELS, 1)

        eventually(once, shown=lambda: [(replica.served.readiness(), replica.exports) for replica in replicas])

    @contextmanager
    def paused(self, folder: Path) -> Iterator[Replica]:
        replica = self.running[folder]
        replica.served.process.send_signal(signal.SIGSTOP)
        try:
            yield replica
        finally:
            replica.served.process.send_signal(signal.SIGCONT)

    def longest_overlap(self) -> float:
        """The longest time for which two replicas were seen to export one model."""
        runs: dict[str, list[tuple[int, float, float]]] = {model: [] for model in MODELS}
        for number, replica in enumerate([*self.ended, *self.running.values()]):
            for model, first, last in replica.exported:
                runs[model].append((number, first, last))
        return max(
            (
                min(last, other_last) - max(first, other_first)
                for of_model in runs.values()
                for (number, first, last), (other, other_first, other_last) in itertools.combinations(of_model, 2)
                if number != other
            ),
            default=0.0,
        )


def test_every_replica_answers_for_the_whole_log_and_each_model_is_exported_once(
    kafka_broker: KafkaBroker, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.url(postgres_server.new_database())
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        write_settings(
            folder,
            kafka_broker,
            SUFFIX,
            store={"url": url},
            source={"kafka": {"session_timeout": f"{SESSION_SECONDS:g}s"}},
            evaluation={"interval": "1s"},
        )
        # Without a window of the last so many: while it is empty, its reason names the newest event of an earlier time.
        settings = yaml.safe_load((folder / "monitor.yaml").read_text())
        (folder / "monitor.yaml").write_text(
            yaml.safe_dump(settings | {"windows": [{"length": "1h"}, {"length": "30m"}]})
        )
    log = MixedLog(EVENTS, PARTITIONS, models=MODELS, settled=True)
    for topic in topics(SUFFIX):
        kafka_broker.create_topic(topic, PARTITIONS)
    parts = iter([log.lines[EVENTS * at // 5 : EVENTS * (at + 1) // 5 if at < 4 else None] for at in range(5)])
    chance = random.Random(12)

    def write() -> None:
        produce(kafka_broker.bootstrap, next(parts), SUFFIX)

    # Two parts, so that there are windows from the beginning on.
    write()
    write()
    with Replicas(folders) as replicas:
        replicas.wait_until_exported()

        victim = chance.choice(folders)
        write()
        time.sleep(chance.uniform(0, 1))
        replicas.end(victim, Served.kill)
        replicas.wait_until_exported()
        replicas.start(victim)
        replicas.wait_until_exported()

        victim = max(replicas.running, key=lambda folder: len(replicas.running[folder].exports))
        had = replicas.running[victim].exports
        assert had
        write()
        with replicas.paused(victim) as replica:
            before = len(replica.scrapes)
            time.sleep(SESSION_SECONDS + 2)
            replicas.wait_until_exported(without=victim)
        # What was asked while it was paused, it answers when it wakes up: of what others export, it has nothing.
        first = eventually(lambda: [part for part in replica.scrapes[before:] if part.ended - part.began > 2])[0]
        replicas.wait_until_exported()
        for other in replicas.running.values():
            if other is not replica:
                later = [scrape.models for scrape in other.scrapes if scrape.began > first.ended]
                assert not first.models & frozenset().union(*later)

        victim = chance.choice(folders)
        write()
        replicas.end(victim, Served.stop)
        replicas.wait_until_exported()
        replicas.start(victim)
        replicas.wait_until_exported()

        expected = reports_of(folders[0], log.lines)
        everyone = [replica.served for replica in replicas.running.values()]
        for served in everyone:
            served.reports_as(expected)
        eventually(lambda: sum(sum(served.counted().values()) for served in everyone) == len(log.lines))
        counted = sum((Counter(served.counted()) for served in everyone), Counter[tuple[str, str]]())
        assert unjoined_as_one(counted) == unjoined_as_one(log.expected.counters)
        for model in MODELS:
            query = f"/v1/models/{model}/history?measure=tce&window=1h"
            eventually(lambda query=query: len({served.ask(query) for served in everyone}) == 1)  # type: ignore[misc]
            assert everyone[0].get(query)[0] == 200
        # At rest, too: by none twice, as often as it is scraped.
        since = time.monotonic()
        for replica in replicas.running.values():
            rest = eventually(
                lambda replica=replica: [part for part in replica.scrapes if part.began > since][4:]  # type: ignore[misc]
            )
            assert {scrape.models for scrape in rest} == {replica.exports}
        assert sum(len(replica.exports) for replica in replicas.running.values()) == len(MODELS)
        assert replicas.longest_overlap() <= TAKEOVER_SECONDS
        print(f"two replicas exported one model for at most {max(replicas.longest_overlap(), 0):.1f} s")
