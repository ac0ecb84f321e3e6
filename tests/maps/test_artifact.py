import hashlib
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from monitor.errors import CorruptMap, InputError
from monitor.maps import METHODS, MapParts, apply_map, artifact, fit_map
from monitor.maps.artifact import HASH_KEY, HEADER_KEY, from_bytes, to_bytes, to_json
from monitor.maps.base import RecalibrationMap
from monitor.maps.identity import Identity
from monitor.scores.labelled import LabelledEvents
from tests.long import longer

ABOUT = {"id": "m1", "model": "churn", "version": "7", "options": {"n": None}, "fitted_on": {"n": 12}}
RECORD = Path(__file__).parents[2] / "docs" / "decisions" / "0010-a-map-is-one-arrow-file.md"

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]


def simulated(seed: int, n: int) -> LabelledEvents:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    p = expit(x[:, 0])
    return LabelledEvents.of(p, rng.random(n) < expit(x[:, 0] + x[:, 1]), features=x)


def lore(n: int = 60, **options: Any) -> RecalibrationMap:
    return fit_map(METHODS["lore"], simulated(1, n), {"gamma": 0.4, "bins": 3, **options})


def answers(chosen: RecalibrationMap) -> Floats:
    asked = simulated(2, 20)
    return apply_map(chosen, asked.prediction, features=asked.features)


def taken_apart(data: bytes) -> tuple[dict[str, Any], Arrays]:
    document = to_json(data)
    arrays = document.pop("arrays")
    document.pop("sha256")
    return document, {name: np.array(arrays[name], document["types"][name]) for name in arrays}


