"""The image: what can be said of its Dockerfile without Docker, and what the wheel in it holds.

`make image-check` carries its lines out, and takes minutes.
"""

import os
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


def test_kernels_are_compiled_for_what_they_run_on(stages: dict[str, Stage]) -> None:
    # One name of the processor in both stages, and the same packages, or every kernel would be compiled at run time.
    assert "NUMBA_CPU_NAME=generic" in environment_of(stages["base"])
    for stage in (stages["build"], stages["final"]):
        assert "NUMBA" not in environment_of(stage)
    copied = [each.rest for each in stages["final"].instructions if each.name == "COPY"]
    (build,) = [each.rest for each in stages["build"].instructions if "--no-build-isolation" in each.rest]
    assert "pip --python /opt/venv/bin/python wheel --no-deps --no-build-isolation" in build
    (setuptools,) = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert pinned()["setuptools"] in Requirement(setuptools).specifier
    assert "--from=build /opt/venv /opt/venv" in copied


def test_the_build_sees_the_package_and_little_else() -> None:
    patterns = ignore_patterns()
    kept = ["pyproject.toml", "README.md", "LICENSE", "monitor/page/static/style.css", "monitor/stream/join_loops.py"]
    kept += ["deploy/image/requirements.txt", "deploy/image/monitor.yaml"]
    # Of which the site at /help is built.
    kept += ["docs/index.md", "docs/generators/site.py", "docs/requirements.txt", "helm/README.md", "CHANGELOG.md"]
    gone = [".git/config", ".venv/bin/python", "tests/conftest.py", "deploy/monitor.yaml", ".env"]
    gone += [
        "monitor/compiled/shipped/join.nbn",
        "monitor/compiled/__pycache__/join.cpython-312.pyc",
        "monitor/compiled/x.pyc",
        "monitor/x/y.nbi",
        "a.key",
    ]
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
    # With the loops that other tests compiled: those of the warm-up take half a minute.
    ignore = shutil.ignore_patterns("shipped", "*.py[cod]")
    shutil.copytree(CHECKOUT / "monitor", source / "monitor", ignore=ignore)
    (source / "deploy").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "deploy/build_backend.py"):
        shutil.copy(CHECKOUT / name, source / name)
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
    stands = {name for name in stands if "__pycache__" not in name and not name.endswith((".nbc", ".nbn"))}
    compiled = {name for name in held if name.startswith("monitor/compiled/shipped/") and name.endswith(".nbn")}
    assert held - compiled == stands
    assert "monitor/answers.json" in held  # `monitor explain` reads it
    assert {Path(name).suffix for name in held} >= {".py", ".js", ".css", ".json", ".typed"}
    # They are those of the warm-up, and of a report.
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    scores = tmp_path / "scores.csv"
    rows = "".join(f"0.{at % 97:02d},{at % 3 // 2}\n" for at in range(5_000))
    scores.write_text(f"prediction,outcome\n{rows}", encoding="utf-8")
    for command in (
        ["-c", "from monitor.app.warmup import warm_up; warm_up()"],
        ["-m", "monitor", "report", str(scores)],
    ):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(tmp_path / "installed"),
                "NUMBA_CACHE_DIR": str(tmp_path / "empty"),
                "NUMBA_DEBUG_CACHE": "1",
            },
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("[cache]")]
        assert len(lines) > 10
        assert [
            line for line in lines if f"loaded from '{tmp_path}/installed/monitor/compiled/shipped/" not in line
        ] == []
