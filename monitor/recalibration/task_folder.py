"""The folder that carries a refit to its worker process and the result back.

::

    FOLDER/task.json        the task                                              written by write_task
    FOLDER/events.npz       the sample, one array per column
    FOLDER/champion.arrow   the map that serves, if any
    FOLDER/result.json      the map, comparison and figures, or an error          written by write_result

The JSON files are written last and appear whole or not at all.
"""

import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.errors import BrokenHandover
from monitor.inference.prevalence import TOLERANCE
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.data import HELD_OUT

TASK: Final = "task.json"
EVENTS: Final = "events.npz"
CHAMPION: Final = "champion.arrow"
RESULT: Final = "result.json"


@dataclass(frozen=True, eq=False)
class RefitTask:
    """All that a worker needs for one refit.

    Attributes
    ----------
    id
        Id of the refit and of its map.
    model, version
        What the predictions are of.
    method, options
        See :data:`monitor.maps.METHODS`; missing options have their defaults.
    created_ms
        When the refit started, milliseconds since the epoch; part of the artifact.
    events
        The sample, in order of time.
    window_ms
        How far back from the newest event others are used; None: since the last change of calibration, or all.
    held_out
        Share of the latest events that the fit never sees, above 0 and below 1.
    left_out
        Reason -> number of events of the sample that did not match the others.
    champion
        Artifact of the map that serves; None if there is none.
    seed
        Seed of the comparison's random draws.
    tolerance
        Error of the logits up to which a verdict is "calibrated".
    """

    id: str
    model: str
    version: str
    method: str
    options: Mapping[str, Any]
    created_ms: int
    events: LabelledEvents
    window_ms: int | None = None
    held_out: float = HELD_OUT
    left_out: Mapping[str, int] = field(default_factory=dict)
    champion: bytes | None = None
    seed: int = 0
    tolerance: float = TOLERANCE


@dataclass(frozen=True, eq=False)
class RefitResult:
    """A fitted map with its comparison and figures, or the error that prevents one.

    Attributes
    ----------
    artifact
        The map, as :func:`monitor.maps.artifact.to_bytes` wrote it; None after an error.
    comparison
        The document of docs/recalibration.md ("comparison"); None after an error.
    figures
        Name -> SVG.
    error
        Error that lies in the task, so that another attempt would fail too; ``CorruptMap`` is the champion's map.
    detail
        Message of the error.
    """

    artifact: bytes | None = None
    comparison: Mapping[str, Any] | None = None
    figures: Mapping[str, bytes] = field(default_factory=dict)
    error: Literal["NotEnoughData", "InputError", "CorruptMap"] | None = None
    detail: str | None = None

    def __post_init__(self) -> None:
        """Refuse a result that is neither a map nor an error."""
        if self.error is None and (self.artifact is None or self.comparison is None):
            raise ValueError("a result without an error must have an artifact and a comparison")


def write_task(folder: Path, task: RefitTask) -> None:
    """Write a task into an empty folder."""
    events = task.events
    columns: dict[str, NDArray[Any]] = {name: getattr(events, name) for name in _COLUMNS}
    if events.features is not None:
        columns["features"] = events.features
    # Keys of segments may hold any character, and names of arrays are file names.
    columns |= {f"segment {number}": values for number, values in enumerate(events.segments.values())}
    np.savez(folder / EVENTS, allow_pickle=False, **columns)
    if task.champion is not None:
        (folder / CHAMPION).write_bytes(task.champion)
    content = {part.name: getattr(task, part.name) for part in fields(task) if part.name not in {"events", "champion"}}
    _write(
        folder / TASK,
        {
            "task": content,
            "segments": list(events.segments),
            "content_hash": events.content_hash(),
            "champion": task.champion is not None,
        },
    )


def read_task(folder: Path) -> RefitTask:
    """Read the task of a folder. Raises BrokenHandover if it is incomplete or damaged."""
    content = _read(folder / TASK, dict[str, Any])
    try:
        return RefitTask(
            **content["task"],
            events=_read_events(folder / EVENTS, content["segments"], content["content_hash"]),
            champion=(folder / CHAMPION).read_bytes() if content["champion"] else None,
        )
    except KeyError as error:
        raise BrokenHandover(f"{TASK} has no {error}") from error
    except OSError as error:
        raise BrokenHandover(f"{CHAMPION} cannot be read: {error}") from error


def write_result(folder: Path, result: RefitResult) -> None:
    """Write the result of a refit into its folder."""
    _write(folder / RESULT, result)


def read_result(folder: Path) -> RefitResult:
    """Read the result of a refit. Raises BrokenHandover if there is none: the worker was killed or could not write."""
    return _read(folder / RESULT, RefitResult)


_T = TypeVar("_T")
_COLUMNS: Final = ("prediction", "outcome", "weight", "time_ms")


def _read_events(path: Path, segments: Sequence[str], content_hash: str) -> LabelledEvents:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as columns:
            events = LabelledEvents(
                **{name: columns[name] for name in _COLUMNS},
                features=columns.get("features"),
                segments={key: columns[f"segment {number}"] for number, key in enumerate(segments)},
            )
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BrokenHandover(f"{path.name} cannot be read: {error}") from error
    if events.content_hash() != content_hash:
        raise BrokenHandover(f"{path.name} is damaged: its {len(events)} events have another content hash")
    return events


def _write(path: Path, content: Any) -> None:
    """Write JSON, with bytes as base64."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(msgspec.json.encode(content))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _read(path: Path, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise BrokenHandover(f"{path.name} cannot be read: {error}") from error
