"""Propose where the keys of an event are in foreign messages, by the names, types and values that a sample shows.

A candidate for a key has values that the key may take; its name decides between candidates. What fits as well is
listed, never hidden: the proposal is read by a person before it is used.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from monitor.events.fields import MAX_ID_CHARACTERS, MAX_NAME_CHARACTERS, TYPES, shown
from monitor.events.mapping import Unit
from monitor.events.model import Kind
from monitor.events.observations import NUMBERS, Observation, is_number_list
from monitor.events.times import parse_time
from monitor.scores.class_table import SUM_TOLERANCE

_MAX_EXAMPLES: Final = 3
_MAX_OTHERS: Final = 4
_MAX_SEGMENTS: Final = 4
_MAX_SEGMENT_VALUES: Final = 20
_MAX_LABELS: Final = 10
_MIN_FOR_CARDINALITY: Final = 10
"""Messages from which on repeated texts are evidence; with fewer, only the name of a field counts."""
_OFTEN: Final = 0.5
"""Share of the messages that a segment must be in."""
_NEARLY_ALL: Final = 0.9
_NAMED: Final = 3.0
"""Points of a candidate whose name says what it is; one with so many fewer than the best is not worth a mention."""

_UNITS: Final[dict[Unit, float]] = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
_FIRST_SECOND, _LAST_SECOND = 946_684_800, 4_102_444_800
"""The years 2000 to 2099: a number of another unit is none of these."""

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_NAME: Final = re.compile(r"[^a-zA-Z0-9_]+")

_ID = frozenset({"id", "uuid", "guid", "identifier", "case", "key", "reference", "ref"})
_OF_EVENT = frozenset({"request", "event", "prediction", "inference", "transaction", "order", "trace", "case"})
_OF_OTHERS = frozenset({"customer", "user", "account", "device", "session", "product", "model", "merchant", "tenant"})
_TIME = frozenset({"ts", "timestamp", "time", "at", "date", "datetime", "occurred", "created", "when", "decided"})
_TIME_OF_EVENT = frozenset({"created", "predicted", "scored", "event", "decided", "occurred", "inference", "labelled"})
_TIME_OF_OTHERS = frozenset({"updated", "ingested", "processed", "received", "published", "birth", "expires", "due"})
_P = frozenset({"p", "pd", "prob", "proba", "probability", "probabilities", "score", "scores", "prediction"})
_P |= frozenset({"predictions", "predicted", "likelihood", "confidence", "risk"})
_OF_ONE, _OF_ZERO = frozenset({"1", "positive", "pos", "true"}), frozenset({"0", "negative", "neg", "false"})
_NO_P = frozenset({"threshold", "cutoff", "rate", "ratio", "share", "weight", "discount", "temperature"})
_Y = frozenset({"y", "label", "outcome", "target", "actual", "truth", "observed", "fraud", "churned", "defaulted"})
_Y |= frozenset({"converted", "clicked"})
_VALUE = frozenset({"value", "flag"})
_Y_PERHAPS = frozenset({"result", "class", "decision", "status", "verdict"})
_BY_MODEL = frozenset({"predicted", "prediction", "pred"})
_MODEL = frozenset({"model", "classifier", "inferenceservicename"})
_VERSION = frozenset({"version", "revision", "release"})
_NO_VERSION = frozenset({"schema", "specversion", "api", "sdk", "os", "app", "client"})
_FEATURES = frozenset({"features", "feature", "inputs", "input", "x", "vector", "vectors", "vec"})
_FEATURES |= frozenset({"embedding", "embeddings", "instances", "instance"})
_SEGMENT = frozenset({"region", "country", "plan", "channel", "segment", "tier", "product", "platform", "device"})
_SEGMENT |= frozenset({"language", "category", "group", "market", "gender", "source", "brand", "currency"})

POSITIVE: Final = frozenset(
    [
        "1",
        "true",
        "yes",
        "y",
        "positive",
        "pos",
        "fraud",
        "bad",
        "default",
        "defaulted",
        "churn",
        "churned",
        "spam",
        "clicked",
        "converted",
        "won",
        "success",
    ]
)
"""Words that mean 1."""

_Fit = Callable[[Observation], tuple[float, str] | None]
"""How well an observation fits a key, and why; None if it cannot be it."""


@dataclass(frozen=True)
class Choice:
    """The source of a key.

    Attributes
    ----------
    source
        As a mapping names it: one, or a list of them.
    why
        What was seen, for a comment.
    others
        Sources that fit, too, the best first.
    """

    source: str | Sequence[str]
    why: str
    others: Sequence[str] = ()


@dataclass
class Proposal:
    """A mapping, and what was seen.

    Attributes
    ----------
    kind
        The type of the events; None if the messages have neither a probability nor an outcome.
    choices
        Key of the mapping -> its source.
    ts_unit
        What numbers under ``ts`` count.
    positive, negative
        Texts of the outcome.
    segments
        Name -> its source.
    notes
        What could not be found, and what to do.
    """

    kind: Kind | None = None
    choices: dict[str, Choice] = field(default_factory=dict)
    ts_unit: Unit = "milliseconds"
    positive: Sequence[str] = ()
    negative: Sequence[str] = ()
    segments: dict[str, Choice] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def propose(observations: Sequence[Observation], messages: int, default_model: str) -> Proposal:
    """Propose a mapping.

    Parameters
    ----------
    observations
        What the messages hold, in the order in which candidates of equal fit are preferred.
    messages
        How many they were.
    default_model
        Name of the model where the messages have none.
    """
    proposal = Proposal()
    left = list(observations)

    def choose(key: str, fit: _Fit) -> Observation | None:
        ranked = _ranked(fit, left)
        if not ranked:
            return None
        (best, score, why), *others = ranked
        left.remove(best)
        near = [
            other.source
            for other, points, _ in others
            if points > score - _NAMED and other.batch != f"{best.source}[]"  # its own items
        ]
        proposal.choices[key] = Choice(best.source, f"{why}; {_seen(best)}", near[:_MAX_OTHERS])
        return best

    is_labels = any(score >= _NAMED for one in left if (score := (_fit_y(one, has_p=True) or (0,))[0]))
    p = choose("p", lambda one: _fit_p(one, named_only=is_labels))
    batch = None if p is None else p.batch
    lists = _parallel(p, left)
    left = [one for one in left if one.batch in {None, batch}]
    y = choose("y", lambda one: _fit_y(one, has_p=p is not None))
    proposal.kind = _kind(p, y)
    if y is not None:
        _read_labels(proposal, y)
    time = choose("ts", _fit_time)
    if time is None:
        proposal.choices["ts"] = Choice("$timestamp", "no time was seen in the messages: when each was written, then")
    else:
        proposal.ts_unit = _unit(time) or "milliseconds"
    choose("model", _fit_model)
    if "model" not in proposal.choices:
        proposal.choices["model"] = Choice(
            f"={default_model}", "no model was seen in the messages: this text in all of them; put your model's name"
        )
    if p is not None:
        choose("version", _fit_version)
    choose("id", _fit_id)
    if p is not None:
        _choose_features(proposal, left, lists)
        _choose_segments(proposal, left, messages)
    _choose_type(proposal, observations, y=y, p=p)
    _note_missing(proposal, observations)
    return proposal


def _ranked(fit: _Fit, among: Iterable[Observation]) -> list[tuple[Observation, float, str]]:
    fits = [(one, *found) for one in among if (found := fit(one)) is not None and found[0] >= 0]
    return sorted(fits, key=lambda one: (-one[1], -one[0].share))  # stable: the first of equals


def _seen(one: Observation) -> str:
    """The share and examples of an observation."""
    declared = f"{one.declared} in the schema, " if one.declared else ""
    share = f"{declared}in {one.share:.0%} of the {'messages' if one.batch is None else 'items'}"
    examples = one.distinct[:_MAX_EXAMPLES] or one.values[:1]
    return f"{share}, such as {', '.join(shown(_as_text(value)) for value in examples)}"


def _as_text(value: Any) -> str:
    """A value as JSON writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---------------------------------------------------------------------- what fits


