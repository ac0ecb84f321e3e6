import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.errors import BrokenHandover
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.task_folder import RefitResult, RefitTask, read_result, read_task, write_result, write_task
from tests.recalibration.samples import sample


def task(events: LabelledEvents, **changes: Any) -> RefitTask:
    plain = RefitTask("rc_1", "churn", "7", "lore", {"gamma": 0.4, "bins": None}, 1_700_100_000_000, events)
    return replace(plain, **changes)


RESULT = RefitResult(b"map", {"fit": {"n": 3}}, {"reliability": b"<svg/>", "local_map": b"<svg></svg>"})


@pytest.mark.parametrize(
    "events",
    [
        sample(20_000, weighted=True),
        sample(500, dimensions=None),
        sample(500, classes=4),
        sample(3).select(slice(0, 0)),
    ],
    ids=["weighted", "without features", "many classes", "none"],
)
@pytest.mark.parametrize(
    "changes",
    [{}, {"window_ms": 5000, "champion": b"\0map", "left_out": {"ohne Merkmal": 3}, "seed": 4, "tolerance": 0.2}],
)
def test_a_task_is_read_as_it_was_written(tmp_path: Path, events: LabelledEvents, changes: dict[str, Any]) -> None:
    written = task(events, **changes)
    write_task(tmp_path, written)
    found = read_task(tmp_path)
    assert found.events.content_hash() == events.content_hash()
    assert found.events.segments.keys() == events.segments.keys()
    for each in fields(RefitTask):
        if each.name != "events":
            assert getattr(found, each.name) == getattr(written, each.name), each.name


def test_texts_of_segments_are_kept(tmp_path: Path) -> None:
    values = ["", "größer als 3", "a,b", "\n"]
    events = LabelledEvents.of([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1], segments={"Schlüssel:x": values})
    write_task(tmp_path, task(events))
    assert read_task(tmp_path).events.segments["Schlüssel:x"].tolist() == values


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_result(tmp_path, RESULT)
    found = read_result(tmp_path)
    assert (found.artifact, found.comparison, found.figures) == (RESULT.artifact, RESULT.comparison, RESULT.figures)
    assert found.error is None
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_a_failure_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_result(tmp_path, RefitResult(error="NotEnoughData", detail="70 labelled events"))
    found = read_result(tmp_path)
    assert (found.error, found.detail, found.artifact) == ("NotEnoughData", "70 labelled events", None)


def damage(folder: Path, file: str, content: bytes | None) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b'{"comparison": {',
        b"[]",
        b"{}",
        b'{"comparison": {}, "figures": {}}',
        b'{"artifact": "bWFw"}',
        b'{"artifact": "no base64", "comparison": {}}',
        b'{"error": "KeyError", "detail": "x"}',
    ],
)
def test_half_a_result_is_none(tmp_path: Path, content: bytes | None) -> None:
    write_result(tmp_path, RESULT)
    damage(tmp_path, "result.json", content)
    with pytest.raises(BrokenHandover, match=r"result\.json"):
        read_result(tmp_path)


@pytest.mark.parametrize("file", ["task.json", "events.npz", "champion.arrow"])
@pytest.mark.parametrize("share", [None, 0.0, 0.5, 0.99])
def test_half_a_task_is_none(tmp_path: Path, file: str, share: float | None) -> None:
    write_task(tmp_path, task(sample(300), champion=b"champion"))
    whole = (tmp_path / file).read_bytes()
    damage(tmp_path, file, None if share is None else whole[: int(share * len(whole))])
    if file == "champion.arrow" and share is not None:
        assert read_task(tmp_path).champion == whole[: int(share * len(whole))]  # whoever reads the map finds out
        return
    with pytest.raises(BrokenHandover, match=file.replace(".", r"\.")):
        read_task(tmp_path)


def test_events_that_were_changed_are_found_out(tmp_path: Path) -> None:
    write_task(tmp_path, task(sample(2000)))
    whole = bytearray((tmp_path / "events.npz").read_bytes())
    rng = np.random.default_rng(1)
    for place in rng.integers(len(whole) // 4, len(whole) // 2, 20).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        (tmp_path / "events.npz").write_bytes(damaged)
        try:
            found = read_task(tmp_path).events
        except BrokenHandover:
            continue
        # Only fields of the archive that are not read may differ.
        assert found.content_hash() == sample(2000).content_hash()


def test_a_task_without_a_field_is_refused(tmp_path: Path) -> None:
    write_task(tmp_path, task(sample(300)))
    content = json.loads((tmp_path / "task.json").read_bytes())
    del content["content_hash"]
    (tmp_path / "task.json").write_text(json.dumps(content))
    with pytest.raises(BrokenHandover, match=r"task\.json has no 'content_hash'"):
        read_task(tmp_path)


def test_a_result_that_is_neither_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="must have an artifact and a comparison"):
        RefitResult(artifact=b"map")
