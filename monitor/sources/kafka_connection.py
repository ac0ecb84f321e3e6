"""How the brokers of a Kafka cluster are reached, and why they cannot be."""

import socket
import ssl
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.cluster import collect_hosts
from kafka.consumer.fetcher import ConsumerRecord
from kafka.net.compat import KafkaNetClient
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from monitor.errors import SettingsError, SourceError, SourceMisconfigured, SourceUnavailable

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

REFUSALS: Final = (
    kafka_errors.AuthorizationError,
    kafka_errors.ClusterAuthorizationFailedError,
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.IncompatibleBrokerVersion,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.InvalidTopicError,
    kafka_errors.KafkaConfigurationError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.TopicAuthorizationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
    kafka_errors.UnsupportedVersionError,
)
"""Errors that a retry does not change: somebody has to fix the settings or the broker."""

_PASSED_ON: Final = (
    *("client_id", "security_protocol", "sasl_mechanism"),
    *("sasl_plain_username", "sasl_plain_password", "sasl_kerberos_service_name"),
)
"""Settings that kafka-python's clients take unchanged."""

_UNKNOWN_TOPIC: Final = kafka_errors.UnknownTopicOrPartitionError.errno
_NO_LEADER_YET: Final = kafka_errors.LeaderNotAvailableError.errno

MAX_NEWEST: Final = 100
_POLL_SECONDS: Final = 10.0

