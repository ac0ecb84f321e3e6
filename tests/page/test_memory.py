"""A tab that stays open does not grow, while every answer differs from the last."""

from typing import Any, Final, NamedTuple

import pytest
from playwright.sync_api import CDPSession, Page, Route

from tests.page.churn import Churn
from tests.page.looks import prepare, settle, visit
from tests.page.site import Site
from tests.page.test_sessions import look_again

WARM_UP: Final = 5
UPDATES: Final = 15
_SLACK_BYTES: Final = 150_000
"""What compiled scripts and the browser's own caches still gain."""


class Used(NamedTuple):
    """What a tab holds after a collection of garbage."""

    heap_bytes: int
    nodes: int
    listeners: int


def used(devtools: CDPSession) -> Used:
    # What a finalizer keeps is free after the second time.
    for _ in range(2):
        devtools.send("HeapProfiler.collectGarbage")
    counters = devtools.send("Memory.getDOMCounters")
    heap = devtools.send("Runtime.getHeapUsage")
    return Used(heap["usedSize"], counters["nodes"], counters["jsEventListeners"])


def has_grown(early: Used, late: Used) -> bool:
    """Whether a tab holds more than before: anything that updates leave behind is there as often as they were made."""
    return (
        late.heap_bytes > early.heap_bytes + _SLACK_BYTES
        or late.nodes > early.nodes + UPDATES
        or late.listeners > early.listeners + UPDATES
    )


def scaled(value: Any, factor: float) -> Any:
    """A JSON value with every fraction times a factor."""
    if isinstance(value, dict):
        return {key: scaled(item, factor) for key, item in value.items()}
    if isinstance(value, list):
        return [scaled(item, factor) for item in value]
    return value * factor if isinstance(value, float) else value


class Answers:
    """Lets every answer of the service differ from the last one."""

    def __init__(self, page: Page) -> None:
        self.count = 0
        # A session has no fraction, and a stream of updates no end.
        page.route(lambda url: "/v1/" in url and not url.endswith(("/session", "/updates")), self._answer)

    def _answer(self, route: Route) -> None:
        self.count += 1
        answer = route.fetch()
        route.fulfill(response=answer, json=scaled(answer.json(), 1.0 - 1e-6 * self.count))


def update(page: Page, times: int) -> None:
    for _ in range(times):
        look_again(page)
        settle(page)


@pytest.mark.long
@pytest.mark.parametrize("shown", ["model", "fleet", "alert"])
def test_a_tab_does_not_grow_with_updates(page: Page, site: Site, churn: Churn, shown: str) -> None:
    urls = {"fleet": f"{site.url}/", "model": churn.page, "alert": f"{site.url}/alerts/{site.alert.id}"}
    prepare(page, "light")
    answers = Answers(page)
    devtools = page.context.new_cdp_session(page)
    visit(page, urls[shown])
    update(page, WARM_UP)
    early, count = used(devtools), answers.count
    update(page, UPDATES)
    late = used(devtools)
    assert answers.count >= count + UPDATES, "nothing was asked for"
    assert not has_grown(early, late), (early, late)
    # It would be noticed if each update left something behind.
    page.evaluate("""() => document.addEventListener("visibilitychange", () => {
      (window.kept ??= []).push(document.querySelector("main table, main section").cloneNode(true));
    })""")
    update(page, UPDATES)
    assert has_grown(late, used(devtools))
