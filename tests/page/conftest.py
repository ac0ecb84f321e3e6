"""A browser for the tests of pages, and a service for it to open."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Response, expect

from tests.http.keys import Keys
from tests.page.churn import Churn, churn_site
from tests.page.site import Site
from tests.patience import PATIENCE_SECONDS
from tests.real.chromium import start_browser

_PATIENCE_MS: Final = 1000 * PATIENCE_SECONDS
_OWN: Final = {"127.0.0.1", "localhost"}
_ONLY_OWN: Final = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
_ASKED: Final = {"document", "fetch", "eventsource"}
"""Requests whose failure the page reports. A browser also writes them to the console."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the first test the time to install a browser."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1800))


@contextmanager
def _loop_of_playwright(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let Playwright's loop count as running, but not between the tests that use it: others run loops of their own."""
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, one for the run. Without the fixture ``page``, a test may not use it."""
    expect.set_options(timeout=_PATIENCE_MS)
    playwright, started = start_browser(_ONLY_OWN)
    loop = asyncio.get_running_loop()
    asyncio._set_running_loop(None)
    yield started
    with _loop_of_playwright(loop):
        started.close()
        playwright.stop()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A profile that nobody has used, of 1280 x 900 pixels.

    The test fails if a page in it writes an error or a warning to its console, throws an error, loads a file that is
    not there, or sends a request to another host. That an answer was an error is the page's to report, and is allowed.
    """
    complaints: list[str] = []

    def console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not message.text.startswith("Failed to load resource"):
            complaints.append(f"console: {message.text}")

    def request(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in {"http", "https", "ws", "wss"} and parts.hostname not in _OWN:
            complaints.append(f"request to another host: {url}")

    def response(answer: Response) -> None:
        if answer.status >= 400 and answer.request.resource_type not in _ASKED:
            complaints.append(f"{answer.status} for {answer.url}")

    with _loop_of_playwright(browser._impl_obj._loop):
        made = browser.new_context(viewport={"width": 1280, "height": 900})
        made.set_default_timeout(_PATIENCE_MS)
        made.on("console", console)
        made.on("weberror", lambda error: complaints.append(f"error: {error.error}"))
        made.on("request", lambda sent: request(sent.url))
        made.on("response", response)
        yield made
        # What a test answers in the service's place may still be under way.
        for tab in made.pages:
            tab.unroute_all(behavior="ignoreErrors")
        made.close()
    assert complaints == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A tab of the fixture ``context``."""
    return context.new_page()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service without access control, of the tests in one file."""
    with Site(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The same that wants keys: ``guarded.keys("read")``, of the roles in :data:`tests.page.site.ROLES`."""
    with Site(tmp_path_factory.mktemp("guarded"), Keys()) as made:
        yield made


@pytest.fixture(scope="module")
def churn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Churn]:
    """A service whose model ``churn`` has a past, of the tests in one file."""
    with churn_site(tmp_path_factory.mktemp("churn")) as made:
        yield made
