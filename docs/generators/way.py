"""Print the modules that an event passes, from bytes in a log to a gauge: ``python -m docs.generators.way``.

The service reads a first log, so that what is done once is done; then the calls for a second one are traced. Of
compiled loops, those count that Python calls.
"""

import gc
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import monitor
from monitor.app.service import Service
from monitor.app.settings.model import Settings
from monitor.app.warmup import warm_up
from monitor.clock import SystemClock
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.model import Message
from monitor.metrics.exposition import Exposition
from monitor.stream.pipeline import Pipeline

PACKAGE: Final = Path(monitor.__file__).parent
SETTINGS: Final[dict[str, Any]] = {
    "models": {"defaults": {"horizon": "1m", "allowed_lateness": "0s"}},
    "windows": [{"length": "1h"}],
    "pipeline": {"checkpoint_interval": "10ms"},
    "evaluation": {"draws": 19},
    "access": {"mode": "off"},
    "api": {"port": 0},
}
NUMERICAL: Final = ("alarms", "inference", "measures", "reports", "scores", "sequential")
"""Rooms that compute what a window or evidence is; an event meets as many of their modules as there are measures."""
START_MS: Final = 1_760_000_000_000
EVENTS: Final = 2_000


def modules_of_an_event(folder: Path) -> set[str]:
    """Files of the package whose functions are called for an event."""
    source = {"topics": {"events": "events"}, "embedded": {"directory": str(folder / "log"), "partitions": 1}}
    tree = SETTINGS | {"source": source, "store": {"url": f"sqlite:///{folder}/state.db"}}
    service = Service(Settings.model_validate(tree), SystemClock())
    (exposition,) = (part for part in gc.get_objects() if isinstance(part, Exposition))
    warm_up()
    pipeline, called = cast("Pipeline", service.pipeline), set[str]()
    for first in (0, EVENTS):
        called.clear()
        service.log.writer.write([Message("events", value, partition=0) for value in _events(first)])
        with _traced(called):
            _read(pipeline, 2 * (first + EVENTS))
            service.evaluation.tick()
            service.leases.beat()
            text, _ = exposition.render()
    service.stop()
    if b"calibration_smce{" not in text:
        raise AssertionError("the events came to no gauge")
    return called


def _read(pipeline: Pipeline, records: int) -> None:
    """Run the pipeline until it has read so many records, and saved once more."""
    while pipeline.status.records_read < records:
        saved_ms = pipeline.status.checkpoint_ms
        pipeline.step()
    while pipeline.status.checkpoint_ms == saved_ms:
        pipeline.step()


def _events(first: int) -> Iterator[bytes]:
    for at in range(first, first + EVENTS):
        made_ms = START_MS + at * 1_000
        yield encode_prediction("m", at, made_ms, (at % 9 + 0.5) / 10)
        yield encode_outcome("m", at, made_ms, at % 2)


@contextmanager
def _traced(called: set[str]) -> Iterator[None]:
    """Add the modules of the package whose functions are called, also from Python to compiled loops."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            called.add(str(Path(frame.f_code.co_filename).relative_to(PACKAGE.parent)))

    def noting(loop: Any) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            called.add(loop.py_func.__module__.replace(".", "/") + ".py")
            return loop(*args)

        return call

    modules = [vars(module) for name, module in tuple(sys.modules.items()) if name.startswith("monitor.")]
    loops = [(names, name, value) for names in modules for name, value in names.items() if hasattr(value, "py_func")]
    for names, name, loop in loops:
        names[name] = noting(loop)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        for names, name, loop in loops:
            names[name] = loop


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        passed = sorted(modules_of_an_event(Path(name)))
    way = [name for name in passed if name.split("/")[1] not in NUMERICAL]
    print(*passed, f"{len(passed)} modules, {len(way)} of them in rooms that are not numerical", sep="\n")
