"""Features: both forms, one by one and in columns."""

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.features import MAX_FEATURES, encode_features, read_feature_column, read_features
from monitor.events.fields import Rejected

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@given(numbers=st.lists(floats, min_size=1, max_size=20))
def test_both_forms_are_read_alike(numbers: list[float]) -> None:
    as_list = read_features(json.dumps(numbers).encode())
    as_text = read_features(json.dumps(packed(*numbers)).encode())
    assert as_list is not None
    assert as_text is not None
    assert as_list.dtype == as_text.dtype == np.float32
    assert as_list.tolist() == as_text.tolist() == numbers
    assert json.dumps(encode_features(numbers)) == json.dumps(packed(*numbers))


@pytest.mark.parametrize("nothing", [b"null", b"[]", b'""'])
def test_no_features(nothing: bytes) -> None:
    assert read_features(nothing) is None
    assert read_feature_column([nothing, nothing]) in ([None, None], None)


@pytest.mark.parametrize(
    "value",
    [
        7,
        True,
        {"0": 1},
        [True],
        ["1"],
        [[1.0]],
        [None],
        "AAA",
        "AA AA",
        "AAAA",
        packed(float("nan")),
        packed(1.0, float("-inf")),
        [3.5e38],
        [0.0] * (MAX_FEATURES + 1),
        packed(*[0.0] * (MAX_FEATURES + 1)),
    ],
)
def test_what_is_refused_alone_is_looked_at_closer_in_a_column(value: Any) -> None:
    raw = json.dumps(value).encode()
    with pytest.raises(Rejected) as why:
        read_features(raw)
    assert why.value.detail.startswith("features must be")
    assert read_feature_column([b"[1.0]", raw]) is None
    assert read_feature_column([raw]) is None


def test_the_most_that_fits() -> None:
    features = read_features(json.dumps([0.5] * MAX_FEATURES).encode())
    assert features is not None
    assert features.shape == (MAX_FEATURES,)


@given(rows=st.lists(st.lists(floats, max_size=5), min_size=1, max_size=8), as_text=st.booleans())
def test_a_column_reads_what_each_row_reads(rows: list[list[float]], as_text: bool) -> None:
    raws = [json.dumps(packed(*row) if as_text else row).encode() for row in rows]
    column = read_feature_column(raws)
    if column is not None:
        alone = [read_features(raw) for raw in raws]
        assert [None if row is None else row.tolist() for row in column] == [
            None if row is None else row.tolist() for row in alone
        ]
    else:
        # Forms are mixed where some of the texts are empty.
        assert as_text
        assert [] in rows
