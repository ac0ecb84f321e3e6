"""The certificate that the HTTP server shows, read again when it is renewed."""

import ssl
import threading
from pathlib import Path
from typing import Any, Final

import structlog

from monitor.errors import SettingsError

LOOK_SECONDS: Final = 60.0
"""How often the files are looked at: certificates that renew themselves do so weeks before they expire."""

_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2, those with forward secrecy and authenticated encryption; those of TLS 1.3 all have both."""

_log = structlog.get_logger(__name__)


class Certificate:
    """A certificate and its key, in files that somebody else renews.

    Parameters
    ----------
    certfile
        The certificate, and those between it and one that is trusted, PEM.
    keyfile
        Its key, PEM, without a password.

    Raises
    ------
    SettingsError
        They cannot be read, or do not fit together.
    """

    def __init__(self, certfile: str, keyfile: str) -> None:
        self._certfile = certfile
        self._keyfile = keyfile
        self._complaint: str | None = None
        self._bytes = self._read()
        self._try()

    @property
    def options(self) -> dict[str, Any]:
        """What uvicorn is told."""
        return {"ssl_certfile": self._certfile, "ssl_keyfile": self._keyfile, "ssl_ciphers": _CIPHERS}

    def keep_renewed(self, context: ssl.SSLContext, ended: threading.Event) -> None:
        """Renew what a server shows, until the end: for a thread of its own."""
        while not ended.wait(LOOK_SECONDS):
            self.renew(context)

    def renew(self, context: ssl.SSLContext) -> bool:
        """Show the certificate that the files hold now to whoever connects from here on; whether it is another one.

        While they cannot be read, or do not fit together, as between the writing of one and the other, the one before
        goes on; that is logged once.
        """
        try:
            found = self._read()
            if found == self._bytes:
                self._complaint = None
                return False
            # First on its own: a context that is half changed would show nothing at all.
            self._try()
        except SettingsError as error:
            if self._complaint != str(error):
                self._complaint = str(error)
                _log.warning("the certificate is not renewed; the one before goes on", detail=self._complaint)
            return False
        context.load_cert_chain(self._certfile, self._keyfile, _no_password)
        self._bytes, self._complaint = found, None
        _log.info("the certificate was renewed", certfile=self._certfile)
        return True

    def _read(self) -> tuple[bytes, bytes]:
        return _bytes_of("api.tls_certfile", self._certfile), _bytes_of("api.tls_keyfile", self._keyfile)

    def _try(self) -> None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certfile, self._keyfile, _no_password)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise SettingsError(
                f"api.tls_certfile {self._certfile} and api.tls_keyfile {self._keyfile} must be a certificate and its"
                f" key, PEM, without a password: {reason}"
            ) from error


def _bytes_of(name: str, file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise SettingsError(f"{name}: cannot read {file}: {error.strerror}") from error


def _no_password() -> str:
    # Without it, OpenSSL would ask on the terminal, and wait.
    return ""
