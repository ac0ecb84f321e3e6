"""The fleet: find the model that fires, among many, and see it change."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote
from urllib.request import urlopen

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from monitor.events.model import TopicPartition
from monitor.events.times import format_time
from monitor.http.server import ApiServer
from monitor.store.model_evidence import Explanation
from monitor.stream.status import Phase, PipelineStatus
from monitor.windows.snapshot import Snapshot
from tests.http.service import RUNNING, Service
from tests.page.site import Site
from tests.patience import PATIENCE_SECONDS
from tests.snapshots import evidence, evidence_level, report, snapshot, with_evidence

LABELS: Final = {"churn": {"team": "growth"}, "fraud": {"team": "payments"}, "eta": {"team": "payments"}}
HOSTILE: Final = ["<img src=x onerror=alert(1)>", "long" * 75, "نموذج الاحتيال", "org/team/model 1", "a?b#c&d=e"]


def fleet(*names: str) -> Snapshot:
    """Churn 8 fires, spam 1 is pending, silent has no outcomes, and nothing speaks against the others."""
    reports = [
        report("churn", "8"),
        report("spam", "1", n=90_000),
        replace(report("silent", "1", n=0, insufficient="no prediction has an outcome"), predictions=500),
        *(report(name, "1", n=1000 + at) for at, name in enumerate(["eta", *names])),
    ]
    shape = Explanation("shape", "Predictions of churn 8 are too sure of themselves.", is_firing=True)
    prior = Explanation("prior_shift", "Predictions of spam 1 are too low.", is_firing=False)
    quiet = {(name, "1"): evidence(calibration=evidence_level(0.4)) for name in ["eta", *names]}
    return with_evidence(
        snapshot(reports),
        {
            ("churn", "8"): evidence(calibration=evidence_level(6.4, raised=True))._replace(
                explanations={"calibration": shape}, revision=1
            ),
            ("spam", "1"): evidence(calibration=evidence_level(3.4))._replace(explanations={"calibration": prior}),
            **quiet,
        },
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("fleet"), labels=LABELS) as made:
        # A promotion has ended that which was there.
        made.alert = made.fire()
        yield made


@pytest.fixture
def shown(site: Site, page: Page) -> Page:
    """The page of a fleet of eight versions: those of :func:`fleet`, and three declared models without events."""
    site.service.show(fleet())
    page.goto(f"{site.url}/")
    expect(rows(page).first).to_be_visible()
    return page


def rows(page: Page) -> Locator:
    return page.locator("tr[data-key]")


def names(page: Page) -> list[str]:
    return page.locator("tr[data-key] .name a").all_inner_texts()


def test_the_model_that_fires_is_the_first_and_leads_to_its_alert_and_page(site: Site, shown: Page) -> None:
    expect(shown.get_by_role("heading", level=1)).to_have_text("1 of 6 model versions is firing")
    expect(shown).to_have_title("Fleet · Calibration monitor")
    expect(shown.get_by_role("navigation").get_by_title("open alerts")).to_have_text("1")
    assert names(shown) == ["churn", "spam", "silent", "fraud", "org/model", "eta"]
    first = rows(shown).first
    for text in ("firing", "churn 8", "team:growth", "too high and low in parts", "24K", "90%", "beta"):
        expect(first).to_contain_text(text)
    expect(rows(shown).nth(1)).to_contain_text("pending")
    expect(rows(shown).nth(1)).to_contain_text("too high or low overall")
    expect(rows(shown).nth(2)).to_contain_text("no outcomes yet")
    expect(rows(shown).last).to_contain_text("nothing found")
    expect(first.get_by_role("link", name="too high and low in parts")).to_have_attribute(
        "href", f"{site.url}/alerts/{site.alert.id}"
    )
    first.get_by_role("link", name="churn").click()
    expect(shown).to_have_url(f"{site.url}/models/churn?version=8")


def test_evidence_from_before_a_promotion_does_not_fire(page: Page, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        page.goto(f"{site.url}/")
        expect(rows(page).first).to_contain_text("firing")
        site.refits.promote(site.candidate, actor="ada", note="")
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text("All quiet")
        churn = rows(page).filter(has_text="churn 8")
        expect(churn).to_contain_text("not enough data")
        expect(churn.locator(".what")).to_have_text("")
        churn.get_by_role("link", name="churn").click()
        expect(page.locator("main .pill").first).to_contain_text("not enough data")
        expect(page.locator(".lead")).to_contain_text("Evidence begins anew with the map that serves")


def test_evidence_from_before_a_rollback_to_no_map_does_not_fire(page: Page, tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        page.goto(f"{site.url}/")
        churn = rows(page).filter(has_text="churn 8")
        expect(churn).to_contain_text("firing")
        assert site.refits.roll_back("churn", "8", actor="ada", note="").map_id is None
        # The page stands open: it is told, and no evaluation comes.
        expect(churn).to_contain_text("not enough data")
        expect(churn.locator(".what")).to_have_text("")
        expect(page.get_by_role("heading", level=1)).to_have_text("All quiet")
        churn.get_by_role("link", name="churn").click()
        expect(page.locator("main .pill").first).to_contain_text("not enough data")
        expect(page.locator(".lead")).to_contain_text("Evidence begins anew with what serves since the last promotion")
        with urlopen(f"{site.url}/v1/reports?model=churn&window=24h", timeout=PATIENCE_SECONDS) as answer:
            (of_churn,) = json.load(answer)["reports"]
        assert of_churn["evidence"]["state"] == "waiting"


def test_search_filters_and_order_are_in_the_url(site: Site, shown: Page) -> None:
    search = shown.get_by_role("searchbox")
    search.fill("team:payments")
    expect(rows(shown)).to_have_count(2)
    assert names(shown) == ["fraud", "eta"]
    expect(shown).to_have_url(re.compile("q=team%3Apayments$"))
    search.fill("nowhere")
    expect(shown.locator("main")).to_contain_text("No model fits.")
    shown.get_by_role("button", name="Show all").click()
    expect(rows(shown)).to_have_count(6)
    shown.get_by_role("button", name="pending 1").click()
    expect(rows(shown)).to_have_count(1)
    expect(rows(shown)).to_contain_text("spam")
    shown.get_by_role("button", name="pending 1").click()
    shown.get_by_label("Label").select_option("team:payments")
    shown.get_by_role("button", name="A day").click()
    expect(shown).to_have_url(re.compile("label=team%3Apayments&sort=predictions$"))
    expect(shown.get_by_text("2 of 6")).to_be_visible()
    assert names(shown) == ["eta", "fraud"]
    shown.get_by_role("button", name="A day").click()
    expect(shown.get_by_role("columnheader", name="A day")).to_have_attribute("aria-sort", "descending")
    shown.reload()
    expect(rows(shown)).to_have_count(2)
    assert names(shown) == ["fraud", "eta"]
    expect(shown.get_by_label("Label")).to_have_value("team:payments")


def test_keys_search_move_and_open(site: Site, shown: Page) -> None:
    for key, focused in (("j", "churn"), ("j", "spam"), ("j", "silent"), ("k", "spam"), ("k", "churn"), ("k", "churn")):
        shown.keyboard.press(key)
        expect(shown.locator(":focus")).to_have_text(focused)
    shown.keyboard.press("/")
    shown.keyboard.type("jk")
    expect(shown.get_by_role("searchbox")).to_have_value("jk")
    shown.keyboard.press("Escape")
    shown.keyboard.press("/")
    shown.keyboard.type("spam")
    expect(rows(shown)).to_have_count(1)
    shown.keyboard.press("Enter")
    expect(shown).to_have_url(f"{site.url}/models/spam?version=1")
    shown.go_back()
    expect(shown).to_have_url(f"{site.url}/?q=spam")
    expect(rows(shown)).to_have_count(1)
    shown.keyboard.press("j")
    shown.keyboard.press("Enter")
    expect(shown).to_have_url(f"{site.url}/models/spam?version=1")


@pytest.mark.parametrize("width", [390, 1280])
def test_names_of_hostile_producers_are_text(site: Site, page: Page, width: int) -> None:
    site.service.show(fleet(*HOSTILE))
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{site.url}/?sort=model")
    expect(rows(page)).to_have_count(11)
    assert set(HOSTILE) <= set(names(page))
    assert page.locator("main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    paths = page.locator("tr[data-key] .name a").evaluate_all("links => links.map(link => link.pathname)")
    assert {unquote(path) for path in paths} >= {f"/models/{name}" for name in HOSTILE}


@pytest.mark.long
def test_of_thousands_of_models_each_is_found_and_the_worst_is_first(site: Site, page: Page) -> None:
    """The service answers a thousand at a time, in the order of their names."""
    last = {("zebra", "1"): evidence(calibration=evidence_level(7.0, raised=True))}
    site.service.show(with_evidence(fleet(*(f"model-{at:04d}" for at in range(2100)), "zebra"), last))
    page.goto(f"{site.url}/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("of 2,107 model versions")
    expect(rows(page).first).to_contain_text("zebra")
    expect(rows(page).nth(1)).to_contain_text("churn")
    assert rows(page).count() < 500
    page.get_by_role("searchbox").fill("2087")
    expect(rows(page)).to_have_count(1)
    expect(rows(page)).to_contain_text("model-2087")
    page.get_by_role("searchbox").fill("")
    for _ in range(150):
        page.keyboard.press("Escape")
        page.keyboard.press("j")
    assert rows(page).count() > 150


def test_of_two_alerts_a_row_names_the_one_that_it_leads_to(site: Site, shown: Page) -> None:
    def fill(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        (known,) = (alert for alert in body["alerts"] if (alert["model"], alert["kind"]) == ("churn", "calibration"))
        second = {"id": "al_2", "kind": "change", "summary": "Outcomes of churn 8 have changed once more."}
        body["alerts"] = [known | second, known | {"state": "acknowledged"}]
        route.fulfill(response=answer, json=body)

    shown.route("**/v1/alerts?state=open*", fill)
    shown.reload()
    link = rows(shown).first.locator(".what a")
    expect(link).to_have_attribute("href", f"{site.url}/alerts/al_2")
    expect(link).to_have_text("outcomes have changed")
    expect(rows(shown).first.locator(".what")).to_have_attribute("title", "Outcomes of churn 8 have changed once more.")


def test_ages_of_events_count_from_the_clock_of_a_simulation(site: Site, page: Page) -> None:
    site.service.show(fleet())
    ages: dict[str, Any] = {}
    settled = "2026-10-29T20:00:00.000Z"

    def simulate(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | ages)

    def settle(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for model in body["models"]:
            model["settled_to"] = settled
        route.fulfill(response=answer, json=body)

    page.clock.set_fixed_time("2026-11-28T20:00:00Z")
    page.route("**/v1/session", simulate)
    page.route("**/v1/models?*", settle)
    page.goto(f"{site.url}/")
    of_churn = rows(page).first.locator("td[data-title='Settled to']")
    expect(of_churn).to_have_text("30 d ago")
    expect(page.get_by_text("simulated time")).to_have_count(0)
    began = {"began_at": "2026-11-28T19:55:00.000Z", "start": "2026-10-29T10:10:00.000Z", "speed": 120.0}
    ages |= {"simulated_now": "2026-10-29T20:10:00.000Z", "simulation": began}
    page.reload()
    expect(of_churn).to_have_text("10 min ago")
    expect(page.locator("header").get_by_text("simulated time")).to_be_visible()


def test_what_happened_in_the_service_is_shown_in_the_time_of_a_simulation(site: Site, page: Page) -> None:
    fired_ms = site.alert.firing_ms or 0
    began = {"began_at": format_time(fired_ms - 600_000), "start": "2026-10-29T10:00:00.000Z", "speed": 120.0}

    def simulate(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json=answer.json() | {"simulated_now": began["start"], "simulation": began})

    page.route("**/v1/session", simulate)
    page.goto(f"{site.url}/alerts/{site.alert.id}")
    fired = page.locator(".facts div", has_text="Fired").locator("time").first
    expect(fired).to_have_attribute("datetime", "2026-10-30T06:00:00.000Z")
    noted = page.locator("section", has_text="History and notes").locator("tbody time").last
    expect(noted).to_have_attribute("datetime", "2026-10-30T06:00:00.000Z")
    finished_ms = site.refits.store.job(site.candidate).finished_ms or 0
    page.goto(f"{site.url}/models/churn?version=8")
    happened = page.locator("table.happened tr", has_text="Refit").filter(has_text="candidate")
    # Two minutes of the simulation are a second of the clock.
    at = format_time(1_793_340_000_000 + 120 * (finished_ms - fired_ms))
    expect(happened.locator("time")).to_have_attribute("datetime", at)


def test_the_history_of_a_young_fleet_takes_the_whole_column(site: Site, page: Page) -> None:
    site.service.show(fleet())
    known: dict[str, list[float | None]] = {"churn": [-3.0, -1.0, 2.0], "spam": [None, -2.0, -1.0]}
    nothing: list[float | None] = [None] * 113

    def fill(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["times"] = [f"2026-11-{1 + at // 8:02}T{at % 8 * 3:02}:00:00.000Z" for at in range(113)]
        for row in body["versions"]:
            row["above_line"] = [*nothing[:110], *known.get(row["model"], nothing[:3])]
        route.fulfill(response=answer, json=body)

    page.route("**/v1/evidence", fill)
    page.goto(f"{site.url}/")
    expect(page.get_by_role("columnheader", name="Evidence, 6 h")).to_be_visible()

    def begin(name: str) -> float:
        path = rows(page).filter(has_text=name).locator(".spark .data").get_attribute("d")
        return float(path.removeprefix("M").split()[0]) if path else float("nan")

    assert begin("churn") < 5
    assert 80 < begin("spam") < 90  # a column is one span of time for all


def test_a_fleet_without_models_says_how_to_begin(page: Page) -> None:
    with ApiServer(Service(policies={}).app()) as server:
        page.goto(f"{server.url}/")
        expect(page.locator("main")).to_contain_text("No model has sent events yet.")
        expect(page.locator("main")).to_contain_text("Nothing evaluated yet")


def test_the_header_says_how_reading_goes(site: Site, page: Page) -> None:
    site.service.show(fleet())
    site.service.pipeline.status = replace(RUNNING, lag={TopicPartition("predictions", 0): 1200})
    page.goto(f"{site.url}/")
    expect(page.locator(".health")).to_contain_text("Reading 2 partitions, 1,200 records behind")
    detail = "no broker answers at localhost:9092"
    site.service.pipeline.status = PipelineStatus(phase=Phase.SOURCE_UNAVAILABLE, detail=detail)
    page.reload()
    expect(page.locator(".health")).to_contain_text(f"Events are not read: {detail}.")
    site.service.pipeline.status = RUNNING


def test_what_happens_is_shown_without_a_reload(site: Site, shown: Page) -> None:
    expect(shown.locator("header")).to_contain_text("● live")
    shown.evaluate("window.unloaded = false")
    site.service.show(with_evidence(fleet(), {("spam", "1"): evidence(calibration=evidence_level(5.0, raised=True))}))
    expect(shown.get_by_role("heading", level=1)).to_have_text("2 of 6 model versions are firing")
    site.fire(model="eta", version="1")
    expect(shown.get_by_role("heading", level=1)).to_have_text("3 of 6 model versions are firing")
    assert shown.evaluate("window.unloaded") is False


def test_a_hidden_page_asks_nothing_and_is_up_to_date_when_it_is_seen_again(site: Site, shown: Page) -> None:
    expect(shown.locator("header")).to_contain_text("● live")

    def turn(*, hidden: bool) -> None:
        shown.evaluate(
            "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
            " document.dispatchEvent(new Event('visibilitychange')); }",
            hidden,
        )

    with shown.expect_event("requestfailed", lambda request: request.url.endswith("/v1/updates")):
        turn(hidden=True)
    site.service.show(with_evidence(fleet(), {("eta", "1"): evidence(calibration=evidence_level(5.0, raised=True))}))
    with shown.expect_request("**/v1/updates"):
        turn(hidden=False)
    expect(rows(shown).first).to_contain_text("eta")


def test_the_page_outlives_a_restart_of_the_service(site: Site, shown: Page) -> None:
    expect(shown.locator("header")).to_contain_text("● live")
    site.stop()
    expect(shown.get_by_role("alert")).to_contain_text("The service does not answer")
    expect(shown.get_by_role("alert")).to_contain_text("What is shown is of")
    expect(shown.locator("header")).to_contain_text("not live")
    expect(rows(shown)).to_have_count(6)
    site.service.show(with_evidence(fleet(), {("eta", "1"): evidence(calibration=evidence_level(5.0, raised=True))}))
    site.start()
    expect(shown.get_by_role("alert")).to_have_count(0)
    expect(shown.locator("header")).to_contain_text("● live")
    expect(rows(shown).first).to_contain_text("eta")
