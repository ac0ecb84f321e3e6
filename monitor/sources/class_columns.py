"""Columns of predictions for many classes: one vector of probabilities in every row, and the class that came true."""

import re
import shlex
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.special import softmax

from monitor.errors import InputError
from monitor.scores.arguments import sum_text
from monitor.scores.class_table import SUM_TOLERANCE
from monitor.sources.columns import (
    MISSING_WORDS,
    UNLABELLED,
    Faults,
    Numbers,
    Place,
    decoded,
    encoded,
    is_missing,
    predictions,
    such_rows,
    text_of,
)

_LARGEST_LOGIT: Final = float(np.finfo(np.float64).max) / 4.0
"""In size: the difference of two is finite."""

_NEITHER: Final = -2
"""In place of an outcome: what stands there is no class."""

_NAMED: Final = 5
"""Columns that a hint names at most."""


def holds_vectors(array: pa.Array) -> bool:
    """Whether a column holds lists of numbers rather than numbers: by its type, or as text by its first value."""
    values = decoded(array)
    if _is_list(values.type):
        return True
    first = next((value for value in values[:100].to_pylist() if not is_missing(value)), None)
    return isinstance(first, str) and first.lstrip().startswith("[")


class Vectors:
    """Builds the predictions from one column of lists, all of one length."""

    def __init__(self, place: Place, *, logits: bool = False) -> None:
        self._place = place
        self._logits = logits
        numbers = "finite logits" if logits else "numbers from 0 to 1"
        self.faults = Faults(place, f"prediction must be a list of {numbers}, of one length in all rows")
        self.sums = _sum_faults(place)
        self._pieces: list[NDArray[np.float64]] = []
        self._length = 0
        self._rows = 0

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        lists = _as_lists(decoded(array))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        self._length = self._length or int(next(iter(lengths[lengths > 0]), 0))  # the first list decides
        bad = (lengths != self._length) | (lengths == 0)
        values = np.full((len(array), self._length), np.nan)
        if not bad.all():
            flat = pc.list_flatten(lists.filter(pa.array(~bad))).to_numpy(zero_copy_only=False)
            values[~bad] = flat.reshape(-1, self._length)
        least, most = (-_LARGEST_LOGIT, _LARGEST_LOGIT) if self._logits else (0.0, 1.0)
        bad |= ~((values >= least) & (values <= most)).all(axis=1)
        if bad.any():
            self.faults.add(bad, self._rows, array)
        self._pieces.append(values)
        self._rows += len(array)

    def finish(self) -> NDArray[np.float64]:
        """All of them, shape (n, K).

        Raises
        ------
        InputError
            Some are missing, of another length, out of range, or do not add up to 1.
        """
        self.faults.check()
        if self._length == 1:
            raise InputError(f"{self._place.column}: prediction lists must hold two classes or more, got one")
        vectors = np.concatenate(self._pieces) if self._pieces else np.zeros((0, 2))
        return _probabilities(vectors, self.sums, logits=self._logits)


class Columns:
    """Builds the predictions from several columns, one a class."""

    def __init__(self, place: Place, each: Sequence[Place], *, logits: bool = False) -> None:
        self._logits = logits
        self.sums = _sum_faults(place)
        self.builders: list[Numbers] = [_class_logits(one) if logits else predictions(one) for one in each]

    def finish(self) -> NDArray[np.float64]:
        """All of them, shape (n, K).

        Raises
        ------
        InputError
            Some are missing, out of range, or do not add up to 1.
        """
        vectors = np.column_stack([builder.finish() for builder in self.builders])
        return _probabilities(vectors, self.sums, logits=self._logits)


