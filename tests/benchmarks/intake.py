"""Read an embedded log to its end as the service does: ``python -m tests.benchmarks.intake SETTINGS``.

A process of its own, so that its memory is that of reading. Prints one line of JSON. pyarrow imports pandas wherever it
is installed, as it is for the tests: 45 MiB that an installation of the service does not have.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path

from monitor.app.parts import make_log, make_pipeline
from monitor.app.service import tune_interpreter
from monitor.app.settings.load import load_settings
from monitor.app.warmup import warm_up
from monitor.clock import SystemClock
from monitor.store.sql import SqlStore

_IDLE_STEPS = 3
"""So many polls without a record are the end of the log."""


@dataclass(frozen=True, slots=True)
class Intake:
    """What it took."""

    records: int
    restore_seconds: float
    """Processor time of claiming all partitions."""
    read_seconds: float
    """Processor time from there to the last checkpoint."""
    pending: int
    empty_mib: float
    """Resident memory before the first partition was claimed."""
    restored_mib: float
    resident_mib: float
    """At the end."""
    peak_mib: float


def read_log(file: Path) -> Intake:
    """Read the log that a settings file names, and save it in the store that it names."""
    settings = load_settings(file, {})
    clock = SystemClock()
    log = make_log(settings, clock)
    assert settings.store.url is not None
    with SqlStore.open(str(settings.store.url), clock=SystemClock()) as store:
        warm_up()
        pipeline = make_pipeline(settings, log, store, clock)
        tune_interpreter()
        empty = _memory("VmRSS")
        began = time.process_time()
        while len(pipeline.status.partitions) < settings.source.embedded.partitions:
            pipeline.step()
        restored, restored_at = _memory("VmRSS"), time.process_time()
        first = pipeline.status.records_read
        idle = 0
        while idle < _IDLE_STEPS:
            before = pipeline.status.records_read
            pipeline.step()
            idle = idle + 1 if pipeline.status.records_read == before else 0
        pipeline.stop()
        pipeline.run()  # saves what is left
        return Intake(
            records=pipeline.status.records_read,
            restore_seconds=restored_at - began if not first else 0.0,
            read_seconds=time.process_time() - (began if first else restored_at),
            pending=pipeline.status.pending,
            empty_mib=empty,
            restored_mib=restored,
            resident_mib=_memory("VmRSS"),
            peak_mib=_memory("VmHWM"),
        )


def _memory(name: str) -> float:
    """A field of /proc/self/status, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


class _WithoutPandas(MetaPathFinder):
    """As in an installation without the tools of the tests."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


if __name__ == "__main__":
    sys.meta_path.insert(0, _WithoutPandas())
    print(json.dumps(asdict(read_log(Path(sys.argv[1])))))
