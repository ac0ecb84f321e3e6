"""The API keys that the compose file makes, made as it makes them."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from monitor.clock import SystemClock
from monitor.store.sql import SqlStore
from tests.cli.command import environment, inside, monitor_in_path
from tests.deploy.compose import DEPLOY, mounts, read
from tests.patience import PATIENCE_SECONDS

KEYS: Final = "/run/calibration-monitor"


MAKERS: Final = ("scrape-key", "keys")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """The services of the compose file; their scripts call `monitor` in this process."""
    services: dict[str, dict[str, Any]] = read(DEPLOY / "compose.yaml")["services"]
    with monitor_in_path(tmp_path_factory.mktemp("program") / "bin") as path, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        yield services


def service_on(store: str, folder: Path) -> None:
    """What a service of these settings leaves behind once it has started: keys are made after that."""
    settings_with(store, folder)
    SqlStore.open(f"sqlite:///{folder / store}", clock=SystemClock()).close()


def settings_with(store: str, folder: Path) -> None:
    (folder / "monitor.yaml").write_text(f"store: {{url: 'sqlite:///{store}'}}\n", encoding="utf-8")


def in_store(folder: Path) -> dict[str, dict[str, Any]]:
    """Name -> the last key of that name that is in force."""
    listed = [json.loads(line) for line in inside("keys", "list", "--json", cwd=folder).stdout.splitlines()]
    return {key["name"]: key for key in listed if key["state"] == "in_force"}


def make_key(service: dict[str, Any], volume: Path, folder: Path) -> dict[str, str]:
    """Make a key as a service does, in a folder that stands for its volume: what is in it then."""
    done = run_maker(service, volume, folder)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_text(encoding="utf-8") for path in volume.iterdir()}


def run_maker(service: dict[str, Any], volume: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    volume.mkdir(exist_ok=True)
    words = [word.replace(KEYS, str(volume)).replace("$$", "$") for word in service["entrypoint"]]
    command = [*words, *service["command"]]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def test_keys_are_made_once_each_for_those_alone_who_need_it(
    services: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    service_on("state.db", tmp_path)
    users = {name: mount for name, service in services.items() for mount in mounts(service) if mount[1] == KEYS}
    makers = tuple(name for name in users if not users[name][2])
    held = {users[name][0]: make_key(services[name], tmp_path / users[name][0], tmp_path) for name in makers}
    # Whoever mounts a volume, wherever, reads all that is in it; and only the maker of a key writes.
    readers = {(name, source) for name, service in services.items() for source, *_ in mounts(service) if source in held}
    assert {(name, *held[source]) for name, source in readers} == {
        ("scrape-key", "prometheus"),
        ("prometheus", "prometheus"),
        ("keys", "operator"),
        ("monitor", "operator"),
    }
    assert makers == MAKERS
    # Prometheus runs as another user than the service.
    assert (tmp_path / "scrape-key" / "prometheus").stat().st_mode & 0o777 == 0o444
    assert (tmp_path / "keys" / "operator").stat().st_mode & 0o777 == 0o400
    listed = [json.loads(line) for line in inside("keys", "list", "--json", cwd=tmp_path).stdout.splitlines()]
    assert {key["name"]: set(key["roles"]) for key in listed} == {
        "prometheus": {"read"},
        "operator": {"read", "write", "promote"},
    }
    # A second start leaves them as they are.
    assert held == {users[name][0]: make_key(services[name], tmp_path / users[name][0], tmp_path) for name in makers}
    settings = read(DEPLOY / "prometheus" / "prometheus.yml")
    scraped = next(job for job in settings["scrape_configs"] if job["job_name"] == "calibration-monitor")
    assert scraped["authorization"]["credentials_file"] == f"{KEYS}/prometheus"


def test_a_key_that_the_store_does_not_have_is_made_anew(services: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    """Another store is taken, or the one that was is lost; and then the first one again."""
    seen = set()
    for store in ("state.db", "other.db", "state.db"):
        service_on(store, tmp_path)
        (text,) = make_key(services["keys"], tmp_path / "keys", tmp_path).values()
        assert text.split("_")[1] == in_store(tmp_path)["operator"]["id"]
        seen.add(text)
    assert len(seen) == 3


def test_a_key_that_was_revoked_stays_so(services: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    service_on("state.db", tmp_path)
    made = make_key(services["keys"], tmp_path / "keys", tmp_path)
    assert inside("keys", "revoke", "operator", cwd=tmp_path).returncode == 0
    assert make_key(services["keys"], tmp_path / "keys", tmp_path) == made
    assert in_store(tmp_path) == {}


def test_a_key_is_kept_where_the_store_does_not_answer(services: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    service_on("state.db", tmp_path)
    made = make_key(services["keys"], tmp_path / "keys", tmp_path)
    settings_with("nowhere/state.db", tmp_path)
    (tmp_path / "nowhere").write_text("no folder", encoding="utf-8")
    assert run_maker(services["keys"], tmp_path / "keys", tmp_path).returncode != 0
    assert {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "keys").iterdir()} == made
