"""Columns of predictions for many classes: one vector of probabilities in every row, and the class that came true."""

import os.path
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import softmax

from monitor.errors import InputError
from monitor.options import Option
from monitor.scores.class_table import SUM_TOLERANCE
from monitor.sources.columns import (
    CLASS_LOGIT,
    MISSING_WORDS,
    OUTCOME_SPELLINGS,
    PREDICTION,
    UNLABELLED,
    CheckedColumn,
    Codes,
    ColumnPlace,
    Faults,
    Numbers,
    decoded,
    is_missing,
    text_of,
)

_INVALID: Final = -2
"""The outcome of a row with a value that is not a class."""

_MAX_NAMED: Final = 5
"""A hint names at most so many columns."""


def holds_vectors(array: pa.Array) -> bool:
    """Whether a column holds lists of numbers rather than numbers: by its type, or as text by its first value."""
    values = decoded(array)
    if _is_list(values.type):
        return True
    first = next((value for value in values[:100].to_pylist() if not is_missing(value)), None)
    return isinstance(first, str) and first.lstrip().startswith("[")


class VectorColumn(CheckedColumn):
    """Builds the predictions from one column of lists, all of one length."""

    def __init__(self, place: ColumnPlace, *, logits: bool = False) -> None:
        numbers = "finite logits" if logits else "numbers from 0 to 1"
        super().__init__(place, f"prediction must be a list of {numbers}, of one length in all rows")
        self._sums = _sum_faults(place)
        self.all_faults = (self.faults, self._sums)
        self._logits = logits
        self._length = 0

    def _convert(self, array: pa.Array) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        lists = _as_lists(decoded(array))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        self._length = self._length or int(next(iter(lengths[lengths > 0]), 0))  # the first list decides
        bad = (lengths != self._length) | (lengths == 0)
        values = np.full((len(array), self._length), np.nan)
        if not bad.all():
            flat = pc.list_flatten(lists.filter(pa.array(~bad))).to_numpy(zero_copy_only=False)
            values[~bad] = flat.reshape(-1, self._length)
        kind = CLASS_LOGIT if self._logits else PREDICTION
        return values, bad | ~((values >= kind.minimum) & (values <= kind.maximum)).all(axis=1)

    def finish(self) -> NDArray[np.float64]:
        """All of them, shape (n, K).

        Raises
        ------
        InputError
            Some are missing, of another length, out of range, or do not add up to 1.
        """
        self.faults.check()
        if self._length == 1:
            raise InputError(f"{self.faults.place.column}: prediction lists must hold two classes or more, got one")
        vectors = np.concatenate(self._pieces) if self._pieces else np.zeros((0, 2))
        return _probabilities(vectors, self._sums, logits=self._logits)


class ClassColumns:
    """Builds the predictions from several columns, one a class."""

    def __init__(self, place: ColumnPlace, places: Sequence[ColumnPlace], *, logits: bool = False) -> None:
        self._logits = logits
        self._sums = _sum_faults(place)
        kind = CLASS_LOGIT if logits else PREDICTION
        self.builders = [Numbers(place_of_class, kind) for place_of_class in places]
        self.all_faults = (*(builder.faults for builder in self.builders), self._sums)

    def finish(self) -> NDArray[np.float64]:
        """All of them, shape (n, K).

        Raises
        ------
        InputError
            Some are missing, out of range, or do not add up to 1.
        """
        vectors = np.column_stack([builder.finish() for builder in self.builders])
        return _probabilities(vectors, self._sums, logits=self._logits)


