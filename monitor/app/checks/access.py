"""Access control: whether anybody could ask."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from monitor.access.keys import KeySource, in_force
from monitor.access.provider import Provider
from monitor.app.access import make_provider, open_keys_file
from monitor.app.checks.base import Finding, Surroundings, fail, ok, warn
from monitor.errors import NoStore, ProviderUnavailable, StoreError
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
    # First, since a file of keys that cannot be read ends this check.
    provider = make_provider(around.settings)
    if provider is not None:
        yield _provider(provider)
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


def _provider(provider: Provider) -> Finding:
    """As the service asks: what it would refuse is refused here."""
    try:
        found = provider.read()
    except ProviderUnavailable as error:
        return fail("access", f"the keys of the provider of tokens cannot be read: {error}")
    told = f"tokens of {provider.issuer}: {len(found.keys)} keys for signatures"
    secret = [each for each in found.unusable if "secret" in each]
    if secret:
        return warn("access", f"{told}; {'; '.join(secret)}")
    return ok("access", told)
