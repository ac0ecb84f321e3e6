"""`monitor backup` and `monitor restore`: a service that loses its store comes back with the same reports."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.app.log_bounds import Continuation, continuation
from monitor.app.parts import Log, make_evaluator, make_log, make_panes, make_pipeline, make_writer, open_store
from monitor.app.settings import load_settings
from monitor.clock import ManualClock, SystemClock
from monitor.events.log import LogRange
from monitor.events.model import Message, TopicPartition
from monitor.stream.pipeline import Pipeline
from monitor.windows.panes import read_closings
from tests.cli.command import inside, one_error_line
from tests.patience import PATIENCE_SECONDS
from tests.real.mixed_log import OUTCOMES, POLICY, PREDICTIONS, MixedLog
from tests.real.postgres import PASSWORD, PostgresServer, program

EVENTS = 4_000
CLOCK = SystemClock()


@dataclass
class Folder:
    """A monitor.yaml with an embedded log beside it."""

    path: Path
    url: str
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tree = {
            "source": {
                "embedded": {"directory": str(self.path / "log")},
                "topics": {"predictions": PREDICTIONS, "outcomes": OUTCOMES},
                **self.changes,
            },
            "store": {"url": self.url},
            "models": {
                "defaults": {
                    "horizon": POLICY.horizon_ms / 1000,
                    "allowed_lateness": POLICY.lateness_ms / 1000,
                    "segments": list(POLICY.segments),
                }
            },
            "windows": [{"length": "1h"}, {"length": "30m"}],
            "evaluation": {"draws": 0},
            # Many checkpoints, and buckets that are dropped between them.
            "pipeline": {"checkpoint_interval": "10ms", "max_poll_records": 400},
        }
        self.path.mkdir(exist_ok=True)
        (self.path / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
        self.settings = load_settings(self.path / "monitor.yaml", {})

    def write(self, log: MixedLog, start: int, end: int) -> None:
        """Write a part of a log."""
        writer = make_writer(self.settings, CLOCK)
        lines = log.lines[start:end]
        writer.write([Message(line.topic, line.value, line.key, partition=line.partition) for line in lines])
        writer.close()

    def read_on(self, until: int) -> dict[str, Any]:
        """Start, read until so many records have met their fate, stop in order; what is reported then."""
        log: Log = make_log(self.settings, CLOCK)
        with open_store(self.settings, CLOCK) as store:
            pipeline: Pipeline = make_pipeline(self.settings, log, store, CLOCK)
            for _ in range(2000):
                if sum(pipeline.status.counters.values()) >= until:
                    break
                pipeline.step()
            assert sum(pipeline.status.counters.values()) >= until
            pipeline._save_all()
            # While the clock stands, an evaluation renews every interval, however long it takes.
            panes = make_panes(self.settings)
            read_closings(store, panes)
            evaluator = make_evaluator(self.settings, panes, ManualClock(CLOCK.now_ms()))
            reports = {str(key): report.to_dict() for key, report in evaluator.evaluate().reports.items()}
            log.source.close()
            fates = {
                str(key): count
                for key, count in pipeline.status.counters.items()
                if key[0] in {"prediction", "unknown"}
            }
            return {"reports": reports, "fates": fates, "letters": dict(store.count_dead_letters())}


@pytest.fixture(scope="module")
def mixed() -> MixedLog:
    return MixedLog(EVENTS, 4, seed=5)


@pytest.fixture(scope="module")
def undisturbed(mixed: MixedLog, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a service reports that nothing happens to."""
    path = tmp_path_factory.mktemp("undisturbed")
    folder = Folder(path, f"sqlite:///{path}/state.db")
    folder.write(mixed, 0, len(mixed.lines))
    told = folder.read_on(len(mixed.lines))
    assert len(told["reports"]) > 10
    return told


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def server(request: pytest.FixtureRequest) -> PostgresServer | None:
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_server")


