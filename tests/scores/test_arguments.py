"""Rows are paired by position only where no index says otherwise; numbers in messages are told apart."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import monitor
from monitor.errors import InputError
from monitor.maps import METHODS, apply_map, apply_serving_map, fit_map
from monitor.reports.evaluation.evaluate import evaluate, evaluate_binary, evaluate_classes
from monitor.scores import ClassTable, ScoreTable
from monitor.scores.arguments import number_text, sum_text
from monitor.scores.labelled import LabelledEvents

RNG = np.random.default_rng(1)
N = 60
P = RNG.random(N)
Y = (RNG.random(N) < P).astype(float)
LABELS = RNG.permutation(N)
X = RNG.random((N, 2))
BOTH = np.column_stack([1.0 - P, P])


def series(values: Any, index: Any = LABELS) -> Any:
    return pd.Series(values, index=index) if np.ndim(values) == 1 else pd.DataFrame(values, index=index)


MISPAIRED: dict[str, tuple[str, Callable[..., object]]] = {
    "evaluate": ("p and y", lambda a, b: monitor.evaluate(a(P), b(Y), draws=0)),
    "evaluate, weight": ("p and weight", lambda a, b: monitor.evaluate(a(P), Y, weight=b(P), draws=0)),
    "evaluate, times": (
        "p and time_ms",
        lambda a, b: evaluate_binary(a(P), Y, time_ms=b(np.arange(N)), draws=0),
    ),
    "evaluate, segments": (
        r"p and segments\['eu'\]",
        lambda a, b: monitor.evaluate(a(P), Y, segments={"eu": b(np.full(N, "x"))}, draws=0),
    ),
    "evaluate, features": ("p and features", lambda a, b: monitor.evaluate(a(P), Y, features=b(X), draws=0)),
    "a table": (
        r"table\['p'\] and table\['y'\]",
        lambda a, b: monitor.evaluate({"p": a(P), "y": b(Y)}, draws=0),
    ),
    "evaluate of events": ("p and y", lambda a, b: evaluate_binary(a(P), b(Y), draws=0)),
    "evaluate of classes": ("p and y", lambda a, b: evaluate_classes(a(BOTH), b(Y), draws=0)),
    "vectors": ("p and y", lambda a, b: evaluate(a(BOTH), b(Y), draws=0)),
    "features": ("p and features", lambda a, b: monitor.evaluate_local(a(P), Y, b(X), draws=0)),
    "features of outcomes": ("y and features", lambda a, b: monitor.evaluate_local(P, a(Y), b(X), draws=0)),
    "a feature": (
        r"p and features\['age'\]",
        lambda a, b: monitor.evaluate_local(a(P), Y, {"age": b(X[:, 0])}, draws=0),
    ),
    "score table": ("prediction and outcome", lambda a, b: ScoreTable.from_events(a(P), b(Y))),
    "class table": ("prediction and outcome", lambda a, b: ClassTable.from_events(a(BOTH), b(Y))),
    "labelled events": ("prediction and outcome", lambda a, b: LabelledEvents.of(a(P), b(Y))),
    "segments": (
        r"prediction and segments\['eu'\]",
        lambda a, b: LabelledEvents.of(a(P), Y, segments={"eu": b(np.full(N, "x"))}),
    ),
    "what serves": (
        r"prediction and segments\['eu'\]",
        lambda a, b: apply_serving_map(None, a(P), segments={"eu": b(np.full(N, "x"))}, name="none"),
    ),
    "a map": (
        "prediction and features",
        lambda a, b: apply_map(fit_map(METHODS["platt"], LabelledEvents.of(P, Y)), a(P), features=b(X)),
    ),
}


@pytest.mark.parametrize("name", MISPAIRED)
def test_arrays_whose_rows_are_named_otherwise_are_refused(name: str) -> None:
    pair, call = MISPAIRED[name]
    with pytest.raises(InputError, match=rf"^{pair} have different indexes") as caught:
        call(series, lambda values: series(values, np.arange(N)))
    one, other = str(caught.value).split(" have ")[0].split(" and ")
    assert f"pass {other}.loc[{one}.index] to pair them by index, or {one}.to_numpy()" in str(caught.value)
    call(series, series)
    call(series, np.asarray)
    call(np.asarray, series)
    call(list, np.asarray)


def test_what_the_message_says_pairs_them() -> None:
    p, y = series(P), series(Y).sort_index()
    with pytest.raises(InputError, match=r"pass y\.loc\[p\.index\]"):
        monitor.evaluate(p, y, draws=0)
    of_arrays = monitor.evaluate(P, Y, draws=0).to_dict()
    assert monitor.evaluate(p, y.loc[p.index], draws=0).to_dict() == of_arrays
    assert monitor.evaluate(pl.Series(P), pl.Series(Y), draws=0).to_dict() == of_arrays


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0000001, "1.0000001"),
        (np.nextafter(1.0, 2.0), "1.0000000000000002"),
        (-5e-324, "-5e-324"),
        (2.0, "2"),
        (np.nan, "nan"),
        (-np.inf, "-inf"),
        (1e300, "1e+300"),
        (1234567.0, "1234567"),
    ],
)
def test_a_number_in_a_message_is_told_from_all_others(value: float, text: str) -> None:
    assert number_text(value) == text
    assert number_text(np.float64(value)) == text


def test_a_sum_in_a_message_is_without_the_digits_of_rounding() -> None:
    assert sum([0.1] * 9) != 0.9
    assert sum_text([0.1] * 9) == "0.9"
    assert sum_text(np.array([0.5, 0.5100001])) == "1.0100001"


@pytest.mark.parametrize(
    "call",
    [
        lambda p: monitor.evaluate(p, [0, 1]),
        lambda p: ScoreTable.from_events(p, [0, 1]),
        lambda p: ClassTable.from_events(np.column_stack([p, np.zeros(2)]), [0, 1]),
        lambda p: LabelledEvents.of(p, [0, 1]),
        lambda p: apply_map(fit_map(METHODS["platt"], LabelledEvents.of(P, Y)), p),
    ],
)
def test_a_prediction_just_above_1_is_shown_as_such(call: Callable[[Any], object]) -> None:
    with pytest.raises(InputError, match=r"must be in \[0, 1\], got 1\.0000001 "):
        call([0.5, 1.0000001])
