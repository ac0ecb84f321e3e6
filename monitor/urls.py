"""Parts of URLs that are checked before a request is sent: hosts and ports, and names in paths."""

import ipaddress
from typing import Final
from urllib.parse import quote

from monitor.errors import InputError

_NORMALISED: Final = frozenset({"", ".", ".."})


MAX_PORT: Final = 65_535


def wrong_address(host: str, port: int | None) -> str | None:
    """The error in the host and port of a URL, if any: a connection to them would fail with no error of the network."""
    if port is not None and not 1 <= port <= MAX_PORT:
        return f"must have a port from 1 to {MAX_PORT}, got {port}"
    try:
        host.encode("idna")  # as the resolver does
    except UnicodeError:
        return "must have a host whose parts between dots have 1 to 63 characters"
    return None


def wrong_path(name: str) -> str | None:
    """The error in a name as part of a path, if any.

    Browsers, HTTP clients and proxies normalise paths: ``zz/../churn`` would be sent as ``churn``.
    """
    if _NORMALISED.isdisjoint(name.split("/")):
        return None
    return "must not have '.', '..' or nothing between slashes" if name else "must not be empty"


def path_of(key: str, name: str) -> str:
    """Percent-encode a name as part of a path; slashes stay.

    Raises
    ------
    InputError
        The path would be normalised to another one. The message calls the name by ``key``.
    """
    wrong = wrong_path(name)
    if wrong:
        raise InputError(f"{key} {wrong}, got {name!r}")
    return quote(name)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
