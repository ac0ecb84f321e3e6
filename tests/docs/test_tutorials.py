"""Every block of every tutorial runs, in its order, and prints what the page says."""

import contextlib
from pathlib import Path
from typing import Final

import pytest

from tests.docs.test_docs import DOCS, text_of
from tests.docs.tutorial import Tutorial, steps

TUTORIALS: Final = sorted((DOCS / "tutorials").glob("*.md"))
EXACT: Final = ("dataframe", "file")
"""Those whose data are drawn with a seed; the others read clocks."""
LONG_ONES: Final = frozenset({"demo", "incident", "topic"})
"""A minute each; what they show is tested elsewhere, too."""


@pytest.mark.kafka
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[pytest.mark.long] * (page.stem in LONG_ONES)) for page in TUTORIALS],
)
def test_a_tutorial_runs_as_it_is_written(page: Path, tmp_path: Path) -> None:
    tutorial = Tutorial(page, tmp_path, exact=page.stem in EXACT)
    with contextlib.chdir(tmp_path):
        tutorial.run()
    assert tutorial.ran == text_of(page).count("\n```") / 2


def test_there_are_five_and_none_is_long() -> None:
    assert [page.stem for page in TUTORIALS] == ["dataframe", "demo", "file", "incident", "topic"]
    for page in TUTORIALS:
        assert len(text_of(page).splitlines()) <= 150, page.name


def test_output_that_differs_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for exact, printed, ok in (
        (True, "one 1", True),
        (True, "one 2", False),
        (False, "one 2", True),
        (False, "one 2...", True),
        (False, "one...", True),
        (False, "two 1", False),
        (False, "...\none", False),
    ):
        page.write_text(f"\n```console\n$ echo one 1\n{printed}\n```\n", encoding="utf-8")
        with contextlib.nullcontext() if ok else pytest.raises(AssertionError):
            Tutorial(page, tmp_path, exact=exact).run()


def test_ids_that_are_printed_are_those_of_later_commands(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    shown, real = "al_0000000000000001", "al_00000000000000ff"
    block = f"$ printf 'al_%016x\\n' 255\n{shown}\n$ test {shown} = {real}\n"
    page.write_text(f"\n```console\n{block}```\n", encoding="utf-8")
    assert [step.command for step in steps(block)][1] == f"test {shown} = {real}"
    Tutorial(page, tmp_path, exact=False).run()
