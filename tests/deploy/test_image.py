"""The image: what can be said of its Dockerfile without Docker, and what the wheel in it holds.

`make image-check` carries its lines out, and takes minutes.
"""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from monitor.app.settings import load_settings
from monitor.http.routes.help import FOLDER
from monitor.version import VERSION
from tests.deploy.image_check import DOCKERFILE, Stage, ignore_patterns, ignored, read_stages
from tests.patience import PATIENCE_SECONDS

CHECKOUT = Path(__file__).parents[2]
REQUIREMENTS = CHECKOUT / "deploy" / "image" / "requirements.txt"
LEFT_BEHIND = {"__pycache__"}


@pytest.fixture(scope="module")
def stages() -> dict[str, Stage]:
    return {stage.name: stage for stage in read_stages(DOCKERFILE.read_text(encoding="utf-8"))}


def pinned() -> dict[str, Version]:
    """Distribution -> its version in the image."""
    lines = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {name: Version(version) for name, _, version in (line.partition("==") for line in lines)}


def environment_of(stage: Stage) -> str:
    return " ".join(instruction.rest for instruction in stage.instructions if instruction.name == "ENV")


def test_hadolint_has_nothing_to_say() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert "hadolint ignore" not in text
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([linter, DOCKERFILE], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    # And it is no linter that says nothing of anything.
    bad = subprocess.run([linter, "-"], input="FROM python\nRUN cd /\n", capture_output=True, text=True, check=False)
    assert bad.returncode == 1


def test_it_runs_as_nobody_in_particular_and_ends_in_order(stages: dict[str, Stage]) -> None:
    final = list(stages.values())[-1]
    assert final.name == "final"
    # A number: Kubernetes cannot tell that a name is not root's.
    assert final.last("USER") == "65532:65532"
    assert final.last("ENTRYPOINT") == '["monitor"]'
    assert final.last("CMD") == '["serve"]'
    assert final.last("STOPSIGNAL") == "SIGTERM"
    assert final.last("VOLUME") == final.last("WORKDIR") == "/var/lib/calibration-monitor"
    health = final.last("HEALTHCHECK")
    assert "/healthz" in health
    assert 'CMD ["python"' in health  # no shell, and nothing that the image would need for this alone
    assert not re.search(r"\b(curl|wget)\b", health)


def test_its_base_is_pinned_and_a_digest_fits_in(stages: dict[str, Stage]) -> None:
    assert stages["base"].base == "${BASE}"
    assert stages["build"].base == stages["final"].base == "base"
    (base,) = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert re.fullmatch(r"python:3\.12\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", base)


def test_no_secret_is_asked_for_or_kept(stages: dict[str, Stage]) -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    for word in ("password", "secret", "token", "api_key"):
        assert word not in text.lower()
    # What is copied is named one by one.
    copied = [each.rest for stage in stages.values() for each in stage.instructions if each.name in {"COPY", "ADD"}]
    assert "." not in {word for rest in copied for word in rest.split()[:-1]}


def test_kernels_are_read_where_they_were_compiled(stages: dict[str, Stage]) -> None:
    common = environment_of(stages["base"])
    # Of the same processor and in the same place in both stages, or every kernel would be compiled at run time.
    assert "NUMBA_CPU_NAME=generic" in common
    assert "NUMBA_CACHE_DIR=/opt/kernels" in common
    for stage in (stages["build"], stages["final"]):
        assert "NUMBA" not in environment_of(stage)
    copied = [each.rest for each in stages["final"].instructions if each.name == "COPY"]
    assert "--from=build /opt/kernels /opt/kernels" in copied
    assert "--from=build /opt/venv /opt/venv" in copied


def test_the_build_sees_the_package_and_little_else() -> None:
    patterns = ignore_patterns()
    kept = ["pyproject.toml", "README.md", "LICENSE", "monitor/page/static/style.css", "monitor/stream/join_loops.py"]
    kept += ["deploy/image/requirements.txt", "deploy/image/monitor.yaml"]
    # Of which the site at /help is built.
    kept += ["docs/index.md", "docs/generators/site.py", "docs/requirements.txt", "helm/README.md", "CHANGELOG.md"]
    gone = [".git/config", ".venv/bin/python", "tests/conftest.py", "deploy/monitor.yaml", ".env"]
    gone += ["monitor/compiled/__pycache__/join.cpython-312.pyc", "monitor/compiled/x.pyc", "monitor/x/y.nbi", "a.key"]
    assert [path for path in kept if ignored(path, patterns)] == []
    assert [path for path in gone if not ignored(path, patterns)] == []


def test_the_documentation_is_built_strictly_and_lies_where_the_service_looks(stages: dict[str, Stage]) -> None:
    commands = " ".join(each.rest for each in stages["help"].instructions if each.name == "RUN")
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    for part in ("docs.generators.site stage", "zensical build --clean --strict --config-file zensical.yml"):
        assert part in commands
        assert part in makefile
    assert "docs.generators.site verify /pages/site" in commands
    copied = [each.rest for each in stages["final"].instructions if each.name == "COPY"]
    folder = Path("/opt/venv") / FOLDER.relative_to(sys.prefix)
    assert f"--from=help /pages/site {folder}" in copied


def test_every_dependency_is_pinned_to_a_version_that_fits() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = pinned()
    assert REQUIREMENTS.read_text(encoding="utf-8").splitlines()[1:] == sorted(
        f"{name}=={version}" for name, version in versions.items()
    )
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["postgres"], *extras["avro"], *extras["protobuf"]]:
        wanted = Requirement(text)
        assert wanted.name.lower() in versions, f"{REQUIREMENTS} lacks {wanted.name}"
        assert versions[wanted.name.lower()] in wanted.specifier


def test_its_settings_are_accepted_and_keep_state_in_the_volume() -> None:
    settings = load_settings(CHECKOUT / "deploy" / "image" / "monitor.yaml", {})
    assert settings.api.host == "0.0.0.0"
    assert settings.api.port == 8000
    assert settings.access.mode == "required"
    state = "/var/lib/calibration-monitor"
    assert settings.store.url.startswith(f"sqlite:///{state}/")
    assert settings.source.embedded.directory.startswith(state)


def test_its_version_is_the_packages(stages: dict[str, Stage]) -> None:
    assert f"ARG VERSION={VERSION}" in DOCKERFILE.read_text(encoding="utf-8")
    labels = stages["final"].last("LABEL")
    for name in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{name}=" in labels


def test_the_wheel_holds_all_that_stands_in_the_package(tmp_path: Path) -> None:
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns("__pycache__", "*.py[cod]", "*.nb[ic]")
    shutil.copytree(CHECKOUT / "monitor", source / "monitor", ignore=ignore)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source],
        check=True,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name == f"calibration_monitor-{VERSION}-py3-none-any.whl"
    held = {name for name in zipfile.ZipFile(wheel).namelist() if not name.startswith("calibration_monitor-")}
    stands = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "monitor").rglob("*") if path.is_file()}
    stands = {name for name in stands if "__pycache__" not in name and Path(name).suffix not in {".nbi", ".nbc"}}
    assert held == stands
    assert {Path(name).suffix for name in held} >= {".py", ".js", ".css", ".json", ".typed"}
