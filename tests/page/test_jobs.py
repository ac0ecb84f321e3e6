"""What people come to do, as a person does it: acknowledge, refit, promote, roll back; with a key, over a restart."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from monitor.http.recalibration_schemas import RefitBody
from tests.http.keys import Keys
from tests.long import short_of
from tests.page.site import Site
from tests.page.test_sessions import log_in, look_again


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Site]:
    """A service that the test may change; it wants keys."""
    with Site(tmp_path, Keys()) as made:
        yield made


def test_an_alert_is_found_read_and_acknowledged_with_a_note(page: Page, own: Site) -> None:
    log_in(page, f"{own.url}/", own.keys("write"))
    page.get_by_role("navigation").get_by_role("link", name="Alerts").click()
    row = page.locator("tbody tr")
    expect(row).to_contain_text("firing")
    evidence = row.get_by_text(re.compile("x the alert line$"))
    expect(evidence).to_have_attribute("title", re.compile(r"^evidence 10\^\d+\.\d, the alert line is 10\^5\.0$"))
    row.get_by_role("link", name="Predictions are wrong").click()
    expect(page.locator(".lead")).to_contain_text("too sure of themselves since")
    expect(page.locator(".facts")).to_contain_text("Changed")
    segments = page.locator("section", has=page.get_by_role("heading", name="For whom"))
    expect(segments.get_by_role("row", name="region=eu")).to_contain_text("3,200")
    expect(page.get_by_role("heading", name="Before the change")).to_be_visible()
    expect(page.locator("code")).to_contain_text("monitor recalibrate churn")
    page.get_by_role("button", name="Acknowledge").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It stays open until predictions are fine again")
    dialog.get_by_label("Note").fill("the <b>upstream</b> join was fixed")
    dialog.get_by_label("Assigned to").fill("ada")
    dialog.get_by_label("Silent").select_option("for 8 hours")
    dialog.get_by_role("button", name="Acknowledge").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("main > .bar")).to_contain_text("acknowledged")
    history = page.locator("section", has=page.get_by_role("heading", name="History and notes"))
    expect(history.get_by_role("row").last).to_contain_text("key:write")
    expect(history.get_by_role("row").last).to_contain_text("the <b>upstream</b> join was fixed")
    facts = page.locator(".facts")
    expect(facts).to_contain_text("key:write assigned to ada")
    expect(facts).to_contain_text("Silent until")
    assert own.service.alerts is not None
    alert = own.service.alerts.alert(own.alert.id)
    assert (alert.acknowledged_by, alert.assigned_to) == ("key:write", "ada")
    # A note is one more of the thread, and changes neither who has it nor until when it is silent.
    page.get_by_role("button", name="Add a note").click()
    dialog.get_by_label("Note").fill("it was")
    dialog.get_by_role("button", name="Add a note").click()
    expect(history.get_by_role("row").last).to_contain_text("it was")
    expect(history.get_by_role("row")).to_have_count(4)
    noted = own.service.alerts.alert(own.alert.id)
    assert (noted.assigned_to, noted.muted_until_ms) == (alert.assigned_to, alert.muted_until_ms)
    assert noted.muted_until_ms is not None


def test_the_list_of_alerts_is_filtered_and_its_url_holds_the_filters(page: Page, own: Site) -> None:
    own.fire(model="fraud", version="7", kind="change")
    log_in(page, f"{own.url}/alerts", own.keys("read"))
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    page.get_by_label("Kind").select_option("outcomes have changed")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("fraud")
    page.get_by_label("State").select_option("resolved")
    expect(page.locator("main")).to_contain_text("No alert fits")
    assert page.url == f"{own.url}/alerts?kind=change&state=resolved"
    page.get_by_label("State").select_option("all")
    page.get_by_label("Kind").select_option("all")
    typed = page.get_by_label("Model")
    typed.fill("churn")
    # What comes in the meantime leaves what is being typed.
    own.fire(model="fraud", version="7", kind="calibration")
    expect(rows).to_have_count(3)
    expect(typed).to_have_value("churn")
    page.keyboard.press("Enter")
    expect(rows).to_have_count(1)
    page.reload()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("churn")
    expect(page.get_by_label("Model")).to_have_value("churn")


def test_a_model_is_refitted_from_its_alert_promoted_and_rolled_back(page: Page, own: Site) -> None:
    log_in(page, f"{own.url}/alerts/{own.alert.id}", own.keys("write", "promote"))
    page.get_by_role("button", name="Refit since the change").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It serves only once it is promoted")
    dialog.get_by_label("Method").select_option("isotonic")
    dialog.get_by_role("button", name="Refit since the change").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("for churn")
    expect(page.locator("main > .bar")).to_contain_text("queued")
    refit = page.url.rpartition("/")[2]
    job = own.refits.store.job(refit)
    assert (job.version, job.since_ms, job.method) == ("8", own.alert.finding.since_ms, "isotonic")
    own.refits.end(refit, comparison=RefitBody.example()["comparison"])
    # The page asks by itself.
    expect(page.get_by_role("heading", name="The guard passed it")).to_be_visible()
    page.get_by_role("button", name="Let it serve").click()
    expect(dialog).to_contain_text("in place of the map that serves")
    expect(dialog).to_contain_text("The guard passed it. Better than no map on 6,000 later events")
    dialog.get_by_label("Note").fill("agreed with pricing")
    dialog.get_by_role("button", name="Let it serve").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("main > .bar")).to_contain_text("serves")
    assert own.refits.serving.champion("churn", "8").map_id == refit
    page.get_by_role("button", name="Roll back").click()
    expect(dialog).to_contain_text(f"The map that served before ({own.champion}) serves again")
    dialog.get_by_role("button", name="Roll back").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("main > .bar")).to_contain_text("rolled back")
    assert own.refits.serving.champion("churn", "8").map_id == own.champion
    expect(page.get_by_role("button", name="Let it serve")).to_have_count(0)
    page.goto(f"{own.url}/alerts/{own.alert.id}")
    expect(page.locator("main")).to_contain_text("1 refit since:")


def test_what_is_refused_is_reported_where_it_was_asked(page: Page, own: Site) -> None:
    log_in(page, f"{own.url}/recalibrations/{own.candidate}", own.keys("promote"))
    other = own.refit()

    def overtake(route: Route) -> None:
        # Somebody else lets another map serve at the click itself: a moment earlier the page takes its button away.
        own.refits.promote(other, actor="ada", note="")
        route.continue_()

    page.route("**/promotion", overtake)
    page.get_by_role("button", name="Let it serve").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Let it serve").click()
    expect(dialog.get_by_role("alert")).to_contain_text("409 Conflict")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator(".lead")).to_contain_text("It may not serve")


@pytest.mark.parametrize(
    ("roles", "buttons"),
    [
        (("read",), {}),
        (("write:fraud",), {}),
        (("write",), {"alert": ["Acknowledge", "Refit since the change"]}),
        (("write", "promote:churn"), {"alert": ["Acknowledge", "Refit since the change"], "refit": ["Let it serve"]}),
    ],
    ids=str,
)
def test_who_may_not_sees_no_button(
    page: Page, guarded: Site, roles: tuple[str, ...], buttons: dict[str, list[str]]
) -> None:
    log_in(page, f"{guarded.url}/", guarded.keys(*roles))
    for name, path in {"alert": f"alerts/{guarded.alert.id}", "refit": f"recalibrations/{guarded.candidate}"}.items():
        page.goto(f"{guarded.url}/{path}")
        if roles == ("write:fraud",):
            expect(page.get_by_role("alert")).to_contain_text("404 Not Found")
        else:
            expect(page.locator(".lead")).to_be_visible()
        assert page.locator("main > .bar button").all_inner_texts() == buttons.get(name, [])


def test_a_session_that_is_lost_ends_at_the_log_in_and_goes_on_where_it_was(page: Page, own: Site) -> None:
    log_in(page, f"{own.url}/alerts/{own.alert.id}", own.keys("write"))

    def revoke(route: Route) -> None:
        # At the click itself: a moment earlier, what the page asks for by itself would end the session first.
        own.keys.revoke("write")
        own.service.clock.advance(60)
        route.continue_()

    page.route("**/acknowledgement", revoke)
    page.get_by_role("button", name="Acknowledge").click()
    page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    expect(page.locator("main")).to_contain_text("Your session is over. The API key was revoked")
    assert "too sure of themselves" not in (page.text_content("body") or "")
    page.get_by_label("API key").fill(own.keys("write", "promote"))
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("too sure of themselves")
    assert page.url.endswith(own.alert.id)


@pytest.mark.parametrize("path", short_of(["", "alerts", "recalibrations"], 1))
def test_a_service_that_restarts_under_the_page_is_back_by_itself(page: Page, tmp_path: Path, path: str) -> None:
    with Site(tmp_path) as site:
        page.goto(f"{site.url}/{path}")
        main = page.locator("main")
        expect(main).to_contain_text("churn")
        site.stop()
        look_again(page)
        expect(main).to_contain_text(f"The service does not answer at {site.url}/: is it running")
        expect(main).to_contain_text("churn")  # what was known is still shown
        site.start()
        look_again(page)
        expect(main).not_to_contain_text("does not answer")
        expect(main).to_contain_text("churn")
