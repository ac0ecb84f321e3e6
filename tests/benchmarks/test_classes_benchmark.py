"""Events of several classes through decoder, join and closing, beside those of one probability."""

import time

import numpy as np
import pytest

from monitor.events.codec import Decoder
from monitor.events.encode import encode_outcome, encode_prediction
from monitor.events.formats.base import Rules
from monitor.events.model import ALL, UNVERSIONED, ModelPolicy, RecordBatch, SeriesKey
from monitor.events.strata import Strata
from monitor.stream.closing import close
from monitor.stream.join import Join
from tests.events.messages import NOW_MS, Message

PREDICTIONS = 20_000
BATCH = 5_000
ROUNDS = 4
PANE_MS = 60_000


def batches(classes: int) -> list[RecordBatch]:
    """Predictions, then their outcomes."""
    rng = np.random.default_rng(5)
    vectors = rng.dirichlet(np.ones(max(classes, 2)), PREDICTIONS)
    outcomes = rng.integers(0, max(classes, 2), PREDICTIONS).tolist()
    values = [
        encode_prediction("m", at, NOW_MS + at, vector if classes else float(vector[1]))
        for at, vector in enumerate(vectors)
    ]
    values += [encode_outcome("m", at, NOW_MS + at + 5, outcome) for at, outcome in enumerate(outcomes)]
    messages = [Message(value, offset=at, timestamp=NOW_MS) for at, value in enumerate(values)]
    return [RecordBatch("events", 0, messages[at : at + BATCH], at + BATCH) for at in range(0, len(messages), BATCH)]


def seconds_and_bytes(classes: int, sketch_features: int) -> tuple[float, float]:
    """Seconds of computing an event, and bytes in the join a prediction."""
    work = batches(classes)
    policy = ModelPolicy(
        86_400_000, 3_600_000, classes=tuple(map(str, range(classes))), sketch_features=sketch_features
    )
    best = np.inf
    for _ in range(ROUNDS):
        decoder, strata = Decoder(Rules(classes={"m": classes} if classes else {})), Strata(lambda _: policy)
        join = Join(strata)
        began = time.process_time()
        for batch in work:
            join.apply(decoder.decode(batch, strata, None).columns)
        held, unanswered = join.predictions, join.unanswered
        width = join.nbytes / PREDICTIONS
        panes = close(join.close(np.array([NOW_MS + PREDICTIONS])), strata, PANE_MS)
        best = min(best, time.process_time() - began)
        assert (held, unanswered, join.predictions) == (PREDICTIONS, 0, 0)
        whole = panes.cells.of_series(panes.names.index(SeriesKey("m", UNVERSIONED, ALL)))
        assert whole.values[:, :3].sum() == PREDICTIONS
    return best / (2 * PREDICTIONS), width


@pytest.mark.benchmark
def test_what_classes_cost(capsys: pytest.CaptureFixture[str]) -> None:
    binary, _ = seconds_and_bytes(0, 0)
    lines = []
    ratio = {}
    for classes, features in [(0, 0), (3, 0), (3, 256), (10, 0), (10, 256), (100, 0)]:
        seconds, width = seconds_and_bytes(classes, features)
        ratio[classes, features] = seconds / binary
        name = f"{classes} classes" if classes else "one probability"
        name += f", sketch of {features}" if features else ""
        cost = f"{1 / seconds:10,.0f} events/s  {seconds / binary:5.1f} x one probability"
        lines.append(f"  {name:26s} {cost}  {width:6.0f} B kept a prediction")
    with capsys.disabled():
        print(f"\ndecoding, joining and closing {2 * PREDICTIONS:,} events\n" + "\n".join(lines))
    # Generous: each class is a series of its own, so less than one event each is a gain.
    assert ratio[10, 0] < 10
