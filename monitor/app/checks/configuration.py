"""Check valid settings further: addresses that need parsing, risky choices, secrets that others can read."""

import stat
from collections.abc import Iterator
from pathlib import Path

from monitor.app.checks.base import CheckResult, Surroundings, ok, warn
from monitor.app.settings import Settings
from monitor.app.settings.load import PREFIX
from monitor.section import hide_password
from monitor.store.address import sqlite_path


def check_configuration(around: Surroundings) -> Iterator[CheckResult]:
    """Report where the settings come from, and warn of risky ones.

    Raises
    ------
    SettingsError
        The store's URL is none.
    """
    sqlite_path(around.settings.store.url)
    variables = sum(name.startswith(PREFIX) for name in around.environ)
    overrides = f", and {variables} environment variable{'s' if variables > 1 else ''}" if variables else ""
    yield ok("configuration", f"{around.file or 'defaults'}{overrides}: all settings are valid")
    for path, content in _secret_files(around):
        yield from _warn_if_readable_by_all(path, content)
    yield from _warn_of_risks(around.settings)


def holds_secrets(settings: Settings) -> bool:
    """Whether the settings contain a secret."""
    kafka = settings.source.kafka
    has_password = hide_password(settings.store.url) != settings.store.url
    webhooks = settings.alerts.webhooks.values()
    signs = any(webhook.secret is not None or hide_password(webhook.url) != webhook.url for webhook in webhooks)
    return has_password or signs or kafka.sasl_plain_password is not None or kafka.ssl_password is not None


def _secret_files(around: Surroundings) -> Iterator[tuple[Path, str]]:
    if around.file is not None and holds_secrets(around.settings):
        # A secret may come from the environment: then the file contains none, and everybody may read it.
        text = around.file.read_text(encoding="utf-8", errors="replace")
        if "password" in text or "secret" in text or ("://" in text and "@" in text):
            yield around.file, "which holds a password"
    if around.settings.source.kafka.ssl_keyfile is not None:
        yield Path(around.settings.source.kafka.ssl_keyfile), "the key of source.kafka.ssl_keyfile"
    for name, value in sorted(around.environ.items()):
        if name.startswith(PREFIX) and name.upper().endswith("_FILE") and not name.upper().endswith(("KEYS_FILE",)):
            yield Path(value), f"the secret of {name}"


def _warn_if_readable_by_all(path: Path, content: str) -> Iterator[CheckResult]:
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # Whatever reads the file reports the error.
    if mode & stat.S_IROTH:
        yield warn("secrets", f"every user of this machine can read {path}, {content}: run `chmod o-rwx {path}`")


def _warn_of_risks(settings: Settings) -> Iterator[CheckResult]:
    kafka = settings.source.kafka
    if settings.source.kind == "kafka" and kafka.security_protocol == "SASL_PLAINTEXT":
        yield warn(
            "configuration",
            "source.kafka.security_protocol SASL_PLAINTEXT sends events, and with PLAIN the password too, unencrypted:"
            " set SASL_SSL",
        )
    if settings.source.kind == "kafka" and not kafka.ssl_check_hostname and kafka.security_protocol.endswith("SSL"):
        yield warn("configuration", "source.kafka.ssl_check_hostname is false: any host may pose as a broker")
    if settings.source.when_purged == "earliest":
        yield warn("configuration", "source.when_purged is earliest: a gap in the log is passed over, and only counted")
    longest = max(window.reach for window in settings.windows)
    for name in sorted(settings.models.declared):
        if settings.models.of(name).horizon > 10 * longest:
            yield warn(
                "configuration",
                f"models.declared.{name}.horizon is over ten times the longest window: most predictions have left every"
                " window that is not mature before their outcome comes",
            )
