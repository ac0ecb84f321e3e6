"""A real MLflow tracking server for tests, on the loopback, in an environment of its own from PyPI."""

import contextlib
import shutil
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports, start_child, tail
from tests.real.lock import one_at_a_time

VERSION: Final = "3.17.2"

_CACHE: Final = Path(__file__).parents[2] / ".cache"
_INSTALL_SECONDS: Final = 1800


def mlflow_python() -> Path:
    """The interpreter of an environment with MLflow beside this one's packages, installed if it is not here yet.

    MLflow asks for other versions of some packages than the tests have: those are installed beside it, and come first.
    """
    folder = _CACHE / f"mlflow-{VERSION}"
    python = folder / "bin" / "python"
    complete = folder / "complete"
    with one_at_a_time(_CACHE / "mlflow.lock"):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            own = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
            (own / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", f"mlflow=={VERSION}"], check=True, timeout=_INSTALL_SECONDS
            )
            complete.touch()
    return python


@contextlib.contextmanager
def mlflow_server(directory: Path) -> Iterator[str]:
    """A tracking server with its database and artifacts in a folder; yields its address."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    url, log = f"http://{address}", directory / "mlflow.log"
    host, port = address.split(":")
    store = f"sqlite:///{directory / 'mlflow.db'}"
    command: list[str | Path] = [mlflow_python(), "-m", "mlflow", "server", "--host", host, "--port", port]
    command += ["--backend-store-uri", store, "--artifacts-destination", directory / "artifacts", "--workers", "1"]
    with log.open("wb") as output, start_child(command, directory, output) as process:
        try:
            eventually(lambda: _answers(f"{url}/health", process), shown=lambda: tail(log), pause_seconds=0.2)
            yield url
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the server ended"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False
