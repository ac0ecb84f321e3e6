"""What a scorer logs becomes events, nothing holds or fails the scorer, and every event is delivered or counted."""

import asyncio
import copy
import gc
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from monitor.clock import SystemClock
from monitor.errors import InputError
from monitor.events.codec import Decoder
from monitor.events.features import read_features
from monitor.events.formats.base import Rules
from monitor.events.model import ModelPolicy, RecordBatch
from monitor.events.strata import Caps, Strata
from monitor.logging import File, PredictionLogger
from monitor.logging.destination import Delivery, EncodedEvent
from monitor.logging.logger import new_id, new_ids
from monitor.sources.files import EventFile
from tests.patience import PATIENCE_SECONDS, eventually


class Held:
    """A destination that delivers nothing until it is let go."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.entered = threading.Event()
        self.events: list[EncodedEvent] = []

    def deliver(self, events: Sequence[EncodedEvent], seconds_left: Callable[[], float]) -> Delivery:
        self.entered.set()
        while not self.released.wait(0.01):
            if seconds_left() == 0.0:
                return Delivery(events, "held")
        self.events += events
        return Delivery()

    def close(self) -> None: ...
    def forget_connection(self) -> None: ...


class Flaky:
    """A destination that refuses half of each batch the first time, and raises the second."""

    def __init__(self) -> None:
        self.attempts = 0
        self.events: list[EncodedEvent] = []

    def deliver(self, events: Sequence[EncodedEvent], seconds_left: Callable[[], float]) -> Delivery:
        self.attempts += 1
        if self.attempts == 1:
            half = len(events) // 2
            self.events += events[:half]
            return Delivery(events[half:], "away")
        if self.attempts == 2:
            raise ZeroDivisionError
        self.events += events
        return Delivery()

    def close(self) -> None: ...
    def forget_connection(self) -> None: ...


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def held() -> Iterator[Held]:
    destination = Held()
    yield destination
    destination.released.set()


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def assert_service_accepts(file: Path, count: int, classes: int = 0) -> None:
    """The service's own decoder finds that many events, and no dead letter."""
    decoder = Decoder(Rules(clock=SystemClock(), classes={"churn": classes} if classes else {}))
    policy = ModelPolicy(horizon_ms=1000, lateness_ms=1000)
    strata = Strata(lambda _: policy, Caps(models=10, versions=10, segment_values=10, strata=10))
    (batch,) = EventFile(file).batches()
    decoded = decoder.decode(RecordBatch("all", 0, batch.records, count), strata, None)
    assert [letter.detail for letter in decoded.dead_letters] == []
    assert len(decoded.columns.kind) == count


def test_predictions_and_outcomes_become_events_in_their_order(file: Path) -> None:
    noon = datetime(2026, 11, 20, 12, tzinfo=timezone(timedelta(hours=1)))
    with PredictionLogger("churn", 7, to=File(file)) as predictions:
        first = predictions.log(0.83, segments={"region": "eu", "vip": True})
        second = predictions.log(np.float32(0.5), id=9003, ts=noon, features=[0.5, -2.0])
        predictions.log([0.25, 0.75], id="pair", ts="2026-11-20T10:00:00Z")
        predictions.outcome(first, True)
        predictions.outcome(9003, np.int64(0), ts=datetime(2026, 11, 20, 11, 0, 1))  # noqa: DTZ001 - UTC
    assert len(first) == 32
    assert second == "9003"
    written = lines(file)
    assert [event["type"] for event in written] == ["prediction"] * 3 + ["outcome"] * 2
    assert {(event["model"], event.get("version")) for event in written} == {("churn", "7"), ("churn", None)}
    assert [event["id"] for event in written] == [first, "9003", "pair", first, "9003"]
    assert [event.get("p") for event in written[:3]] == [0.83, 0.5, [0.25, 0.75]]
    assert written[0]["segments"] == {"region": "eu", "vip": True}
    assert abs(written[0]["ts"] - datetime.now(UTC).timestamp() * 1000) < PATIENCE_SECONDS * 1000
    assert [written[1]["ts"], written[2]["ts"], written[4]["ts"]] == [1795172400000, 1795168800000, 1795172401000]
    features = read_features(json.dumps(written[1]["features"]).encode())
    assert features is not None
    assert features.tolist() == [0.5, -2.0]
    assert [event["y"] for event in written[3:]] == [True, 0]
    assert_service_accepts(file, 5)
    assert predictions.stats().delivered == predictions.stats().logged == 5


