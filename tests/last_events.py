"""The end of a log in which all that came before is settled."""

from monitor.events.encode import encode_outcome, encode_prediction
from monitor.simulation.models import MODELS


def last_events(at_ms: int) -> list[bytes]:
    """A time's predictions and outcomes of each simulated model: so many that every partition has some.

    All partitions settle what stands before the same time then, whether or not they were idle before, and as the one
    partition of a file does.
    """
    return [
        event
        for model in MODELS
        for number in range(20)
        for event in (
            encode_prediction(model.name, f"last-{number}", at_ms, 0.5, version="1"),
            encode_outcome(model.name, f"last-{number}", at_ms, 1),
        )
    ]
