"""HTTPS: the certificate that is shown, who may speak to the server, and how a certificate is renewed."""

import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import structlog
import trustme

from monitor.app.settings import load_settings
from monitor.errors import SettingsError
from monitor.http.server import ApiServer
from monitor.http.tls import Certificate
from tests.http.service import Service
from tests.patience import PATIENCE_SECONDS

AUTHORITY = trustme.CA()


def issue(folder: Path, *, authority: trustme.CA = AUTHORITY) -> tuple[str, str]:
    """A certificate for this machine in the folder's files, in place of one before it."""
    issued = authority.issue_cert("127.0.0.1")
    cert, key = folder / "tls.crt", folder / "tls.key"
    cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    return str(cert), str(key)


def client_of(authority: trustme.CA) -> httpx.Client:
    """One that trusts nobody else."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return httpx.Client(verify=context, timeout=PATIENCE_SECONDS)


def test_the_server_speaks_https_alone(tmp_path: Path) -> None:
    with ApiServer(Service().app(), port=0, certificate=Certificate(*issue(tmp_path))) as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        with client_of(AUTHORITY) as client:
            answer = client.get(f"{server.url}/healthz")
            assert answer.status_code == 200
            assert answer.headers["strict-transport-security"] == "max-age=31536000"
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(f"{server.url}/healthz", timeout=PATIENCE_SECONDS)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{server.port}/healthz", timeout=PATIENCE_SECONDS)


def test_old_versions_and_weak_ciphers_are_not_offered(tmp_path: Path) -> None:
    context = ApiServer(Service().app(), port=0, certificate=Certificate(*issue(tmp_path)))._context
    assert context is not None
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    offered = context.get_ciphers()
    assert offered
    assert all(each["aead"] for each in offered)


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    certificate = Certificate(*issue(tmp_path))
    other = trustme.CA()
    with ApiServer(Service().app(), port=0, certificate=certificate) as server:
        context = server._context
        assert context is not None
        assert not certificate.renew(context)
        issue(tmp_path, authority=other)
        assert certificate.renew(context)
        with client_of(other) as client:
            assert client.get(f"{server.url}/healthz").status_code == 200
        with client_of(AUTHORITY) as client, pytest.raises(httpx.ConnectError):
            client.get(f"{server.url}/healthz")


def test_a_renewed_certificate_comes_with_no_weak_cipher(tmp_path: Path) -> None:
    certificate = Certificate(*issue(tmp_path))
    client = ssl.create_default_context()
    AUTHORITY.configure_trust(client)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256")
    with ApiServer(Service().app(), port=0, certificate=certificate) as server:
        assert server._context is not None
        issue(tmp_path)
        assert certificate.renew(server._context)
        with socket.create_connection(("127.0.0.1", server.port)) as plain, pytest.raises(ssl.SSLError):
            client.wrap_socket(plain, server_hostname="127.0.0.1")


def test_no_connection_fails_while_certificates_are_renewed(tmp_path: Path) -> None:
    certificate = Certificate(*issue(tmp_path))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    ended = threading.Event()

    def shake_hands() -> int:
        count = 0
        while not ended.is_set():
            to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
            server = context.wrap_bio(to_server, to_client, server_side=True)
            client = trusting.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
            for side in (client, server, client, server):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
            assert client.version() == "TLSv1.3"
            count += 1
        return count

    with ThreadPoolExecutor(1) as threads:
        handshakes = threads.submit(shake_hands)
        try:
            for _ in range(50):
                issue(tmp_path)
                assert certificate.renew(context)
        finally:
            ended.set()
        assert handshakes.result() > 50


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key"])
def test_while_a_renewal_is_half_written_the_one_before_goes_on(tmp_path: Path, broken: str) -> None:
    certificate = Certificate(*issue(tmp_path))
    with ApiServer(Service().app(), port=0, certificate=certificate) as server:
        context = server._context
        assert context is not None
        (tmp_path / broken).write_text("-----BEGIN CERTIFICATE-----\n", encoding="utf-8")
        with structlog.testing.capture_logs() as logs:
            assert not certificate.renew(context)
            assert not certificate.renew(context)
        assert [each["event"] for each in logs] == ["the certificate is not renewed; the last valid one stays in use"]
        with client_of(AUTHORITY) as client:
            assert client.get(f"{server.url}/healthz").status_code == 200
        issue(tmp_path)
        assert certificate.renew(context)


def test_files_that_are_no_certificate_stop_the_start(tmp_path: Path) -> None:
    cert, key = issue(tmp_path)
    with pytest.raises(SettingsError, match=r"api\.tls_certfile: cannot read /no/such/file: No such file"):
        Certificate("/no/such/file", key)
    with pytest.raises(SettingsError, match="must be a certificate and its key, PEM, without a password"):
        Certificate(cert, cert)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(SettingsError, match=r"must be a certificate and its key.*MISMATCH"):
        Certificate(cert, issue(other)[1])


def test_a_certificate_and_its_key_are_set_together() -> None:
    with pytest.raises(SettingsError, match=r"api\.tls_certfile and tls_keyfile must be set together"):
        load_settings(None, {"MONITOR__API__TLS_CERTFILE": "tls.crt"})
