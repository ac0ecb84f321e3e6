"""The valid values of each key of an event: one function a key, from the bytes of a JSON value to the value."""

import re
from typing import Any, Final, Literal

import msgspec

from monitor.events.model import UNVERSIONED, Kind, Reason
from monitor.scores.arguments import sum_text
from monitor.scores.class_table import SUM_TOLERANCE
from monitor.urls import wrong_path

_SHOWN_CHARACTERS: Final = 80


class Rejected(Exception):  # noqa: N818 - no error of the service: the event goes to the dead letters
    """The message is no valid event. Stays inside the room: the decoder turns it into a dead letter.

    Attributes
    ----------
    reason
        What is counted.
    detail
        One line that names key and value and says what is allowed.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def shown(text: str | bytes | memoryview) -> str:
    """A value for a message: one line, printable, and short."""
    if not isinstance(text, str):
        # Four bytes a character at most; the slice keeps an oversized value from being decoded whole.
        text = bytes(text[: 4 * _SHOWN_CHARACTERS + 4]).decode("utf-8", "backslashreplace")
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in cut
    )


MAX_ID_CHARACTERS: Final = 512
MAX_NAME_CHARACTERS: Final = 128
"""Limit for models, versions and segment values, which become label values."""
MAX_SEGMENTS: Final = 32
MAX_SEGMENT_KEY_CHARACTERS: Final = 64
MAX_CLASSES: Final = 1000

Word = Literal["prediction", "outcome", "labelled"]
WORDS: Final[dict[Kind, Word]] = {Kind.PREDICTION: "prediction", Kind.OUTCOME: "outcome", Kind.LABELLED: "labelled"}
TYPES: Final[dict[str, Kind]] = {word: kind for kind, word in WORDS.items()}
REQUIRED: Final = {
    Kind.PREDICTION: ("model", "id", "ts", "p"),
    Kind.OUTCOME: ("model", "id", "ts", "y"),
    Kind.LABELLED: ("model", "id", "ts", "p", "y"),
}

NULL: Final = b"null"
UNREADABLE: Final = object()
"""Stands for a value that Python cannot represent: 1e400, or an integer of thousands of digits."""

_OF_TWO: Final = 2
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_INTEGER: Final = re.compile(rb"-?[0-9]+")
_values: Final = msgspec.json.Decoder()
_objects: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def value_of(raw: bytes | msgspec.Raw) -> Any:
    """The Python value of a JSON value, or UNREADABLE."""
    try:
        return _values.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        return UNREADABLE


def text_of(raw: bytes | msgspec.Raw) -> str:
    """A JSON value as it was written, short enough for a message."""
    return shown(memoryview(raw))


def read_type(raw: bytes | msgspec.Raw) -> Kind:
    """``type``: one of three words."""
    value = value_of(raw)
    if not isinstance(value, str):
        raise Rejected(Reason.WRONG_TYPE, f"type must be a string, got {text_of(raw)}")
    kind = TYPES.get(value)
    if kind is None:
        raise Rejected(Reason.UNKNOWN_TYPE, f"type must be one of {', '.join(TYPES)}, got {text_of(raw)}")
    return kind


def read_model(raw: bytes | msgspec.Raw) -> str:
    """``model``: a string that :func:`wrong_model` allows."""
    value = value_of(raw)
    if not isinstance(value, str):
        raise Rejected(Reason.INVALID_MODEL, f"model must be a string, got {text_of(raw)}")
    wrong = wrong_model(value)
    if wrong:
        raise Rejected(Reason.INVALID_MODEL, f"model {wrong}, got {text_of(raw)}")
    return value


def read_id(raw: bytes | msgspec.Raw) -> str:
    """``id``: a string of 1 to 512 characters, or an integer, which is the same id as its decimal text.

    Numbers with a fraction or an exponent are refused: beyond 2^53, different ids would become equal.
    """
    value = _text_or_integer(raw)
    if not isinstance(value, str):
        raise Rejected(Reason.INVALID_ID, f"id must be a string or an integer, got {text_of(raw)}")
    if not 1 <= len(value) <= MAX_ID_CHARACTERS:
        raise Rejected(
            Reason.INVALID_ID,
            f"id must have 1 to {MAX_ID_CHARACTERS} characters, got {len(value)}: {text_of(raw)}",
        )
    return value


def read_version(raw: bytes | msgspec.Raw) -> str:
    """``version``: a string of at most 128 characters, or an integer; null and "" mean none.

    Numbers with a fraction are refused, since 1.10 and 1.1 are one number and two versions.
    """
    if bytes(raw) in (b"", NULL):
        return UNVERSIONED
    value = _text_or_integer(raw)
    if not isinstance(value, str):
        raise Rejected(
            Reason.INVALID_VERSION, f"version must be a string or an integer, got {text_of(raw)}; put it in quotes"
        )
    wrong = wrong_name(value)
    if wrong:
        raise Rejected(Reason.INVALID_VERSION, f"version {wrong}, got {text_of(raw)}")
    return value or UNVERSIONED


def _text_or_integer(raw: bytes | msgspec.Raw) -> Any:
    """The value, an integer as its decimal text."""
    written = bytes(raw)
    if _INTEGER.fullmatch(written):
        return "0" if written == b"-0" else written.decode()
    return value_of(raw)


def read_segments(raw: bytes | msgspec.Raw) -> dict[str, str]:
    """``segments``: an object of at most 32 names to strings; numbers and booleans count as written.

    A key with the value null is ignored. Keys have 1 to 64 characters and no ``=``, which separates key and value
    in the name of a series.
    """
    if bytes(raw) in (b"", NULL):
        return {}
    try:
        pairs = _objects.decode(raw)
    except (msgspec.MsgspecError, ValueError):
        raise Rejected(Reason.INVALID_SEGMENTS, f"segments must be an object, got {text_of(raw)}") from None
    if len(pairs) > MAX_SEGMENTS:
        raise Rejected(Reason.INVALID_SEGMENTS, f"segments must have at most {MAX_SEGMENTS} keys, got {len(pairs)}")
    segments = {}
    for key, raw_value in pairs.items():
        if not 1 <= len(key) <= MAX_SEGMENT_KEY_CHARACTERS or "=" in key or _CONTROL.search(key):
            raise Rejected(
                Reason.INVALID_SEGMENTS,
                f"a key of segments must have 1 to {MAX_SEGMENT_KEY_CHARACTERS} characters without = and control "
                f"characters, got {shown(key)}",
            )
        if bytes(raw_value) != NULL:
            segments[key] = _segment_value(key, raw_value)
    return segments


def read_prediction(raw: bytes | msgspec.Raw, classes: int = 0) -> float | list[float]:
    """``p``: P(y = 1), a number in [0, 1]; or the probabilities of all classes, which add up to 1.

    Parameters
    ----------
    classes
        How many classes the model is declared to have. 0 is a model of one probability, for which a list of two is
        [P(y = 0), P(y = 1)].
    """
    value = value_of(raw)
    if isinstance(value, list):
        if classes == 0 and len(value) > _OF_TWO:
            raise Rejected(
                Reason.UNSUPPORTED_MULTICLASS,
                f"p is a list of {len(value)} and the model is not declared to have classes; name them in the settings "
                f"under models.declared, as classes, or send P(y = 1) as a number, got {text_of(raw)}",
            )
        return read_probabilities(raw, classes or _OF_TWO)
    if classes:
        raise Rejected(
            Reason.INVALID_PREDICTION,
            f"p must be a list of {classes} probabilities, as many as the model has classes, got {text_of(raw)}",
        )
    if not _is_probability(value):
        raise Rejected(Reason.INVALID_PREDICTION, f"p must be a number in [0, 1], got {text_of(raw)}")
    # 0.0 for -0.0: there is one zero.
    return float(value) + 0.0


def read_probabilities(raw: bytes | msgspec.Raw, classes: int | None = None) -> list[float]:
    """``p`` as a list: the probabilities of this number of classes, or of 2 to 1000; they add up to 1 within 0.01."""
    values = value_of(raw)
    fits = len(values) == classes if classes else _OF_TWO <= len(values) <= MAX_CLASSES
    if not fits:
        raise Rejected(
            Reason.INVALID_PREDICTION,
            f"p must hold {classes or f'{_OF_TWO} to {MAX_CLASSES}'} probabilities, one for each class, "
            f"got {len(values)}: {text_of(raw)}",
        )
    total = 0.0
    for at, value in enumerate(values):
        if not _is_probability(value):
            raise Rejected(
                Reason.INVALID_PREDICTION,
                f"p must hold numbers in [0, 1], but that of class {at} is {shown(str(value))}, in {text_of(raw)}",
            )
        total += value
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise Rejected(
            Reason.INVALID_PREDICTION, f"p must add up to 1 over the classes, got {sum_text(values)}: {text_of(raw)}"
        )
    return [float(value) for value in values]


def read_outcome(raw: bytes | msgspec.Raw, classes: int = 0) -> int:
    """``y``: 0 or 1, as an integer, a boolean, or a number with a fraction of zero; or a class, from 0 on.

    Parameters
    ----------
    classes
        How many classes the model is declared to have; 0 is a model of one probability.
    """
    value = value_of(raw)
    if classes:
        whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1
        if not whole or not 0 <= value < classes:
            raise Rejected(
                Reason.INVALID_OUTCOME, f"y must be a class, an integer from 0 to {classes - 1}, got {text_of(raw)}"
            )
    elif not isinstance(value, int | float) or value not in (0, 1):
        many = isinstance(value, int) and value > 1
        hint = "; for a class of several, name them in the settings under models.declared, as classes" if many else ""
        raise Rejected(Reason.INVALID_OUTCOME, f"y must be 0 or 1, or true or false, got {text_of(raw)}{hint}")
    return int(value)


def _is_probability(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value <= 1


def wrong_model(name: str) -> str | None:
    """The error in the name of a model, if any: 1 to 128 characters, no control characters, and a part of URLs."""
    return wrong_name(name) or wrong_path(name)


def wrong_name(name: str) -> str | None:
    """The error in the name of a version or a segment value, if any."""
    if len(name) > MAX_NAME_CHARACTERS:
        return f"must have at most {MAX_NAME_CHARACTERS} characters, has {len(name)}"
    if _CONTROL.search(name):
        return "must not hold control characters"
    return None


def _segment_value(key: str, raw: msgspec.Raw) -> str:
    written = bytes(raw)
    if written[:1] in b"{[":
        raise Rejected(
            Reason.INVALID_SEGMENTS,
            f"segments.{shown(key)} must be a string, a number or a boolean, got {text_of(raw)}",
        )
    value = value_of(raw) if written[:1] == b'"' else written.decode()
    wrong = wrong_name(value)
    if wrong:
        raise Rejected(Reason.INVALID_SEGMENTS, f"segments.{shown(key)} {wrong}, got {text_of(raw)}")
    return str(value)
