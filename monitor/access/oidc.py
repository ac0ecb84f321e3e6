"""OpenID Connect providers: the signatures that are accepted, and the URLs that are trusted."""

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from monitor.errors import InputError
from monitor.urls import wrong_address

ALGORITHMS: Final = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
}
"""Signatures that may be accepted -> the kind of key, or its curve. All of them use public keys, so that the service
cannot sign. Each belongs to one kind of key: tokens are forged by signatures that fit two."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_url(url: str) -> None:
    """Refuse URLs whose answer others could change: its keys decide which tokens are valid.

    Raises
    ------
    InputError
        It is not https and not of this machine, no URL, or it has a password or a fragment. The URL is not shown.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise InputError(f"must be a URL such as https://login.example.org/realms/ml ({error})") from error
    if not host or not url.isprintable() or " " in url or parts.scheme not in {"http", "https"}:
        raise InputError("must be a URL such as https://login.example.org/realms/ml")
    wrong = wrong_address(host, parts.port)
    if wrong:
        raise InputError(wrong)
    if parts.scheme == "http" and not is_loopback(host):
        raise InputError("must begin with https://: over http, others on the network could replace its answer")
    if parts.username is not None or parts.password is not None:
        raise InputError("must hold no user or password: what it names is public")
    if parts.fragment:
        raise InputError("must have no fragment (#...)")
