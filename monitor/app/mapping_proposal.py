"""Propose how a topic of foreign messages is read: its format, a ready-made mapping or one by what is in them.

The result is text for monitor.yaml, with a comment on each line, and how these messages are read with it.
"""

import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from monitor.app.checks.base import CheckResult
from monitor.app.checks.messages import describe_messages
from monitor.app.parts import make_format, make_policy, make_rules, read_schema
from monitor.app.settings import Settings
from monitor.app.settings.model import ReadTopic, TopicSettings
from monitor.clock import Clock
from monitor.errors import InputError
from monitor.events.codec import Decoder
from monitor.events.declared_fields import declared_fields
from monitor.events.examine import value_within
from monitor.events.fields import Rejected
from monitor.events.formats.base import Format
from monitor.events.mapping import Document, FieldMapping, Values
from monitor.events.model import Kind, Record, RecordBatch
from monitor.events.observations import observe
from monitor.events.presets import load_presets
from monitor.events.proposal import Choice, Proposal, propose
from monitor.events.schemas import Framed, Prefixed, Schema
from monitor.events.strata import Strata
from monitor.sources.schema_registry import SchemaRegistry

_MOST: Final = 0.9
"""Share of the messages that must fit for a format, or a ready-made mapping, to be that of the topic."""
_MAX_CAUSES: Final = 3
_WIDTH: Final = 110
_TOPIC_KEYS: Final = {Kind.PREDICTION: "predictions", Kind.OUTCOME: "outcomes", Kind.LABELLED: "labelled"}
_SUFFIXES: Final = {".avsc": "avro", ".proto": "protobuf"}
_FORMATS: Final = {"AVRO": "avro", "PROTOBUF": "protobuf", "JSON": "json_schema"}
_ORDER: Final = ("model", "version", "id", "ts", "p", "y", "features", "type")


class ProposedTopic(NamedTuple):
    """How a topic can be read."""

    text: str
    """For monitor.yaml, with comments."""
    findings: Sequence[CheckResult]
    """How its messages are read with that."""


def propose_topic(
    settings: Settings, topic: ReadTopic, records: Sequence[Record], registry: SchemaRegistry | None, clock: Clock
) -> ProposedTopic:
    """Propose how a topic is read.

    Parameters
    ----------
    settings
        The limits of events.
    topic
        Its name and, except for the mapping, how its messages are written: see :func:`detect_format`.
    records
        Its newest messages.
    registry
        Knows the schemas, if there is a registry.
    clock
        The wall clock.

    Raises
    ------
    SchemaUnavailable
        A schema cannot be had now.
    InputError
        None of the messages can be decoded.
    """
    plain = {} if topic.is_ours else {topic.name: make_format(topic, None, registry)}
    key = _own_events(settings, topic, records, plain, clock)
    if key is not None:
        text = _write(key, topic, ["these messages have the fields of an event: no mapping is needed"])
    else:
        decoded, refused = _decode(topic, records, registry, settings.pipeline.max_message_bytes)
        text = _propose_text(topic, decoded, _declared(topic, decoded, registry), _unread(refused, len(records)))
    topics = TopicSettings.model_validate(yaml.safe_load(text)["source"]["topics"])
    read = settings.model_copy(update={"source": settings.source.model_copy(update={"topics": topics})})
    (proposed,) = topics.read.values()
    formats = plain if proposed.mapping is None else {topic.name: make_format(proposed, proposed.mapping, registry)}
    return ProposedTopic(text, tuple(describe_messages(read, topic.name, records, formats, clock)))


def topic_of_schema(name: str, schema_file: Path, message: str | None) -> ReadTopic:
    """A topic whose messages were all written with the schema of a file.

    Raises
    ------
    InputError
        The file's name does not say whether it is of Avro or of Protobuf.
    """
    if schema_file.suffix not in _SUFFIXES:
        raise InputError(f"--schema-file must end in .avsc (Avro) or .proto (Protobuf), got {schema_file}")
    named = {} if message is None else {"message": message}
    of_file = {"format": _SUFFIXES[schema_file.suffix], "schema_file": str(schema_file)}
    return ReadTopic.model_validate({"name": name, **of_file, **named})