def _fit_p(one: Observation, *, named_only: bool) -> tuple[float, str] | None:
    words, path = one.words
    named = bool(words & _P) or (bool(path & _P) and bool(words & (_OF_ONE | _OF_ZERO)))
    if named_only and not named:
        return None
    score = _NAMED * named + bool(words & _OF_ONE) - 2 * bool(words & _OF_ZERO) - 4 * bool(words & _NO_P)
    if one.values and all(map(is_number_list, one.values)):
        if not named or not all(0 <= p <= 1 for row in one.values for p in row):
            return None
        lengths = {len(row) for row in one.values}
        sums = all(abs(float(sum(row)) - 1) <= SUM_TOLERANCE for row in one.values)
        if lengths == {1}:
            return score, "a list of one probability"
        if not sums or len(lengths) > 1:
            return None  # perhaps the items are rows: see the source with []
        if lengths == {2}:
            return score + 1, "two numbers that add up to 1: P(y = 0) and P(y = 1)"
        return score + 1, f"{lengths.pop()} numbers that add up to 1: declare the classes, models.declared.NAME.classes"
    if not one.all_are(*NUMBERS) or not all(0 <= value <= 1 for value in one.values):
        return None
    if not named and all(value in {0, 1} for value in one.values):
        return None
    if all(value in {0, 1} for value in one.values):
        return score - 1, "in [0, 1] by its name, but all are 0 or 1: a probability, or a label?"
    if len(one.values) >= _MIN_FOR_CARDINALITY and len(one.distinct) == 1:
        score -= 2
    return score, f"numbers in [0, 1]{', by name a probability' if named else ''}"


