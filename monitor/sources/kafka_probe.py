"""Why a Kafka broker does not take us: the first steps of its protocol, one by one, on a socket of our own.

kafka-python says "unable to bootstrap" whether the host is unknown, the port closed, the certificate not trusted or
the password wrong (it drops a broker's last answer when the connection closes with it). Whoever has to mend the
settings needs to know which.
"""

import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.cluster import collect_hosts
from kafka.net.sasl import get_sasl_mechanism

from monitor.errors import SourceError, SourceMisconfigured, SourceUnavailable

_SASL_HANDSHAKE: Final = (17, 1)
_SASL_AUTHENTICATE: Final = (36, 0)
_BY_PASSWORD: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_ILLEGAL_SASL_STATE: Final = 34
_TLS_ALERT: Final = 0x15
_LONGEST_ANSWER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Probe:
    """What to try: each server, with or without TLS and a log-in."""

    servers: tuple[str, ...]
    ssl_context: ssl.SSLContext | None
    sasl_mechanism: str | None
    sasl_options: Mapping[str, Any]
    timeout_seconds: float


def probe(attempt: Probe) -> SourceError | None:
    """Say what stops us from talking to the brokers, or None where nothing does."""
    found: SourceError | None = None
    for host, port, _ in collect_hosts(list(attempt.servers), randomize=False):
        where = f"{host}:{port}"
        try:
            with socket.create_connection((host, port), attempt.timeout_seconds) as plain:
                if attempt.ssl_context is None:
                    found = _talk(plain, host, where, attempt)
                else:
                    with attempt.ssl_context.wrap_socket(plain, server_hostname=host) as encrypted:
                        found = _talk(encrypted, host, where, attempt)
        except ssl.SSLCertVerificationError as error:
            found = SourceMisconfigured(
                f"the certificate of Kafka at {where} is not trusted: {error.verify_message}; ssl_cafile must hold "
                "the authority that signed it, and ssl_check_hostname wants it to name the host"
            )
        except ssl.SSLError as error:
            found = SourceMisconfigured(
                f"no TLS with Kafka at {where}: {error.reason or error}; does security_protocol fit the listener?"
            )
        except OSError as error:
            found = SourceUnavailable(f"cannot connect to Kafka at {where}: {error.strerror or error}; trying again")
        if found is None or isinstance(found, SourceMisconfigured):
            return found
    return found


def _talk(connection: socket.socket, host: str, where: str, attempt: Probe) -> SourceError | None:
    mechanism = attempt.sasl_mechanism
    answer = _ask(connection, _SASL_HANDSHAKE, _text(mechanism or "PLAIN"))
    if answer is None:
        return SourceMisconfigured(
            f"Kafka at {where} hangs up at the first request; security_protocol must be that of the listener"
        )
    code, offered = _handshake(answer)
    if mechanism is None:
        if code == _ILLEGAL_SASL_STATE:
            return None  # As it should be: this listener wants no log-in.
        return SourceMisconfigured(
            f"Kafka at {where} wants a log-in (it offers {', '.join(offered)}); set security_protocol to SASL_SSL or "
            "SASL_PLAINTEXT, and sasl_mechanism"
        )
    if code == _ILLEGAL_SASL_STATE:
        return SourceMisconfigured(f"Kafka at {where} takes no log-in; set security_protocol to PLAINTEXT or SSL")
    if mechanism not in offered:
        return SourceMisconfigured(
            f"Kafka at {where} does not offer sasl_mechanism {mechanism}; it offers {', '.join(offered)}"
        )
    if mechanism not in _BY_PASSWORD:
        return None  # Tickets and tokens are left to kafka-python.
    return _log_in(connection, host, where, mechanism, attempt.sasl_options)


def _log_in(
    connection: socket.socket, host: str, where: str, mechanism: str, options: Mapping[str, Any]
) -> SourceError | None:
    dialogue = get_sasl_mechanism(mechanism)(host=host, **options)
    while not dialogue.is_done():
        token = dialogue.auth_bytes()
        answer = _ask(connection, _SASL_AUTHENTICATE, struct.pack(">i", len(token)) + token)
        if answer is None:
            return SourceMisconfigured(f"Kafka at {where} hangs up during the log-in by {mechanism}")
        code = struct.unpack_from(">h", answer)[0]
        message, at = _read_text(answer, 2)
        if code != 0:
            reason = message or kafka_errors.for_code(code).__name__
            return SourceMisconfigured(
                f"Kafka at {where} refuses the log-in by {mechanism}: {reason}; check sasl_plain_username and "
                "sasl_plain_password"
            )
        size = struct.unpack_from(">i", answer, at)[0]
        dialogue.receive(answer[at + 4 : at + 4 + size])
    return None


def _ask(connection: socket.socket, api: tuple[int, int], body: bytes) -> bytes | None:
    """Send one request; the answer's body, or None where the broker hangs up or speaks something else."""
    request = struct.pack(">hhi", *api, 1) + _text("calibration-monitor") + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    prefix = _receive(connection, 4)
    if prefix is None or prefix[0] == _TLS_ALERT:
        return None
    size = struct.unpack(">i", prefix)[0]
    if not 4 <= size <= _LONGEST_ANSWER:
        return None
    answer = _receive(connection, size)
    return None if answer is None else answer[4:]


def _receive(connection: socket.socket, size: int) -> bytes | None:
    received = b""
    while len(received) < size:
        try:
            piece = connection.recv(size - len(received))
        except ConnectionError:
            return None
        if not piece:
            return None
        received += piece
    return received


def _handshake(answer: bytes) -> tuple[int, list[str]]:
    code, count = struct.unpack_from(">hi", answer)
    offered, at = [], 6
    for _ in range(count):
        name, at = _read_text(answer, at)
        offered.append(name)
    return code, offered


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _read_text(answer: bytes, at: int) -> tuple[str, int]:
    size = max(struct.unpack_from(">h", answer, at)[0], 0)
    return answer[at + 2 : at + 2 + size].decode(), at + 2 + size
