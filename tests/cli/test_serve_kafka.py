"""`monitor replay` and `monitor serve` against a real broker."""

import json
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from monitor.demo import Traffic
from tests.cli.command import inside, start
from tests.real.kafka import KafkaBroker

pytestmark = pytest.mark.kafka

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
SETTINGS = """
source:
  kind: kafka
  kafka: {{bootstrap_servers: "{bootstrap}", group_id: cli-group}}
  topics: {{predictions: cli-predictions, outcomes: cli-outcomes}}
store: {{url: "sqlite:///state.db"}}
models: {{defaults: {{horizon: 10m, allowed_lateness: 30m}}}}
windows: [{{length: 1h}}]
evaluation: {{interval: 500ms, draws: 0}}
dead_letters: {{topic: cli-dead}}
"""


def get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return {"status": error.code}


def values(report: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in report.items() if name != "measures"} | {
        name: measure["value"] for name, measure in report["measures"].items()
    }


def test_events_of_a_file_go_through_kafka_and_come_out_as_the_report_of_the_file(
    tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    for topic in ("cli-predictions", "cli-outcomes", "cli-dead"):
        kafka_broker.create_topic(topic, partitions=2)
    (tmp_path / "monitor.yaml").write_text(SETTINGS.format(bootstrap=kafka_broker.bootstrap), encoding="utf-8")
    traffic = Traffic("events", start_ms=START_MS, change_ms=START_MS + HOUR_MS, seed=8, rate=0.3)
    events = [message.value or b"-" for message in traffic.until(START_MS + 2 * HOUR_MS)]
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(events))

    replayed = inside("replay", "events.jsonl", cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    expected = json.loads(inside("report", "events.jsonl", "--json", cwd=tmp_path).stdout)

    output = tmp_path / "output.txt"
    with output.open("wb") as file:
        process = start("serve", cwd=tmp_path, output=file, MONITOR__API__PORT="0")
    try:
        deadline = time.monotonic() + 120

        def listening() -> str | None:
            for line in output.read_text().splitlines():
                if json.loads(line)["event"] == "listening":
                    return str(json.loads(line)["url"])
            return None

        url = None
        found: dict[str, Any] = {}
        while found != {each["model"]: values(each) for each in expected["reports"]}:
            assert process.poll() is None, output.read_text()
            assert time.monotonic() < deadline, (found, output.read_text())
            time.sleep(0.2)
            url = url or listening()
            if url is not None:
                reports = [get(f"{url}/v1/models/{each['model']}/report") for each in expected["reports"]]
                found = {each["model"]: values(each) for each in reports if "measures" in each}

        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0, output.read_text()
        assert time.monotonic() - began < 10
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    # It left the group: whoever comes next need not wait for its session to end.
    with kafka_broker.admin() as admin:
        (group,) = admin.describe_groups(["cli-group"]).values()
    assert group["group_state"] == "Empty"
    assert group["members"] == []
    # What was no event is in the topic for it too.
    listed = inside("dead-letters", "list", "--json", "--limit", "1000", cwd=tmp_path)
    assert len(listed.stdout.splitlines()) == sum(expected["dead_letters"].values())