def _fit_y(one: Observation, *, has_p: bool) -> tuple[float, str] | None:
    words, path = one.words
    if words & _BY_MODEL or one.source.startswith("$"):
        return None
    named = bool(words & _Y) or (bool(path & _Y) and bool(words & _VALUE))
    # Beside a probability, a decision or a status is more often what was made of it.
    score = _NAMED * named + (not has_p and bool(words & _Y_PERHAPS))
    texts = {_as_text(value).lower() for value in one.distinct}
    if one.all_are(bool) or (one.all_are(*NUMBERS) and all(value in {0, 1} for value in one.values)):
        return (score, "0 or 1" if not one.all_are(bool) else "true or false") if score or not has_p else None
    if one.all_are(str) and len(texts) <= _MAX_LABELS and max(map(len, texts)) <= MAX_NAME_CHARACTERS:
        known = len(texts & POSITIVE) == 1
        either = len(texts) == 2 and not words & _SEGMENT
        if score or ((known or either) and not has_p):
            return score + known, f"{len(texts)} different words"
    return None


def _fit_time(one: Observation) -> tuple[float, str] | None:
    words, _ = one.words
    named = bool(words & _TIME)
    score = _NAMED * named + bool(words & _TIME_OF_EVENT) - bool(words & _TIME_OF_OTHERS) - (one.source[0] == "$")
    if one.all_are(datetime):
        return score + 2, "a logical type of time"
    if one.all_are(str):
        return (score + 2, "times in RFC 3339") if all(map(_is_time, one.values)) else None
    unit = _unit(one)
    if unit is None or (not named and words & _ID):
        return None
    return score, f"{unit} since 1970"


def _fit_model(one: Observation) -> tuple[float, str] | None:
    words, path = one.words
    named = bool(words & _MODEL) or (bool(path & _MODEL) and bool(words & {"name", "nm", "id"}))
    if not named or words & _VERSION or not one.all_are(str) or len(one.distinct) > _MAX_SEGMENT_VALUES:
        return None
    return 1.0 + bool(words & {"name"}), _count(one, "model")


