"""Apply a map to the predictions of a file: copy it with one more column, or one for each class."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monitor.arrays import Floats
from monitor.bounded_file import read_bounded
from monitor.errors import CorruptMap, InputError
from monitor.maps import apply_map
from monitor.maps.artifact import MAX_BYTES, OVERHEAD_BYTES, Artifact, from_bytes
from monitor.options import Option
from monitor.progress import StageProgress
from monitor.sources.feature_columns import read_features
from monitor.sources.formats import CsvFile, JsonLinesFile, ParquetFile, TableFile, format_of
from monitor.sources.stored_files import open_bytes
from monitor.sources.tables import Columns, EventTable

_Row = TypeVar("_Row")
_ROWS: Final = 1 << 16
"""Rows to recalibrate, or write, at a time."""


def read_map(path: Path) -> Artifact:
    """Read the map in a file.

    Raises
    ------
    InputError
        There is no such file.
    CorruptMap
        It holds no map, or a damaged one.
    """
    try:
        data = read_bounded(path, MAX_BYTES + OVERHEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: the map cannot be read: {error.strerror}") from error
    try:
        return from_bytes(data)
    except CorruptMap as error:
        raise CorruptMap(f"{path}: {error}") from error


def columns_for(artifact: Artifact, named: Columns) -> Columns:
    """Choose the named columns, or those of the file that the map was fitted on.

    Raises
    ------
    InputError
        The map needs features, or more or fewer than were named.
    CorruptMap
        What the map says of its columns is no list of names.
    """
    chosen, recorded = artifact.map, artifact.about.get("columns") or {}
    features: Sequence[str] = ()
    if chosen.feature_count is not None:
        before = _names(recorded, "features")
        features = named.features or before
        names = f" ({', '.join(before)})" if before else ""
        if len(features) != chosen.feature_count:
            got = f"{Option.FEATURE} names {len(features)}" if features else "none is named"
            raise InputError(
                f"the map needs {chosen.feature_count} features a row, and {got}: name the columns of those that it "
                f"was fitted on{names} with {Option.FEATURE}, in their order"
            )
    segments = () if chosen.segment_key is None else tuple(named.segments[:1]) or (chosen.segment_key,)
    # A file of another column is of another kind, unless it is said to be of this one.
    logits = named.logits or (not named.prediction and isinstance(recorded, Mapping) and recorded.get("logits") is True)
    prediction = named.prediction or _names(recorded, "prediction")
    return Columns(prediction, segments=segments, features=features, logits=logits)


def needed_columns(table: EventTable, columns: Columns) -> dict[str, Any]:
    """Columns as a map that was fitted on the table keeps them; guessed ones, too: another file may differ."""
    needed: dict[str, Any] = {"prediction": list(table.prediction_columns), "features": list(columns.features)}
    return {**needed, "logits": True} if columns.logits else needed


def read_rows(path: Path | TableFile, columns: Columns, progress: Callable[[int], None]) -> EventTable:
    """Read the columns that a map needs; outcomes and times are not read.

    Raises
    ------
    InputError
        The file cannot be read, a column is not there, or values are bad. Names the place.
    """
    return read_features(path, columns, labelled=False, of_classes=True, progress=progress)


def recalibrated(artifact: Artifact, table: EventTable, segment: str | None, progress: StageProgress) -> Floats:
    """Apply the map to the rows; float64, (n,) or (n, K).

    Raises
    ------
    InputError
        The map is for other predictions, or for those of its classes in another order.
    """
    chosen = artifact.map
    before = artifact.about.get("classes") or []
    if list(table.classes) != before and sorted(table.classes) == sorted(map(str, before)):
        raise InputError(
            f"the map is for the classes {', '.join(map(str, before))}, and these are {', '.join(table.classes)}; name "
            f"the columns of {Option.PREDICTION} in that order"
        )
    groups = None if segment is None else table.groups(segment)
    expected = chosen.classes
    classes = table.prediction.shape[1] if table.prediction.ndim == 2 else 2
    if len(table) and classes != expected:
        raise InputError(
            f"the map is for predictions of {expected} classes, and these are of {classes}; name the columns of "
            f"{Option.PREDICTION} that it was fitted on"
        )
    after = np.empty_like(table.prediction)
    for start in range(0, len(table), _ROWS):
        rows = slice(start, start + _ROWS)
        progress("recalibrating", start / len(table))
        after[rows] = apply_map(
            chosen,
            table.prediction[rows],
            features=None if table.features is None else table.features[rows],
            segments=None if groups is None or chosen.segment_key is None else {chosen.segment_key: groups[rows]},
        )
    return after


def check_output(source: Path, target: Path | None) -> None:
    """Check that what is written is of the format of what is read.

    Raises
    ------
    InputError
        It is of another one.
    """
    kind = format_of(source)
    if kind not in {CsvFile, JsonLinesFile, ParquetFile}:
        raise InputError(f"{source}: {source.suffix} is read and not written: convert it to Parquet or CSV")
    if target is not None and target.suffix.lower() in {".bz2", ".zst"}:
        raise InputError(f"--output: {target} is written plain or packed as .gz: let its name end so")
    if target is None:
        if kind is ParquetFile:
            raise InputError(f"{source} is Parquet, which no terminal shows: name the file to write with --output")
        return
    if format_of(target) is not kind:
        raise InputError(
            f"--output: {target} must be of the format of {source}: let its name end in {source.suffixes[0]}"
        )


def write_beside(
    source: Path, target: Path | IO[str], values: Mapping[str, Floats], progress: Callable[[int], None]
) -> None:
    """Copy a file with more columns behind its own; nothing else of it changes.

    Parameters
    ----------
    source
        A table of n rows.
    target
        A file, which appears whole or not at all, also in the place of the source; or where text is written to.
    values
        Name -> float64, (n,), or (n, K) for a column of lists.
    progress
        Called with the number of rows written so far.

    Raises
    ------
    InputError
        A column of that name is there already, or the file cannot be read or written.
    """
    table = format_of(source)(source)
    for name in values:
        if name in table.names():
            raise InputError(f"{source}: has a column {name!r} already; name another one with --column")

    def write_text(text: IO[str]) -> None:
        if isinstance(table, CsvFile):
            _write_csv(source, table.delimiter, text, values, progress)
        else:
            _write_json_lines(source, text, values, progress)

    if not isinstance(target, Path):
        write_text(target)
        return
    beside = target.with_name(f"{target.name}.part")
    try:
        if isinstance(table, ParquetFile):
            _write_parquet(source, beside, values, progress)
        else:
            packed = target.suffix.lower() == ".gz"
            # mtime 0: the same file gives the same file.
            file = gzip.GzipFile(beside, "wb", mtime=0) if packed else beside.open("wb")
            with file, io.TextIOWrapper(file, "utf-8", newline="") as text:
                write_text(text)
        beside.replace(target)
    except OSError as error:
        raise InputError(f"--output: cannot write {target}: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def _write_csv(
    source: Path, delimiter: str, target: IO[str], values: Mapping[str, Floats], progress: Callable[[int], None]
) -> None:
    with open_bytes(source) as file:
        first = file.readline()
    with open_bytes(source) as file, _reading(source):
        lines = csv.reader(io.TextIOWrapper(file, "utf-8-sig", newline=""), delimiter=delimiter)
        end = "\r\n" if first.endswith(b"\r\n") else "\n"
        write = csv.writer(target, delimiter=delimiter, lineterminator=end).writerow
        records = (fields for fields in lines if fields)  # empty lines are no rows
        write([*next(records), *values])
        for fields, more in _with_values(records, source, values, progress):
            write([*fields, *more])


def _write_json_lines(
    source: Path, target: IO[str], values: Mapping[str, Floats], progress: Callable[[int], None]
) -> None:
    keys = [json.dumps(name) for name in values]
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with open_bytes(source) as file, _reading(source):
        lines = (line for line in file if line.strip())
        for line, texts in _with_values(lines, source, values, progress):
            row = decode(line)
            for name in values:
                if name in row:
                    raise InputError(f"{source}: has a key {name!r} already; name another one with --column")
            # The object as it is written, numbers and all, and only its end anew.
            body = line.decode().rstrip().removesuffix("}").rstrip()
            more = ", ".join(f"{key}: {text}" for key, text in zip(keys, texts, strict=True))
            target.write(f"{body}{', ' if row else ''}{more}}}\n")


def _write_parquet(source: Path, target: Path, values: Mapping[str, Floats], progress: Callable[[int], None]) -> None:
    start = 0
    with pq.ParquetFile(source) as file, _reading(source):
        schema = file.schema_arrow
        for name, column in values.items():
            schema = schema.append(pa.field(name, pa.float64() if column.ndim == 1 else pa.list_(pa.float64())))
        with pq.ParquetWriter(target, schema) as writer:
            for batch in file.iter_batches(batch_size=_ROWS):
                rows = slice(start, start + batch.num_rows)
                more = [
                    pa.array(column[rows] if column.ndim == 1 else list(column[rows]), schema.field(name).type)
                    for name, column in values.items()
                ]
                writer.write_batch(pa.RecordBatch.from_arrays([*batch.columns, *more], schema=schema))
                start += batch.num_rows
                progress(start)


def _with_values(
    rows: Iterable[_Row], source: Path, values: Mapping[str, Floats], progress: Callable[[int], None]
) -> Iterator[tuple[_Row, list[str]]]:
    """Pair each row with its values as text: the shortest that is the same number, lists as in JSON."""
    columns = (column.tolist() for column in values.values())
    texts = (list(map(json.dumps, row)) for row in zip(*columns, strict=True))
    for number, (row, more) in enumerate(zip_longest(rows, texts), start=1):
        if row is None or more is None:
            raise InputError(
                f"{source}: its rows cannot be separated for certain, or it changed meanwhile; convert it to Parquet"
            )
        yield row, more
        if number % _ROWS == 0:
            progress(number)


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    """Name the file in errors of its parser."""
    try:
        yield
    except (csv.Error, UnicodeDecodeError, msgspec.DecodeError, pa.ArrowException) as error:
        raise InputError(f"{source}: cannot be copied: {error}; convert it to Parquet") from error


def _names(recorded: object, key: str) -> tuple[str, ...]:
    names: Sequence[object] = recorded.get(key, []) if isinstance(recorded, Mapping) else [None]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise CorruptMap(f"the map's columns.{key} must be a list of names, got {names!r}")
    return tuple(names)