_BY_PASSWORD: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_NO_SASL_HERE: Final = kafka_errors.IllegalSaslStateError.errno
_MAX_RESPONSE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Settings that reader, writer and administrator share. Names and values are those of kafka-python.

    Attributes
    ----------
    bootstrap_servers
        Brokers to connect to first, each ``host:port``.
    client_id
        What the broker's logs and quotas call this client.
    security_protocol
        PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    ssl_cafile, ssl_certfile, ssl_keyfile, ssl_password, ssl_check_hostname
        TLS: the trusted authorities (the system's by default), this client's own certificate, and whether the broker's
        certificate must name its host.
    sasl_mechanism, sasl_plain_username, sasl_plain_password, sasl_kerberos_service_name
        The log-in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or OAUTHBEARER.
    connect_seconds
        How long to look for a broker before reporting that there is none.
    request_seconds
        How long to wait for an answer.

    Raises
    ------
    SettingsError
        A file that is named does not exist or holds no certificate.
    """

    bootstrap_servers: Sequence[str]
    client_id: str = "calibration-monitor"
    security_protocol: SecurityProtocol = "PLAINTEXT"
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = field(default=None, repr=False)
    sasl_kerberos_service_name: str = "kafka"
    connect_seconds: float = 10.0
    request_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise SettingsError(f"{name} must name a PEM file, got {path}, which is none")
        if self._encrypted:
            self._ssl_context()

    @property
    def servers(self) -> str:
        """The bootstrap servers, for a message."""
        return ",".join(self.bootstrap_servers)

    @property
    def _encrypted(self) -> bool:
        return self.security_protocol in {"SSL", "SASL_SSL"}

    @property
    def _authenticated(self) -> bool:
        return self.security_protocol in {"SASL_PLAINTEXT", "SASL_SSL"}

    def options(self) -> dict[str, Any]:
        """The settings as every client of kafka-python takes them."""
        return {
            **{name: getattr(self, name) for name in _PASSED_ON},
            "bootstrap_servers": list(self.bootstrap_servers),
            "ssl_context": self._ssl_context() if self._encrypted else None,
            "bootstrap_timeout_ms": round(self.connect_seconds * 1000),
            "request_timeout_ms": round(self.request_seconds * 1000),
            # A broker that comes back is found within seconds; the default waits up to thirty.
            "reconnect_backoff_max_ms": 2_000,
            "socket_options": [
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ],
            "kafka_client": make_client,
        }

    def check(self) -> None:
        """Check quickly whether a broker accepts us, and if not, why.

        kafka-python reports an unknown host, a closed port, an untrusted certificate and a wrong password as one and
        the same timeout, after ``connect_seconds``. So the first requests of the protocol are sent on an own socket.

        Raises
        ------
        SourceUnavailable
            No broker can be reached.
        SourceMisconfigured
            A broker refuses us: the message says what to correct.
        """
        error: SourceError | None = None
        for host, port, _ in collect_hosts(list(self.bootstrap_servers), randomize=False):
            error = self._probe(host, port)
            if error is None or isinstance(error, SourceMisconfigured):
                break
        if error is not None:
            raise error

    def _probe(self, host: str, port: int) -> SourceError | None:
        """Why one broker cannot be used, or None if it can."""
        where = f"{host}:{port}"
        try:
            with socket.create_connection((host, port), self.connect_seconds) as plain:
                if not self._encrypted:
                    return self._log_in(plain, host, where)
                with self._ssl_context().wrap_socket(plain, server_hostname=host) as encrypted:
                    return self._log_in(encrypted, host, where)
        except ssl.SSLCertVerificationError as error:
            return SourceMisconfigured(
                f"the certificate of Kafka at {where} is not trusted: {error.verify_message}; ssl_cafile must hold "
                "the authority that signed it, and ssl_check_hostname wants it to name the host"
            )
        except ssl.SSLError as error:
            return SourceMisconfigured(
                f"no TLS with Kafka at {where}: {error.reason or error}; does security_protocol fit the listener?"
            )
        except OSError as error:
            return SourceUnavailable(f"cannot connect to Kafka at {where}: {error.strerror or error}; trying again")

    def _log_in(self, connection: socket.socket, host: str, where: str) -> SourceError | None:
        mechanism = self.sasl_mechanism if self._authenticated else None
        protocol = KafkaProtocol(client_id=self.client_id, receive_message_max_bytes=_MAX_RESPONSE_BYTES)
        answer = _request(connection, protocol, SaslHandshakeRequest(mechanism=mechanism or "PLAIN", version=1))
        if answer is None:
            return SourceMisconfigured(
                f"Kafka at {where} hangs up at the first request; security_protocol must be that of the listener"
            )
        if mechanism is None:
            if answer.error_code == _NO_SASL_HERE:
                return None  # as expected: this listener has no log-in
            return SourceMisconfigured(
                f"Kafka at {where} wants a log-in (it offers {', '.join(answer.mechanisms)}); set security_protocol to "
                "SASL_SSL or SASL_PLAINTEXT, and sasl_mechanism"
            )
        if answer.error_code == _NO_SASL_HERE:
            return SourceMisconfigured(f"Kafka at {where} takes no log-in; set security_protocol to PLAINTEXT or SSL")
        if mechanism not in answer.mechanisms:
            return SourceMisconfigured(
                f"Kafka at {where} does not offer sasl_mechanism {mechanism}; it offers {', '.join(answer.mechanisms)}"
            )
        if mechanism not in _BY_PASSWORD:
            return None  # tickets and tokens are left to kafka-python
        dialogue = get_sasl_mechanism(mechanism)(host=host, **self.options())
        while not dialogue.is_done():
            answer = _request(connection, protocol, SaslAuthenticateRequest(dialogue.auth_bytes(), version=0))
            if answer is None:
                return SourceMisconfigured(f"Kafka at {where} hangs up during the log-in by {mechanism}")
            if answer.error_code != 0:
                reason = answer.error_message or kafka_errors.for_code(answer.error_code).__name__
                return SourceMisconfigured(
                    f"Kafka at {where} refuses the log-in by {mechanism}: {reason}; check sasl_plain_username and "
                    "sasl_plain_password"
                )
            dialogue.receive(answer.auth_bytes)
        return None

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise the errors of a client that cannot be made, or of an administrator, as SourceError."""
        try:
            yield
        except REFUSALS as error:
            raise SourceMisconfigured(f"Kafka at {self.servers} refuses: {error}") from error
        except kafka_errors.KafkaError as error:
            raise SourceUnavailable(f"Kafka at {self.servers} does not answer: {error}; trying again") from error

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile)
            context.check_hostname = self.ssl_check_hostname
            if self.ssl_certfile is not None:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile, self.ssl_password)
        except (ssl.SSLError, OSError) as error:
            raise SettingsError(
                f"ssl_cafile {self.ssl_cafile}, ssl_certfile {self.ssl_certfile} and ssl_keyfile {self.ssl_keyfile} "
                f"must be readable PEM that fits together: {error}"
            ) from error
        return context


