"""The build backend: what it requires, and what it does where loops cannot be compiled."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from deploy import build_backend
from tests.patience import PATIENCE_SECONDS

CHECKOUT: Final = Path(__file__).parents[2]
WITHOUT: Final = """
import sys
from importlib.metadata import packages_distributions

class Refuse:
    def find_spec(self, name, path, target=None):
        if name in refused:
            raise ModuleNotFoundError(name)

holders = packages_distributions()
refused = {module for module in holders if {each.lower() for each in holders[module]} & set(sys.argv[1:])}
assert {"fastapi", "kafka", "matplotlib", "jwt"} <= refused, refused
sys.meta_path.insert(0, Refuse())
from monitor.app.warmup import warm_up
warm_up()
"""


def dependencies() -> dict[str, str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {Requirement(each).name.lower(): each for each in project["dependencies"]}


def test_the_build_requires_what_the_warm_up_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    required = build_backend._imported()
    all_of_them = dependencies()
    names = {Requirement(each).name for each in required}
    assert names == set(build_backend._IMPORTED)
    assert set(required) <= set(all_of_them.values())
    for requires in (build_backend.get_requires_for_build_wheel, build_backend.get_requires_for_build_editable):
        assert set(required) <= set(requires())
    others = sorted(set(all_of_them) - names)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, *others],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stderr


def test_without_compiled_loops_the_build_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "monitor").mkdir()
    (tmp_path / "monitor" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    build_backend._compile()
    written = capfd.readouterr().err
    assert "No module named 'monitor.app'" in written
    assert "no loop was compiled: the first start of this installation compiles them" in written


def test_a_source_distribution_holds_the_backend(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(CHECKOUT / "monitor", source / "monitor", ignore=shutil.ignore_patterns("__pycache__", "shipped"))
    (source / "deploy").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "deploy/build_backend.py"):
        shutil.copy(CHECKOUT / name, source / name)
    build = "import sys; sys.path.insert(0, 'deploy'); import build_backend; build_backend.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        cwd=source,
        env={**os.environ, "PYTHONPATH": ""},
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    assert {"pyproject.toml", "deploy/build_backend.py", "monitor/compiled/native.py"} <= names