def detect_format(
    settings: Settings, name: str, records: Sequence[Record], registry: SchemaRegistry | None
) -> ReadTopic:
    """How the messages of a topic are written: as the settings say, or as their bytes show.

    Raises
    ------
    SchemaUnavailable
        The registry does not say now of which kind the schema is.
    InputError
        The bytes show no format.
    """
    for topic in settings.source.topics.read.values():
        if topic.name == name and not topic.is_ours:
            return topic.model_copy(update={"mapping": None})
    values = [record for record in records if record.value]
    shown = Counter(_format_of(record) for record in values)
    format_, count = shown.most_common(1)[0] if shown else (None, 0)
    if format_ is None or count < _MOST * len(values):
        begin = values[-1].value[:8].hex(" ") if values and values[-1].value else "nothing"
        raise InputError(
            f"the messages of {name} are neither JSON nor MessagePack, and do not begin with the prefix of a schema "
            f"registry; the newest begins with {begin}. If they are Avro or Protobuf of one schema, give --schema-file"
        )
    if format_ != "framed":
        return ReadTopic.model_validate({"name": name, "format": format_})
    if registry is None:
        raise InputError(f"the messages of {name} name a schema in a registry: set source.registry.url in monitor.yaml")
    try:
        kind = _newest_schema(values, registry)[0].kind
    except Rejected as rejected:
        raise InputError(f"{name}: {rejected.detail}") from None
    return ReadTopic.model_validate({"name": name, "format": _FORMATS[kind]})


def _format_of(record: Record) -> str | None:
    value = record.value or b""
    for name, decode in (("json", msgspec.json.decode), ("messagepack", msgspec.msgpack.decode)):
        try:
            if isinstance(decode(value), dict):
                return name
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue
    try:
        Prefixed().split(record, value)
    except Rejected:
        return None
    return "framed"


# ---------------------------------------------------------------------- reading


def _newest_schema(records: Sequence[Record], registry: SchemaRegistry) -> tuple[Schema, bytes]:
    """The schema of the newest message whose schema is known, and that message without its prefix.

    Raises
    ------
    Rejected
        There is none; why not of the newest message.
    """
    refused: list[Rejected] = []
    for record in sorted(records, key=lambda record: record.timestamp, reverse=True):
        try:
            prefix, payload = Framed(registry).split(record, record.value or b"")
            return Framed(registry).schema(prefix), payload
        except Rejected as rejected:
            refused.append(rejected)
    raise refused[0]


def _own_events(
    settings: Settings, topic: ReadTopic, records: Sequence[Record], formats: Mapping[str, Format], clock: Clock
) -> str | None:
    """The key of the topic under source.topics, if its messages are events without a mapping."""
    decoder = Decoder(make_rules(settings, clock, kind_by_keys=True), formats)
    batch = RecordBatch(topic.name, 0, records, 0)
    columns = decoder.decode(batch, Strata(make_policy(settings.models)), None).columns
    if not len(columns) or len(columns) < _MOST * len(records):
        return None
    kinds = {Kind(kind) for kind in columns.kind.tolist()}
    return _TOPIC_KEYS[kinds.pop()] if len(kinds) == 1 else "events"


def _decode(
    topic: ReadTopic, records: Sequence[Record], registry: SchemaRegistry | None, max_bytes: int
) -> tuple[list[tuple[Document, Record]], list[Rejected]]:
    """The messages that can be decoded, and why others cannot be.

    Raises
    ------
    InputError
        There are none.
    """
    decode = make_format(topic, FieldMapping(), registry).document
    decoded: list[tuple[Document, Record]] = []
    refused: list[Rejected] = []
    for record in records:
        try:
            value_within(record, max_bytes)
            if decode is not None:
                decoded.append((decode(record), record))
        except Rejected as rejected:
            refused.append(rejected)
    if not decoded:
        why = f": {refused[0].detail}" if refused else ""
        raise InputError(f"none of the {len(records)} messages of {topic.name} can be decoded{why}")
    return decoded, refused


def _unread(refused: Sequence[Rejected], count: int) -> list[str]:
    """A note on the messages that the proposal is not made from, with each cause."""
    if not refused:
        return []
    causes = Counter(rejected.detail for rejected in refused).most_common()
    more = f"; and {len(causes) - _MAX_CAUSES} more" if len(causes) > _MAX_CAUSES else ""
    listed = "; ".join(f"{of} times {why}" if of > 1 else why for why, of in causes[:_MAX_CAUSES])
    return [
        f"{len(refused)} of the {count} messages could not be read, and nothing is proposed from them: {listed}{more}"
    ]


def _declared(
    topic: ReadTopic, decoded: Sequence[tuple[Document, Record]], registry: SchemaRegistry | None
) -> Mapping[str, str]:
    """The fields of the newest message's schema, and their types."""
    if topic.schema_file is not None:
        return declared_fields(read_schema(topic))
    if registry is None or topic.format not in _FORMATS.values():
        return {}
    return declared_fields(*_newest_schema([record for _, record in decoded], registry))


# ---------------------------------------------------------------------- writing


