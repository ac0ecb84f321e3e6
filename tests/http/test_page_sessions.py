"""How people log in, and what they then see: in a real browser that asks a real server."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

from monitor.access.model import Principal
from monitor.http.html import read_page
from monitor.http.limits import Limits
from monitor.http.problems import SESSION_COOKIE
from monitor.http.recalibration_schemas import RefitBody
from monitor.http.server import ApiServer
from tests.http.keys import Keys
from tests.http.refits import Refits
from tests.http.service import Service
from tests.real.browser import Browser
from tests.snapshots import report, snapshot

pytestmark = pytest.mark.timeout(1800)  # the first time, the browser may have to be fetched

STRANGER = "cmk_000000000000_" + "A" * 43
WIDTH = 1200
NARROW = 400


class Site(NamedTuple):
    """A service that wants keys, and what it knows."""

    url: str
    service: Service
    keys: Keys
    candidate: str
    champion: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    refits, keys = Refits(tmp_path_factory.mktemp("refits")), Keys()
    for roles in (
        ["read"],
        ["read:churn"],
        ["write", "promote"],
        ["write", "promote:churn"],
        ["read:org/model"],
        ["write:fraud"],
    ):
        keys(*roles)
    service = Service(refits=refits, limits=Limits(failures_per_minute=10**6))
    service.authenticator = keys.authenticator(service.clock)
    service.show(snapshot([report("churn", window="24h"), report("fraud", window="24h")]))
    ids = []
    for _ in range(2):
        order = refits.request(refits.make_request("churn"), actor="key:nightly")[0]
        ids.append(refits.end(order.id, comparison=RefitBody.example()["comparison"]).id)
        if len(ids) == 1:
            refits.promote(order.id, actor="key:nightly", note="")
    with ApiServer(service.app(), port=0) as server:
        yield Site(server.url, service, keys, candidate=ids[1], champion=ids[0])
    refits.close()


@pytest.fixture(scope="module")
def one_browser() -> Iterator[Browser]:
    with Browser(width=WIDTH) as browser:
        yield browser


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """A browser that nobody has logged in with, and that must not complain."""
    one_browser.forget()
    one_browser.resize(WIDTH)
    one_browser.complaints.clear()
    yield one_browser
    assert one_browser.complaints == []


def log_in(browser: Browser, url: str, key: str) -> None:
    browser.open(url)
    browser.until("document.activeElement.id === 'key'")
    browser.type(key)
    browser.press("Enter")
    browser.sees("Log out")


def fits(browser: Browser) -> bool:
    answer: bool = browser.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    return answer


def test_somebody_logs_in_sees_models_and_logs_out(browser: Browser, site: Site) -> None:
    key = site.keys("write", "promote:churn")
    log_in(browser, f"{site.url}/", key)
    browser.sees("fraud")
    # What the evidence says: once for a version, whatever the number of its windows.
    pills, versions = "[...document.querySelectorAll('td.verdict')]", "tr td:nth-child(2).name:not(.again)"
    said = browser.evaluate(f"{pills}.map((cell) => cell.querySelector('.pill').textContent)")
    assert set(said) == {"no evidence yet"}
    assert browser.evaluate(f"{pills}.reduce((rows, cell) => rows + cell.rowSpan, 0)") == browser.evaluate(
        "document.querySelectorAll('tbody tr').length"
    )
    assert len(said) == browser.evaluate(f"document.querySelectorAll('{versions}').length")
    assert "key:write promote:churn may write, promote (churn)" in " ".join(browser.text().split())
    assert "Log in" not in browser.text()
    browser.sees("Metrics")  # To write for all is to read all.
    (cookie,) = browser.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["session"]) == (
        SESSION_COOKIE,
        True,
        "Strict",
        True,
    )
    # No script can read it, and the page has not kept it.
    assert browser.evaluate("document.cookie + localStorage.length + sessionStorage.length") == "00"
    assert browser.evaluate("document.getElementById('key').value") == ""
    assert key not in browser.evaluate("document.documentElement.outerHTML + location.href")
    browser.open(f"{site.url}/")
    browser.sees("fraud")
    browser.evaluate("document.getElementById('logout').click()")
    browser.sees("You are logged out.")
    assert "fraud" not in browser.evaluate("document.body.textContent")
    assert browser.cookies() == []
    browser.open(f"{site.url}/")
    browser.sees("show who you are")


def test_a_link_to_a_report_ends_at_the_log_in_and_returns(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/v1/models/churn/report?window=24h")
    browser.until("document.activeElement.id === 'key'")
    browser.type(site.keys("read:churn"))
    browser.press("Enter")
    browser.sees("Calibration of churn")
    assert browser.evaluate("location.pathname + location.search") == "/v1/models/churn/report?window=24h"
    browser.evaluate("document.querySelector('nav a').click()")
    browser.sees("Log out")
    # What this key may not read is a problem, and no reason to log in.
    browser.open(f"{site.url}/v1/models/fraud/report")
    browser.sees("404 Not Found")
    assert "Log in" not in browser.text()
    # The browser says itself that these addresses were answered 401 and 404.
    browser.complaints.clear()


OVERTAKEN = """(async () => {
  const load = page.load;
  page.load = async () => { const draw = await load(); await logOut(); return draw; };
  await refresh();
})()"""


@pytest.mark.parametrize("path", ["/", "/recalibrations"])
def test_an_answer_that_comes_after_the_log_out_is_not_shown(browser: Browser, site: Site, path: str) -> None:
    log_in(browser, site.url + path, site.keys("read:churn"))
    browser.sees("churn")
    browser.evaluate(OVERTAKEN)
    browser.sees("You are logged out.")
    assert "churn" not in browser.evaluate("document.querySelector('#data').textContent")


def test_a_wrong_key_is_said_to_be_wrong_and_may_be_mended(browser: Browser, site: Site) -> None:
    browser.open(f"{site.url}/")
    browser.until("document.activeElement.id === 'key'")
    browser.type(STRANGER)
    browser.press("Enter")
    browser.sees("The API key is not known")
    assert browser.evaluate("document.getElementById('key').getAttribute('aria-invalid')") == "true"
    assert browser.cookies() == []
    # What is wrong is selected, so that the right one takes its place; and the mouse is not needed.
    browser.type(site.keys("read"))
    browser.press("Tab")
    browser.until("document.activeElement.textContent === 'Log in'")
    browser.press("Enter")
    browser.sees("fraud")
    browser.until("document.activeElement.tagName === 'H1'")


def test_a_key_for_one_model_shows_that_and_no_links_that_would_be_refused(browser: Browser, site: Site) -> None:
    log_in(browser, f"{site.url}/", site.keys("read:churn"))
    browser.sees("prior shift")
    shown = browser.text()
    assert "fraud" not in shown
    assert "Metrics" not in shown
    browser.open(f"{site.url}/recalibrations")
    browser.sees("waits to be promoted")
    assert "Audit trail" not in browser.text()


def test_a_refit_is_offered_to_those_who_may_decide(browser: Browser, site: Site) -> None:
    log_in(browser, f"{site.url}/recalibrations/{site.candidate}", site.keys("write", "promote:churn"))
    browser.sees(f"Let it serve with monitor promote {site.candidate}")
    browser.until("document.querySelector('figure img').naturalWidth > 0")
    browser.open(f"{site.url}/recalibrations/{site.champion}")
    browser.sees("Take it back with monitor rollback churn --version 8")
    browser.evaluate("document.getElementById('logout').click()")
    browser.sees("You are logged out.")
    assert "churn" not in browser.evaluate("document.title + document.querySelector('main').textContent")
    browser.until("document.activeElement.id === 'key'")
    browser.type(site.keys("read:churn"))
    browser.press("Enter")
    browser.sees("that takes the role promote for churn, which key:read:churn does not hold")
    assert "monitor rollback" not in browser.text()
    browser.open(f"{site.url}/recalibrations/{site.candidate}")
    browser.sees("that takes the role promote for churn")
    assert "monitor promote" not in browser.text()


def test_asking_for_a_refit_is_offered_to_those_who_may(browser: Browser, site: Site) -> None:
    log_in(browser, f"{site.url}/recalibrations", site.keys("read:org/model"))
    browser.sees("Asking for one takes the role write.")
    assert "monitor recalibrate" not in browser.text()
    browser.evaluate("document.getElementById('logout').click()")
    browser.sees("You are logged out.")
    browser.until("document.activeElement.id === 'key'")
    browser.type(site.keys("write:fraud"))
    browser.press("Enter")
    browser.sees("monitor recalibrate MODEL --wait")


def test_a_model_that_one_may_not_read_is_not_there(browser: Browser, site: Site) -> None:
    log_in(browser, f"{site.url}/recalibrations/{site.candidate}", site.keys("read:org/model"))
    browser.sees(f"404 Not Found: no refit is called '{site.candidate}'")


def test_a_session_that_is_revoked_ends_while_one_looks(browser: Browser, site: Site) -> None:
    log_in(browser, f"{site.url}/", site.keys("write", "promote"))
    browser.sees("fraud")
    site.keys.revoke("write", "promote")
    site.service.clock.advance(60)
    # It would ask by itself within five seconds.
    browser.evaluate("refresh()")
    browser.sees("Your session is over. The API key was revoked: use another one.")
    assert "fraud" not in browser.evaluate("document.body.textContent")
    # Nobody logs in twice by accident, and nothing asks for what would be refused.
    missing = site.service.refused.counts["missing"]
    browser.evaluate("refresh()")
    assert site.service.refused.counts["missing"] == missing


@pytest.mark.parametrize("path", ["/", "/recalibrations", "/recalibrations/rc_none"])
def test_nothing_is_wider_than_a_telephone(browser: Browser, site: Site, path: str) -> None:
    browser.resize(NARROW)
    browser.open(site.url + path)
    browser.sees("show who you are")
    assert fits(browser)
    log_in(browser, site.url + path, site.keys("write", "promote:churn"))
    browser.until("document.querySelector('tbody tr, #problem:not([hidden])')")
    assert fits(browser)


def test_where_access_control_is_off_nobody_is_asked(browser: Browser) -> None:
    service = Service()
    service.show(snapshot([report("churn", window="24h")]))
    with ApiServer(service.app(), port=0) as server:
        browser.open(f"{server.url}/")
        browser.sees("prior shift")
        browser.sees("Metrics")
        assert "Log" not in browser.text()
        assert "anonymous" not in browser.text()
    # And then it is away.
    browser.evaluate("refresh()")
    browser.sees(f"The service does not answer at {server.url}/: is it running")
    browser.sees("not ready")
    assert "prior shift" in browser.text(), "what was known is still shown"


def test_too_many_wrong_keys_are_told_how_long_to_wait(browser: Browser) -> None:
    service, keys = Service(limits=Limits(failures_per_minute=1)), Keys()
    service.authenticator = keys.authenticator(service.clock)
    with ApiServer(service.app(), port=0) as server:
        browser.open(f"{server.url}/")
        for said in ("is not known", "Too many wrong keys"):
            browser.until("document.activeElement.id === 'key'")
            browser.type(STRANGER)
            browser.press("Enter")
            browser.sees(said)
        browser.sees("; try again in ")
        browser.open("about:blank")


class Known:
    """Knows everybody, and has nothing for them."""

    def authenticate(self, credential: str) -> Principal:
        return Principal(f"oidc:{credential}", (), "the token has no claim roles")

    def recall(self, credential: str) -> None:
        return None


def test_who_is_known_and_may_do_nothing_hears_why(browser: Browser) -> None:
    with ApiServer(Service(authenticator=Known()).app(), port=0) as server:
        browser.open(f"{server.url}/")
        browser.until("document.activeElement.id === 'key'")
        browser.type("alice")
        browser.press("Enter")
        browser.sees("You are known, but may see nothing.")
        browser.sees("oidc:alice holds nothing: the token has no claim roles.")
        browser.open("about:blank")


class Proxy(BaseHTTPRequestHandler):
    """Has the page, and has lost the service."""

    def do_GET(self) -> None:
        body = read_page("home.html") if self.path == "/" else "<h1>no upstream</h1>"
        self.send_response(200 if self.path == "/" else 502)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
        """Say nothing."""


def test_what_is_no_answer_of_the_service_is_said_to_be_none(browser: Browser) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        browser.sees("502 Bad Gateway: this is no answer of the service")
        browser.open("about:blank")
        server.shutdown()
