"""`monitor spark-stream` as a process, to be killed together with Spark at a certain moment."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE_SECONDS
from tests.real.spark import local_environment

_PROGRAM: Final = """
import os, signal, sys
from monitor.cli.main import main
from monitor.store.sql import SqlStore
moment, number = sys.argv.pop(1), int(sys.argv.pop(1))
save = SqlStore.save_batch
def save_and_die(store, query, batch, checkpoints):
    if (moment, number) == ("before", batch):
        os.killpg(0, signal.SIGKILL)
    saved = save(store, query, batch, checkpoints)
    if (moment, number) == ("after", batch):
        os.killpg(0, signal.SIGKILL)
    return saved
SqlStore.save_batch = save_and_die
main()
"""


class StreamJob:
    """A job with the settings of a folder, whose Spark keeps its state beside them.

    Parameters
    ----------
    folder
        Where monitor.yaml is.
    max_records
        How many records a batch reads at most.
    """

    def __init__(self, folder: Path, max_records: int) -> None:
        self.folder = folder
        self.output = folder / "spark.txt"
        self._max_records = max_records
        self._environment = {**os.environ, **local_environment(folder / "spark"), "PYTHONPATH": str(Path.cwd())}

    @contextmanager
    def running(self, moment: str = "never", batch: int = -1) -> Iterator[subprocess.Popen[bytes]]:
        """Start it; it is killed before or after it has saved a batch. Leaving the block ends it."""
        arguments = ["spark-stream", "--checkpoint", "checkpoint", "--interval", "1s"]
        arguments += ["--max-records", str(self._max_records)]
        with self.output.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, moment, str(batch), *arguments],
                cwd=self.folder,
                env=self._environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            yield process
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_SECONDS) == 0, self.tail()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(PATIENCE_SECONDS)

    def killed(self, moment: str, batch: int) -> None:
        """Run it until it is killed, with Spark and all its workers."""
        with self.running(moment, batch) as process:
            assert process.wait(4 * PATIENCE_SECONDS) == -signal.SIGKILL, self.tail()

    def tail(self) -> str:
        """The end of what it wrote."""
        return self.output.read_text()[-6000:]
