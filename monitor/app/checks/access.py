"""Check that at least one API key or token provider is in force."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Final

from monitor.access.keys import KeySource, state_of
from monitor.access.provider import Provider
from monitor.app.access import make_provider, open_keys_file
from monitor.app.checks.base import CheckResult, Surroundings, fail, ok, warn
from monitor.errors import NoStore, ProviderUnavailable, StoreError
from monitor.store.address import connect_existing
from monitor.store.api_keys import ApiKeys
from monitor.store.migrate import newest_revision, revision_of

_PATIENCE_SECONDS: Final = 5.0
_MAKE_ONE: Final = "`monitor keys create NAME --role read --role write --role promote` makes one"


def check_access(around: Surroundings) -> Iterator[CheckResult]:
    """Count the keys in force, read the file of keys, and read the token provider's keys."""
    access = around.settings.access
    if access.mode == "off":
        yield ok("access", "access.mode is off: everybody on this machine may do everything")
        return
    # First, because a file of keys that cannot be read ends this check.
    provider = make_provider(around.settings)
    if provider is not None:
        yield _provider(provider)
    now_ms = around.clock.now_ms()
    file = open_keys_file(around.settings)
    in_file = None if file is None else _states(file, now_ms)
    in_store = _in_store(around, now_ms)
    parts = [] if in_store is None else [f"{_keys(in_store['in force'])} in force in the store{_others(in_store)}"]
    if in_file is not None:
        parts.append(f"{in_file['in force']} in {access.keys_file}{_others(in_file)}")
    if in_store is None:
        parts.append("those in the store are unknown, as it does not answer, or is older")
    total = (in_store or Counter()) + (in_file or Counter())
    if not total["in force"] and access.oidc.issuer is None and in_store is not None:
        yield warn("access", f"no API key is in force{_others(total)}, so every request is refused: {_MAKE_ONE}")
    else:
        yield ok("access", "; ".join(parts))


def _in_store(around: Surroundings, now_ms: int) -> Counter[str] | None:
    """Keys by their state; None if they cannot be counted, which another check reports."""
    try:
        with closing(connect_existing(around.settings.store.url, _PATIENCE_SECONDS, around.clock)) as database:
            with database.reading() as connection:
                revision = revision_of(connection)
            if revision is None:
                return Counter()
            if revision != newest_revision():
                return None
            return _states(ApiKeys(database), now_ms)
    except NoStore:
        return Counter()
    except StoreError:
        return None


def _states(source: KeySource, now_ms: int) -> Counter[str]:
    return Counter(state_of(key, now_ms) for key in source.keys())  # noqa: SIM118 - a method


def _keys(count: int) -> str:
    return "1 API key" if count == 1 else f"{count} API keys"


def _others(states: Counter[str]) -> str:
    """Numbers of expired and revoked keys, in parentheses."""
    parts = [f"{states[state]} {state}" for state in ("expired", "revoked") if states[state]]
    return f" ({', '.join(parts)})" if parts else ""


def _provider(provider: Provider) -> CheckResult:
    """Read the keys of the token provider as the service does."""
    try:
        keys = provider.read()
    except ProviderUnavailable as error:
        return fail("access", f"the keys of the provider of tokens cannot be read: {error}")
    message = f"tokens of {provider.issuer}: {len(keys.keys)} {'key' if len(keys.keys) == 1 else 'keys'} for signatures"
    secret = [key for key in keys.unusable if "secret" in key]
    if secret:
        return warn("access", f"{message}; {'; '.join(secret)}")
    return ok("access", message)
