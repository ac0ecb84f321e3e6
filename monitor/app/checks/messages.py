"""Check how the newest messages of topics with a format or a mapping are understood, field by field."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from monitor.app.checks.base import CheckResult, Surroundings, fail, ok, warn
from monitor.app.kafka_parts import make_connection
from monitor.app.parts import make_formats, make_policy, make_rules, make_topics
from monitor.app.settings import Settings
from monitor.clock import Clock
from monitor.events.codec import Decoder
from monitor.events.features import read_features
from monitor.events.fields import Rejected
from monitor.events.formats import load_formats
from monitor.events.formats.base import Format, Messages, Rules
from monitor.events.mapping import FieldMapping
from monitor.events.model import Kind, Record, RecordBatch
from monitor.events.strata import Strata
from monitor.events.wire import ABSENT, KEYS, Event
from monitor.sources.kafka_connection import partition_counts, read_newest

_MAX_EXAMPLES: Final = 3
_MAX_CHARACTERS: Final = 60
_END_OF_CALENDAR_MS: Final = 253_402_300_800_000


def check_messages(around: Surroundings) -> Iterator[CheckResult]:
    """Read and decode messages. Nothing is joined, committed or stored."""
    settings = around.settings
    if settings.source.kind != "kafka":
        return
    formats = make_formats(settings, around.clock)
    if not formats:
        return
    connection = make_connection(settings.source.kafka)
    counts = partition_counts(connection, list(formats))
    for topic in formats:
        records = read_newest(connection, topic, counts[topic])
        if records:
            yield from describe_messages(settings, topic, records, formats, around.clock)
        else:
            yield ok("messages", f"{topic}: no messages yet")


def describe_messages(
    settings: Settings, topic: str, records: Sequence[Record], formats: Mapping[str, Format], clock: Clock
) -> Iterator[CheckResult]:
    """Decode messages of a topic as the service would, and report how many events they are and where each key is found.

    Parameters
    ----------
    settings
        They say how the topic is read.
    topic
        Its name.
    records
        The messages.
    formats
        Topic -> format, of those that are not JSON.
    clock
        The wall clock, for messages without a timestamp.
    """
    form, kind = formats.get(topic, load_formats()[0]), make_topics(settings).kinds[topic]
    mapping = next(read.mapping for read in settings.source.topics.read.values() if read.name == topic)
    rules = make_rules(settings, clock)
    batch = RecordBatch(topic, 0, records, 0)
    decoded = Decoder(rules, formats).decode(batch, Strata(make_policy(settings.models)), kind)
    yield _summary(topic, len(records), len(decoded.columns), [letter.reason for letter in decoded.dead_letters])
    if decoded.dead_letters:
        first = decoded.dead_letters[0]
        yield warn("messages", f"{topic}: offset {first.offset}: {first.detail}")
    events = list(_events(form, records, rules, kind))
    for key in KEYS:
        yield from _field(topic, key, _source(mapping, key), [_value(event, key) for event in events])


def _summary(topic: str, messages: int, events: int, reasons: Sequence[str]) -> CheckResult:
    read = f"{topic}: {messages} messages read, {events} events"
    if not events and not reasons:
        return warn("messages", f"{read}: none meets the mapping's where, or all are empty batches")
    if not reasons:
        return ok("messages", read)
    listed = ", ".join(f"{reason} {count}" for reason, count in Counter(reasons).most_common())
    verdict = warn if events else fail
    return verdict("messages", f"{read}, {len(reasons)} dead letters: {listed}")


def _events(form: Format, records: Sequence[Record], rules: Rules, kind: Kind | None) -> Iterator[Event]:
    messages = Messages.of(records, rules.max_bytes)
    rows, events = (records, form.decode(messages)) if form.read_rows is None else form.read_rows(messages)
    for row, event in zip(rows, events, strict=True):
        try:
            yield form.examine(row, rules, kind) if event is None else event
        except Rejected:
            continue  # counted as a dead letter


def _source(mapping: FieldMapping | None, key: str) -> str:
    source: Any = getattr(mapping, key, None)
    if isinstance(source, dict):
        return ", ".join(f"{name}: {path}" for name, path in source.items()) or key
    return ", ".join(source) or key if isinstance(source, tuple) else source or key


def _value(event: Event, key: str) -> str | None:
    value = getattr(event, key)
    if value is None or value is ABSENT:
        return None
    if key == "features":
        try:
            features = read_features(value)
        except Rejected:
            return f"unreadable, {bytes(value).decode()}"
        return None if features is None else f"{features.size} numbers, {', '.join(f'{x:g}' for x in features[:4])}"
    if key == "segments":
        return bytes(value).decode()
    if key == "ts" and isinstance(value, int) and 0 <= value < _END_OF_CALENDAR_MS:
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    return str(value)


def _field(topic: str, key: str, source: str, values: Sequence[str | None]) -> Iterator[CheckResult]:
    present = [value for value in values if value is not None]
    if present:
        examples = [value[:_MAX_CHARACTERS] for value in dict.fromkeys(present)][:_MAX_EXAMPLES]
        share = len(present) / len(values)
        yield ok("messages", f"{topic}: {key} from {source} in {share:.0%} of the events: {'; '.join(examples)}")
    elif source != key and values:
        yield warn("messages", f"{topic}: {key} from {source} is in none of the events")
