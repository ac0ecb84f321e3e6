"""Files that a page lets the browser save."""

import csv
from io import StringIO
from pathlib import Path

from playwright.sync_api import Page


def saved(page: Page, name: str) -> bytes:
    """The file that a button saves; its name says the kind first, such as ``CSV: alerts``."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).press("Enter")
    assert download.value.suggested_filename.endswith(f".{name[:3].lower()}")
    return Path(download.value.path()).read_bytes()


def saved_rows(page: Page, name: str) -> list[list[str]]:
    """The rows of a file of CSV that a button saves, its heads first."""
    return list(csv.reader(StringIO(saved(page, f"CSV: {name}").decode())))
