"""What a sample of foreign messages holds: each source that a mapping could name, with its values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from monitor.events.mapping import Document
from monitor.events.model import Record

_SPECIAL: Final = re.compile(r"[.\[\]]|^[=$]")
_NO_PATH: Final = re.compile(r"[\[\]]|^$")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

NUMBERS: Final = (int, float, Decimal)
"""Types of a number; a boolean, which Python counts among them, is none."""


@dataclass
class Observation:
    """A source and its values.

    Attributes
    ----------
    source
        As a mapping names it.
    values
        Those that are there and not null; of a source with ``[]`` those of all items, one after the other.
    among
        How many messages there were, or items.
    per_message
        Number of items in each message, of a source with ``[]``.
    declared
        Its type in the schema.
    """

    source: str
    values: list[Any] = field(default_factory=list)
    among: int = 0
    per_message: list[int] = field(default_factory=list)
    declared: str | None = None

    @property
    def share(self) -> float:
        """Share of the messages, or items, that have it."""
        return len(self.values) / self.among if self.among else 0.0

    @property
    def batch(self) -> str | None:
        """The list whose items these are, such as ``rows[]``; None for one value a message."""
        before, inside, _ = self.source.partition("[]")
        return before + inside if inside else None

    @property
    def words(self) -> tuple[frozenset[str], frozenset[str]]:
        """The words of its name, in lower case, and those of the path to it."""
        steps = [step for step in re.split(r"[.\[\]]+", self.source.removeprefix("$header.")) if step]
        *path, last = [frozenset(map(str.lower, _WORD.findall(step))) for step in steps] or [frozenset()]
        return last, frozenset().union(*path)

    @property
    def distinct(self) -> list[Any]:
        """Its different values in the order in which they came; lists and maps are left out."""
        plain = [value for value in self.values if not isinstance(value, list | dict)]
        return list({(type(value), value): value for value in plain}.values())

    def all_are(self, *types: type) -> bool:
        """Whether there are values, and all are of these types. A boolean is no number."""
        return bool(self.values) and all(
            isinstance(value, types) and (bool in types or not isinstance(value, bool)) for value in self.values
        )


def observe(
    documents: Sequence[Document], records: Sequence[Record], declared: Mapping[str, str] | None = None
) -> list[Observation]:
    """The sources in these messages, in the order in which they came: those of bodies, then headers, then the key.

    Fields that the schema declares and no message has come last, without values.

    Parameters
    ----------
    documents
        The decoded body of each record.
    records
        Their messages.
    declared
        Path -> type of the schema's fields.
    """
    found: dict[str, Observation] = {}
    for document in documents:
        in_message: dict[str, list[Any]] = {}
        for source, value in _walk(document, ""):
            in_message.setdefault(source, []).append(value)
        for source, values in in_message.items():
            observation = found.setdefault(source, Observation(source))
            observation.values += [value for value in values if value is not None]
            observation.among += len(values)
            observation.per_message.append(len(values))
    for record in records:
        of_message = {f"$header.{name}": value for name, value in reversed(record.headers or ())}  # the first counts
        for source, value in (*reversed(of_message.items()), ("$key", record.key)):
            if value is not None:
                found.setdefault(source, Observation(source)).values.append(value.decode("utf-8", "replace"))
    for source, of_type in (declared or {}).items():
        found.setdefault(source, Observation(source)).declared = of_type
    for observation in found.values():
        if observation.batch is None:
            observation.among = len(records)
        else:
            # An item without the key is one without the value.
            items = found.get(observation.batch)
            observation.among = max(observation.among, items.among if items else 0)
    return list(found.values())


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not _NO_PATH.search(str(key)):
                yield from _walk(inner, _joined(path, str(key)))
        return
    yield path, value
    if isinstance(value, list) and path and "[]" not in path:
        for item in value:
            yield f"{path}[]", item
            if isinstance(item, Mapping):
                yield from _walk(item, f"{path}[]")


def _joined(path: str, key: str) -> str:
    if _SPECIAL.search(key):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def is_number_list(value: Any) -> bool:
    """Whether a value is a list of numbers, and not empty."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(item, NUMBERS) and not isinstance(item, bool) for item in value)
    )
