"""Who may ask the service: its authenticator, made of the settings."""

from monitor.access.base import Authenticator
from monitor.access.keys import KeyAuthenticator
from monitor.clock import Clock
from monitor.settings import Settings
from monitor.store.api_keys import ApiKeys
from monitor.store.sql import SqlStore


def make_authenticator(settings: Settings, store: SqlStore, clock: Clock) -> Authenticator | None:
    """Says who asks, by API key or token; None where access control is off.

    It may wait a moment for the store: call it from a worker's thread, not from an event loop.

    Raises
    ------
    SettingsError
        access.keys_file cannot be read.
    """
    if settings.access.mode == "off":
        return None
    return KeyAuthenticator([ApiKeys(store.database)], clock)


def warn_of_no_access(settings: Settings, store: SqlStore, clock: Clock) -> None:
    """Log a warning where access control would refuse everybody, with the command that makes a key."""
