"""An editable installation, which `make` makes: Python and type checkers find the package from everywhere."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

CHECKOUT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_found_also_after_another_installation(tmp_path: Path) -> None:
    build = "import sys; from setuptools import build_meta; build_meta.build_editable(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=CHECKOUT)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    # Of an installation that is not editable pip leaves the compiled loops.
    (packages / "monitor" / "__pycache__").mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python"
    find = "import importlib.util; print(importlib.util.find_spec('monitor').origin)"
    assert run(python, "-c", find, cwd=tmp_path).strip() == str(CHECKOUT / "monitor" / "__init__.py")
    # Modules that the package imports are not read, which takes a quarter of a minute.
    options: list[str | Path] = ["--strict", "--follow-imports=skip", "--cache-dir", tmp_path / "cache"]
    run(sys.executable, "-m", "mypy", *options, "--python-executable", python, "-c", "import monitor", cwd=tmp_path)
