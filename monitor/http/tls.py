"""The certificate of the HTTP server, loaded again when it is renewed."""

import ssl
import threading
from pathlib import Path
from typing import Any, Final

import structlog

from monitor.bounded_file import read_bounded
from monitor.errors import SettingsError
from monitor.outage_log import LastingProblems

CHECK_SECONDS: Final = 60.0
"""How often the files are checked: certificates are renewed weeks before they expire."""

_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2 with forward secrecy and authenticated encryption; all of TLS 1.3 have both."""

_log = structlog.get_logger(__name__)


class Certificate:
    """A certificate and its key, in files that another program renews.

    Parameters
    ----------
    certfile
        The certificate and its intermediate certificates, PEM.
    keyfile
        Its key, PEM, without a password.

    Raises
    ------
    SettingsError
        They cannot be read, or do not belong together.
    """

    def __init__(self, certfile: str, keyfile: str) -> None:
        self._certfile = certfile
        self._keyfile = keyfile
        self._problems = LastingProblems()
        self._bytes = self._read()
        self._load()

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of uvicorn."""
        return {"ssl_certfile": self._certfile, "ssl_keyfile": self._keyfile, "ssl_ciphers": _CIPHERS}

    def keep_renewed(self, context: ssl.SSLContext, ended: threading.Event) -> None:
        """Renew the certificate of a server until ``ended`` is set; for a thread of its own."""
        while not ended.wait(CHECK_SECONDS):
            self.renew(context)

    def renew(self, context: ssl.SSLContext) -> bool:
        """Use the certificate in the files for new connections; whether it has changed.

        While the files cannot be read, or do not belong together because only one has been written, the server keeps
        the last valid certificate, and this is logged once.
        """
        try:
            data = self._read()
            if data == self._bytes:
                self._problems.over()
                return False
            renewed = self._load()
        except SettingsError as error:
            if self._problems.is_new(str(error)):
                _log.warning("the certificate is not renewed; the last valid one stays in use", detail=str(error))
            return False
        # A context that is loaded again has a certificate and another one's key for a moment, in which handshakes fail.
        context.sni_callback = lambda connection, *_: setattr(connection, "context", renewed)
        self._bytes = data
        self._problems.over()
        _log.info("the certificate was renewed", certfile=self._certfile)
        return True

    def _read(self) -> tuple[bytes, bytes]:
        return _bytes_of("api.tls_certfile", self._certfile), _bytes_of("api.tls_keyfile", self._keyfile)

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(_CIPHERS)
        try:
            context.load_cert_chain(self._certfile, self._keyfile, _no_password)
        except (ssl.SSLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise SettingsError(
                f"api.tls_certfile {self._certfile} and api.tls_keyfile {self._keyfile} must be a certificate and its"
                f" key, PEM, without a password: {reason}"
            ) from error
        return context


def _bytes_of(name: str, file: str) -> bytes:
    try:
        return read_bounded(Path(file))
    except OSError as error:
        raise SettingsError(f"{name}: cannot read {file}: {error.strerror}") from error


def _no_password() -> str:
    # Without it, OpenSSL would prompt on the terminal, and wait.
    return ""