def written(header: Any, arrays: Arrays, *, digest: str | None = None, rows: int = 1, batches: int = 1) -> bytes:
    """A file as the decision record describes it, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    hashed = hashlib.sha256(text)
    columns = []
    for array in arrays.values():
        hashed.update(array.tobytes())
        columns.append(pa.array([array.reshape(-1)] * rows, pa.large_list(pa.from_numpy_dtype(array.dtype))))
    metadata = {HEADER_KEY: text, HASH_KEY: (hashed.hexdigest() if digest is None else digest).encode()}
    batch = pa.RecordBatch.from_arrays(columns, names=list(arrays)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        for _ in range(batches):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


# --- There and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [lambda: Identity(3), lore], ids=["identity", "lore"])
def test_a_map_comes_back_with_what_is_known_of_it(make: Callable[[], RecalibrationMap]) -> None:
    data = to_bytes(make(), ABOUT)
    read = from_bytes(data)
    assert read.map.describe() == make().describe()
    assert read.about == ABOUT
    assert to_bytes(read.map, read.about) == data


def test_a_map_that_came_back_says_the_same_to_the_last_bit() -> None:
    chosen = lore(500, gamma=None)
    np.testing.assert_array_equal(answers(from_bytes(to_bytes(chosen, {})).map), answers(chosen))


def test_another_may_write_a_map() -> None:
    header, arrays = taken_apart(to_bytes(lore(), ABOUT))
    np.testing.assert_array_equal(answers(from_bytes(written(header, arrays)).map), answers(lore()))


def test_as_json_it_holds_the_same() -> None:
    document = to_json(to_bytes(lore(), ABOUT))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["about"] == ABOUT
    assert document["method"] == "lore"
    assert document["feature_count"] == 3
    parts = MapParts(
        document["settings"],
        {name: np.array(values, document["types"][name]) for name, values in document["arrays"].items()},
    )
    np.testing.assert_array_equal(answers(METHODS["lore"].load(parts)), answers(lore()))


def test_who_has_the_record_alone_can_apply_a_map(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", RECORD.read_text(), re.DOTALL)
    assert found is not None
    code = found.group(1)
    assert "monitor" not in code
    for space in ("pca", "standardised"):
        chosen = lore(300, space=space)
        (tmp_path / "map.arrow").write_bytes(to_bytes(chosen, ABOUT))
        (tmp_path / "example.py").write_text(code)
        ran = subprocess.run(
            [sys.executable, "-I", "example.py"], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        p, x = np.array([0.2, 0.7]), np.array([[0.5, -1.0, 0.3], [0.1, 0.4, -2.0]])
        printed = [float(word) for word in ran.stdout.strip(" []\n").split()]
        np.testing.assert_allclose(printed, apply_map(chosen, p, features=x), rtol=2e-6)


@pytest.mark.parametrize(
    ("name", "many"),
    [
        pytest.param(name, many, id=f"{name}-{'classes' if many else 'binary'}")
        for name, method in METHODS.items()
        for many, able in ((False, method.binary), (True, method.many_classes))
        if able and name not in {"identity", "lore", "lore_groups"}
    ],
)
def test_who_has_the_record_alone_can_apply_a_map_of_any_method(name: str, *, many: bool) -> None:
    _, code = re.findall(r"```python\n(.*?)```", RECORD.read_text(), re.DOTALL)
    assert "monitor" not in code
    told: dict[str, Any] = {}
    exec(code, told)
    rng = np.random.default_rng(8)
    truth, group = rng.dirichlet([1.0, 1.0, 1.0], 3000), rng.choice(["eu", "us"], 3000)
    p, y = truth**2 / (truth**2).sum(axis=1, keepdims=True), (truth.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    asked = np.r_[p[:50], np.eye(3)]
    if not many:
        p, y, asked = p[:, 0], (y == 0).astype(np.int64), np.r_[p[:50, 0], 0.0, 1.0]
    past = LabelledEvents.of(p, y, segments={"region": group})
    for options in ({}, {"shape": "steps"}) if name.endswith("isotonic") else ({},):
        chosen = fit_map(METHODS[name], past, options)
        document = to_json(to_bytes(chosen, {}))
        arrays = {key: np.array(values) for key, values in document["arrays"].items()}
        for region in ("eu", "elsewhere"):
            parts = (name, document["settings"], arrays)
            if name.startswith("group_wise_"):
                parts = told["one_group"](*parts, region)
            found = told["classes" if many else "binary"](*parts, asked)
            wanted = apply_map(chosen, asked, segments={"region": np.full(len(asked), region)})
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


# --- Damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.longer
@pytest.mark.parametrize("make", [lambda: Identity(2), lore], ids=["identity", "lore"])
def test_any_byte_that_changes_leaves_the_same_map_or_none(make: Callable[[], RecalibrationMap]) -> None:
    chosen = make()
    data = to_bytes(chosen, ABOUT)
    rng = np.random.default_rng(3)
    refused = 0
    places = range(0, len(data), longer(7, 1))
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= int(rng.integers(1, 256))
        try:
            read = from_bytes(bytes(damaged))
        except CorruptMap:
            refused += 1
        else:
            assert to_bytes(read.map, read.about) == data
    assert refused > len(places) // 4


def test_a_part_of_a_map_is_none() -> None:
    data = to_bytes(lore(), ABOUT)
    for length in range(0, len(data), 7):
        with pytest.raises(CorruptMap):
            from_bytes(data[:length])


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"ARROW1", pickle.dumps({"a": 1}), bytes(10_000), b"PAR1" + bytes(100) + b"PAR1"],
    ids=["nothing", "json", "magic", "pickle", "zeros", "parquet"],
)
def test_what_is_no_arrow_file_is_no_map(data: bytes) -> None:
    with pytest.raises(CorruptMap, match="no whole Arrow file"):
        from_bytes(data)


def test_another_arrow_file_is_no_map() -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptMap, match="its schema has no metadata 'calibration-map'"):
        from_bytes(bytes(sink.getvalue()))


def test_what_is_too_large_is_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = to_bytes(lore(), ABOUT)
    monkeypatch.setattr(artifact, "MAX_BYTES", len(data) - 2**20 - 1)
    with pytest.raises(CorruptMap, match="a map takes at most"):
        from_bytes(data)
    monkeypatch.setattr(artifact, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="store fewer points, or take fewer dimensions"):
        to_bytes(lore(), ABOUT)


def changed(**said: Any) -> bytes:
    header, arrays = taken_apart(to_bytes(lore(), ABOUT))
    return written({**header, **said}, arrays)


def with_array(name: str, array: NDArray[Any] | None) -> bytes:
    header, arrays = taken_apart(to_bytes(lore(), ABOUT))
    if array is None:
        return written(header, {key: value for key, value in arrays.items() if key != name})
    return written(header, {**arrays, name: array})


def same(**options: Any) -> bytes:
    header, arrays = taken_apart(to_bytes(lore(), ABOUT))
    return written(header, arrays, **options)


POINTS_NAN = np.full((60, 3), np.nan, np.float32)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: changed(format=2), "of format 2, and this version reads 1: read it with a newer version"),
        (lambda: changed(format="1"), r"Expected `int`, got `str` - at `\$\.format`"),
        (lambda: changed(format=True), r"Expected `int`, got `bool` - at `\$\.format`"),
        (lambda: changed(method="cubic"), "method 'cubic' is not known here; there are identity"),
        (lambda: changed(method=None), r"Expected `str`, got `null` - at `\$\.method`"),
        (lambda: changed(method="identity"), "says feature_count 3, and its parts are of None"),
        (lambda: changed(classes=5), "says classes 5, and its parts are of 2"),
        (lambda: changed(feature_count=4), "says feature_count 4, and its parts are of 3"),
        (lambda: changed(segment_key="region"), "says segment_key 'region', and its parts are of None"),
        (lambda: changed(settings={}), "no setting"),
        (lambda: changed(settings=[]), r"Expected `object`, got `array` - at `\$\.settings`"),
        (lambda: changed(shapes={"points": [60]}), "is not in its header"),
        (lambda: changed(types={}), "is not in its header"),
        (lambda: changed(about="me"), r"Expected `object`, got `str` - at `\$\.about`"),
        (lambda: same(rows=2), "one row, and this has 2"),
        (lambda: same(batches=2), "one batch of records, and these are 2"),
        (lambda: same(digest="0" * 64), "does not have the SHA-256 that it says"),
        (lambda: with_array("points", POINTS_NAN), "array points of the map holds values that are not finite"),
        (lambda: with_array("points", np.zeros((60, 3))), "its header says float32"),
        (lambda: with_array("points", np.zeros((60, 2), np.float32)), "120 values, its shape is \\[60, 3\\]"),
        (lambda: with_array("hit", None), "its header names"),
        (lambda: with_array("more", np.zeros(3)), "column 'more' of the map is not in its header"),
        (lambda: written(b"[]", {}), "header cannot be read: Expected `object`"),
        (lambda: written(b"{", {}), "header cannot be read"),
        (lambda: written(b'{"format": NaN}', {}), "header cannot be read: JSON is malformed"),
        (lambda: written(b"[" * 100_000, {}), "header cannot be read"),
        (lambda: written(b"\xff", {}), "header cannot be read"),
    ],
)
def test_what_does_not_fit_is_named(data: Callable[[], bytes], message: str) -> None:
    with pytest.raises(CorruptMap, match=message):
        from_bytes(data())


@pytest.mark.parametrize("shape", [[60, 3, 1], [-60, -3], [180.0], "180", [], [0, 10**30]])
def test_a_shape_that_is_none_is_named(shape: Any) -> None:
    header, arrays = taken_apart(to_bytes(lore(), ABOUT))
    with pytest.raises(CorruptMap, match=r"header cannot be read: .* `\$\.shapes\["):
        from_bytes(written({**header, "shapes": {**header["shapes"], "points": shape}}, arrays))


@pytest.mark.parametrize("kind", [["float32"], {"float32": 1}, "float16", None])
def test_a_type_that_is_none_is_named(kind: Any) -> None:
    header, arrays = taken_apart(to_bytes(lore(), ABOUT))
    with pytest.raises(CorruptMap, match=r"header cannot be read: .* `\$\.types\["):
        from_bytes(written({**header, "types": {**header["types"], "points": kind}}, arrays))


def test_an_empty_array_of_a_vast_other_size_is_refused() -> None:
    """It has as many values as it says, and numpy has no such array."""
    header, arrays = taken_apart(to_bytes(fit_map(METHODS["histogram"], simulated(3, 60), {"bins": 1}), ABOUT))
    with pytest.raises(CorruptMap, match=r"header cannot be read: .* `\$\.shapes\["):
        from_bytes(written({**header, "shapes": {**header["shapes"], "edges": [0, 10**30]}}, arrays))


def test_missing_values_are_refused() -> None:
    header, arrays = taken_apart(to_bytes(lore(), ABOUT))
    table = pa.ipc.open_file(pa.BufferReader(written(header, arrays))).read_all()
    gaps = pa.array([[None] * 60], pa.large_list(pa.float64()))
    at = table.column_names.index("weight")
    table = table.set_column(at, pa.field("weight", gaps.type), gaps)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptMap, match="array weight of the map has missing values"):
        from_bytes(bytes(sink.getvalue()))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (MapParts({"a": np.nan}), "not JSON compliant"),
        (MapParts({}, {"a": np.array([np.inf])}), "array a of a map must be finite"),
        (MapParts({}, {"a": np.array(["x"])}), "array a of a map must be of float64"),
        (MapParts({}, {"a": np.zeros((1, 1, 1))}), "with 1 or 2 dimensions"),
    ],
)
def test_a_map_whose_parts_are_none_is_not_written(parts: MapParts, message: str) -> None:
    class Wrong(Identity):
        def parts(self) -> MapParts:
            return parts

    with pytest.raises(ValueError, match=message):
        to_bytes(Wrong(2), {})