class ClassOutcomes:
    """Builds the outcomes: the number of a class, counted from 0, or its name; empty where it is not known yet."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.faults = Faults(place, "outcome must be one of the classes")
        self._codes: dict[str, int] = {}
        self._pieces: list[NDArray[np.int64]] = []

    def add(self, array: pa.Array) -> None:
        """Take the next piece."""
        codes, values = encoded(array)
        table = [UNLABELLED if _is_unknown(value) else self._code(_class_text(value)) for value in values]
        self._pieces.append(np.array([*table, UNLABELLED], np.int64)[codes])

    def _code(self, value: str) -> int:
        return self._codes.setdefault(value, len(self._codes))

    def finish(self, columns: Sequence[str], classes: int) -> NDArray[np.int64]:
        """The class of each row, shape (n,), -1 where it is not known.

        Parameters
        ----------
        columns
            The columns of the predictions, one a class, whose names (or what tells them apart) outcomes may be; none
            where one column holds lists.
        classes
            Number K of classes.

        Raises
        ------
        InputError
            A value is neither the number of a class nor its name.
        """
        codes = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.int64)
        spellings = [tuple(str(number) for number in range(classes))]
        if columns:
            # Names before numbers: where columns are p1, p2, p3, the outcome 1 is the class of p1.
            spellings = [tuple(columns), class_names(columns), *spellings]
        for names in spellings:
            if self._codes.keys() <= set(names):
                return np.array([*(names.index(name) for name in self._codes), UNLABELLED], np.int64)[codes]
        # The spelling that fits most of them is the one that was meant.
        meant = max(spellings, key=lambda names: len(self._codes.keys() & set(names)))
        if self._place.skip:
            known = [meant.index(name) if name in meant else _NEITHER for name in self._codes]
            outcome = np.array([*known, UNLABELLED], np.int64)[codes]
            texts = pa.array([*self._codes, ""]).take(pa.array(codes % (len(self._codes) + 1)))
            self.faults.add(outcome == _NEITHER, 0, texts)
            return outcome
        value = next(name for name in self._codes if name not in meant)
        row = int(np.argmax(codes == self._codes[value])) + 1
        allowed = ", ".join(meant[:10]) + (", ..." if len(meant) > 10 else "")
        raise InputError(
            f"{self._place.column}, {self._place.of_row(row)}: outcome must be one of the {classes} classes {allowed}, "
            f"got {value!r}; correct or remove it"
        )


def class_names(columns: Sequence[str]) -> tuple[str, ...]:
    """What tells the columns of classes apart: ``cat`` and ``dog`` of ``p_cat`` and ``p_dog``, 0 and 1 of p0 and p1."""
    shared = takewhile(lambda letters: len(set(letters)) == 1, zip(*columns, strict=False))
    prefix = "".join(letters[0] for letters in shared)
    numbered = all(name[len(prefix) :].isdecimal() for name in columns)
    while prefix and prefix[-1].isdecimal() if numbered else prefix and prefix[-1].isalnum():
        prefix = prefix[:-1]
    return tuple(name[len(prefix) :] for name in columns)


def hint_of_classes(columns: Sequence[str], prefixes: Sequence[str]) -> str:
    """What to say where there seems to be a column a class, as ``p_cat`` and ``p_dog``; nothing where there is none."""
    alike = re.compile(rf"({'|'.join(map(re.escape, prefixes))})[ _.-].+", re.IGNORECASE)
    each = [name for name in columns if alike.fullmatch(name.strip())]
    if len(each) < 2:
        return ""
    named = " ".join(f"--prediction {shlex.quote(name)}" for name in each[:_NAMED])
    return f"; of many classes name the column of each: {named}{' and so on' if len(each) > _NAMED else ''}"


def _class_logits(place: Place) -> Numbers:
    return Numbers(Faults(place, "logit must be a finite number"), -_LARGEST_LOGIT, _LARGEST_LOGIT)


def _sum_faults(place: Place) -> Faults:
    return Faults(place, "predictions must add up to 1 over the classes")


def _probabilities(vectors: NDArray[np.float64], faults: Faults, *, logits: bool) -> NDArray[np.float64]:
    """Vectors (n, K) as probabilities: logits by softmax, anything else as it is if rows add up to 1."""
    if logits:
        return np.asarray(softmax(vectors, axis=1))
    sums = vectors.sum(axis=1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if not off.any():
        return vectors
    if not faults.place.skip:
        row, place = int(np.argmax(off)), faults.place
        raise InputError(
            f"{place.column}, {place.of_row(row + 1)}: predictions must add up to 1 over the classes, got "
            f"{sum_text(vectors[row])} ({such_rows(int(np.count_nonzero(off)))}); name the column of every class"
        )
    faults.add(off, 0, pa.array(sums))
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
    # What a spreadsheet makes of a whole number.
    return text.removesuffix(".0") if text.removesuffix(".0").isdecimal() else text
