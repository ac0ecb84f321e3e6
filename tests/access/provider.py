"""A small OpenID Connect provider on this machine, and the tokens that it signs, or somebody in its name."""

import json
import ssl
import threading
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from tests.patience import PATIENCE_SECONDS, joined

AUDIENCE = "calibration-monitor"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass
class Pair:
    """A key pair under a name."""

    kid: str | None
    private: PrivateKey
    algorithm: str

    def jwk(self, **members: Any) -> dict[str, Any]:
        """The public key, as a provider publishes it."""
        public = self.private.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            found = RSAAlgorithm.to_jwk(public, as_dict=True)
        elif isinstance(public, ec.EllipticCurvePublicKey):
            found = ECAlgorithm.to_jwk(public, as_dict=True)
        else:
            found = OKPAlgorithm.to_jwk(public, as_dict=True)
        named = {} if self.kid is None else {"kid": self.kid}
        # What is made of a key for use by Python says what it may do, which others do not say.
        return {key: value for key, value in found.items() if key != "key_ops"} | named | {"use": "sig"} | members

    def sign(self, claims: Mapping[str, Any], *, algorithm: str | None = None, **header: Any) -> str:
        """A token of these claims."""
        named = {} if self.kid is None else {"kid": self.kid}
        return jwt.encode(dict(claims), self.private, algorithm or self.algorithm, headers=named | header)


def rsa_pair(kid: str | None = "rsa", bits: int = 2048) -> Pair:
    return Pair(kid, rsa.generate_private_key(65537, bits), "RS256")


def ec_pair(kid: str | None = "ec") -> Pair:
    return Pair(kid, ec.generate_private_key(ec.SECP256R1()), "ES256")


def ed_pair(kid: str | None = "ed") -> Pair:
    return Pair(kid, ed25519.Ed25519PrivateKey.generate(), "EdDSA")


def segment(part: Any) -> str:
    """A part of a token, as JSON, or as it is."""
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Running:
    """A provider that answers, and counts what it is asked."""

    port: int
    scheme: str
    keys: list[Any]
    """What its key set holds."""
    asked: list[str] = field(default_factory=list)
    overrides: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    """Path -> another answer: status, headers and body."""
    open: threading.Event = field(default_factory=threading.Event)
    """Answers wait for it."""
    drips: bool = False
    """Whether an answer comes a byte at a time, and for ever."""

    @property
    def issuer(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/realms/ml"

    @property
    def jwks_url(self) -> str:
        return f"{self.issuer}/keys"

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if path in self.overrides:
            return self.overrides[path]
        if path == "/realms/ml/keys":
            return 200, {}, json.dumps({"keys": self.keys}).encode()
        if path == "/realms/ml/.well-known/openid-configuration":
            return 200, {}, json.dumps({"issuer": self.issuer, "jwks_uri": self.jwks_url}).encode()
        return 404, {}, b"there is no such page"


@contextmanager
def running(*pairs: Pair, tls: ssl.SSLContext | None = None) -> Iterator[Running]:
    """A provider with these keys, until the end of the block; over https if it has a certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = provider.answer(self.path)
            provider.open.wait(PATIENCE_SECONDS)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if not provider.drips:
                self.send_header("content-length", str(len(body)))
            self.end_headers()
            try:
                while provider.drips and not ended.wait(0.01):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                self.wfile.write(body)
            except OSError:
                # Whoever asked has heard enough.
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    ended = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        provider = Running(server.server_address[1], scheme, [each.jwk() for each in pairs])
        provider.open.set()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield provider
        finally:
            ended.set()
            provider.open.set()
            server.shutdown()
            joined(thread)
