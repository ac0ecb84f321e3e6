"""The service of a simulated year: its replicas, the log that they read, and their store."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Protocol, Self

import httpx
import psutil
import trustme
import yaml
from confluent_kafka import Producer

from monitor.clock import ManualClock, SystemClock
from monitor.events.model import Message
from monitor.sources.embedded_log import EmbeddedLog
from monitor.store.sql import SqlStore
from tests.patience import eventually
from tests.real.child import tail
from tests.real.kafka import KafkaProcess
from tests.real.postgres import PostgresProcess, program
from tests.year.clock import VARIABLE, SharedClock
from tests.year.fleet import HORIZON_MS, HOUR_MS, LATENESS_MS, Fleet

PREDICTIONS: Final = "year-predictions"
OUTCOMES: Final = "year-outcomes"
WINDOWS: Final = ("7d", "28d")
LOOK_BACK_DAYS: Final = 14
PANE_MS: Final = 3 * HOUR_MS
"""Width of the narrowest panes, which those windows make."""
_PATIENCE_SECONDS: Final = 120.0
_NOT_IN_TIME: Final = "the pipeline did not end in time"
"""What a service says whose last checkpoint takes too long."""


class Log(Protocol):
    """The log that the service reads, and its producer."""

    partitions: int

    def settings(self) -> dict[str, Any]:
        """Section ``source`` of the service's settings."""

    def write(self, messages: Sequence[Message]) -> None:
        """Write messages to the partitions that they name; they are durable when this returns."""

    def add_partition(self) -> bool:
        """Add a partition to each topic; returns whether the log can."""

    def make_anew(self, topic: str) -> bool:
        """Delete a topic and make it anew; returns whether the log can."""

    def remove_all(self) -> bool:
        """Remove all that was written, as retention does; returns whether the log can."""


class FileLog:
    """The embedded log in a folder."""

    def __init__(self, folder: Path) -> None:
        self.partitions = 2
        self._folder = folder
        self._log = EmbeddedLog(folder, partitions=self.partitions, clock=SystemClock())

    def settings(self) -> dict[str, Any]:
        return {"kind": "embedded", "embedded": {"directory": str(self._folder), "partitions": self.partitions}}

    def write(self, messages: Sequence[Message]) -> None:
        self._log.write(messages)

    def add_partition(self) -> bool:
        return False

    def make_anew(self, topic: str) -> bool:
        return False

    def remove_all(self) -> bool:
        return False


class KafkaLog:
    """Two topics of a real broker."""

    def __init__(self, broker: KafkaProcess) -> None:
        self.partitions = 2
        self._broker = broker
        for topic in (PREDICTIONS, OUTCOMES):
            self._create(topic)
        self._ends: dict[tuple[str, int], int] = {}
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "log_level": 2,
                "queue.buffering.max.messages": 1_000_000,
                "topic.metadata.refresh.interval.ms": 1_000,
            }
        )

    def settings(self) -> dict[str, Any]:
        return {
            "kind": "kafka",
            "when_purged": "earliest",
            # The client asks for new partitions by itself every five minutes, which are a month here.
            "kafka": {"bootstrap_servers": self._broker.bootstrap, "group_id": "year", "session_timeout": "10s"},
        }

    def write(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._producer.produce(
                message.topic,
                message.value,
                partition=message.partition or 0,
                timestamp=message.timestamp_ms or 0,
                on_delivery=self._delivered,
            )
        self._producer.flush(_PATIENCE_SECONDS)
        if self._failures or len(self._producer):
            raise RuntimeError(f"{len(self._producer)} messages were not written: {self._failures[:3]}")

    def add_partition(self) -> bool:
        self.partitions += 1
        with self._broker.admin() as admin:
            admin.create_partitions(dict.fromkeys((PREDICTIONS, OUTCOMES), self.partitions))
        return True

    def make_anew(self, topic: str) -> bool:
        with self._broker.admin() as admin:
            admin.delete_topics([topic])
        eventually(lambda: topic not in self._producer.list_topics(timeout=_PATIENCE_SECONDS).topics)
        self._create(topic)
        # The producer refuses a topic that it saw missing until it has seen it again.
        eventually(lambda: topic in self._producer.list_topics(timeout=_PATIENCE_SECONDS).topics)
        self._ends = {key: end for key, end in self._ends.items() if key[0] != topic}
        return True

    def remove_all(self) -> bool:
        for topic in (PREDICTIONS, OUTCOMES):
            ends = {number: end for (of, number), end in self._ends.items() if of == topic}
            self._broker.delete_records(topic, ends)
        return True

    def _create(self, topic: str) -> None:
        # Simulated times are in the past: nothing goes by itself.
        self._broker.create_topic(topic, self.partitions, retention_ms="-1")

    def _delivered(self, error: object, message: Any) -> None:
        if error is not None:
            self._failures.append(str(error))
        else:
            self._ends[message.topic(), message.partition()] = message.offset() + 1


class Replica:
    """One process of the service. It is ended by its own process id."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self._output = folder / f"output-{time.monotonic_ns()}.txt"
        self._folder, self._environ = folder, environ
        with self._output.open("wb") as output:
            command = [sys.executable, "-m", "tests.year.clock", "serve"]
            self._process = subprocess.Popen(command, cwd=folder, env=environ, stdout=output, stderr=subprocess.STDOUT)
        self._url = ""

    @property
    def url(self) -> str:
        """Where it listens."""
        if not self._url:

            def listening() -> str:
                self.check()
                whole, _, _ = self._output.read_text().rpartition("\n")
                lines = (json.loads(line) for line in whole.splitlines() if line.startswith("{"))
                return next((line["url"] for line in lines if line["event"] == "listening"), "")

            self._url = eventually(listening, shown=lambda: tail(self._output))
        return self._url

    @property
    def output(self) -> str:
        """What it has logged."""
        return self._output.read_text()

    def check(self) -> None:
        """Raise an error if it has ended by itself."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the service ended by itself:\n{tail(self._output)}")

    def memory_mib(self) -> float:
        """Resident memory."""
        return psutil.Process(self._process.pid).memory_info().rss / (1 << 20)

    def stop(self) -> None:
        """End it in order; where the machine is too slow for that, the next one reads again what it has not saved."""
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(_PATIENCE_SECONDS)
        if status and _NOT_IN_TIME not in tail(self._output):
            raise RuntimeError(f"the service ended with {status}:\n{tail(self._output)}")

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(_PATIENCE_SECONDS)


