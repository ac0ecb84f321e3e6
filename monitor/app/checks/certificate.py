"""Check that the HTTP server's certificate is valid, and for how long."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from monitor.app.checks.base import Finding, Surroundings, fail, ok, warn
from monitor.http.tls import Certificate

_SOON: Final = timedelta(days=14)
"""Certificates that renew themselves do so earlier."""


def check_certificate(around: Surroundings) -> Iterator[Finding]:
    """Read certificate and key, if there are any, and say when the certificate ends."""
    api = around.settings.api
    if api.tls_certfile is None or api.tls_keyfile is None:
        return
    Certificate(api.tls_certfile, api.tls_keyfile)
    shown = x509.load_pem_x509_certificates(Path(api.tls_certfile).read_bytes())[0]
    now, ends = datetime.fromtimestamp(around.clock.now_ms() / 1000, UTC), shown.not_valid_after_utc
    message = f"{api.tls_certfile} is valid until {ends:%Y-%m-%d %H:%M} UTC"
    if now >= ends:
        yield fail("certificate", f"{message} and has expired: renew it; it is read again within a minute")
    elif now < shown.not_valid_before_utc:
        yield fail(
            "certificate", f"{api.tls_certfile} is not valid before {shown.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        )
    elif ends - now < _SOON:
        yield warn("certificate", f"{message}: renew it")
    else:
        yield ok("certificate", message)
