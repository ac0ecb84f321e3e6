import hashlib
import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.app.refit_task import read_result, read_task, write_result, write_task
from monitor.errors import BrokenHandover
from monitor.maps.labelled import LabelledEvents
from monitor.recalibration.fitting_task import RefitOutcome, RefitTask
from tests.recalibration.samples import sample


def task(events: LabelledEvents, **changes: Any) -> RefitTask:
    plain = RefitTask("rc_1", "churn", "7", "lore", {"gamma": 0.4, "bins": None}, 1_700_100_000_000, events)
    return replace(plain, **changes)


OUTCOME = RefitOutcome(b"map", {"fit": {"n": 3}}, {"reliability": b"<svg/>", "local_map": b"<svg></svg>"})


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
    write_result(tmp_path, OUTCOME)
    found = read_result(tmp_path)
    assert (found.artifact, found.comparison, found.figures) == (OUTCOME.artifact, OUTCOME.comparison, OUTCOME.figures)
    assert found.error is None
    assert (tmp_path / "figures" / "reliability.svg").read_bytes() == b"<svg/>"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["artifact.arrow", "figures", "result.json"]


def test_a_failure_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_result(tmp_path, RefitOutcome(error="NotEnoughData", detail="70 labelled events"))
    found = read_result(tmp_path)
    assert (found.error, found.detail, found.artifact) == ("NotEnoughData", "70 labelled events", None)


def damage(folder: Path, file: str, content: bytes | None) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("result.json", None),
        ("result.json", b""),
        ("result.json", b'{"comparison": {'),
        ("result.json", b"[]"),
        ("result.json", b"{}"),
        ("result.json", b'{"comparison": {}, "figures": []}'),
        ("result.json", b'{"error": "KeyError", "detail": "x"}'),
        ("result.json", b'{"error": "InputError"}'),
        ("artifact.arrow", None),
        ("artifact.arrow", b"ma"),
        ("figures/local_map.svg", None),
        ("figures/local_map.svg", b"<svg>"),
    ],
)
def test_half_a_result_is_none(tmp_path: Path, file: str, content: bytes | None) -> None:
    write_result(tmp_path, OUTCOME)
    damage(tmp_path, file, content)
    with pytest.raises(BrokenHandover, match=r"result\.json|artifact\.arrow|local_map\.svg"):
        read_result(tmp_path)


def test_a_figure_of_another_folder_is_refused(tmp_path: Path) -> None:
    write_result(tmp_path, OUTCOME)
    told = json.loads((tmp_path / "result.json").read_bytes())
    (tmp_path / "secret.svg").write_bytes(b"x")
    told["figures"] = ["../secret"]
    told["sha256"]["figures/../secret.svg"] = hashlib.sha256(b"x").hexdigest()
    (tmp_path / "result.json").write_text(json.dumps(told))
    with pytest.raises(BrokenHandover, match=r"names of letters, digits, - and _, got '\.\./secret'"):
        read_result(tmp_path)


@pytest.mark.parametrize("file", ["task.json", "events.arrow", "champion.arrow"])
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
    whole = bytearray((tmp_path / "events.arrow").read_bytes())
    rng = np.random.default_rng(1)
    for place in rng.integers(len(whole) // 4, len(whole) // 2, 20).tolist():
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        (tmp_path / "events.arrow").write_bytes(damaged)
        try:
            found = read_task(tmp_path).events
        except BrokenHandover:
            continue
        # Only padding may differ.
        assert found.content_hash() == sample(2000).content_hash()


def test_values_of_another_kind_are_named(tmp_path: Path) -> None:
    write_task(tmp_path, task(sample(300)))
    told = json.loads((tmp_path / "task.json").read_bytes())
    (tmp_path / "task.json").write_text(json.dumps(told | {"created_ms": "now"}))
    with pytest.raises(BrokenHandover, match=r"created_ms of task\.json must be int, got 'now'"):
        read_task(tmp_path)
    (tmp_path / "task.json").write_text(json.dumps(told | {"seed": True}))
    with pytest.raises(BrokenHandover, match=r"seed of task\.json must be int, got True"):
        read_task(tmp_path)


def test_an_outcome_that_is_neither_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must have an artifact and a comparison"):
        write_result(tmp_path, RefitOutcome(artifact=b"map"))
