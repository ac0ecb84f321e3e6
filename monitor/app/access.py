"""Build the authenticator of API keys and tokens from the settings."""

import structlog

from monitor.access.keys import PREFIX, KeyAuthenticator, KeySource, in_force
from monitor.access.keys_file import KeysFile
from monitor.access.model import Authenticator, Principal
from monitor.access.provider import Provider, ProviderKeys
from monitor.access.tokens import TokenAuthenticator
from monitor.app.settings import Settings
from monitor.clock import Clock
from monitor.errors import StoreError, Unauthenticated
from monitor.store.address import expand_home
from monitor.store.api_keys import ApiKeys
from monitor.store.sql import SqlStore

_log = structlog.get_logger(__name__)


class Credentials:
    """Authenticate API keys and tokens: an Authenticator.

    Parameters
    ----------
    keys
        Of API keys, which begin with ``cmk_``.
    tokens
        Of everything else; None accepts API keys alone.
    """

    def __init__(self, keys: Authenticator, tokens: Authenticator | None = None) -> None:
        self._keys = keys
        self._tokens = tokens

    def authenticate(self, credential: str) -> Principal:
        """Identify the principal. Raises Unauthenticated; StoreUnavailable for keys, ProviderUnavailable for tokens."""
        if credential.startswith(PREFIX):
            return self._keys.authenticate(credential)
        if self._tokens is not None:
            return self._tokens.authenticate(credential)
        raise Unauthenticated(
            f"the credential is no API key, which begins with {PREFIX}; tokens are accepted once access.oidc.issuer is"
            " set"
        )

    def recall(self, credential: str) -> Principal | None:
        """Identify the principal from memory alone, or return None."""
        authenticator = self._keys if credential.startswith(PREFIX) else self._tokens
        return None if authenticator is None else authenticator.recall(credential)


def make_authenticator(settings: Settings, store: SqlStore, clock: Clock) -> Authenticator | None:
    """The authenticator of API keys and tokens; None if access control is off.

    It may wait a moment for the store (see KeyAuthenticator): call it from a worker's thread, not from an event loop.

    Raises
    ------
    SettingsError
        access.keys_file cannot be read, or is broken; or access.oidc.cafile.
    """
    if settings.access.mode == "off":
        return None
    return Credentials(KeyAuthenticator(key_sources(settings, store), clock), make_tokens(settings, clock))


def make_tokens(settings: Settings, clock: Clock) -> TokenAuthenticator | None:
    """The authenticator of tokens; None without a provider. The provider is contacted when the first token comes.

    Raises
    ------
    SettingsError
        access.oidc.cafile cannot be read.
    """
    provider = make_provider(settings)
    if provider is None:
        return None
    provider.trust()
    oidc = settings.access.oidc
    return TokenAuthenticator(oidc, ProviderKeys(provider.read, oidc.refresh.total_seconds(), clock), clock)


def make_provider(settings: Settings) -> Provider | None:
    """The provider of tokens, if the settings name one."""
    oidc = settings.access.oidc
    return None if oidc.issuer is None else Provider(oidc.issuer, oidc.jwks_url, oidc.cafile)


def key_sources(settings: Settings, store: SqlStore) -> list[KeySource]:
    """Where API keys come from. What is revoked in the store is revoked, whatever a file says.

    Raises
    ------
    SettingsError
        access.keys_file cannot be read, or is broken.
    """
    file = open_keys_file(settings)
    return [ApiKeys(store.database), *([] if file is None else [file])]


def open_keys_file(settings: Settings) -> KeysFile | None:
    """The file of keys, if the settings name one. Raises SettingsError where it cannot be read, or is broken."""
    named = settings.access.keys_file
    return None if named is None else KeysFile(expand_home(named, "access.keys_file"))


def warn_of_no_access(settings: Settings, store: SqlStore, clock: Clock) -> None:
    """Log a warning if every request would be refused, with the command that makes a key.

    Raises
    ------
    SettingsError
        access.keys_file cannot be read, or is broken.
    """
    if settings.access.mode == "off" or settings.access.oidc.issuer is not None:
        return
    now_ms = clock.now_ms()
    try:
        keys = [key for source in key_sources(settings, store) for key in source.keys()]  # noqa: SIM118 - a method
    except StoreError as error:
        _log.warning("cannot check whether any API key is in force", detail=str(error))
        return
    if any(in_force(key, now_ms) for key in keys):
        return
    _log.warning(
        "access control is on, and no API key is in force: every request is refused until"
        " `monitor keys create NAME --role read --role write --role promote` has made one; access.oidc accepts tokens,"
        " and `access: {mode: off}` lets everybody on this machine do everything"
    )
