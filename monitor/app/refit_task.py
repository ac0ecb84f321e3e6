"""The folder through which a refit is handed to a worker process, and what came of it is handed back.

::

    FOLDER/task.json        what is asked for                                      written by write_task
    FOLDER/events.arrow     the sample: one row an event
    FOLDER/champion.arrow   the map that serves, if one does
    FOLDER/artifact.arrow   the map that was fitted                                written by write_result
    FOLDER/figures/*.svg    its pictures
    FOLDER/result.json      the comparison, or why there is no map, with the SHA-256 of every file beside it

``task.json`` and ``result.json`` are written last, and appear whole or not at all: a folder that holds one holds all
that belongs to it.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.errors import BrokenHandover
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.fitting_task import RefitOutcome, RefitTask

TASK: Final = "task.json"
EVENTS: Final = "events.arrow"
CHAMPION: Final = "champion.arrow"
RESULT: Final = "result.json"
ARTIFACT: Final = "artifact.arrow"
FIGURES: Final = "figures"

ERRORS: Final = ("NotEnoughData", "InputError", "CorruptMap")
"""Failures that lie in what a refit was given."""

_SEGMENT: Final = "segment:"
"""Before a segment's key, in the names of the table's columns."""
_HASH: Final = b"content-hash"
_ROWS: Final = 16_384
"""In a batch of the table: what is held twice while it is written or read."""


def write_task(folder: Path, task: RefitTask) -> None:
    """Write what a worker needs into an empty folder."""
    _write_events(folder / EVENTS, task.events)
    if task.champion is not None:
        (folder / CHAMPION).write_bytes(task.champion)
    _write_json(
        folder / TASK,
        {
            "id": task.id,
            "model": task.model,
            "version": task.version,
            "method": task.method,
            "options": dict(task.options),
            "created_ms": task.created_ms,
            "window_ms": task.window_ms,
            "held_out": task.held_out,
            "left_out": dict(task.left_out),
            "champion": task.champion is not None,
            "seed": task.seed,
            "tolerance": task.tolerance,
        },
    )


def read_task(folder: Path) -> RefitTask:
    """The task of a folder.

    Raises
    ------
    BrokenHandover
        It is not all there, or damaged.
    """
    told = _read_json(folder / TASK)
    return RefitTask(
        id=_of(told, TASK, "id", str),
        model=_of(told, TASK, "model", str),
        version=_of(told, TASK, "version", str),
        method=_of(told, TASK, "method", str),
        options=_of(told, TASK, "options", dict),
        created_ms=_of(told, TASK, "created_ms", int),
        events=_read_events(folder / EVENTS),
        window_ms=_of(told, TASK, "window_ms", int, type(None)),
        held_out=float(_of(told, TASK, "held_out", float, int)),
        left_out=_of(told, TASK, "left_out", dict),
        champion=_read_bytes(folder / CHAMPION) if _of(told, TASK, "champion", bool) else None,
        seed=_of(told, TASK, "seed", int),
        tolerance=float(_of(told, TASK, "tolerance", float, int)),
    )


def write_result(folder: Path, outcome: RefitOutcome) -> None:
    """Write what came of a refit into its folder."""
    if outcome.error is not None:
        _write_json(folder / RESULT, {"error": outcome.error, "detail": outcome.detail or ""})
        return
    if outcome.artifact is None or outcome.comparison is None:
        raise ValueError("an outcome without an error must have an artifact and a comparison")
    files = {ARTIFACT: outcome.artifact}
    files |= {f"{FIGURES}/{name}.svg": picture for name, picture in outcome.figures.items()}
    (folder / FIGURES).mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    _write_json(
        folder / RESULT,
        {
            "comparison": outcome.comparison,
            "figures": list(outcome.figures),
            "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        },
    )


def read_result(folder: Path) -> RefitOutcome:
    """What came of a refit.

    Raises
    ------
    BrokenHandover
        There is no result, or it is not all there, or a file is not the one that was written: the worker was killed,
        or could not write.
    """
    told = _read_json(folder / RESULT)
    if "error" in told:
        error = _of(told, RESULT, "error", str)
        if error not in ERRORS:
            raise BrokenHandover(f"error of {RESULT} must be one of {', '.join(ERRORS)}, got {error!r}")
        return RefitOutcome(error=error, detail=_of(told, RESULT, "detail", str))
    sums = _of(told, RESULT, "sha256", dict)
    names = _of(told, RESULT, "figures", list)
    return RefitOutcome(
        artifact=_read_checked(folder, ARTIFACT, sums),
        comparison=_of(told, RESULT, "comparison", dict),
        figures={name: _read_checked(folder, f"{FIGURES}/{_plain(name)}.svg", sums) for name in names},
    )


def _write_events(path: Path, events: LabelledEvents) -> None:
    columns: dict[str, NDArray[Any]] = {
        "prediction": events.prediction,
        "outcome": events.outcome,
        "weight": events.weight,
        "time_ms": events.time_ms,
    }
    if events.features is not None:
        columns["features"] = events.features
    columns |= {f"{_SEGMENT}{key}": values for key, values in events.segments.items()}
    fields = [pa.field(name, _type(values), nullable=False) for name, values in columns.items()]
    schema = pa.schema(fields, {_HASH: events.content_hash().encode()})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for start in range(0, len(events), _ROWS):
            rows = [_array(values[start : start + _ROWS]) for values in columns.values()]
            writer.write_batch(pa.record_batch(rows, schema=schema))


def _read_events(path: Path) -> LabelledEvents:
    try:
        with pa.OSFile(str(path), "rb") as source, pa.ipc.open_file(source) as reader:
            schema, n = reader.schema, 0
            parts: dict[str, list[NDArray[Any]]] = {name: [] for name in schema.names}
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate(full=True)
                n += batch.num_rows
                for name, column in zip(schema.names, batch.columns, strict=True):
                    parts[name].append(_values(column))
            table = {name: _joined(parts.pop(name), schema.field(name).type) for name in schema.names}
            events = LabelledEvents(
                prediction=table.pop("prediction"),
                outcome=table.pop("outcome"),
                weight=table.pop("weight"),
                time_ms=table.pop("time_ms"),
                features=table.pop("features", None),
                segments={name.removeprefix(_SEGMENT): values for name, values in table.items()},
            )
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise BrokenHandover(f"{path.name} cannot be read: {error}") from error
    written = (schema.metadata or {}).get(_HASH, b"").decode()
    if events.content_hash() != written:
        raise BrokenHandover(f"{path.name} is not what was written: its {n} events have another content hash")
    return events


def _type(values: NDArray[Any]) -> pa.DataType:
    if values.dtype.kind == "U":
        return pa.utf8()
    one = pa.from_numpy_dtype(values.dtype)
    return one if values.ndim == 1 else pa.list_(one, values.shape[1])


def _array(values: NDArray[Any]) -> pa.Array:
    if values.dtype.kind == "U":
        return pa.array(values.tolist(), pa.utf8())
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


def _values(column: pa.Array) -> NDArray[Any]:
    if pa.types.is_string(column.type):
        return np.asarray(column.to_pylist(), np.str_)
    if pa.types.is_fixed_size_list(column.type):
        return np.asarray(column.flatten()).reshape(-1, column.type.list_size)
    return np.asarray(column)


def _joined(parts: list[NDArray[Any]], kind: pa.DataType) -> NDArray[Any]:
    if parts:
        return np.concatenate(parts)
    if pa.types.is_string(kind):
        return np.zeros(0, np.str_)
    if pa.types.is_fixed_size_list(kind):
        return np.zeros((0, kind.list_size), kind.value_type.to_pandas_dtype())
    return np.zeros(0, kind.to_pandas_dtype())


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    beside = path.with_suffix(".part")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(content, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BrokenHandover(f"{path.name} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise BrokenHandover(f"{path.name} must hold an object, got {type(content).__name__}")
    return content


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BrokenHandover(f"{path.name} cannot be read: {error}") from error


def _read_checked(folder: Path, name: str, sums: Mapping[str, Any]) -> bytes:
    content = _read_bytes(folder / name)
    if hashlib.sha256(content).hexdigest() != sums.get(name):
        raise BrokenHandover(f"{name} is not what was written: its SHA-256 is another one")
    return content


def _plain(name: Any) -> str:
    if not isinstance(name, str) or not name.replace("_", "").replace("-", "").isalnum():
        raise BrokenHandover(f"figures of {RESULT} must be names of letters, digits, - and _, got {name!r}")
    return name


def _of(told: Mapping[str, Any], file: str, key: str, *kinds: type) -> Any:
    value = told.get(key)
    if key not in told or not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise BrokenHandover(f"{key} of {file} must be {wanted}, got {value!r}")
    return value
