"""How the brokers of a Kafka cluster are reached."""

import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from monitor.errors import SettingsError, SourceError, SourceMisconfigured, SourceUnavailable
from monitor.sources.kafka_probe import Probe, probe

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
"""What a broker answers, or kafka-python finds, that another try does not change until somebody has fixed it."""

_OTHER_WAYS: Final = frozenset({"kafka_client", "proxy_url", "socks5_proxy"})
"""Settings under which a broker is not reached by its own address."""

_UNKNOWN_TOPIC: Final = kafka_errors.UnknownTopicOrPartitionError.errno
_NO_LEADER_YET: Final = kafka_errors.LeaderNotAvailableError.errno


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Settings that reader, writer and administrator share. Names and values are those of kafka-python.

    Attributes
    ----------
    bootstrap_servers
        Brokers to ask first, each ``host:port``.
    client_id
        What the broker's logs and quotas call this client.
    security_protocol
        PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
    ssl_cafile, ssl_certfile, ssl_keyfile, ssl_password, ssl_check_hostname
        TLS: whom to trust (the system's authorities by default), this client's own certificate, and whether the
        broker's must name its host.
    sasl_mechanism, sasl_plain_username, sasl_plain_password, sasl_kerberos_service_name
        The log-in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI or OAUTHBEARER.
    connect_seconds
        How long to look for a broker before saying that there is none.
    request_seconds
        How long to wait for an answer.
    further
        Any other setting of kafka-python's clients, such as ``sasl_oauth_token_provider``.

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
    further: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
            path = getattr(self, name)
            if path is not None and not Path(path).is_file():
                raise SettingsError(f"{name} must name a PEM file, got {path}, which is none")
        if self._encrypted:
            self._ssl_context()

    @property
    def servers(self) -> str:
        """The brokers to ask first, for a message."""
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
            "bootstrap_servers": list(self.bootstrap_servers),
            "client_id": self.client_id,
            "security_protocol": self.security_protocol,
            "ssl_context": self._ssl_context() if self._encrypted else None,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_plain_username,
            "sasl_plain_password": self.sasl_plain_password,
            "sasl_kerberos_service_name": self.sasl_kerberos_service_name,
            "bootstrap_timeout_ms": round(self.connect_seconds * 1000),
            "request_timeout_ms": round(self.request_seconds * 1000),
            # A broker that comes back is found within seconds; the default waits up to thirty.
            "reconnect_backoff_max_ms": 2_000,
            "socket_options": [
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ],
            "kafka_client": make_client,
            **self.further,
        }

    def check(self) -> None:
        """Find out within a moment whether a broker takes us, and if not, why.

        kafka-python reports a wrong password, an unknown certificate and a broker that is down as one and the same
        timeout, after ``connect_seconds``. So the brokers are asked directly first.

        Raises
        ------
        SourceUnavailable
            No broker can be reached.
        SourceMisconfigured
            A broker refuses us: the message says what to mend.
        """
        if self.further.keys() & _OTHER_WAYS:
            return
        found = probe(
            Probe(
                servers=tuple(self.bootstrap_servers),
                ssl_context=self._ssl_context() if self._encrypted else None,
                sasl_mechanism=self.sasl_mechanism if self._authenticated else None,
                sasl_options=self.options(),
                timeout_seconds=self.connect_seconds,
            )
        )
        if found is not None:
            raise found

    def explain(self, error: Exception) -> SourceError:
        """What to tell the user of a client that could not be made, though a broker took us."""
        if isinstance(error, REFUSALS):
            return SourceMisconfigured(f"Kafka at {self.servers} refuses: {error}")
        return SourceUnavailable(f"Kafka at {self.servers} does not answer: {error}; trying again")

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

    kafka-python's warning that a task of its loop "ran for 0.3s" is turned off: it is meant for the library's authors,
    names no cause, and rebalances, whose state is saved and restored in that loop, may well take as long.
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
    try:
        with KafkaAdminClient(**connection.options()) as admin:
            described = admin.describe_topics(list(topics))
    except kafka_errors.KafkaError as error:
        raise connection.explain(error) from error
    counts = dict.fromkeys(topics, 0)
    for topic in described:
        code = topic["error_code"]
        if code not in {0, _UNKNOWN_TOPIC, _NO_LEADER_YET}:
            reason = kafka_errors.for_code(code).__name__
            raise SourceMisconfigured(f"Kafka at {connection.servers} refuses topic {topic['name']}: {reason}")
        counts[topic["name"]] = len(topic["partitions"]) if code == 0 else 0
    return counts


def same_partition_count(counts: Mapping[str, int]) -> int:
    """The one number of partitions that all topics have.

    Raises
    ------
    SourceUnavailable
        A topic does not exist. It may yet come: services are often started before their first producer.
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