def _propose_text(
    topic: ReadTopic,
    decoded: Sequence[tuple[Document, Record]],
    declared: Mapping[str, str],
    unread: Sequence[str],
) -> str:
    preset = _recognise(decoded)
    if preset is not None:
        name, count = preset
        seen = f"{count} of {len(decoded)} messages have the shape of {name}, a ready-made mapping (docs/mapping.md)"
        notes = [_SAME_IDS.format(others="outcomes", ids="those of the messages with the row's number: 0009174a-0")]
        mapping = f"mapping: {name}"
        if "model" not in load_presets()[name]:
            seen += "; its messages name no model: put yours"
            mapping = f"mapping: {{preset: {name}, model: {_scalar('=' + topic.name)}}}"
        return _write("predictions", topic, [seen], [mapping], [*unread, *notes])
    documents, records = zip(*decoded, strict=True)
    proposal = propose(observe(documents, records, declared), len(records), topic.name)
    lines = ["mapping:"]
    for key in _ORDER:
        if key in proposal.choices:
            lines += _choice(key, proposal.choices[key])
        if key == "ts" and proposal.ts_unit != "milliseconds":
            lines.append(f"  ts_unit: {proposal.ts_unit}")
        if key == "y" and proposal.positive:
            lines += ["  # by these words: check that they mean this"]
            lines += [f"  positive: {_scalar(proposal.positive)}", f"  negative: {_scalar(proposal.negative)}"]
    if proposal.segments:
        lines.append("  segments:")
        for name, choice in proposal.segments.items():
            lines += [f"  {line}" for line in _choice(_scalar(name), choice)]
    key = "events" if proposal.kind is None else _TOPIC_KEYS[proposal.kind]
    return _write(key, topic, [], lines, [*unread, *_notes(proposal)], segments=proposal.segments)


def _recognise(decoded: Sequence[tuple[Document, Record]]) -> tuple[str, int] | None:
    """The ready-made mapping that fits nearly all messages, and how many of them hold predictions."""
    fits = []
    for name, keys in load_presets().items():
        mapping = FieldMapping.model_validate(keys)
        counts = Counter(_fits(mapping, document, record) for document, record in decoded)
        if counts[True] and counts[True] + counts[None] >= _MOST * len(decoded):
            fits.append((len(mapping.where), counts[True], name))
    return max(((name, count) for _, count, name in sorted(fits)[-1:]), default=None)


def _fits(mapping: FieldMapping, document: Document, record: Record) -> bool | None:
    """Whether a mapping finds predictions in a message; None if the message is not meant to hold any."""
    rows = mapping.read(Values([document]), [record])
    if rows.refused:
        return False
    events = [rows.event(row) for row in range(len(rows.messages))]
    return all({"id", "p"} <= event.keys() for event in events) if events else None


def _notes(proposal: Proposal) -> list[str]:
    notes = list(proposal.notes)
    identifier = proposal.choices.get("id")
    if identifier is not None and proposal.kind in {Kind.PREDICTION, Kind.OUTCOME}:
        others = "outcomes" if proposal.kind is Kind.PREDICTION else "predictions"
        notes.append(_SAME_IDS.format(others=others, ids=f"the values of {identifier.source}"))
    return notes


_SAME_IDS: Final = "{others} must have the same ids, {ids}; in a topic, they must be keyed alike"


def _choice(key: str, choice: Choice) -> list[str]:
    others = f"; also possible: {', '.join(choice.others)}" if choice.others else ""
    comment = textwrap.wrap(f"{choice.why}{others}", _WIDTH, break_long_words=False, break_on_hyphens=False)
    return [*(f"  # {line}" for line in comment), f"  {key}: {_scalar(choice.source)}"]


def _write(
    key: str,
    topic: ReadTopic,
    seen: Sequence[str],
    mapping: Sequence[str] = (),
    notes: Sequence[str] = (),
    *,
    segments: Collection[str] = (),
) -> str:
    """The settings of a topic."""
    read = (
        {"name": topic.name} | topic.model_dump(exclude_defaults=True, exclude={"name"})
        if not topic.is_ours
        else {"name": topic.name}
    )
    inner = [f"{name}: {_scalar(value)}" for name, value in read.items()] + list(mapping)
    lines = ["source:", "  topics:", *(f"    # {line}" for line in seen), f"    {key}:"]
    lines += [f"      {line}" for line in inner]
    if segments:
        lines += ["models:", "  # by which windows are measured, too; each value multiplies the series"]
        lines.append(f"  defaults: {{segments: {_scalar(list(segments))}}}")
    for note in notes:
        wrapped = textwrap.wrap(note, _WIDTH, break_long_words=False, break_on_hyphens=False)
        lines += [f"# {'- ' if at == 0 else '  '}{line}" for at, line in enumerate(wrapped)]
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    """A value as YAML, in one line."""
    text = yaml.safe_dump(
        value if isinstance(value, str) else list(value), default_flow_style=True, width=10**6, allow_unicode=True
    )
    return text.removesuffix("...\n").strip()
