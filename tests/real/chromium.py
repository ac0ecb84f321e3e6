"""A real browser, which says what it makes of a page. Chromium is fetched where no browser is installed.

The ways are tried in this order: what stands on the path; the Debian package, installed by apt-get where that may be.
"""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.patience import PATIENCE_SECONDS
from tests.real.lock import one_at_a_time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# Where something else is being installed, apt-get waits for that.
_INSTALL = ["apt-get", "-oDPkg::Lock::Timeout=600", "install", "--yes", "--no-install-recommends", "chromium"]
_WAYS: list[list[list[str]]] = [[], [_INSTALL], [["apt-get", "update"], _INSTALL]]
"""Commands that are run before looking once more; a fresh container knows no packages yet."""


_LOCK = Path(__file__).parents[2] / ".cache" / "chromium.lock"


class ChromiumMissingError(Exception):
    """No way led to a browser. Says which were tried and what each answered."""


class Rendered(NamedTuple):
    """What the browser made of a page."""

    text: str
    """The document after it was loaded."""
    complaints: list[str]
    """What it wrote to its console: errors, refused resources."""


@cache
def chromium() -> Path:
    """Where a browser stands, after fetching it if need be."""
    # Two that install at the same time hinder each other.
    with one_at_a_time(_LOCK):
        return _fetched()


def _fetched() -> Path:
    tried = []
    for commands in _WAYS:
        for command in commands:
            try:
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
            except (OSError, subprocess.SubprocessError) as error:
                said = (getattr(error, "stderr", None) or str(error)).strip()
                tried.append(f"{' '.join(command)}: {said.splitlines()[-1] if said else error}")
        found = next((path for name in NAMES if (path := shutil.which(name))), None)
        if found is not None:
            return Path(found)
    raise ChromiumMissingError(
        "a browser is needed to look at pages: install Chromium (on Debian: apt-get install chromium) so that it is on "
        f"the path. Tried {'; '.join(tried)}"
    )


def render(page: Path, *, width: int = 1000, dark: bool = False) -> Rendered:
    """Load a page from a file, with no network, and return what became of it."""
    done = _run(page, width, dark, "--dump-dom")
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return Rendered(done.stdout, complaints)


def screenshot(page: Path, target: Path, *, width: int = 1000, dark: bool = False) -> None:
    """A picture of the top of a page."""
    _run(page, width, dark, f"--screenshot={target}")


def _run(page: Path, width: int, dark: bool, what: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        return subprocess.run(
            [
                str(chromium()),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--enable-logging=stderr",
                f"--user-data-dir={profile}",
                f"--window-size={width},1200",
                *(["--blink-settings=preferredColorScheme=0"] if dark else []),
                what,
                page.resolve().as_uri(),
            ],
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
