"""How people log in, and what they then see."""

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from monitor.access.model import Principal
from monitor.http.problems import SESSION_COOKIE
from monitor.http.server import ApiServer
from tests.http.keys import Keys
from tests.http.service import Service
from tests.page.site import Site

STRANGER = "cmk_000000000000_" + "A" * 43


def log_in(page: Page, url: str, key: str) -> None:
    page.goto(url)
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()


def look_again(page: Page) -> None:
    """Let the page ask at once, as when somebody returns to its tab; it would ask by itself within ten seconds."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_somebody_logs_in_sees_models_and_logs_out(page: Page, context: BrowserContext, guarded: Site) -> None:
    key = guarded.keys("write", "promote:churn")
    log_in(page, f"{guarded.url}/", key)
    # What was refused before the log-in is not shown after it.
    refused = page.get_by_role("alert")
    expect(page.locator("table.fleet").or_(refused).first).to_be_visible()
    assert refused.count() == 0
    expect(page.locator("main")).to_contain_text("fraud")
    expect(page.locator(".who")).to_contain_text("key:write promote:churn")
    (cookie,) = context.cookies()
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (
        SESSION_COOKIE,
        True,
        "Strict",
        -1,
    )
    # No script can read it, and the page has not kept it.
    assert page.evaluate("document.cookie + localStorage.length + sessionStorage.length") == "00"
    assert key not in page.content() + page.url
    page.reload()
    expect(page.locator("main")).to_contain_text("fraud")
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("main")).to_contain_text("You are logged out.")
    assert "fraud" not in (page.text_content("body") or "")
    assert context.cookies() == []
    page.reload()
    expect(page.locator("main")).to_contain_text("show who you are")


def test_a_wrong_key_is_reported_and_may_be_corrected_without_a_mouse(
    page: Page, context: BrowserContext, guarded: Site
) -> None:
    page.goto(f"{guarded.url}/")
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(STRANGER)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The API key is not known")
    expect(page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
    assert context.cookies() == []
    # What is wrong is selected, so that the right one replaces it.
    page.keyboard.type(guarded.keys("read"))
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Log in")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("fraud")


def test_a_link_to_an_answer_ends_at_the_log_in_and_returns(page: Page, guarded: Site) -> None:
    page.goto(f"{guarded.url}/v1/audit")
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(guarded.keys("read"))
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert page.url == f"{guarded.url}/v1/audit"
    expect(page.locator("body")).to_contain_text('"entries"')


def test_what_a_key_may_not_read_is_a_problem_and_no_reason_to_log_in(page: Page, guarded: Site) -> None:
    log_in(page, f"{guarded.url}/", guarded.keys("read:churn"))
    expect(page.locator("main")).to_contain_text("churn")
    expect(page.locator("main")).not_to_contain_text("fraud")
    page.goto(f"{guarded.url}/v1/models/fraud/coverage")
    expect(page.get_by_role("heading")).to_have_text("404 Not Found")
    expect(page.get_by_role("button", name="Log out")).to_be_visible()
    expect(page.get_by_label("API key")).to_have_count(0)


@pytest.mark.parametrize("path", ["alerts", "recalibrations"])
def test_a_session_that_is_revoked_ends_under_the_page(page: Page, tmp_path: Path, path: str) -> None:
    with Site(tmp_path, Keys()) as guarded:
        log_in(page, f"{guarded.url}/{path}", guarded.keys("read:churn"))
        expect(page.locator("main")).to_contain_text("churn")
        guarded.keys.revoke("read:churn")
        guarded.service.clock.advance(60)
        look_again(page)
        expect(page.locator("main")).to_contain_text("Your session is over. The API key was revoked: use another one.")
        assert "churn" not in (page.text_content("main") or "")


def test_too_many_wrong_keys_are_told_how_long_to_wait(page: Page, tmp_path: Path) -> None:
    with Site(tmp_path, Keys(), failures_per_minute=1) as guarded:
        page.goto(f"{guarded.url}/")
        for answer in ("is not known", "Too many wrong keys"):
            expect(page.get_by_label("API key")).to_be_focused()
            page.keyboard.type(STRANGER)
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_contain_text(answer)
        expect(page.get_by_role("alert")).to_contain_text("; try again in ")


class Known:
    """Knows everybody, and grants nothing."""

    def authenticate(self, credential: str) -> Principal:
        return Principal(f"oidc:{credential}", (), "the token has no claim roles")

    def recall(self, credential: str) -> None:
        return None


def test_who_is_known_and_may_do_nothing_reads_why(page: Page) -> None:
    with ApiServer(Service(authenticator=Known()).app(), port=0) as server:
        page.goto(f"{server.url}/")
        page.get_by_label("API key").fill("alice")
        page.keyboard.press("Enter")
        main = page.locator("main")
        expect(main).to_contain_text("You are known, but may see nothing.")
        expect(main).to_contain_text("oidc:alice holds nothing: the token has no claim roles.")


def test_what_is_no_answer_of_the_service_is_reported_as_such(page: Page, site: Site) -> None:
    page.route("**/v1/**", lambda route: route.fulfill(status=502, body="<h1>no upstream</h1>"))
    page.goto(f"{site.url}/")
    expect(page.get_by_role("alert")).to_contain_text("502 Bad Gateway: this is no answer of the service")
