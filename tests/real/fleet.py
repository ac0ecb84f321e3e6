"""Processes of one consumer group: started, killed, paused and stopped."""

import itertools
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import tail
from tests.real.forked import Forked

ROOT: Final = Path(__file__).parents[2]


class Fleet:
    """Replicas, each a process; all that are left are killed at the end.

    Parameters
    ----------
    folder
        Where the output of each goes.
    command
        The module and the arguments of a replica of a name.
    ready
        What it writes once SIGTERM ends it in order.
    """

    def __init__(self, folder: Path, command: Callable[[str], Sequence[str]], ready: bytes) -> None:
        self._folder = folder
        self._command = command
        self._ready = ready
        self._numbers = itertools.count(1)
        self._processes: dict[str, Forked] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in self.names:
            self.kill(name)

    @property
    def names(self) -> list[str]:
        """The replicas that run."""
        return list(self._processes)

    def start(self) -> str:
        """Start one more; its name."""
        name = f"replica-{next(self._numbers)}"
        with self._log(name).open("ab") as output:
            self._processes[name] = Forked(*self._command(name), cwd=ROOT, output=output)
        return name

    def kill(self, name: str) -> None:
        """End it at once."""
        process = self._processes.pop(name)
        process.kill()
        process.wait(PATIENCE_SECONDS)

    def stop(self, *names: str) -> None:
        """End them in order, at the same time."""
        for log in map(self._log, names):
            eventually(lambda log=log: self._ready in log.read_bytes())  # type: ignore[misc]
        processes = {name: self._processes.pop(name) for name in names}
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in processes.items():
            assert process.wait(PATIENCE_SECONDS) == 0, tail(self._log(name))

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Pause it within the block, as a machine that hangs does."""
        process = self._processes[name]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Fail if one has ended by itself."""
        for name, process in self._processes.items():
            assert process.poll() is None, f"{name} ended with {process.poll()}:\n{tail(self._log(name))}"

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
