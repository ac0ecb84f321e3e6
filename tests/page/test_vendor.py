"""What the pages load: files of npm packages as they were published, and not much of it."""

import gzip
from pathlib import Path

import pytest

from monitor.page.assets import assets

PACKAGES = Path(__file__).parent / "node_modules"
VENDOR = Path(__file__).parents[2] / "monitor" / "page" / "static" / "vendor"
SOURCES = {
    "preact.js": "htm/preact/standalone.module.js",
    "uplot.js": "uplot/dist/uPlot.iife.min.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
    "LICENSE-htm": "htm/LICENSE",
    "LICENSE-preact": "preact/LICENSE",
    "LICENSE-uplot": "uplot/LICENSE",
}


def test_every_vendored_file_has_a_source() -> None:
    assert {path.name for path in VENDOR.iterdir()} == SOURCES.keys()


@pytest.mark.parametrize("name", SOURCES)
def test_a_vendored_file_is_that_of_the_package_in_the_lock(name: str) -> None:
    # npm compares packages with the hashes in the lock.
    assert PACKAGES.exists(), "make tests/page/node_modules/.installed"
    assert (VENDOR / name).read_bytes() == (PACKAGES / SOURCES[name]).read_bytes()


def test_all_files_together_are_small() -> None:
    assert sum(len(gzip.compress(content)) for content in assets().values()) < 150_000
