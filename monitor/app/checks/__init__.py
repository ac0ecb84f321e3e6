"""The checks of `monitor check` by name. A new one is added here."""

from collections.abc import Iterator, Sequence
from typing import Final

from monitor.app.checks.access import check_access
from monitor.app.checks.base import Check, CheckResult, CheckStatus, Surroundings, fail
from monitor.app.checks.configuration import check_configuration
from monitor.app.checks.embedded import check_embedded_log
from monitor.app.checks.kafka import check_kafka
from monitor.app.checks.machine import check_disks, check_kernels
from monitor.app.checks.messages import check_messages
from monitor.app.checks.server import check_certificate, check_port
from monitor.app.checks.store import check_store
from monitor.errors import MonitorError

__all__ = ["CHECKS", "CheckResult", "CheckStatus", "Surroundings", "run_checks"]

CHECKS: Final[dict[str, Check]] = {
    "configuration": check_configuration,
    "log": check_embedded_log,
    "kafka": check_kafka,
    "messages": check_messages,
    "store": check_store,
    "disk": check_disks,
    "access": check_access,
    "port": check_port,
    "certificate": check_certificate,
    "kernels": check_kernels,
}
"""Name -> check, in the order in which they run."""


def run_checks(around: Surroundings, names: Sequence[str] = tuple(CHECKS)) -> Iterator[CheckResult]:
    """Run these checks one after the other. A failed one does not stop the others."""
    for name in names:
        try:
            yield from CHECKS[name](around)
        except MonitorError as error:
            yield fail(name, str(error).removesuffix("; trying again"))
        except OSError as error:
            yield fail(name, f"{error.filename or name}: {error.strerror or error}")