def make_client(**options: Any) -> KafkaNetClient:
    """Make the network client of a consumer, a producer or an administrator.

    kafka-python's warning that a task of its loop "ran for 0.3s" is turned off: it names no cause, and a rebalance,
    whose state is saved and restored in that loop, may take as long.
    """
    return KafkaNetClient(**options, slow_task_threshold_secs=0)


def partition_counts(connection: KafkaConnection, topics: Sequence[str]) -> dict[str, int]:
    """How many partitions each topic has; 0 where it does not exist.

    Raises
    ------
    SourceUnavailable
        No broker answers.
    SourceMisconfigured
        The broker refuses the log-in or the topics.
    """
    connection.check()
    with connection.translated(), KafkaAdminClient(**connection.options()) as admin:
        described = admin.describe_topics(list(topics))
    counts = dict.fromkeys(topics, 0)
    for topic in described:
        code = topic["error_code"]
        if code not in {0, _UNKNOWN_TOPIC, _NO_LEADER_YET}:
            reason = kafka_errors.for_code(code).__name__
            raise SourceMisconfigured(f"Kafka at {connection.servers} refuses topic {topic['name']}: {reason}")
        counts[topic["name"]] = len(topic["partitions"]) if code == 0 else 0
    return counts


def read_newest(connection: KafkaConnection, topic: str, partitions: int) -> list[ConsumerRecord]:
    """The newest messages of a topic, up to 100 of all its partitions together. No group is joined.

    Raises
    ------
    SourceError
        The brokers refuse, or do not answer.
    """
    parts = [KafkaTopicPartition(topic, number) for number in range(partitions)]
    options = {"enable_auto_commit": False, "isolation_level": "read_committed", "allow_auto_create_topics": False}
    records: list[ConsumerRecord] = []
    with connection.translated(), KafkaConsumer(**connection.options(), **options) as consumer:
        begins, ends = consumer.beginning_offsets(parts), consumer.end_offsets(parts)
        share = -(-MAX_NEWEST // max(partitions, 1))
        unread = {part for part in parts if begins[part] < ends[part]}
        consumer.assign(list(unread))
        for part in unread:
            consumer.seek(part, max(begins[part], ends[part] - share))
        while unread:
            polled = consumer.poll(timeout_ms=round(_POLL_SECONDS * 1000))
            for of_part in polled.values():
                records += of_part
            unread = {part for part in unread if polled and consumer.position(part) < ends[part]}
    return records[:MAX_NEWEST]


def same_partition_count(counts: Mapping[str, int]) -> int:
    """The number of partitions that all topics must share.

    Raises
    ------
    SourceUnavailable
        A topic does not exist yet: services are often started before their first producer.
    SourceMisconfigured
        The numbers differ, so that an outcome could not be joined where its prediction is.
    """
    shown = ", ".join(f"{topic}: {count}" for topic, count in counts.items())
    missing = [topic for topic, count in counts.items() if count == 0]
    if missing:
        raise SourceUnavailable(
            f"waiting for topics that do not exist yet: {', '.join(missing)}; create them, all topics with the same "
            f"number of partitions (partitions now: {shown})"
        )
    if len(set(counts.values())) > 1:
        raise SourceMisconfigured(
            f"all topics must have the same number of partitions, since an outcome is joined in the partition of its "
            f"prediction, got {shown}; create the topics anew with {max(counts.values())} partitions each, and key "
            f"both by the prediction's id"
        )
    return next(iter(counts.values()))


def _request(connection: socket.socket, protocol: KafkaProtocol, request: Any) -> Any:
    """Send a request and wait for its response; None if the broker hangs up or speaks another protocol."""
    protocol.send_request(request)
    connection.sendall(protocol.send_bytes())
    try:
        while piece := connection.recv(_MAX_RESPONSE_BYTES):
            for _, response in protocol.receive_bytes(piece):
                return response
    except (ConnectionError, kafka_errors.KafkaError, struct.error):
        pass
    return None
