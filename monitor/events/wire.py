"""The structures into which msgspec decodes events."""

from typing import Annotated, Final, Literal

import msgspec
import xxhash
from msgspec import Meta, Raw, Struct

from monitor.events.fields import MAX_CLASSES, MAX_ID_CHARACTERS, MAX_NAME_CHARACTERS, NULL, Word
from monitor.known_types import learn

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
NonEmpty = Annotated[str, Meta(min_length=1)]
Unit = Annotated[float, Meta(ge=0, le=1)]

ABSENT: Final = Raw(b"")
KEYS: Final = ("model", "id", "ts", "type", "p", "y", "version", "segments", "features")
"""The keys of an event, in the order of :class:`Event`."""


class Event(Struct, gc=False):
    """The form of nearly every event; no invalid form fits.

    Events that do not fit are read again by :func:`~monitor.events.examine.examine`, which decides whether they are
    valid. So this may be narrower than the contract, and must not be wider.
    """

    model: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARACTERS)]
    id: Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARACTERS)] | Int64
    ts: str | Int64 | None = None
    type: Word | None = None
    p: Unit | Annotated[list[Unit], Meta(min_length=2, max_length=MAX_CLASSES)] | None = None
    y: bool | Annotated[int, Meta(ge=0, lt=MAX_CLASSES)] | Unit | None = None
    version: Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS)] | Int64 | None = None
    segments: Raw = ABSENT
    features: Raw = ABSENT
    specversion: None = None
    """Present in CloudEvents, which are not decoded as plain events."""


class Row(Event, array_like=True, gc=False):
    """An event whose values were found in a message of any format, as narrow as :class:`Event`."""

    segments: dict[str, str | bool | Int64 | None] | None = None  # type: ignore[assignment] # replaced by its JSON
    features: list[float] | bytes | None = None  # type: ignore[assignment]


class CloudEvent(Struct, gc=False):
    """An event in an envelope (see :mod:`monitor.events.cloudevents`), as narrow as :class:`Event`."""

    specversion: Literal["1.0"]
    id: NonEmpty
    source: NonEmpty
    type: NonEmpty
    data: Event
    time: str | None = None
    data_base64: None = None


class Fields(Struct, gc=False):
    """The bytes of every key that is read; b"" if absent. The last of duplicate keys counts."""

    type: Raw = ABSENT
    model: Raw = ABSENT
    id: Raw = ABSENT
    ts: Raw = ABSENT
    p: Raw = ABSENT
    y: Raw = ABSENT
    version: Raw = ABSENT
    segments: Raw = ABSENT
    features: Raw = ABSENT
    specversion: Raw = ABSENT
    source: Raw = ABSENT
    time: Raw = ABSENT
    data: Raw = ABSENT
    data_base64: Raw = ABSENT

    def written(self, key: str) -> bytes:
        """The bytes of a key's value; b"" if it is absent."""
        return bytes(getattr(self, key))

    def has(self, key: str) -> bool:
        """Whether a key is there, and not null."""
        return self.written(key) not in (b"", NULL)


def seed_of(model: str) -> int:
    """Seed of the hash of a model's ids: equal ids of two models have different hashes."""
    return xxhash.xxh3_64_intdigest(model.encode())


learn(Row)
decode_event: Final = msgspec.json.Decoder(Event).decode
decode_cloudevent: Final = msgspec.json.Decoder(CloudEvent).decode
decode_fields: Final = msgspec.json.Decoder(Fields).decode
