"""Commands of the page about Kubernetes that stand beside the chart: backup, restore, and settings asked before."""

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from monitor.app.settings import load_settings
from tests.cli.command import monitor_in_path
from tests.deploy.chart import CHART, KUBERNETES, ROOT, container, of_values, only, pods, problems
from tests.deploy.test_chart_pods import restricted
from tests.patience import PATIENCE_SECONDS

TEXT: Final = (ROOT / "docs" / "kubernetes-operations.md").read_text(encoding="utf-8")
_FENCED: Final = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
BLOCKS: Final = [block for language, block in _FENCED if not language]
VOLUME: Final = "/var/lib/calibration-monitor"
DESCRIBED: Final = '{"format":1,"partitions":4}'
"""What an embedded log says of itself."""


def block(word: str) -> str:
    """The one block of commands with this word in it."""
    (commands,) = (block for block in BLOCKS if word in block)
    return str(commands)


def restore_pod() -> dict[str, Any]:
    """The pod that the page makes for a restore."""
    document = yaml.safe_load(block("kind: Pod").partition("<<'END'\n")[2].partition("\nEND\n")[0])
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_would_accept_the_pod_of_a_restore(version: str) -> None:
    assert problems(restore_pod(), version) == []
    broken = restore_pod()
    broken["spec"]["containers"][0]["volumeMount"] = []
    assert "volumeMount" in " ".join(problems(broken, version))


