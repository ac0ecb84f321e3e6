"""`monitor serve` makes of a broker's log the very reports that `monitor report` makes of its file."""

from pathlib import Path

import pytest

from tests.cli.command import inside
from tests.cli.kafka_service import (
    Log,
    Served,
    ndjson,
    reports_of,
    topics,
    typed,
    without_evidence,
    write_settings,
)
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import MixedLog, unjoined_as_one

pytestmark = pytest.mark.kafka

EVENTS = 60_000
SUFFIX = "serve"
EVALUATION = {"interval": "1s", "draws": 19}


@pytest.fixture(scope="module")
def log(kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Log:
    folder = tmp_path_factory.mktemp("offline")
    write_settings(folder, kafka_broker, SUFFIX, evaluation=EVALUATION)
    log = Log(folder, EVENTS)
    log.write(kafka_broker, SUFFIX)
    return log


def assert_read_whole(served: Served, log: Log) -> None:
    """Reports and counters are those of the whole log."""
    served.reports_as(log.reports)
    served.counts(len(log.lines))
    assert unjoined_as_one(served.counted()) == unjoined_as_one(log.mixed.expected.counters)


def assert_series_as_reports(served: Served, log: Log) -> None:
    """/metrics and each report's own route say what the listing says."""
    samples = served.samples()
    for report in log.reports:
        labels = {key: report[key] for key in ("model", "version", "segment", "window")}
        query = "&".join(f"{key}={value}" for key, value in labels.items() if key != "model")
        status, found = served.get(f"/v1/models/{report['model']}/report?{query}")
        assert (status, without_evidence(found)) == (200, report)
        series = frozenset(labels.items())
        assert samples["calibration_window_labelled", series] == report["n"]
        for name, measure in report["measures"].items():
            unit, scale = ("_ratio", 0.01) if measure["unit"] == "percent" else ("", 1.0)
            assert samples[f"calibration_{name}{unit}", series] == measure["value"] * scale, name


def test_reports_series_and_counters_are_those_of_the_log_and_the_next_process_goes_on(
    kafka_broker: KafkaBroker, log: Log, tmp_path: Path
) -> None:
    # A session that nobody's patience would outlast: only who leaves the group lets the next one in.
    session = {"kafka": {"session_timeout": "20m"}}
    write_settings(tmp_path, kafka_broker, SUFFIX, evaluation=EVALUATION, source=session)
    with Served(tmp_path) as first:
        ready = {"status": "ready", "partitions": [0, 1, 2, 3]}
        first.eventually(lambda: first.get("/readyz")[1] == ready, first.readiness)
        assert_read_whole(first, log)
        assert_series_as_reports(first, log)
        assert first.samples()["calibration_records_read_total", frozenset()] == len(log.lines)
        listing = first.get("/v1/models")[1]
        assert listing["partitions"] == [0, 1, 2, 3]
        assert [(model["model"], model["state"]) for model in listing["models"]] == [
            (name, "measured") for name in ("churn", "credit", "fraud")
        ]
        first.stop()
    with kafka_broker.admin() as admin:
        (group,) = admin.describe_groups([SUFFIX]).values()
    assert group["group_state"] == "Empty"
    assert group["members"] == []

    with Served(tmp_path) as second:
        second.ready()
        assert_read_whole(second, log)
        assert second.samples()["calibration_records_read_total", frozenset()] == 0


def test_events_of_a_file_and_of_requests_go_through_kafka(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    suffix = "sent"
    for topic in topics(suffix):
        kafka_broker.create_topic(topic, 4)
    write_settings(tmp_path, kafka_broker, suffix)
    events = [line for line in MixedLog(6_000, seed=2, settled=True).lines if line.event is not None]
    half = len(events) // 2
    (tmp_path / "half.jsonl").write_bytes(ndjson(line.value for line in events[:half]))
    replayed = inside("replay", "half.jsonl", cwd=tmp_path)
    assert replayed.returncode == 0, replayed.stderr
    assert f"half.jsonl: {half:,} events" in replayed.stdout
    assert all(f" to {topic}" in replayed.stdout for topic in topics(suffix))
    with Served(tmp_path) as served:
        served.ready()
        status, body = served.ask("/v1/events", ndjson(map(typed, events[half:])), "application/x-ndjson")
        assert (status, body) == (202, b'{"accepted":%d,"rejected":0,"errors":[]}' % (len(events) - half))
        # Placed by their ids, in the partitions where other clients of Kafka would put them.
        served.reports_as(reports_of(tmp_path, events))
        served.counts(len(events))
        assert ("unknown", "dead_letter") not in served.counted()
