"""The settings of the HTTP server."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, model_validator

from monitor.section import Duration, FilePath, Positive, Section, Span, Text


class ApiSettings(Section):
    """The HTTP server: REST, pages and /metrics."""

    host: Text = "127.0.0.1"
    """Address to listen on; 0.0.0.0 listens on all."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes a free one, which is logged."""
    tls_certfile: FilePath | None = None
    """File with the certificate to show, and those between it and one that is trusted, PEM: the server then speaks
    https alone. Read again when it changes. Null speaks http, for a proxy in front that ends TLS."""
    tls_keyfile: FilePath | None = None
    """File with the certificate's key, PEM, without a password."""
    max_report_bytes: Positive = 32 * 1024 * 1024
    """Size of the largest body of POST /v1/reports."""
    max_event_bytes: Positive = 4 * 1024 * 1024
    """Size of the largest body of POST /v1/events."""
    max_events: Positive = 50_000
    """Events of one request of POST /v1/events. They take up to 1 kB of memory each, beside their bytes."""
    max_header_bytes: Annotated[int, Field(ge=4096)] = 32 * 1024
    """Size of a request line with its headers; a token of an identity provider is a header too."""
    max_connections: Positive = 768
    """Connections at one time; further ones are closed. One address may hold as many as it leaves free: half of them,
    where it is alone, as a proxy in front is. Each is an open file (ulimit -n), and the process needs others too."""
    body_timeout: Span = timedelta(seconds=30)
    """How long a request may take to send its headers, and how long its body; and how long its sender may take nothing
    of the answer."""
    request_timeout: Span = timedelta(minutes=2)
    """How long a request may take in all; then it is answered 503."""
    computations: Positive = 2
    """Reports that are computed at one time for requests; those of the latest evaluation are only read."""
    writes: Positive = 8
    """Requests of POST /v1/events that are written at one time."""
    turn_timeout: Duration = timedelta(seconds=10)
    """How long a request waits for its turn to be computed or written."""

    @model_validator(mode="after")
    def _certificate_and_key(self) -> "ApiSettings":
        if (self.tls_certfile is None) != (self.tls_keyfile is None):
            raise ValueError("tls_certfile and tls_keyfile must be set together: a certificate and its key")
        return self

    @property
    def all_body_bytes(self) -> int:
        """Bytes of large bodies that are held at one time while they are received, wait, and are worked on.

        They are shared among callers; one may hold half, which is four of the largest.
        """
        return 8 * max(self.max_report_bytes, self.max_event_bytes)