def test_the_pod_of_a_restore_may_do_what_the_services_may() -> None:
    objects = of_values({}, release="calibration")
    stateful = only(objects, "StatefulSet")
    own, spec = stateful["spec"]["template"]["spec"], restore_pod()["spec"]
    assert restricted(spec) == []
    for key in ("securityContext", "automountServiceAccountToken", "enableServiceLinks"):
        assert spec[key] == own[key], key
    (each,) = spec["containers"]
    assert each["securityContext"] == container(objects)["securityContext"]
    # The claim of the service, where the service has it, and the same places besides.
    (claim,) = stateful["spec"]["volumeClaimTemplates"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    name = f"{claim['metadata']['name']}-{stateful['metadata']['name']}-0"
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == name
    assert volumes["tmp"]["emptyDir"] == {}
    mounts = {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}
    assert {mount["name"]: mount["mountPath"] for mount in each["volumeMounts"]} == {
        "data": mounts["data"],
        "tmp": mounts["tmp"],
    }
    # The names that the commands use.
    commands = block("kind: Pod") + block("monitor backup")
    assert set(re.findall(r"statefulset/([-\w]+)", commands)) == {stateful["metadata"]["name"]}
    one = restore_pod()["metadata"]["name"]
    assert set(re.findall(r"pod/([-\w]+)", commands)) == {one}
    both = {stateful["metadata"]["name"] + "-0", one}
    assert set(re.findall(r"exec (?:--stdin )?--namespace calibration ([-\w]+) --", commands)) == both


def test_all_replicas_are_waited_for_and_come_back() -> None:
    """And no other pod: of the labels, the selector has those that only the service's have."""
    values = yaml.safe_load((CHART / "ci" / "production-values.yaml").read_text(encoding="utf-8"))
    production = of_values(values, release="calibration")
    commands = block("kind: Pod").replace("\\\n", " ")
    (wait,) = re.findall(r"^kubectl wait .*--for=delete pod .*$", commands, re.MULTILINE)
    (selector,) = re.findall(r"--selector (\S+)", wait)
    selected = [
        name
        for name, pod in pods(production)
        if set(selector.split(",")) <= {f"{key}={value}" for key, value in pod["metadata"]["labels"].items()}
    ]
    assert selected == [f"StatefulSet/{only(production, 'StatefulSet')['metadata']['name']}"]
    assert re.findall(r"--replicas=(\w+)", commands) == ["0", "N"]


def test_a_volume_that_goes_with_its_replica_is_kept_for_a_restore() -> None:
    stateful = only(of_values({"persistence": {"whenScaled": "Delete"}}), "StatefulSet")
    before, _, _ = block("kind: Pod").partition("kubectl scale ")
    (patch,) = re.findall(r"^kubectl patch .*--patch '(.*)'$", before.replace("\\\n", " "), re.MULTILINE)
    policy = stateful["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert policy == {"whenDeleted": "Retain", "whenScaled": "Delete"}
    (patched,) = yaml.safe_load(patch)["spec"].items()
    assert patched == ("persistentVolumeClaimRetentionPolicy", {"whenScaled": "Retain"})
    policy.update(patched[1])
    assert problems(stateful, KUBERNETES[0]) == []


def test_what_a_restore_says_of_another_log_is_quoted() -> None:
    (bullet,) = re.findall(r"^- \*\*Kafka\*\*: (.*?)(?=^- )", TEXT, re.MULTILINE | re.DOTALL)
    quoted = [each for each in re.findall(r"`([^`]+)`", " ".join(bullet.split())) if each.count(" ") > 2]
    said = "".join(
        (ROOT / "monitor" / file).read_text(encoding="utf-8") for file in ("app/log_bounds.py", "cli/restore.py")
    )
    assert len(quoted) == 4
    assert [each for each in quoted if each.removesuffix(" ...") not in said] == []


def test_the_settings_of_the_image_name_the_places_of_the_chart() -> None:
    """So that the pod of a restore needs no settings of its own."""
    image = load_settings(ROOT / "deploy" / "image" / "monitor.yaml", {})
    config = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]
    assert image.store.url == config["store"]["url"]
    assert image.source.kind == config["source"]["kind"]
    assert image.source.embedded.directory == config["source"]["embedded"]["directory"]
    assert "MONITOR_CONFIG=/etc/calibration-monitor/monitor.yaml" in (ROOT / "deploy" / "Dockerfile").read_text(
        encoding="utf-8"
    )


@pytest.fixture
def monitor_path(tmp_path: Path) -> Iterator[str]:
    """A PATH whose `monitor` runs in this process."""
    with monitor_in_path(tmp_path / "bin") as path:
        yield path


def test_what_the_commands_back_up_they_restore(tmp_path: Path, monitor_path: str) -> None:
    """In the container's own place, with the image's settings; kubectl is left out."""
    data, tmp = tmp_path / "data", tmp_path / "tmp"
    data.mkdir()
    tmp.mkdir()

    def here(text: str) -> str:
        return re.sub(f"{VOLUME}|/tmp(?=/)", lambda match: str(tmp if match[0] == "/tmp" else data), text)

    file = tmp_path / "monitor.yaml"
    settings = (ROOT / "deploy" / "image" / "monitor.yaml").read_text(encoding="utf-8")
    file.write_text(here(settings), encoding="utf-8")

    def run(command: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            shlex.split(here(command)),
            cwd=data,
            env={"PATH": monitor_path, "MONITOR_CONFIG": str(file)},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def keys() -> list[str]:
        with closing(sqlite3.connect(data / "state.db")) as store:
            return [name for (name,) in store.execute("SELECT name FROM api_keys ORDER BY name")]

    run("monitor keys create kept --role read")
    (data / "log").mkdir()
    (data / "log" / "log.json").write_text(DESCRIBED, encoding="utf-8")
    tidy, backup, cat, remove, tar = _in_the_container("monitor backup")
    # Of a night before, that failed half-way; and again, with nothing there.
    (tmp / "store.db").write_text("left", encoding="utf-8")
    run(tidy)
    run(tidy)
    run(backup)
    saved = run(cat)
    run(remove)
    assert list(tmp.iterdir()) == []
    log = run(tar)
    run("monitor keys create later --role read")
    assert keys() == ["kept", "later"]
    take, verify, restore = _in_the_container("kind: Pod")
    run(take, saved)
    assert b"is sound" in run(verify)
    assert b"restored the store" in run(restore)
    assert keys() == ["kept"]
    # And on a volume that a first start has written to.
    for each in data.glob("state.db*"):
        each.unlink()
    (data / "log" / "log.json").write_text("of the first start", encoding="utf-8")
    untar = re.search(r"-- (sh -c '.*tar -xf -') < log\.tar", TEXT)
    assert untar is not None
    run(untar[1], log)
    assert {each.name: each.read_text(encoding="utf-8") for each in (data / "log").iterdir()} == {"log.json": DESCRIBED}
    run(restore)
    assert keys() == ["kept"]


def test_the_service_says_before_an_install_what_templates_cannot(tmp_path: Path) -> None:
    (tmp_path / "helm").symlink_to(CHART)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def ask(values: dict[str, Any], path: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
        return subprocess.run(
            ["bash", "-eo", "pipefail", "-c", block("--show-only")],
            cwd=tmp_path,
            env={"PATH": f"{path}{os.pathsep}{programs}", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )

    with monitor_in_path(tmp_path / "bin") as path:
        sound = ask({}, path)
        wrong = ask({"config": {"models": {"defaults": {"recalibration": {"schedule": "daily"}}}}}, path)
    assert (sound.returncode, sound.stderr) == (0, "")
    assert yaml.safe_load(sound.stdout)["api"]["host"] == "0.0.0.0"
    assert wrong.returncode != 0
    assert "models.defaults.recalibration.schedule must" in wrong.stderr


def _in_the_container(word: str) -> list[str]:
    """What the commands of a block run inside a container, without what the outer shell does with it."""
    commands = block(word).replace("\\\n", " ")
    inner = re.findall(r"^kubectl exec .*? -- (.*?)(?: [<>] [-.\w]+)?$", commands, re.MULTILINE)
    return [command.strip() for command in inner]
