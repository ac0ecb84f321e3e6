"""`monitor replay`."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from monitor.cli import replay as command
from monitor.clock import ManualClock
from tests.cli.command import inside, one_error_line, written

SETTINGS = """
source:
  embedded: {{directory: log, partitions: 2}}
  topics: {topics}
"""


def events(folder: Path, count: int) -> Path:
    lines = []
    for at in range(count):
        lines.append(f'{{"type":"prediction","model":"m","id":"{at}","ts":{1_790_000_000_000 + at},"p":0.5}}')
        lines.append(f'{{"type":"outcome","model":"m","id":"{at}","ts":{1_790_000_001_000 + at},"y":1}}')
    lines.append("garbage")
    file = folder / "events.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_events_go_to_the_log_keyed_so_that_both_halves_meet(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(topics="{}"), encoding="utf-8")
    events(tmp_path, 300)
    done = inside("replay", "events.jsonl", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("events.jsonl: 601 events in ")
    assert "601 to calibration-events" in done.stdout
    assert "1 of them have no readable id" in done.stderr
    records = written(tmp_path, "calibration-events")["calibration-events"]
    assert len(records) == 601
    partition_of: dict[bytes, set[int]] = {}
    for partition, record in records:
        if record.key is not None:
            partition_of.setdefault(record.key, set()).add(partition)
    assert len(partition_of) == 300
    assert all(len(partitions) == 1 for partitions in partition_of.values())
    assert {partition for partitions in partition_of.values() for partition in partitions} == {0, 1}


def test_each_event_goes_to_the_topic_of_its_type(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(topics="{predictions: p, outcomes: o}"), encoding="utf-8")
    events(tmp_path, 10)
    done = inside("replay", "events.jsonl", cwd=tmp_path)
    assert "10 to o, 11 to p" in done.stdout
    found = written(tmp_path, "p", "o")
    assert (len(found["p"]), len(found["o"])) == (11, 10)


def test_all_may_go_to_one_topic(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(topics="{predictions: p, outcomes: o}"), encoding="utf-8")
    events(tmp_path, 10)
    assert "21 to other" in inside("replay", "events.jsonl", "--topic", "other", cwd=tmp_path).stdout
    assert len(written(tmp_path, "other")["other"]) == 21


def test_captures_go_to_the_topic_whose_mapping_reads_them(tmp_path: Path) -> None:
    topics = "{predictions: {name: log, mapping: {preset: sagemaker_capture, model: =churn}}, outcomes: labels}"
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(topics=topics), encoding="utf-8")
    lines = [
        json.dumps(
            {
                "captureData": {"endpointOutput": {"data": data, "encoding": "CSV"}},
                "eventMetadata": {"eventId": f"e{row}", "inferenceTime": "2026-11-20T10:00:00Z"},
            }
        )
        for row, data in enumerate(["0.25", "0.5,0.5", "0.25\n0.5", "yes"])
    ]
    (tmp_path / "captures.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = inside("replay", "captures.jsonl", "--topic", "log", cwd=tmp_path)
    assert done.returncode == 0
    assert "2 of them hold no prediction, or several, and have no key" in done.stderr
    records = [record for _, record in written(tmp_path, "log")["log"]]
    assert {(record.key, record.value) for record in records} == set(
        zip([b"e0-0", b"e1-0", None, None], (line.encode() for line in lines), strict=True)
    )


def test_lines_do_not_go_to_a_topic_of_another_format(tmp_path: Path) -> None:
    topics = "{predictions: {name: log, format: messagepack}, outcomes: labels}"
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(topics=topics), encoding="utf-8")
    events(tmp_path, 1)
    done = inside("replay", "events.jsonl", "--topic", "log", cwd=tmp_path)
    assert done.returncode == 2
    assert one_error_line(done).startswith("messages of log are messagepack, and lines of a file are JSON")


def test_a_rate_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(topics="{}"), encoding="utf-8")
    events(tmp_path, 50)
    clock = ManualClock()
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep))
    done = inside("replay", "events.jsonl", "--rate", "100", cwd=tmp_path)
    # It waits for as long as so many events should take, and no longer.
    assert clock.monotonic() == pytest.approx(1.01)
    assert "101 events in 1.0 s (100/s)" in done.stdout


def test_an_unreachable_broker_is_one_line_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(
        "source: {kind: kafka, kafka: {bootstrap_servers: '127.0.0.1:1', connect_timeout: 1s}}", encoding="utf-8"
    )
    events(tmp_path, 1)
    done = inside("replay", "events.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error_line(done) == "cannot connect to Kafka at 127.0.0.1:1: Connection refused"
    assert "0 events" in done.stdout
