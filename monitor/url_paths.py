"""Names as parts of URL paths, which browsers, HTTP clients and proxies normalise before they send a request."""

from typing import Final
from urllib.parse import quote

from monitor.errors import InputError

_NORMALISED: Final = frozenset({"", ".", ".."})


def wrong_path(name: str) -> str | None:
    """The error in a name as part of a path, if any: ``zz/../churn`` would be sent as ``churn``."""
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
