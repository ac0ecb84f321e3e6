"""`monitor simulate`."""

import re
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from kafka import KafkaConsumer, TopicPartition

from monitor.app.settings import Settings
from monitor.cli import simulate as command
from monitor.cli.simulate import pace_to_now, source_simulator
from monitor.clock import ManualClock, SystemClock
from monitor.errors import SettingsError
from monitor.events.model import Message
from monitor.simulation.models import MODELS
from monitor.simulation.simulator import Pace, Simulator
from monitor.sources.log_format import LogRecord
from tests.cli.command import inside, one_error_line, start, written
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker

NOW_MS = 1_795_000_000_123
HOUR_MS = 3_600_000


class Kept:
    """A log that keeps what is written."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def write(self, messages: Sequence[Message]) -> None:
        self.messages.extend(messages)

    def close(self) -> None:
        pass


def settings_of(**topics: str) -> Settings:
    return Settings.model_validate({"source": {"topics": topics}, "access": {"mode": "off"}})


@pytest.mark.parametrize("speed", [1.0, 2.5, 60.0, 1000.0])
@pytest.mark.parametrize("now_ms", [NOW_MS, NOW_MS // HOUR_MS * HOUR_MS, NOW_MS // HOUR_MS * HOUR_MS - 1])
def test_the_present_is_reached_after_three_minutes(speed: float, now_ms: int) -> None:
    simulator = source_simulator(Kept(), settings_of(), ManualClock(now_ms), speed=speed, seed=0)
    pace = pace_to_now(ManualClock(now_ms), speed)
    # After so many seconds, simulated time and the clock show the same.
    assert simulator.start_ms + round(180_000 * speed) == now_ms + 180_000
    assert 2 * HOUR_MS <= pace.history_ms < 3 * HOUR_MS
    assert simulator.now_ms % HOUR_MS == 0
    assert simulator.change_ms == simulator.start_ms + HOUR_MS // 2


def test_it_writes_up_to_the_present_and_no_further() -> None:
    clock = ManualClock(NOW_MS)
    pace = Pace(speed=600.0, history_ms=HOUR_MS // 60, calm_ms=0, behind_ms=HOUR_MS // 6)
    simulator = Simulator(Kept().write, "events", clock, pace=pace, rate=0.1)
    clock.advance(HOUR_MS / 1000)
    simulator.produce(0.0)  # the history alone: no time passes
    assert simulator.now_ms == simulator.start_ms


def test_each_event_goes_to_the_topic_of_its_type() -> None:
    kept = Kept()
    settings = settings_of(predictions="p", outcomes="o")
    simulator = source_simulator(kept, settings, ManualClock(NOW_MS), speed=1.0, seed=3)
    simulator.write_until(simulator.now_ms + HOUR_MS // 6)
    types: dict[str, set[str]] = {"p": set(), "o": set()}
    keys: dict[str, set[bytes]] = {"p": set(), "o": set()}
    for message in kept.messages:
        if message.key:
            types[message.topic].add(msgspec.json.decode(message.value or b"")["type"])
            keys[message.topic].add(message.key)
        assert message.timestamp_ms is not None
    assert types == {"p": {"prediction"}, "o": {"outcome"}}
    # Outcomes have the keys of their predictions, so that both stand in the partition of the same number.
    assert len(keys["o"]) > 1000
    assert keys["o"] <= keys["p"]


def test_settings_that_leave_no_place_for_outcomes_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"must name predictions and outcomes, or events.* got labelled: done"):
        source_simulator(Kept(), settings_of(labelled="done"), ManualClock(NOW_MS), speed=1.0, seed=0)


class Standing(SystemClock):
    """Seconds pass on it, and the time of day stays."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms


def test_it_writes_the_embedded_log_up_to_the_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "monitor.yaml").write_text("source: {embedded: {directory: log}}", encoding="utf-8")
    # The history is level with the clock however long it takes to write.
    now_ms = SystemClock().now_ms()
    monkeypatch.setattr(command, "SystemClock", lambda: Standing(now_ms))
    done = inside("simulate", "--speed", "1", "--seconds", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"{len(MODELS)} models to embedded {tmp_path / 'log'}, topics calibration-events"
    assert re.fullmatch(r"history up to \S+Z, level with the clock; then as time goes on", lines[1])
    said = re.fullmatch(r"([\d,]+) messages up to \S+Z, level with the clock; drift begins at \S+Z", lines[-1])
    assert said is not None
    records = [record for _, record in written(tmp_path, "calibration-events")["calibration-events"]]
    assert len(records) == int(said.group(1).replace(",", "")) > 100_000
    # What was written last happened within this second or two.
    newest_ms = max(record.timestamp for record in records if isinstance(record, LogRecord))
    assert now_ms - 2000 < newest_ms <= now_ms


def end_offsets(broker: KafkaBroker) -> list[int]:
    """Records in the topic of predictions and in that of outcomes."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    try:
        return [
            sum(consumer.end_offsets([TopicPartition(topic, number) for number in range(2)]).values())
            for topic in ("simulated-p", "simulated-o")
        ]
    finally:
        consumer.close()


@pytest.mark.kafka
def test_it_writes_to_kafka_until_it_is_told_to_end(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    for topic in ("simulated-p", "simulated-o"):
        kafka_broker.create_topic(topic, 2)
    (tmp_path / "monitor.yaml").write_text(
        f"source: {{kind: kafka, topics: {{predictions: simulated-p, outcomes: simulated-o}}, "
        f"kafka: {{bootstrap_servers: '{kafka_broker.bootstrap}'}}}}",
        encoding="utf-8",
    )
    with (tmp_path / "output.txt").open("wb") as output:
        process = start("simulate", "--speed", "1", cwd=tmp_path, output=output)

    def both_have_some() -> bool:
        assert process.poll() is None, (tmp_path / "output.txt").read_text()
        return all(end_offsets(kafka_broker))

    try:
        eventually(both_have_some, shown=(tmp_path / "output.txt").read_text)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, (tmp_path / "output.txt").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    said = re.search(r"([\d,]+) messages up to", (tmp_path / "output.txt").read_text())
    assert said is not None
    stands = end_offsets(kafka_broker)
    assert sum(stands) == int(said.group(1).replace(",", ""))
    assert stands[0] > stands[1] > 0


def test_a_broker_that_is_not_there_is_one_line_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "monitor.yaml").write_text(
        "source: {kind: kafka, kafka: {bootstrap_servers: '127.0.0.1:1', connect_timeout: 1s}}", encoding="utf-8"
    )
    done = inside("simulate", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error_line(done) == "cannot connect to Kafka at 127.0.0.1:1: Connection refused"