def _fit_version(one: Observation) -> tuple[float, str] | None:
    words, path = one.words
    fits = words & _VERSION and not words & _NO_VERSION and one.all_are(str, int)
    if not fits or len(one.distinct) > _MAX_SEGMENT_VALUES:
        return None
    return 1.0 + bool((words | path) & _MODEL), _count(one, "version")


def _fit_id(one: Observation) -> tuple[float, str] | None:
    if not one.all_are(str, int) or any(len(str(value)) > MAX_ID_CHARACTERS for value in one.values):
        return None
    words, path = one.words
    different = len(one.distinct) / len(one.values)
    uuids = one.all_are(str) and all(map(_UUID.fullmatch, one.values))
    named = bool(words & _ID)
    if different < _NEARLY_ALL or one.share < _OFTEN or not (named or one.all_are(str)):
        return None
    score = _NAMED * named + 2.0 * uuids + bool((words | path) & _OF_EVENT) - 2 * bool((words | path) & _OF_OTHERS)
    score += 2 * (one.batch is not None) - 1.5 * (one.source == "$key") - 1.0 * one.source.startswith("$header")
    if not named and not uuids and (all(map(_is_time, one.values)) or len(one.values) < _MIN_FOR_CARDINALITY):
        return None
    return score, "all different" if different == 1 else f"{different:.0%} are different"


def _count(one: Observation, what: str) -> str:
    count = len(one.distinct)
    return f"the {what}, by its name" if count == 1 else f"{count} {what}s, by its name"


# ---------------------------------------------------------------------- the other keys


def _kind(p: Observation | None, y: Observation | None) -> Kind | None:
    if p is None:
        return None if y is None else Kind.OUTCOME
    return Kind.PREDICTION if y is None else Kind.LABELLED


def _read_labels(proposal: Proposal, y: Observation) -> None:
    if not y.all_are(str):
        return
    texts = sorted(y.distinct)
    positive = [text for text in texts if text.lower() in POSITIVE]
    if len(positive) == 1:
        proposal.positive, proposal.negative = positive, [text for text in texts if text not in positive]
        return
    counts = Counter(y.values)
    listed = ", ".join(f"{shown(text)} ({counts[text]})" for text in texts)
    proposal.notes.append(
        f"which values of {y.source} mean 1 cannot be known, got {listed}: list them as positive, and those that mean "
        "0 as negative"
    )


def _parallel(p: Observation | None, among: Collection[Observation]) -> list[Observation]:
    """Lists of numbers with as many items as that of ``p``: features of the rows of a batch."""
    if p is None or p.batch is None:
        return []
    whole = [one for one in among if one.source == one.batch and one.batch != p.batch]
    return [one for one in whole if one.per_message == p.per_message]


def _choose_features(proposal: Proposal, left: list[Observation], lists: Sequence[Observation]) -> None:
    for one in [*left, *lists]:
        words, path = one.words
        named = (words | path) & _FEATURES
        lengths = {len(value) for value in one.values if is_number_list(value)}
        if named and one.values and all(map(is_number_list, one.values)) and len(lengths) == 1:
            proposal.choices["features"] = Choice(one.source, f"lists of {lengths.pop()} numbers; {_seen(one)}")
            return
        if named and one.all_are(bytes) and all(value and len(value) % 4 == 0 for value in one.values):
            proposal.choices["features"] = Choice(one.source, "bytes, read as float32; check that they are")
            return
    inside = [one for one in left if one.words[1] & _FEATURES and one.all_are(*NUMBERS)]
    if inside:
        for one in inside:
            left.remove(one)
        why = f"{len(inside)} numbers below a record that is named so; in this order, which must stay the same"
        proposal.choices["features"] = Choice([one.source for one in inside], why)


