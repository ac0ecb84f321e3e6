"""What kafka-python logs while brokers restart does not fill the log."""

import logging
import threading

import pytest
import structlog
from kafka.errors import KafkaConnectionError

from monitor.clock import ManualClock
from monitor.sources.kafka_outage_filter import KafkaOutageFilter
from tests.real.kafka import KafkaProcess
from tests.real.vanishing import broker_vanishes, collected
from tests.sources.logs import KafkaUnderTest, run_all, unavailable


class Handler(logging.Handler):
    """Keeps the records of Kafka's client and of this thread that pass the filter.

    A thread that another test left may log something meanwhile.
    """

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(logging.WARNING)
        self.addFilter(KafkaOutageFilter(clock))
        self.records: list[logging.LogRecord] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread or record.name.startswith("kafka."):
            self.records.append(record)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def handler(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Handler:
    """The only handler of the log: one that a service in this process added would log outages too."""
    made = Handler(clock)
    monkeypatch.setattr(logging.getLogger(), "handlers", [made])
    return made


def test_an_outage_of_four_minutes_is_a_few_warnings(clock: ManualClock, handler: Handler) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(120):
            logging.getLogger("kafka.net.transport").error("%s: socket disconnected", "node 1")
            logging.getLogger("kafka.coordinator").warning("Marking the coordinator dead")
            clock.advance(2)
    assert handler.records == []
    assert {(line["log_level"], line["event"]) for line in lines} == {("warning", "kafka-python reports trouble")}
    assert lines[0]["detail"] == "kafka.net.transport: node 1: socket disconnected"
    assert [(line.get("for_seconds"), line.get("attempts")) for line in lines] == [
        *((None, None), (10.0, 11), (30.0, 31), (70.0, 71), (150.0, 151))
    ]


def test_after_a_minute_of_quiet_another_outage_is_told_at_once(clock: ManualClock, handler: Handler) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            for _ in range(3):
                logging.getLogger("kafka.net.manager").error("Connection failed: %s", "refused")
                clock.advance(1)
            clock.advance(60)
    assert len(lines) == 2
    assert handler.records == []


def test_network_errors_with_a_traceback_are_outages_and_other_exceptions_are_not(handler: Handler) -> None:
    log = logging.getLogger("kafka.net.selector")
    with structlog.testing.capture_logs() as lines:
        for error in (ConnectionResetError("reset by peer"), KafkaConnectionError("x"), ZeroDivisionError("a bug")):
            log.error("Unhandled exception in task", exc_info=error)
    (line,) = lines
    assert line["detail"] == "kafka.net.selector: Unhandled exception in task: reset by peer"
    (record,) = handler.records
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], ZeroDivisionError)


def test_what_others_log_passes(handler: Handler) -> None:
    logging.getLogger("monitor.stream").warning("ours")
    logging.getLogger("kafkaesque").warning("not Kafka's")
    assert [record.getMessage() for record in handler.records] == ["ours", "not Kafka's"]


@pytest.mark.kafka
@broker_vanishes
def test_a_broker_that_goes_is_one_line(own_broker: KafkaProcess, handler: Handler, clock: ManualClock) -> None:
    with collected():
        log = KafkaUnderTest(own_broker)
        try:
            source = log.source(log.topic())
            run_all(source)
            # What the client may have logged while it connected is an outage of its own.
            clock.advance(120)
            with structlog.testing.capture_logs() as lines:
                own_broker.kill()
                for _ in range(3):
                    unavailable(lambda: source.poll(0.2, 1_000), r"no broker of Kafka at .* is connected")
        finally:
            # Clients that stay connect for ever, and draw from the random numbers that other tests watch.
            log.close()
            own_broker.start()
        outages = [line for line in lines if line["event"] == "kafka-python reports trouble"]
        assert len(outages) == 1, outages
        assert [record for record in handler.records if record.name.startswith("kafka.")] == []
