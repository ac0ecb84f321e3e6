"""What a request brings to show who asks: a header, or the cookie of a browser's session."""

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from fastapi import Request

from monitor.http.addresses import origin_of
from monitor.http.problems import SESSION_COOKIE, Problem
from monitor.http.requests import check_json

_MOST_CHARACTERS: Final = 16 * 1024

_CREDENTIAL: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""What may follow Bearer (RFC 6750, section 2.1). Keys and tokens are made of less."""

_READS: Final = frozenset({"GET", "HEAD"})


class Credential(NamedTuple):
    """A key or token, as it was sent."""

    text: str
    from_cookie: bool

    @property
    def is_sane(self) -> bool:
        """Whether it can be one at all."""
        return is_sane(self.text)


def is_sane(text: str) -> bool:
    """Whether this can be a key or a token at all."""
    return len(text) <= _MOST_CHARACTERS and _CREDENTIAL.fullmatch(text) is not None


def credential_of(request: Request) -> Credential | None:
    """The key or token of a request; a header stands before the cookie. None if there is neither.

    A proxy's own ``Authorization: Basic`` is none of ours, and leaves the cookie to speak.
    """
    for header in request.headers.getlist("authorization"):
        scheme, _, rest = header.strip().partition(" ")
        if scheme.lower() == "bearer":
            return Credential(rest.strip(), from_cookie=False)
    cookie = request.cookies.get(SESSION_COOKIE)
    return Credential(cookie, from_cookie=True) if cookie else None


def address_of(request: Request) -> str:
    """From where a request came. Headers that a proxy sets are not read: anybody can set them."""
    return origin_of(request.client.host if request.client is not None else "")


def check_own_page(request: Request, *, or_no_browser: bool) -> None:
    """Refuse what a page of another site asks a browser to send along with its cookies.

    Parameters
    ----------
    or_no_browser
        Whether a request may come without a browser's headers: one that brings no cookie may.

    Raises
    ------
    Problem
        403 where it does not come from a page of this service, 415 where its body is a form.
    """
    if request.method in _READS:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        # The browser's own word, which no page can set. It comes over https, and from this machine.
        own = site == "same-origin"
    elif origin is not None:
        # The scheme is left out: https may end in front of this service.
        own = _host(origin) == request.headers.get("host", "").lower()
    else:
        own = or_no_browser
    if not own:
        raise Problem(
            403,
            "cross-site",
            "a session changes things from the pages of this service alone; send the key as Authorization: Bearer "
            "instead",
        )
    if request.method != "DELETE":
        check_json(request, ("application/json",))


def is_https(request: Request) -> bool:
    """Whether the browser speaks https, be it with this service or with a proxy in front of it."""
    # A page's origin is the browser's word. Who sends a wrong one only spoils their own cookie.
    return request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")


def _host(origin: str) -> str:
    try:
        return urlsplit(origin.lower()).netloc
    except ValueError:
        return ""