def test_many_at_once_are_the_same_as_one_by_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 2_500
    frame = pd.DataFrame({"p": rng.random(n), "age": rng.normal(size=n), "region": rng.choice(["eu", "us"], n)})
    ids = [f"order-{row}" for row in range(n)]
    with PredictionLogger("churn", to=File(tmp_path / "single")) as single:
        for row, identifier in zip(frame.itertuples(), ids, strict=True):
            single.log(row.p, identifier, 1_795_168_800_000, [row.age], {"region": row.region})
    for name, table in (("pandas", frame), ("polars", pl.from_pandas(frame))):
        with PredictionLogger("churn", to=File(tmp_path / name)) as many:
            returned = many.log_many(
                table["p"], ids=ids, ts=1_795_168_800_000, features=table[["age"]], segments=table[["region"]]
            )
        assert returned == ids
        assert lines(tmp_path / name) == lines(tmp_path / "single")


def test_many_of_several_classes_have_ids_of_their_own(file: Path) -> None:
    with PredictionLogger("churn", to=File(file)) as predictions:
        ids = predictions.log_many([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]], ts=["2026-11-20T10:00:00Z", 1_795_168_800_001])
    assert [event["p"] for event in lines(file)] == [[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]]
    assert [event["ts"] for event in lines(file)] == [1795168800000, 1795168800001]
    assert [event["id"] for event in lines(file)] == ids
    assert_service_accepts(file, 2, classes=3)


def test_what_the_caller_changes_afterwards_is_not_sent(held: Held) -> None:
    predictions = PredictionLogger("churn", to=held)
    features, p, segments = np.array([1.0]), np.array([0.5, 0.25]), {"region": "eu"}
    predictions.log(0.5, features=features, segments=segments)
    predictions.log_many(p)
    features[0], p[:], segments["region"] = 9.0, 0.9, "us"
    held.released.set()
    predictions.close()
    sent = [json.loads(event.value) for event in held.events]
    assert [event["p"] for event in sent] == [0.5, 0.5, 0.25]
    assert sent[0]["segments"] == {"region": "eu"}
    assert sent[0]["features"] == "AACAPw=="


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError

    __str__ = __repr__


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda to: to.log(1.2), "p must be a number in [0, 1], got 1.2"),
        (lambda to: to.log(float("nan")), "p must be a number in [0, 1], got nan"),
        (lambda to: to.log("0.8"), "p must be a number in [0, 1], got"),
        (lambda to: to.log(None), "p must be a number in [0, 1], got null"),
        (lambda to: to.log([0.2, 0.9]), "p must add up to 1 over the classes"),
        (lambda to: to.log(Unprintable()), "Unprintable"),
        (lambda to: to.log(0.5, id=""), "id must have 1 to 512 characters"),
        (lambda to: to.log(0.5, id=1.5), "id must be text or an integer, got 1.5"),
        (lambda to: to.log(0.5, ts=1_795_168_800), "it looks like seconds, send milliseconds"),
        (lambda to: to.log(0.5, ts="yesterday"), "ts must read like 2026-11-20T10:00:00Z"),
        (lambda to: to.log(0.5, segments={"a=b": "c"}), "a key of segments"),
        (lambda to: to.log(0.5, segments=7), "segments 7"),
        (lambda to: to.log(0.5, features=[1e300]), "finite as float32"),
        (lambda to: to.log(0.5, features=["a"]), "could not convert string to float"),
        (lambda to: to.outcome("7f3", 2.5), "y must be a class, an integer from 0 to 999, got 2.5"),
        (lambda to: to.outcome(None, 1), "id must be text or an integer, got None"),
        (lambda to: to.log_many([0.5], ids=["a", "b"]), "ids must have one value for each of the 1 predictions, got 2"),
    ],
)
def test_a_bad_value_is_counted_and_named_and_the_rest_is_sent(
    file: Path, caplog: pytest.LogCaptureFixture, call: Callable[[PredictionLogger], object], said: str
) -> None:
    with caplog.at_level(logging.WARNING), PredictionLogger("churn", to=File(file)) as predictions:
        call(predictions)
        predictions.log(0.5, id="good")
    assert predictions.stats().dropped == {"invalid": 1}
    assert [event["id"] for event in lines(file)] == ["good"]
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("1 events dropped (invalid), the first: ")
    assert said in line


