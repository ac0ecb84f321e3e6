"""Messages and batches of them, for the tests of the events room."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from monitor.clock import ManualClock
from monitor.events.codec import Decoded, Decoder
from monitor.events.formats.base import Rules
from monitor.events.mapping import FieldMapping
from monitor.events.model import Kind, ModelPolicy, RecordBatch
from monitor.events.strata import Strata

NOW_MS = 1_795_168_800_000
"""2026-11-20T10:00:00Z."""
POLICY = ModelPolicy(horizon_ms=1000, lateness_ms=100, segments=("region", "plan"))
OF_CLASSES = ModelPolicy(horizon_ms=1000, lateness_ms=100, segments=("region",), classes=("cat", "dog", "bird"))
CLASSES = {"digits": len(OF_CLASSES.classes)}

PREDICTION = b'{"type":"prediction","model":"churn","version":"7","id":"7f3a","ts":"2026-11-20T10:00:00Z","p":0.83}'
OUTCOME = b'{"type":"outcome","model":"churn","id":"7f3a","ts":"2026-11-20T10:00:00Z","y":1}'
LABELLED = b'{"type":"labelled","model":"churn","version":"7","id":"7f3a","ts":"2026-11-20T10:00:00Z","p":0.83,"y":0}'


class Message(NamedTuple):
    """A message of the log."""

    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    offset: int = 0
    timestamp: int = NOW_MS
    key: bytes | None = None


def batch_of(messages: Iterable[Message | bytes | None]) -> RecordBatch:
    """A batch of messages, or of their values, at offsets 0, 1, 2, ..."""
    records = [
        (message if isinstance(message, Message) else Message(message))._replace(offset=offset)
        for offset, message in enumerate(messages)
    ]
    return RecordBatch("events", 3, records, len(records))


def new_strata() -> Strata:
    """Names of a partition where every model but ``undeclared`` is declared, and ``digits`` to have three classes."""
    return Strata(lambda name: {"undeclared": None, "digits": OF_CLASSES}.get(name, POLICY))


def decode(
    *messages: Message | bytes | None,
    default_kind: Kind | None = None,
    decoder: Decoder | None = None,
    strata: Strata | None = None,
) -> Decoded:
    """Decode messages as one batch."""
    decoder = decoder or Decoder(Rules(clock=ManualClock(NOW_MS), classes=CLASSES))
    return decoder.decode(batch_of(messages), strata or new_strata(), default_kind)


def mapping_of(keys: Mapping[str, str] | None = None, **others: Any) -> FieldMapping:
    """A mapping, of the sources of single keys and the other settings."""
    return FieldMapping.model_validate({**(keys or {}), **others})
