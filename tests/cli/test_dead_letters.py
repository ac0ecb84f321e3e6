"""`monitor dead-letters list|replay`."""

import base64
import json
from pathlib import Path

import pytest

from monitor.clock import SystemClock
from monitor.events.model import DeadLetter, Reason
from monitor.store.base import Checkpoint
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import AuditEntry
from monitor.store.sql import SqlStore
from tests.cli.command import inside, one_error_line, written

SETTINGS = """
source: {embedded: {directory: log, partitions: 2}}
store: {url: "sqlite:///state.db"}
"""
HEADERS = (("h", b"\x00"), ("null", None))


def letter(offset: int, reason: Reason, value: bytes | None) -> DeadLetter:
    detail = f"what is wrong with {offset}"
    return DeadLetter("events", offset % 2, offset, 1_790_000_000_000, reason, detail, b"key", value, HEADERS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "monitor.yaml").write_text(SETTINGS, encoding="utf-8")
    letters = [letter(at, Reason.NOT_JSON, b"garbage %d" % at) for at in range(5)]
    letters.append(letter(5, Reason.EMPTY, None))
    letters.append(letter(6, Reason.INVALID_UTF8, b"\xff\x1b[31mred"))
    with SqlStore.open(f"sqlite:///{tmp_path / 'state.db'}", clock=SystemClock()) as store:
        epoch = store.claim(0)
        store.save([Checkpoint(partition=0, epoch=epoch, offsets={"events": 7}, models=(), dead_letters=letters)])
    return tmp_path


def count(folder: Path) -> int:
    with SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()) as store:
        return sum(store.count_dead_letters().values())


def audit(folder: Path) -> list[AuditEntry]:
    with SqlStore.open(f"sqlite:///{folder / 'state.db'}", clock=SystemClock()) as store:
        return list(RecalibrationStore(store.database).audit())


def test_the_list_says_why_and_where(folder: Path) -> None:
    done = inside("dead-letters", "list", cwd=folder)
    assert done.returncode == 0
    assert done.stdout.startswith("1 empty, 1 invalid_utf8, 5 not_json\n")
    assert "not_json  events/1@3" in done.stdout
    assert "what is wrong with 3" in done.stdout
    assert "garbage 3" in done.stdout
    # What a stranger sent does not command the terminal.
    assert "\x1b" not in done.stdout


def test_the_list_is_filtered_and_paged(folder: Path) -> None:
    first = inside("dead-letters", "list", "--reason", "not_json", "--limit", "2", cwd=folder)
    assert "garbage 1" in first.stdout
    assert "garbage 2" not in first.stdout
    assert "more: monitor dead-letters list --reason not_json --after 2" in first.stdout
    following = inside("dead-letters", "list", "--reason", "not_json", "--after", "2", cwd=folder)
    assert "garbage 1" not in following.stdout
    assert "garbage 4" in following.stdout


def test_json_has_every_byte(folder: Path) -> None:
    done = inside("dead-letters", "list", "--json", "--reason", "invalid_utf8", cwd=folder)
    (found,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert base64.b64decode(found["value_base64"]) == b"\xff\x1b[31mred"
    assert base64.b64decode(found["key_base64"]) == b"key"
    assert found["headers"] == [["h", base64.b64encode(b"\x00").decode()], ["null", None]]
    assert (found["topic"], found["partition"], found["offset"]) == ("events", 0, 6)


def test_replay_sends_back_what_came_and_removes_it(folder: Path) -> None:
    done = inside("dead-letters", "replay", cwd=folder)
    assert done.returncode == 0
    assert done.stdout == "sent back 7 dead letters: 7 to events\n"
    assert count(folder) == 0
    records = written(folder, "events")["events"]
    assert sorted((partition, record.value or b"") for partition, record in records) == sorted(
        [(at % 2, b"garbage %d" % at) for at in range(5)] + [(1, b""), (0, b"\xff\x1b[31mred")]
    )
    assert {(record.key, tuple(record.headers)) for _, record in records} == {(b"key", HEADERS)}
    assert inside("dead-letters", "list", cwd=folder).stdout == "no dead letters\n"
    (entry,) = audit(folder)
    assert (entry.action, entry.actor) == ("dead_letters_replayed", f"cli:{Path('/proc/self').owner()}")
    assert entry.detail == {"count": 7, "topics": {"events": 7}, "reason": None}


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [(["--reason", "not_json"], 5), (["--number", "2", "--number", "6"], 2), (["--limit", "3"], 3)],
)
def test_replay_of_some_leaves_the_others(folder: Path, arguments: list[str], sent: int) -> None:
    done = inside("dead-letters", "replay", *arguments, cwd=folder)
    assert done.stdout.startswith(f"sent back {sent} dead letters")
    assert count(folder) == 7 - sent
    (entry,) = audit(folder)
    reason = arguments[1] if "--reason" in arguments else None
    assert entry.detail == {"count": sent, "topics": {"events": sent}, "reason": reason}


def test_a_number_that_is_not_there_is_named_and_the_others_are_sent(folder: Path) -> None:
    done = inside("dead-letters", "replay", "--number", "2", "--number", "99", cwd=folder)
    assert done.returncode == 2
    assert done.stdout == "sent back 1 dead letter: 1 to events\n"
    assert one_error_line(done) == (
        "--number: no dead letter has number 99; `monitor dead-letters list` shows their numbers"
    )
    assert count(folder) == 6
    done = inside("dead-letters", "replay", "--number", "1", "--reason", "empty", cwd=folder)
    assert one_error_line(done).startswith("--number: no dead letter of reason empty has number 1;")
    assert count(folder) == 6


def test_what_could_not_be_sent_stays(folder: Path) -> None:
    (folder / "monitor.yaml").write_text(
        SETTINGS.replace(
            "source: {", "source: {kind: kafka, kafka: {bootstrap_servers: '127.0.0.1:1', connect_timeout: 1s}, "
        ),
        encoding="utf-8",
    )
    done = inside("dead-letters", "replay", cwd=folder)
    assert done.returncode == 1
    assert one_error_line(done) == "cannot connect to Kafka at 127.0.0.1:1: Connection refused"
    assert done.stdout == "sent back 0 dead letters\n"
    assert count(folder) == 7
    assert audit(folder) == []