def test_many_bad_values_are_one_line(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), PredictionLogger("churn", to=File(file)) as predictions:
        for _ in range(500):
            predictions.log(-0.1)
        predictions.flush()
        predictions.log_many(np.linspace(1.5, 2.0, 1_500))
    assert predictions.stats().dropped == {"invalid": 2_000}
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"model": ""},
        {"model": "a//b"},
        {"model": "x" * 129},
        {"version": "a\nb"},
        {"max_events": 0},
        {"exit_seconds": -1.0},
    ],
)
def test_a_logger_that_could_never_log_is_refused(arguments: dict[str, Any], held: Held) -> None:
    with pytest.raises(InputError, match=next(iter(arguments))):
        PredictionLogger(**{"model": "churn", "to": held, **arguments})


def test_a_destination_that_hangs_holds_no_call_and_what_does_not_fit_is_counted(held: Held) -> None:
    # Each call returns, or this test never ends.
    predictions = PredictionLogger("churn", to=held, max_events=1_000)
    for number in range(1_500):
        predictions.log(0.5, id=number)
    predictions.log_many(np.full(700, 0.5))
    assert held.entered.wait(PATIENCE_SECONDS)
    stats = predictions.stats()
    assert (stats.logged, stats.delivered, stats.pending) == (2_200, 0, 1_000)
    assert stats.dropped == {"buffer_full": 1_200}
    held.released.set()
    assert predictions.flush(PATIENCE_SECONDS)
    # The oldest are kept: they are the ones whose outcomes come first.
    assert [int(event.key) for event in held.events] == list(range(1_000))
    predictions.log(0.5)
    predictions.close()
    assert (predictions.stats().delivered, predictions.stats().pending) == (1_001, 0)


def test_the_part_of_a_block_that_fits_is_sent(held: Held) -> None:
    predictions = PredictionLogger("churn", to=held, max_events=2_500)
    predictions.log_many(np.full(4_000, 0.5))
    assert predictions.stats().pending == 2_000
    assert predictions.stats().dropped == {"buffer_full": 2_000}
    held.released.set()
    predictions.close()
    assert len(held.events) == 2_000


def test_memory_is_bounded_with_long_features_too(held: Held) -> None:
    predictions = PredictionLogger("churn", to=held, max_bytes=1_000_000)
    features = np.zeros(1_000)
    for _ in range(1_000):
        predictions.log(0.5, features=features)
    assert 100 < predictions.stats().pending < 130  # 8 kB each
    held.released.set()
    assert predictions.flush(PATIENCE_SECONDS)
    predictions.log(0.5, features=features)
    predictions.close()
    assert predictions.stats().pending == 0


def test_what_failed_is_sent_again_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    flaky = Flaky()
    with PredictionLogger("churn", to=flaky, exit_seconds=PATIENCE_SECONDS) as predictions:
        for number in range(1_000):
            predictions.log(0.5, id=number)
        assert predictions.flush(PATIENCE_SECONDS)
    assert flaky.attempts >= 3
    assert [int(event.key) for event in flaky.events] == list(range(1_000))
    assert predictions.stats().delivered == 1_000
    assert "events cannot be sent" in caplog.text


def test_closing_waits_no_longer_than_it_may_and_counts_what_is_left(held: Held) -> None:
    predictions = PredictionLogger("churn", to=held)
    predictions.log_many(np.full(6_000, 0.5))
    predictions.close(0.2)
    predictions.log(0.5)
    assert predictions.stats().dropped == {"unsent": 6_000, "closed": 1}
    assert predictions.stats().pending == 0
    predictions.close()


def test_flush_says_whether_all_was_sent(held: Held) -> None:
    predictions = PredictionLogger("churn", to=held)
    assert predictions.flush(0.0)
    predictions.log(0.5)
    assert not predictions.flush(0.1)
    held.released.set()
    assert predictions.flush(PATIENCE_SECONDS)
    predictions.close()


def test_threads_lose_nothing(file: Path) -> None:
    ids: list[list[str]] = [[] for _ in range(8)]
    with PredictionLogger("churn", to=File(file)) as predictions:

        def score(mine: list[str]) -> None:
            mine += [predictions.log(0.5) for _ in range(2_000)]

        threads = [threading.Thread(target=score, args=(mine,)) for mine in ids]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    sent = [event["id"] for event in lines(file)]
    assert len(sent) == len(set(sent)) == 16_000
    assert set(sent) == {identifier for mine in ids for identifier in mine}


def test_asyncio_goes_on_while_the_destination_hangs(held: Held) -> None:
    predictions = PredictionLogger("churn", to=held, max_events=50_000)

    async def handle() -> int:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        other = asyncio.create_task(count_turns())
        for _ in range(1_000):
            predictions.log(0.5)
            await asyncio.sleep(0)
        other.cancel()
        return turns

    assert asyncio.run(handle()) >= 999
    assert predictions.stats().pending == 1_000
    held.released.set()
    predictions.close()


