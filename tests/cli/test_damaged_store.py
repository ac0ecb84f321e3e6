"""Commands on a store whose file is damaged: one line that says what to do, and no traceback."""

from pathlib import Path

import pytest

from monitor.clock import ManualClock
from tests.cli.command import inside, one_error_line
from tests.store.test_backup import damage, fill

SETTINGS = """
store: {url: "sqlite:///state.db"}
source: {embedded: {directory: log}}
access: {mode: "off"}
"""

ADVICE = "stop the service and restore a backup in its place: `monitor restore BACKUP --replace state.db` keeps"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("store") / "state.db"
    fill(f"sqlite:///{path}", ManualClock(1_700_000_000_000))
    return path.read_bytes()


@pytest.mark.parametrize("what", ["beginning", "first page", "middle", "end"])
@pytest.mark.parametrize(
    "command",
    [
        ["backup", "backup.db"],
        ["dead-letters", "list"],
        ["dead-letters", "replay"],
        ["keys", "list"],
        ["keys", "create", "scorer", "--role", "read"],
        ["serve"],
    ],
    ids=" ".join,
)
def test_a_damaged_store_is_one_line(tmp_path: Path, whole: bytes, command: list[str], what: str) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS)
    (tmp_path / "state.db").write_bytes(whole)
    damage(tmp_path / "state.db", what)
    done = inside(*command, cwd=tmp_path)
    assert done.returncode == 1, done.stdout
    assert ADVICE in one_error_line(done)


def test_check_finds_the_damage(tmp_path: Path, whole: bytes) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS)
    (tmp_path / "state.db").write_bytes(whole)
    damage(tmp_path / "state.db", "beginning")
    done = inside("check", cwd=tmp_path)
    assert done.returncode == 1
    assert "is not a SQLite file" in done.stdout
    assert "Traceback" not in done.stderr
