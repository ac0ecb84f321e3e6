"""LoRe on real tables with equal rows, in a short form; and docs/lore.md shows what was measured in the long one."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulations.lore_equal_rows import (
    CONTENDERS,
    DOCS,
    LORE,
    MODELS,
    RENDERED,
    RESULTS,
    SHIFTS,
    TABLES,
    draw,
    main,
    measure,
    rendered,
)

pytestmark = pytest.mark.simulation


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return dict(json.loads(RESULTS.read_text(encoding="utf-8")))


def test_on_a_table_with_equal_rows_lore_does_no_harm_any_more() -> None:
    """Mothers at work: a calibrated model, 56% of the rows equal to an earlier one, 7 of 10 events kept."""
    found = measure(("work", "logistic", 1))["found"]
    without, before, after = (found[name] for name in ("no map", *LORE[2:]))
    assert before["gamma"] < 0.05
    assert after["gamma"] > 0.2
    assert after["nll"] < without["nll"] + 0.01 < before["nll"] - 0.01
    assert after["group_mce"] < before["group_mce"] - 0.05


def test_strangers_share_no_row_with_those_whom_maps_are_fitted_on() -> None:
    fit, test = draw("strangers", "logistic", 1)
    assert fit.features is not None
    assert test.features is not None
    assert not {row.tobytes() for row in fit.features} & {row.tobytes() for row in test.features}


def test_gamma_is_the_same_whatever_the_hashes(kept: Mapping[str, Any]) -> None:
    """As docs/lore.md says: where all events are kept, nothing is left to chance."""
    for name, of in kept.items():
        assert len(of["shifted"]["LoRe"]) == SHIFTS
        assert len(set(of["shifted"]["LoRe"])) == 1, name


def test_the_chapter_shows_what_was_measured(kept: Mapping[str, Any]) -> None:
    page = (DOCS / "lore.md").read_text(encoding="utf-8")
    assert rendered(kept, page) == page
    assert set(kept) == {f"{table} {model}" for table in TABLES for model in MODELS}
    assert {of["seeds"] for of in kept.values()} == {10}
    for of in kept.values():
        assert set(of["measures"]["nll"]) == set(CONTENDERS)
    for name in RENDERED:
        assert f"<!-- equal rows: {name} -->" in page


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--seeds", "1", "--tables", "births", "--workers", "1"])
    printed = capsys.readouterr().out
    assert "| births trees | 1,501 |" not in printed  # a table is described once, whatever the model
    assert printed.count("| births logistic |") == len(RENDERED) - 1
