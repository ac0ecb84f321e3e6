"""docs/contributing.md names rooms and files as they are."""

import re
from collections import Counter
from pathlib import Path

from docs.generators import house
from docs.generators.house import PACKAGE, ROOT

PAGE = house.PAGE.read_text("utf-8")


def test_the_tables_are_current() -> None:
    assert house.written(PAGE) == PAGE, "run: python -m docs.generators.house"


def test_features_have_files_and_share_none() -> None:
    assert [(of.name, glob) for of in house.FEATURES for glob in of.globs.split() if not any(PACKAGE.glob(glob))] == []
    files = Counter(file for of in house.FEATURES for file in of.files)
    assert [file for file, count in files.items() if count > 1] == []


def test_every_file_that_it_names_exists() -> None:
    paths = re.findall(r"`((?:monitor|tests|docs|helm)/[\w./-]*)`", PAGE)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / Path(path)).exists()] == []


def test_every_target_of_make_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        name
        for page in pages
        for name in re.findall(r"(?:`|^\$ )make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)
    }
    assert named - targets == set()
    assert {"demo", "broker", "check", "test"} <= named
