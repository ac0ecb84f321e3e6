"""What all pages have in common: they are drawn under their policy, fit a phone, and outlive their service."""

import pytest
from playwright.sync_api import Page, expect

from monitor.events.times import format_time
from monitor.page.assets import assets
from tests.page.saving import saved_rows
from tests.page.site import Site

PATHS = [
    "",
    "models/churn",
    "reports/churn",
    "alerts",
    "alerts/{alert}",
    "recalibrations",
    "recalibrations/{candidate}",
    "nowhere",
]


def path_of(site: Site, path: str) -> str:
    return f"{site.url}/{path.format(alert=site.alert.id, candidate=site.candidate)}"


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_drawn_and_no_wider_than_a_phone(page: Page, site: Site, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(path_of(site, path))
    expect(page.get_by_role("link", name="Fleet")).to_be_visible()
    expect(page.locator("main")).to_contain_text("no GET /nowhere" if path == "nowhere" else "churn")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_lists_are_saved_as_csv_with_exact_times_and_numbers(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/alerts?state=open")
    (heads, row) = saved_rows(page, "alerts")
    alert = dict(zip(heads, row, strict=True))
    assert (alert["State"], alert["Model"], alert["Version"]) == ("firing", "churn", "8")
    assert alert["Summary"] == site.alert.finding.summary
    assert float(alert["Evidence (log10)"]) == site.alert.finding.log10_evidence
    assert alert["Changed"] == format_time(site.alert.finding.since_ms)
    page.goto(f"{site.url}/recalibrations")
    heads, *rows = saved_rows(page, "refits")
    refits = [dict(zip(heads, row, strict=True)) for row in rows]
    assert [(one["Refit"], one["State"]) for one in refits] == [
        (site.candidate, "candidate"),
        (site.champion, "serves"),
    ]
    assert refits[0]["Method"] == "beta"
    assert refits[0]["By"] == "key:nightly"


def test_a_window_of_the_last_predictions_says_that_it_may_hold_more(page: Page, site: Site) -> None:
    page.goto(path_of(site, "models/org/model"))
    expect(page.get_by_role("combobox", name="Window")).to_contain_text("at least the last 10,000")


@pytest.mark.parametrize("path", ["nowhere", "v1/models/x/coverage"])
def test_a_problem_is_a_page_also_without_scripts(page: Page, site: Site, path: str) -> None:
    page.route("**/assets/**", lambda route: route.abort())
    page.goto(f"{site.url}/{path}")
    expect(page.get_by_role("heading")).to_have_text("404 Not Found")


def test_where_access_control_is_off_nobody_is_asked_to_log_in(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/")
    expect(page.locator("main")).to_contain_text("fraud")
    text = page.inner_text("body")
    assert "Log" not in text
    assert "anonymous" not in text


def test_docs_are_drawn_under_their_policy(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/docs")
    expect(page.locator("#operations-tag-access")).to_be_visible()
    expect(page.get_by_role("button", name="Authorize").first).to_be_visible()
    expect(page.locator("body")).to_contain_text("/v1/models/{model}/recalibrations")


def test_no_page_writes_text_as_markup() -> None:
    """Names of models come from the producers of events."""
    for name, content in assets().items():
        if name.endswith(".js") and not name.startswith("vendor/"):
            for way in (b"innerHTML", b"outerHTML", b"insertAdjacentHTML", b"document.write", b"eval("):
                assert way not in content, name