def test_after_a_restore_the_reports_are_those_of_an_undisturbed_service(
    server: PostgresServer | None, mixed: MixedLog, undisturbed: dict[str, Any], tmp_path: Path
) -> None:
    """By the commands of the service in SQLite, and by those of PostgreSQL that they name."""
    lines = len(mixed.lines)
    url = f"sqlite:///{tmp_path}/service/state.db" if server is None else server.url(server.new_database())
    folder = Folder(tmp_path / "service", url)
    folder.write(mixed, 0, lines // 2)
    folder.read_on(lines // 2)
    done = inside("backup", "backup.db", cwd=folder.path)
    if server is not None:
        assert done.returncode == 2
        run_named_command(one_error_line(done), folder.path)
    else:
        assert done.returncode == 0, done.stderr
        assert "4 partitions" in done.stdout
    # It goes on, and then its store is lost.
    folder.write(mixed, lines // 2, 3 * lines // 4)
    folder.read_on(3 * lines // 4)
    folder.write(mixed, 3 * lines // 4, lines)
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (folder.path / name).unlink(missing_ok=True)
    done = inside("restore", "backup.db", cwd=folder.path)
    to_read = lines - lines // 2
    if server is not None:
        run_named_command(one_error_line(done), folder.path)
        offsets = f"the log holds all that the store has not read: {to_read:,} records"
        assert offsets in inside("check", "--only", "store", cwd=folder.path).stdout
    else:
        assert done.returncode == 0, done.stderr
        assert f"{to_read:,} records are read from the log: the reports will be exactly" in done.stdout
    assert folder.read_on(lines) == undisturbed


def run_named_command(error: str, folder: Path) -> None:
    """Run the command of PostgreSQL that an error names; the password is not in it."""
    assert PASSWORD not in error
    name, *arguments = shlex.split(error.partition("by its own tools: ")[2])
    environ = {"PGPASSWORD": PASSWORD}
    subprocess.run([program(name), *arguments], cwd=folder, env=environ, check=True, timeout=PATIENCE_SECONDS)


def test_the_log_is_copied_after_the_store(mixed: MixedLog, undisturbed: dict[str, Any], tmp_path: Path) -> None:
    """Copied before it, it ends before the store does, and the service refuses to guess what is missing."""
    lines = len(mixed.lines)
    folder = Folder(tmp_path / "service", f"sqlite:///{tmp_path}/service/state.db")
    folder.write(mixed, 0, lines // 2)
    shutil.copytree(folder.path / "log", tmp_path / "log-before")
    folder.write(mixed, lines // 2, lines)
    folder.read_on(lines)
    assert inside("backup", str(tmp_path), cwd=folder.path).returncode == 0
    (made,) = tmp_path.glob("calibration-monitor-*Z.db")
    shutil.copytree(folder.path / "log", tmp_path / "log-after")
    for name, said in (
        ("log-before", "records before the store's offset: it was created anew"),
        ("log-after", "0 records are read"),
    ):
        path = tmp_path / f"restored-{name}"
        new = Folder(path, f"sqlite:///{path}/state.db")
        shutil.copytree(tmp_path / name, path / "log")
        done = inside("restore", str(made), cwd=path)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout
        if name == "log-after":
            assert new.read_on(lines) == undisturbed
        else:
            assert "the service will stop there, and say so" in done.stdout


def test_offsets_are_compared_with_the_log() -> None:
    bounds = {TopicPartition("a", number): LogRange(10, 20) for number in range(3)}
    found = continuation([("a", 0, 4), ("a", 1, 15), ("a", 2, 25), ("b", 0, 1)], bounds)
    a0, a2, b0 = TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 0)
    assert found == Continuation(15, {a0: 6}, {a2: 5}, (b0,))


def test_a_running_service_is_not_restored_under(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "service", f"sqlite:///{tmp_path}/service/state.db")
    open_store(folder.settings, CLOCK).close()
    assert inside("backup", "backup.db", cwd=folder.path).returncode == 0
    log = make_log(folder.settings, CLOCK)
    log.source.poll(0, 1)
    done = inside("restore", "backup.db", cwd=folder.path)
    log.source.close()
    assert done.returncode == 2
    assert "a service runs" in one_error_line(done)
    assert inside("restore", "backup.db", cwd=folder.path).returncode == 0


def test_a_key_that_was_revoked_since_the_backup_stays_revoked(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "service", f"sqlite:///{tmp_path}/service/state.db")
    for name in ("ada", "bob"):
        assert inside("keys", "create", name, "--role", "read", cwd=folder.path).returncode == 0
    assert inside("backup", "backup.db", cwd=folder.path).returncode == 0
    assert inside("keys", "revoke", "ada", cwd=folder.path).returncode == 0
    done = inside("restore", "backup.db", "--replace", "state.db", cwd=folder.path)
    assert "1 API key stays revoked: the store that was replaced had done so since the backup" in done.stdout
    keys = [json.loads(line) for line in inside("keys", "list", "--json", cwd=folder.path).stdout.splitlines()]
    assert {key["name"]: key["state"] for key in keys} == {"ada": "revoked", "bob": "in_force"}
    # Where the store is lost, nothing is known of what was revoked in it.
    (folder.path / "state.db").unlink()
    done = inside("restore", "backup.db", cwd=folder.path)
    assert "revoke again those that were revoked since" in done.stdout
    assert inside("keys", "revoke", "ada", cwd=folder.path).returncode == 0


def test_a_backup_is_verified_and_described(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "service", f"sqlite:///{tmp_path}/service/state.db")
    assert "no store at" in one_error_line(inside("backup", "backup.db", cwd=folder.path))
    open_store(folder.settings, CLOCK).close()
    described = json.loads(inside("backup", "backup.db", "--json", cwd=folder.path).stdout)
    assert described["file"] == "backup.db"
    assert len(described["sha256"]) == 64
    assert "backup.db is sound: " in inside("restore", "backup.db", "--verify", cwd=folder.path).stdout
    done = inside("restore", "monitor.yaml", "--verify", cwd=folder.path)
    assert done.returncode == 2
    assert "not a backup of this service" in one_error_line(done)
