"""Check the HTTP server: its port and its certificate."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx
from cryptography import x509

from monitor.app.checks.base import CheckResult, Surroundings, fail, ok, warn
from monitor.errors import PortTaken, SettingsError
from monitor.http.server import listen
from monitor.http.tls import Certificate

_ANSWER_SECONDS: Final = 5.0
_EXPIRES_SOON: Final = timedelta(days=14)
"""Certificates that renew themselves do so earlier."""


def check_port(around: Surroundings) -> Iterator[CheckResult]:
    """Check that the port is free, or that a service answers there already."""
    host, port = around.settings.api.host, around.settings.api.port
    if port == 0:
        yield ok("port", "api.port is 0: a free one is taken")
        return
    try:
        listen(host, port).close()
    except PortTaken:
        yield _taken(host, port, tls=around.settings.api.tls_certfile is not None)
    except SettingsError as error:
        yield fail("port", str(error))
    else:
        yield ok("port", f"{host}:{port} is free")


def _taken(host: str, port: int, *, tls: bool) -> CheckResult:
    where = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - connects, does not listen
    try:
        # Its certificate need not be for this address, and nothing secret is sent.
        address = f"{'https' if tls else 'http'}://{where}:{port}/healthz"
        answer = httpx.get(address, timeout=_ANSWER_SECONDS, trust_env=False, verify=not tls)
        body = answer.json()
    except (httpx.HTTPError, ValueError):
        body = None
    if isinstance(body, dict) and body.get("status") == "ok" and "version" in body:
        return ok("port", f"{host}:{port}: a service of version {body['version']} answers there already")
    return fail("port", f"{host}:{port} is taken by another program: end it, or set another api.port")


def check_certificate(around: Surroundings) -> Iterator[CheckResult]:
    """Read certificate and key, if there are any, and say when the certificate ends."""
    api = around.settings.api
    if api.tls_certfile is None or api.tls_keyfile is None:
        return
    Certificate(api.tls_certfile, api.tls_keyfile)
    certificate = x509.load_pem_x509_certificates(Path(api.tls_certfile).read_bytes())[0]
    now, ends = datetime.fromtimestamp(around.clock.now_ms() / 1000, UTC), certificate.not_valid_after_utc
    message = f"{api.tls_certfile} is valid until {ends:%Y-%m-%d %H:%M} UTC"
    if now >= ends:
        yield fail("certificate", f"{message} and has expired: renew it; it is read again within a minute")
    elif now < certificate.not_valid_before_utc:
        yield fail(
            "certificate",
            f"{api.tls_certfile} is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC",
        )
    elif ends - now < _EXPIRES_SOON:
        yield warn("certificate", f"{message}: renew it")
    else:
        yield ok("certificate", message)