def _choose_segments(proposal: Proposal, left: Sequence[Observation], messages: int) -> None:
    others: list[str] = []
    for one in left:
        words, _ = one.words
        is_usual = one.all_are(str, bool) and one.share >= _OFTEN and not one.source.startswith("$")
        if not is_usual or words & (_ID | _MODEL | _VERSION | _BY_MODEL) or one.source == "type":
            continue
        count = len(one.distinct)
        repeats = 2 <= count <= min(_MAX_SEGMENT_VALUES, len(one.values) / 2)
        short = all(len(str(value)) <= MAX_NAME_CHARACTERS // 2 for value in one.distinct)
        is_enum = (one.declared or "").startswith("enum ")
        if not short or not (is_enum or (repeats if messages >= _MIN_FOR_CARDINALITY else words & _SEGMENT)):
            continue
        if len(proposal.segments) == _MAX_SEGMENTS:
            others.append(one.source)
            continue
        name = _segment_name(one.source, proposal.segments)
        values = f"{count} different values" if count > 1 else "by its name"
        proposal.segments[name] = Choice(one.source, f"{values}; {_seen(one)}")
    if others:
        proposal.notes.append(f"more that could be segments: {', '.join(others)}; each multiplies the series")


def _segment_name(source: str, taken: Collection[str]) -> str:
    steps = [_NAME.sub("_", step).strip("_") for step in re.split(r"[.\[\]]+", source) if step]
    name = steps[-1] or "segment"
    return name if name not in taken else "_".join(steps)


def _choose_type(
    proposal: Proposal, observations: Sequence[Observation], *, p: Observation | None, y: Observation | None
) -> None:
    """A key ``type`` of the messages' own is no type of event, unless it has its words."""
    own = next((one for one in observations if one.source == "type"), None)
    if own is not None and proposal.kind is not None and not TYPES.keys() >= set(map(str, own.distinct)):
        word = next(word for word, kind in TYPES.items() if kind is proposal.kind)
        proposal.choices["type"] = Choice(f"={word}", f"a type of the producer's own is there: {_seen(own)}")
    if p is not None and y is not None and p.share + y.share <= 1:
        proposal.notes.append(
            f"{p.source} is in {p.share:.0%} of the messages and {y.source} in {y.share:.0%}: if these are predictions "
            "and outcomes in one topic, a source of type has to say which is which (prediction, outcome), and the "
            "topic belongs under source.topics.events"
        )


def _note_missing(proposal: Proposal, observations: Sequence[Observation]) -> None:
    if "id" not in proposal.choices:
        proposal.notes.append(
            "no id was found: texts or integers that differ in each message and that the outcome will have, too. "
            "Without one, predictions and outcomes cannot be joined: have the producer send it, or key the messages "
            "by it and put id: $key"
        )
    for one in observations:
        words, _ = one.words
        if "p" in proposal.choices or not words & _P:
            continue
        if one.all_are(*NUMBERS):
            low, high = min(one.values), max(one.values)
            proposal.notes.append(
                f"{one.source} is from {low:g} to {high:g}, no probability in [0, 1]: a percentage or a logit has to "
                "be converted by the producer"
            )
        elif one.all_are(str):
            proposal.notes.append(f"{one.source} is text, such as {shown(one.values[0])}: p must be a number")
    if "p" not in proposal.choices and "y" not in proposal.choices:
        proposal.notes.append(
            "neither p, a number in [0, 1], nor y, an outcome of 0 or 1, was found: is this the right topic?"
        )
    unseen = [f"{one.source} ({one.declared})" for one in observations if one.declared and not one.values]
    if unseen:
        proposal.notes.append(f"in the schema, but in none of these messages: {', '.join(unseen)}")
    for one in observations:
        if one.words[0] & _TIME and one.all_are(str) and proposal.choices["ts"].source == "$timestamp":
            proposal.notes.append(
                f"{one.source} is no time in RFC 3339, got {shown(one.values[0])}: times must be like "
                "2026-11-20T10:00:00Z, with Z or an offset"
            )


# ---------------------------------------------------------------------- times


def _is_time(value: Any) -> bool:
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


def _unit(one: Observation) -> Unit | None:
    """The unit in which all numbers are times of this century."""
    if not one.all_are(int, float, Decimal):
        return None
    low, high = min(one.values), max(one.values)
    return next(
        (unit for unit, per in _UNITS.items() if _FIRST_SECOND * per <= low and high < _LAST_SECOND * per), None
    )