class Service:
    """All replicas, the log, the store, and a client.

    Parameters
    ----------
    folder
        Where everything is kept.
    clock
        By which the replicas live.
    fleet
        Whose first half is declared.
    webhook
        Address of the receiver of alerts.
    real
        Whether on Kafka and PostgreSQL with three replicas, or on the embedded log and SQLite with one.
    """

    def __init__(self, folder: Path, clock: SharedClock, fleet: Fleet, webhook: str, *, real: bool) -> None:
        self.folder = folder
        self.real = real
        self._clock = clock
        self._stack = ExitStack()
        self._server: PostgresProcess | None = None
        if real:
            self._server = self._stack.enter_context(PostgresProcess())
            self.store_url = self._server.url(self._server.new_database())
            broker = self._stack.enter_context(KafkaProcess(folder / "kafka"))
            self.log: Log = KafkaLog(broker)
        else:
            self.store_url = f"sqlite:///{folder / 'state.db'}"
            self.log = FileLog(folder / "log")
        self._authority = trustme.CA()
        self.renew_certificate()
        self._authority.cert_pem.write_to_path(str(folder / "ca.pem"))
        self._environ = {
            **os.environ,
            VARIABLE: str(folder / "clock"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            **({"YEAR_POSTGRES": "1"} if real else {}),
        }
        self._write_settings(fleet, webhook)
        self.key = ""
        self.replicas: list[Replica] = []
        self._store: SqlStore | None = None
        self._client = httpx.Client(verify=ssl.create_default_context(cafile=str(folder / "ca.pem")), timeout=60.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for replica in self.replicas:
            replica.kill()
        if self._store is not None:
            self._store.close()
        self._client.close()
        self._stack.close()

    # ------------------------------------------------------------------ its processes

    def start(self) -> None:
        """Start all replicas."""
        self.replicas = [self._new_replica(number) for number in range(3 if self.real else 1)]

    def stop(self) -> None:
        """End all replicas in order."""
        for replica in self.replicas:
            replica.stop()
        self.replicas = []

    def replace_each(self) -> None:
        """Replace the replicas one after the other, as a rolling upgrade does."""
        for number, replica in enumerate(self.replicas):
            replica.stop()
            self.replicas[number] = self._new_replica(number)
            self.request("GET", "/readyz", number)

    def _new_replica(self, number: int) -> Replica:
        folder = self.folder / f"replica-{number}"
        folder.mkdir(exist_ok=True)
        shutil.copy(self.folder / "monitor.yaml", folder)
        return Replica(folder, self._environ)

    def run(self, *arguments: str) -> str:
        """Run a command of the command line by the shared clock; its standard output."""
        command = [sys.executable, "-m", "tests.year.clock", *arguments]
        done = subprocess.run(command, cwd=self.folder, env=self._environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"monitor {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}")
        return done.stdout

    # ------------------------------------------------------------------ its store

    @property
    def store(self) -> SqlStore:
        """The store; a connection of its own."""
        if self._store is None:
            self._store = SqlStore.open(self.store_url, clock=ManualClock(self._clock.now_ms()))
        return self._store

    def store_mib(self) -> float:
        """Size of the store."""
        if self._server is None:
            return sum(path.stat().st_size for path in self.folder.glob("state.db*")) / (1 << 20)
        return int(self._ask_store("SELECT pg_database_size(current_database())")[0][0]) / (1 << 20)

    def tables_mib(self) -> dict[str, float]:
        """Size of each table with its indices."""
        if self._server is None:
            sizes = "SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_schema USING (name) GROUP BY 1"
        else:
            sizes = "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables"
        return {name: int(size) / (1 << 20) for name, size in self._ask_store(sizes)}

    def _ask_store(self, question: str) -> list[Any]:
        with self.store.database.reading() as connection:
            return list(connection.exec_driver_sql(question))

    def back_up(self) -> None:
        """Back up the store beside the running service."""
        if self._server is not None:
            options = ("--format=custom", f"--file={self.folder / 'backup.dump'}")
            subprocess.run([program("pg_dump"), *options, self.store_url], check=True)
        else:
            (self.folder / "backup.db").unlink(missing_ok=True)
            self.run("backup", "backup.db")

    def restore(self) -> None:
        """Put back the last backup; the service must not run."""
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._server is not None:
            options = ("--clean", "--if-exists", f"--dbname={self.store_url}")
            subprocess.run([program("pg_restore"), *options, self.folder / "backup.dump"], check=True)
        else:
            self.run("restore", "backup.db", "--replace", "state.db")

    # ------------------------------------------------------------------ its answers

    def make_key(self, name: str, days: int) -> str:
        """Make an API key that expires; the key."""
        roles = [part for role in ("read", "write", "promote") for part in ("--role", role)]
        return self.run("keys", "create", name, *roles, "--expires", f"{days}d").strip()

    def renew_certificate(self) -> bytes:
        """Replace the server's certificate; the new one, in PEM."""
        certificate = self._authority.issue_cert("127.0.0.1")
        certificate.private_key_pem.write_to_path(str(self.folder / "key.pem"))
        chain = b"".join(one.bytes() for one in certificate.cert_chain_pems)
        (self.folder / "certificate.pem").write_bytes(chain)
        return certificate.cert_chain_pems[0].bytes()

    def shown_certificate(self) -> str:
        """The certificate that the first replica shows, in PEM."""
        host, _, port = self.replicas[0].url.removeprefix("https://").partition(":")
        return ssl.get_server_certificate((host, int(port)))

    def get(self, path: str, parameters: Mapping[str, str] | None = None, replica: int = 0) -> Any:
        """The JSON that a replica answers with."""
        answer = self.request("GET", path, replica, params=parameters)
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(f"GET {path} {parameters}: {answer.status_code} {answer.text[:500]}")
        return answer.json()

    def request(self, method: str, path: str, replica: int = 0, **more: Any) -> httpx.Response:
        """What a replica answers, once it does."""
        headers = {"authorization": f"Bearer {self.key}"}
        chosen = self.replicas[replica]

        def answer() -> httpx.Response | None:
            try:
                found = self._client.request(method, f"{chosen.url}{path}", headers=headers, **more)
            except httpx.TransportError:
                chosen.check()
                return None
            return None if found.status_code == httpx.codes.SERVICE_UNAVAILABLE else found

        found = eventually(answer, shown=lambda: chosen.output[-4000:])
        assert found is not None
        return found

    def samples(self) -> list[str]:
        """/metrics of all replicas: a line for each sample."""
        texts = [self.request("GET", "/metrics", number).text for number in range(len(self.replicas))]
        return [line for text in texts for line in text.splitlines() if not line.startswith("#")]

    # ------------------------------------------------------------------ its settings

    def _write_settings(self, fleet: Fleet, webhook: str) -> None:
        declared = {life.name: {"labels": {"team": "one"}} for life in fleet.lives if life.name.startswith("m")}
        for name, promotion in (("m00", "automatic"), ("m01", "manual")):
            declared[name] = {"recalibration": {"schedule": "0 3 1 * *", "promotion": promotion}}
        tree = {
            "source": {**self.log.settings(), "topics": {"predictions": PREDICTIONS, "outcomes": OUTCOMES}},
            "store": {"url": self.store_url},
            "models": {
                "defaults": {
                    "horizon": HORIZON_MS // 1000,
                    "allowed_lateness": LATENESS_MS // 1000,
                    "segments": ["region"],
                },
                "declared": declared,
            },
            "windows": [{"length": length} for length in WINDOWS],
            "caps": {"models": 60, "versions": 12, "segment_values": 30},
            "evaluation": {"interval": "10s", "draws": 0, "look_back": f"{LOOK_BACK_DAYS}d", "max_series": 5000},
            "history": {"retention": "30d"},
            "pipeline": {"checkpoint_interval": "1s"},
            "recalibration": {"sample": 2000},
            "alerts": {"webhooks": {"year": {"url": webhook}}},
            "dead_letters": {"keep": 2000},
            "api": {
                "port": 0,
                "tls_certfile": str(self.folder / "certificate.pem"),
                "tls_keyfile": str(self.folder / "key.pem"),
            },
            "log": {"format": "json"},
        }
        (self.folder / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
