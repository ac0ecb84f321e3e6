"""Access control: whether anybody could ask."""

import ssl
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

import httpx

from monitor.access.keys import KeySource, in_force
from monitor.app.access import open_keys_file
from monitor.app.checks.base import Finding, Surroundings, fail, ok, warn
from monitor.errors import NoStore, StoreError
from monitor.settings.access import OidcSettings
from monitor.store.address import connect_existing
from monitor.store.api_keys import ApiKeys
from monitor.store.migrate import newest_revision, revision_of

_PATIENCE_SECONDS: Final = 5.0
_MAKE_ONE: Final = "`monitor keys create NAME --role read --role write --role promote` makes one"


def check_access(around: Surroundings) -> Iterator[Finding]:
    """Count the keys in force, read the file of keys, and ask the provider of tokens."""
    access = around.settings.access
    if access.mode == "off":
        yield ok("access", "access.mode is off: everybody on this machine may do everything")
        return
    now_ms = around.clock.now_ms()
    file = open_keys_file(around.settings)
    in_file = 0 if file is None else _count(file, now_ms)
    in_store = _in_store(around, now_ms)
    told = [] if in_store is None else [f"{in_store} API keys in force in the store"]
    if file is not None:
        told.append(f"{in_file} in {access.keys_file}")
    if in_store is None:
        told.append("those in the store are not known, as it does not answer, or is older")
    keys = in_file + (in_store or 0)
    if not keys and access.oidc.issuer is None and in_store is not None:
        yield warn("access", f"no API key is in force, so every request is refused: {_MAKE_ONE}")
    else:
        yield ok("access", "; ".join(told))
    if access.oidc.issuer is not None:
        yield _provider(access.oidc)


def _in_store(around: Surroundings, now_ms: int) -> int | None:
    """Keys in force; None where they cannot be counted, which is told elsewhere."""
    try:
        with closing(connect_existing(around.settings.store.url, _PATIENCE_SECONDS, around.clock)) as database:
            with database.reading() as connection:
                revision = revision_of(connection)
            if revision is None:
                return 0
            if revision != newest_revision():
                return None
            return _count(ApiKeys(database), now_ms)
    except NoStore:
        return 0
    except StoreError:
        return None


def _count(source: KeySource, now_ms: int) -> int:
    known = source.keys()
    return sum(in_force(key, now_ms) for key in known)


def _provider(oidc: OidcSettings) -> Finding:
    url = oidc.jwks_url
    try:
        trusted = True if oidc.cafile is None else ssl.create_default_context(cafile=oidc.cafile)
        with httpx.Client(timeout=_PATIENCE_SECONDS, follow_redirects=False, verify=trusted) as http:
            if url is None:
                discovery = f"{(oidc.issuer or '').rstrip('/')}/.well-known/openid-configuration"
                document = _json(http, discovery)
                if document.get("issuer") != oidc.issuer:
                    return fail(
                        "access",
                        f"{discovery} says that its issuer is {document.get('issuer')!r}, and access.oidc.issuer is"
                        f" {oidc.issuer!r}: they must be equal, to the last slash",
                    )
                url = str(document.get("jwks_uri"))
            keys = _json(http, url).get("keys")
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return fail("access", f"the provider's keys cannot be read from {url or oidc.issuer}: {error}")
    if not isinstance(keys, list) or not keys:
        return fail("access", f"{url} holds no keys: access.oidc.jwks_url must be that of a JSON Web Key Set")
    return ok("access", f"tokens of {oidc.issuer}: {len(keys)} keys at {url}")


def _json(http: httpx.Client, url: str) -> dict[str, Any]:
    answer = http.get(url)
    answer.raise_for_status()
    found = answer.json()
    if not isinstance(found, dict):
        raise ValueError(f"{url} answers {type(found).__name__}, no object")  # noqa: TRY004 - what is wrong is what came
    return found