class ClassOutcomes(Codes):
    """Builds the outcomes: the number of a class, counted from 0, or its name; empty where not known yet."""

    def __init__(self, place: ColumnPlace) -> None:
        super().__init__(lambda value: None if _is_unknown(value) else _class_text(value))
        self._place = place

    def classes_of(self, columns: Sequence[str], classes: int) -> NDArray[np.int64]:
        """The class of each row, shape (n,), -1 where it is not known.

        Parameters
        ----------
        columns
            The columns of the predictions, one a class: outcomes may be their names or the differing parts of those;
            empty if one column holds lists.
        classes
            Number K of classes.

        Raises
        ------
        InputError
            A value is neither the number of a class nor its name.
        """
        codes, texts = self.finish()
        # Names before numbers: where columns are p1, p2, p3, the outcome 1 is the class of p1.
        names = [tuple(columns), class_names(columns)] if columns else []
        names.append(tuple(str(number) for number in range(classes)))
        spellings = [{text: number for number, text in enumerate(each)} for each in names]
        if classes == 2:  # also yes and no, true and false
            words = {text: text.lower() for text in texts}
            spellings.append(
                {text: OUTCOME_SPELLINGS[word] for text, word in words.items() if word in OUTCOME_SPELLINGS}
            )
        # The spelling that fits most of the values.
        spelling = max(spellings, key=lambda each: len(self.texts.keys() & each.keys()))
        class_of = [spelling.get(text, _INVALID) for text in texts]
        outcome = np.array([*class_of, UNLABELLED], np.int64)[codes]
        bad = outcome == _INVALID
        if bad.any():
            allowed = ", ".join(list(spelling)[:10]) + (", ..." if len(spelling) > 10 else "")
            faults = Faults(self._place, f"outcome must be one of the {classes} classes {allowed}")
            faults.add(bad, 0, pa.array([*texts, ""]).take(pa.array(codes % (len(texts) + 1))))
            faults.check()
            self.all_faults = (faults,)
        return outcome


def class_names(columns: Sequence[str]) -> tuple[str, ...]:
    """The differing parts of column names: ``cat`` and ``dog`` of ``p_cat`` and ``p_dog``, 0 and 1 of p0 and p1."""
    prefix = os.path.commonprefix(list(columns))  # noqa: RUF071 - letter by letter, as wanted
    numbered = all(name[len(prefix) :].isdecimal() for name in columns)
    while prefix and prefix[-1].isdecimal() if numbered else prefix and prefix[-1].isalnum():
        prefix = prefix[:-1]
    return tuple(name[len(prefix) :] for name in columns)


def hint_of_classes(columns: Sequence[str], prefixes: Sequence[str]) -> str:
    """Advice for a table that seems to have one column a class, like ``p_cat`` and ``p_dog``; otherwise nothing."""
    alike = re.compile(rf"({'|'.join(map(re.escape, prefixes))})[ _.-].+", re.IGNORECASE)
    names = [name for name in columns if alike.fullmatch(name.strip())]
    if len(names) < 2:
        return ""
    named = Option.PREDICTION.given(names[:_MAX_NAMED])
    return f"; of many classes name the column of each: {named}{' and so on' if len(names) > _MAX_NAMED else ''}"


def _sum_faults(place: ColumnPlace) -> Faults:
    requirement = "predictions must add up to 1 over the classes"
    return Faults(place, requirement, lambda *_: "; name the column of every class")


def _probabilities(vectors: NDArray[np.float64], faults: Faults, *, logits: bool) -> NDArray[np.float64]:
    """Vectors (n, K) as probabilities: logits by softmax; others must add up to 1 in every row."""
    if logits:
        return np.asarray(softmax(vectors, axis=1))
    sums = vectors.sum(axis=1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        faults.add(off, 0, pa.array(np.round(sums, 9)))  # without rounding errors of the sum
        faults.check()
    return vectors


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _as_lists(array: pa.Array) -> pa.Array:
    if _is_list(array.type):
        return array.cast(pa.large_list(pa.float64()), safe=False)
    return pa.array([_decoded_list(value) for value in array.to_pylist()], pa.large_list(pa.float64()))


def _decoded_list(value: Any) -> list[float] | None:
    try:
        return msgspec.json.decode(value, type=list[float]) if isinstance(value, str) else None
    except msgspec.DecodeError:
        return None


def _is_unknown(value: object) -> bool:
    return is_missing(value) or (isinstance(value, str) and value.strip().lower() in MISSING_WORDS)


def _class_text(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = text_of(value).strip()
    # Spreadsheets write whole numbers so.
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text
