"""How soon a page shows what it is opened for, in a browser that has never seen it."""

from collections.abc import Callable, Iterator
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from threading import Thread

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.page.site import Site
from tests.page.states import states
from tests.snapshots import evidence, evidence_level, report, snapshot, with_evidence

ROUNDS = 7
_WATCH = """window.shown = new Promise((tell) => {
  const look = () => document.querySelector("WHAT") && requestAnimationFrame(() => tell(performance.now()));
  new MutationObserver(look).observe(document, { childList: true, subtree: true });
});"""


def milliseconds(browser: Browser, url: str, what: str) -> float:
    """From the request to the frame that shows it, of a new profile."""
    context = browser.new_context()
    context.add_init_script(_WATCH.replace("WHAT", what))
    page = context.new_page()
    page.goto(url)
    shown = page.evaluate("window.shown")
    context.close()
    return float(shown)


@pytest.fixture
def plain() -> Iterator[Callable[[str], str]]:
    """Serves text as a page of its own: the least that a browser can show it with."""
    pages: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(pages[-1])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()

        def serve(text: str) -> str:
            rows = "".join(f"<tr><td>{escape(line)}</td></tr>" for line in text.splitlines())
            pages.append(f"<!doctype html><title>plain</title><table>{rows}</table>".encode())
            return f"http://127.0.0.1:{server.server_port}/"

        yield serve
        server.shutdown()


def compare(context: BrowserContext, url: str, what: str, plain: Callable[[str], str], name: str) -> None:
    """Print how long a page takes beside its own text as rows of a plain table."""
    assert context.browser is not None
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(what)
    text = plain(page.inner_text("main"))
    page.close()
    times = [
        (milliseconds(context.browser, url, what), milliseconds(context.browser, text, "tr")) for _ in range(ROUNDS)
    ]
    ours, theirs = (median(column) for column in zip(*times, strict=True))
    print(
        f"\n{name}: shown after {ours:.0f} ms, its text alone after {theirs:.0f} ms: {ours / theirs:.1f} times as long"
    )
    assert ours < 50 * theirs


@pytest.mark.benchmark
def test_a_fleet_of_200_models(context: BrowserContext, tmp_path: Path, plain: Callable[[str], str]) -> None:
    names = [f"model-{at:04d}" for at in range(200)]
    with Site(tmp_path) as site:
        shown = snapshot(report(model=name, version="1", window="24h") for name in names)
        site.service.show(with_evidence(shown, {(name, "1"): evidence(calibration=evidence_level()) for name in names}))
        compare(context, f"{site.url}/", "main tbody tr", plain, "200 models")


@pytest.mark.benchmark
def test_the_page_of_a_model(context: BrowserContext, plain: Callable[[str], str]) -> None:
    with states() as made:
        compare(context, made.model("churn"), "main .lead", plain, "a model with its history")