def test_a_fork_sends_its_own_events_and_the_parent_its_own_once(file: Path) -> None:
    predictions = PredictionLogger("churn", to=File(file))
    for number in range(1_000):
        predictions.log(0.5, id=f"parent-{number}")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for number in range(1_000):
                predictions.log(0.5, id=f"child-{number}")
            predictions.close()
            status = 0 if predictions.stats().delivered == predictions.stats().logged == 1_000 else 2
        finally:
            os._exit(status)
    for number in range(1_000, 2_000):
        predictions.log(0.5, id=f"parent-{number}")
    predictions.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    sent = [event["id"] for event in lines(file)]
    assert sorted(sent) == sorted(
        [f"child-{number}" for number in range(1_000)] + [f"parent-{number}" for number in range(2_000)]
    )


def test_ids_are_never_the_same_in_a_fork() -> None:
    new_id()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, "".join(new_id() for _ in range(100)).encode())
        os._exit(0)
    ids = {new_id() for _ in range(100)} | set(new_ids(100))
    os.waitpid(pid, 0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode()
    assert len(ids | {text[at : at + 32] for at in range(0, 3_200, 32)}) == 300


@pytest.mark.parametrize(
    "ending",
    ["pass", "raise SystemExit(0)", "import threading; threading.Thread(target=lambda: predictions.log(0.5)).start()"],
)
def test_the_end_of_the_process_sends_what_waits(file: Path, ending: str) -> None:
    script = (
        "import sys\nfrom monitor.logging import File, PredictionLogger\n"
        "predictions = PredictionLogger('churn', to=File(sys.argv[1]))\n"
        f"for _ in range(3000): predictions.log(0.5)\n{ending}\n"
    )
    subprocess.run([sys.executable, "-c", script, str(file)], check=True, timeout=PATIENCE_SECONDS)
    assert len(lines(file)) in {3_000, 3_001}


def test_a_worker_of_multiprocessing_sends_what_waits(file: Path) -> None:
    script = (
        "import multiprocessing, sys\nfrom monitor.logging import File, PredictionLogger\n"
        "predictions = PredictionLogger('churn', to=File(sys.argv[1]))\n"
        "def score():\n    for _ in range(1000): predictions.log(0.5)\n"
        "worker = multiprocessing.get_context('fork').Process(target=score)\nworker.start()\nworker.join()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(file)], check=True, timeout=PATIENCE_SECONDS)
    assert len(lines(file)) == 1_000


def test_a_file_may_be_moved_away_and_a_full_disk_loses_nothing(file: Path, tmp_path: Path) -> None:
    with PredictionLogger("churn", to=File(file)) as predictions:
        predictions.log(0.5, id="first")
        predictions.flush()
        file.rename(tmp_path / "moved.jsonl")
        file.mkdir()
        predictions.log(0.5, id="second")
        assert not predictions.flush(0.3)
        file.rmdir()
        assert predictions.flush(PATIENCE_SECONDS)
    assert [event["id"] for event in lines(tmp_path / "moved.jsonl") + lines(file)] == ["first", "second"]


def test_a_copy_of_what_holds_a_logger_shares_it_and_another_process_makes_its_own(file: Path) -> None:
    with PredictionLogger("churn", "7", to=File(file)) as predictions:
        assert copy.deepcopy({"logger": predictions})["logger"] is predictions
        # The protocol of copying is that of sending an object to another process.
        with copy.copy(predictions) as other:
            other.log(0.5)
        assert other.stats().logged == 1
    assert predictions.stats().logged == 0
    eventually(lambda: lines(file)[0]["version"] == "7")


def test_events_that_wait_cost_the_garbage_collector_nothing(held: Held) -> None:
    """It stops the scorer for as long as it visits objects; events of plain values are not among them."""
    with PredictionLogger("churn", to=held) as predictions:
        predictions.log(0.5)
        assert held.entered.wait(PATIENCE_SECONDS)
        # What other tests left is not looked through.
        gc.freeze()
        before = len(gc.get_objects())
        for _ in range(5_000):
            predictions.outcome(predictions.log(0.5, segments={"region": "eu"}), 1)
        gc.collect()  # visits maps of plain values for the last time,
        gc.collect()  # and then what holds them
        assert len(gc.get_objects()) - before < 1_000
        assert predictions.stats().pending == 10_001
        held.released.set()
