"""Who waits for whom."""

from monitor.events.model import TopicPartition
from monitor.stream.log_progress import Alignment

PREDICTIONS, OUTCOMES = TopicPartition("p", 0), TopicPartition("y", 0)
MINUTE_MS = 60_000


def aligned() -> Alignment:
    alignment = Alignment(["p", "y"], MINUTE_MS)
    alignment.note(PREDICTIONS, 10 * MINUTE_MS, now=100.0)
    alignment.note(OUTCOMES, 2 * MINUTE_MS, now=100.0)
    return alignment


def test_the_one_ahead_waits_while_the_other_has_something_to_bring() -> None:
    assert aligned().ahead({PREDICTIONS: 5, OUTCOMES: 7}, now=100.0) == {PREDICTIONS}


def test_nobody_waits_for_one_that_has_brought_everything() -> None:
    assert aligned().ahead({PREDICTIONS: 5, OUTCOMES: 0}, now=100.0) == frozenset()


def test_within_the_skew_nobody_waits() -> None:
    alignment = aligned()
    alignment.note(OUTCOMES, 9 * MINUTE_MS, now=100.0)
    assert alignment.ahead({PREDICTIONS: 5, OUTCOMES: 7}, now=100.0) == frozenset()


def test_nobody_waits_for_ever_for_one_that_brings_nothing() -> None:
    assert aligned().ahead({PREDICTIONS: 5, OUTCOMES: 7}, now=111.0) == frozenset()


def test_one_that_has_not_begun_holds_nobody_up() -> None:
    alignment = Alignment(["p", "y"], MINUTE_MS)
    alignment.note(PREDICTIONS, 10 * MINUTE_MS, now=100.0)
    assert alignment.ahead({PREDICTIONS: 5, OUTCOMES: 7}, now=100.0) == frozenset()


def test_partitions_do_not_wait_for_each_other_and_are_forgotten() -> None:
    alignment = aligned()
    alignment.note(TopicPartition("y", 1), 1, now=100.0)
    lag = {PREDICTIONS: 5, OUTCOMES: 7, TopicPartition("y", 1): 9}
    assert alignment.ahead(lag, now=100.0) == {PREDICTIONS}
    alignment.forget(0)
    assert alignment.ahead(lag, now=100.0) == frozenset()


def test_a_single_topic_never_waits() -> None:
    alignment = Alignment(["p"], MINUTE_MS)
    alignment.note(PREDICTIONS, 10 * MINUTE_MS, now=100.0)
    assert alignment.ahead({PREDICTIONS: 5}, now=100.0) == frozenset()
