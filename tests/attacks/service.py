"""A real `monitor serve` on an embedded log, to be attacked: its requests, its memory, and its end."""

from pathlib import Path
from typing import Any, Final

import yaml

from tests.cli.kafka_service import Served, merge

MIB: Final = 1 << 20

_BASE: Final[dict[str, Any]] = {
    "source": {"embedded": {"directory": "log"}},
    "store": {"url": "sqlite:///state.db"},
    "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m"}},
    "windows": [{"length": "1h"}],
    "evaluation": {"interval": "500ms", "draws": 19},
    "api": {"port": 0},
    "access": {"mode": "off"},
    "log": {"format": "json"},
}


class Attacked(Served):
    """A running service. ``changes`` go into its settings."""

    def __init__(self, folder: Path, /, **changes: Any) -> None:
        tree = yaml.safe_load(yaml.safe_dump(_BASE))
        merge(tree, changes)
        (folder / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
        super().__init__(folder)

    def memory_mib(self) -> float:
        """Resident memory, in MiB; from now on, :meth:`peak_mib` says how far it rose. Linux alone."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5", encoding="ascii")
        return self._status_mib("VmRSS")

    def peak_mib(self) -> float:
        """The most resident memory since :meth:`memory_mib` was called, in MiB."""
        return self._status_mib("VmHWM")

    def _status_mib(self, field: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
