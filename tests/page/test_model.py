"""The page of a model: how it is and what to do, why, since when and for whom."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, Route, expect

from monitor.maps.temperature import Temperature
from tests.page.churn import CHANGE_MS, START_MS, Churn, churn_site
from tests.page.saving import saved, saved_rows
from tests.snapshots import NOW_MS
from tests.windows.memory import HOUR_MS


def visit(page: Page, url: str) -> None:
    """Open the page, and wait until all that it asks for at first is there."""
    page.goto(url)
    expect(page.locator("main [aria-busy=false]")).to_be_visible()


def unfold(page: Page) -> None:
    """Show this window and all measures, which a page about a change has folded."""
    # By the keyboard: what comes later moves it away from under a pointer.
    page.locator("details.fold > summary").press("Enter")


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def plot(page: Page, title: str) -> Locator:
    """The figure whose heading begins so."""
    heading = page.get_by_role("heading", name=re.compile(f"^{re.escape(title)}"))
    return page.locator("figure").filter(has=heading)


def drag(page: Page, over: Locator, start: float, end: float) -> None:
    """Drag over a plot, from one part of its width to another."""
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + start * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], middle, steps=4)
    page.mouse.up()


def test_what_is_wrong_and_what_to_do_stand_first(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    lead = page.locator(".lead")
    expect(lead).to_contain_text("too sure of themselves")
    expect(lead).to_contain_text("No map serves")
    expect(page.locator("main .pill").first).to_have_text("▲firing")
    lead.get_by_role("link", name="The alert, and what to do").click()
    expect(page).to_have_url(f"{churn.url}/alerts/{churn.alert}")


def test_a_second_change_is_not_hidden_by_an_alert_that_somebody_has(page: Page, churn: Churn) -> None:
    def fill(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        (known,) = body["alerts"]
        summary = "Outcomes of churn 7 have changed once more."
        body["alerts"] = [
            known | {"id": "al_2", "kind": "change", "summary": summary},
            known | {"state": "acknowledged"},
        ]
        route.fulfill(response=answer, json=body)

    page.route("**/v1/alerts?model=*", fill)
    visit(page, churn.page)
    expect(page.locator("main .pill").first).to_have_text("▲firing")
    expect(page.locator(".lead")).to_contain_text("have changed once more")
    expect(page.get_by_role("link", name="The alert, and what to do")).to_have_attribute(
        "href", f"{churn.url}/alerts/al_2"
    )


def test_a_full_cap_is_named_with_the_setting_to_change(page: Page, churn: Churn) -> None:
    warning = "7 predictions count as `other`: raise caps.versions"
    full = {"setting": "caps.versions", "segment_key": None, "used": 20, "limit": 20, "folded": 7, "warning": warning}

    def fill(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["models"][0]["caps"] = [full, full | {"setting": "caps.strata", "warning": None}]
        route.fulfill(response=answer, json=body)

    page.route("**/v1/models?model=*", fill)
    visit(page, churn.page)
    expect(page.locator(".lead strong")).to_have_text([f"▲ {warning}."])


def test_a_part_is_looked_at_closer_and_the_link_leads_there_again(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    drag(page, plot(page, "Evidence of each detector").locator(".u-over"), 0.4, 0.8)
    whole = page.get_by_role("button", name="Whole range")
    expect(whole).to_be_visible()
    chosen = query(page)
    assert START_MS < np.datetime64(chosen["from"][:-1], "ms").astype(int) < CHANGE_MS
    # All plots, in this tab and in that of who follows the link.
    begins = page.get_by_label("from", exact=True).input_value()
    visit(page, page.url)
    expect(page.get_by_label("from", exact=True)).to_have_value(begins)
    summary = plot(page, "Shape: the slope").locator("summary")
    summary.click()
    rows = plot(page, "Shape: the slope").locator("details tbody tr")
    expect(rows.first).to_be_visible()
    expect(rows).not_to_have_count(churn.points)
    whole.click()
    assert "from" not in query(page)
    expect(rows).to_have_count(churn.points)


def test_all_times_are_in_one_zone_and_utc_is_a_click_away(page: Page, churn: Churn) -> None:
    other = page.context.browser.new_context(timezone_id="Asia/Tokyo").new_page()  # type: ignore[union-attr]
    visit(other, churn.page)
    lead, inputs = other.locator(".lead"), other.get_by_label("from", exact=True)
    of_change = datetime.fromtimestamp(CHANGE_MS / 1000, UTC)

    def shown(zone: tzinfo) -> str:
        return f"{of_change.astimezone(zone):%b} {of_change.astimezone(zone).day}, {of_change.astimezone(zone):%Y}"

    tokyo = timezone(timedelta(hours=9))
    expect(lead).not_to_contain_text("UTC")
    expect(lead).to_contain_text(re.compile(rf"since {shown(tokyo)}, "))
    in_tokyo = inputs.input_value()
    other.get_by_role("button", name="Asia/Tokyo").click()
    expect(other.get_by_role("button", name="UTC", exact=True)).to_be_visible()
    expect(lead).to_contain_text(re.compile(r"since 20\d\d-\d\d-\d\d \d\d:\d\d UTC"))
    expect(other.locator("main [aria-busy=false]")).to_be_visible()
    # The same moment, nine hours apart.
    apart = datetime.fromisoformat(in_tokyo) - datetime.fromisoformat(inputs.input_value())
    assert apart == timedelta(hours=9)
    other.get_by_role("button", name="UTC", exact=True).click()
    expect(inputs).to_have_value(in_tokyo)
    other.context.close()


def test_what_has_no_settled_time_yet_is_drawn_where_its_events_are(page: Page, churn: Churn) -> None:
    """Such as while a service catches up with events of last month."""

    def fill(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["models"][0]["settled_to"] = None
        route.fulfill(response=answer, json=body)

    page.route("**/v1/models?model=*", fill)
    page.clock.set_fixed_time(datetime.fromtimestamp(NOW_MS / 1000, UTC) + timedelta(days=90))
    visit(page, churn.page)
    begins = page.get_by_label("from", exact=True)
    expect(begins).to_have_value(re.compile(f"^{datetime.fromtimestamp(START_MS / 1000, UTC):%Y-%m-%d}"))
    plot(page, "Shape: the slope").locator("summary").press("Enter")
    expect(plot(page, "Shape: the slope").locator("details tbody tr")).to_have_count(churn.points)


def test_the_evidence_of_an_alert_begins_where_there_is_any(page: Page, churn: Churn) -> None:
    def fill(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        # As long before the change as since is long before the first evidence.
        body["settled_to"] = f"{datetime.fromtimestamp(CHANGE_MS / 1000, UTC) + timedelta(hours=30):%Y-%m-%dT%H:%M:%SZ}"
        route.fulfill(response=answer, json=body)

    page.route(f"**/v1/alerts/{churn.alert}", fill)
    page.goto(f"{churn.url}/alerts/{churn.alert}")
    canvas = plot(page, "Evidence of each detector").locator("canvas")
    expect(canvas).to_be_visible()
    begins = canvas.evaluate("""(canvas) => {
      const { width, height } = canvas;
      const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
      const isLine = (at) => data[at] === 36 && data[at + 1] === 89 && data[at + 2] === 169;
      const rows = [...Array(height).keys()];
      return [...Array(width).keys()].find((x) => rows.some((y) => isLine(4 * (y * width + x)))) / width;
    }""")
    assert begins < 0.1


def test_a_click_shows_the_window_that_ended_there(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    unfold(page)
    over = plot(page, "smCE").locator(".u-over")
    over.scroll_into_view_if_needed()
    over.click()
    expect(page.get_by_text("What was known")).to_be_visible()
    assert START_MS < np.datetime64(query(page)["as_of"][:-1], "ms").astype(int) < NOW_MS
    page.get_by_role("button", name="Now").click()
    expect(page.get_by_text("What was known")).to_be_hidden()
    assert "as_of" not in query(page)


def test_a_refused_window_shows_nothing_of_another(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    unfold(page)
    diagram = plot(page, "How often predictions came true")
    expect(diagram).to_be_visible()
    page.get_by_label("As of").fill("1969-06-01T00:00")
    expect(page.get_by_role("alert").first).to_contain_text("as_of must not lie before 1970")
    expect(diagram).to_be_hidden()
    page.get_by_role("button", name="Now").click()
    expect(diagram).to_be_visible()


def test_the_diagram_has_the_axes_that_one_wants(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    unfold(page)
    figure = plot(page, "How often predictions came true")
    expect(figure.locator("svg text", has_text=re.compile("^0.2$")).first).to_be_visible()
    figure.get_by_label("Axes").select_option("log odds")
    expect(figure.locator("svg text", has_text=re.compile("^0.2$"))).to_have_count(0)
    expect(figure.locator("svg text", has_text=re.compile("^0.01$")).first).to_be_visible()
    # What a point says is there for the keyboard, too.
    figure.locator("svg .dot").first.focus()
    expect(figure.locator("figcaption")).to_contain_text("came true")


def test_the_diagram_says_what_there_is_to_see(page: Page, churn: Churn) -> None:
    heading = plot(page, "How often predictions came true").get_by_role("heading").first
    visit(page, churn.page)
    unfold(page)
    expect(heading).to_have_text(re.compile(r"; the largest gap: about [\d.]+% predicted, [\d.]+% came true$"))
    # Before the change, predictions were right.
    before = datetime.fromtimestamp((CHANGE_MS - 3 * HOUR_MS) / 1000, UTC)
    visit(page, f"{churn.page}?as_of={before:%Y-%m-%dT%H:%M:%SZ}")
    expect(heading).to_have_text(re.compile(r": no difference beyond chance can be seen \(by smCE\)$"))


def test_every_plot_has_a_table(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    unfold(page)
    # All of them: those that come later move the others.
    late = (
        plot(page, "Before the change"),
        plot(page, "Since the change"),
        plot(page, "smCE"),
        page.locator("table.segments"),
    )
    for part in (*late, page.get_by_role("heading", name="What happened")):
        expect(part).to_be_visible()
    figures = page.locator("figure")
    for at in range(figures.count()):
        figure = figures.nth(at)
        figure.locator("summary").first.click()
        expect(figure.locator("details tbody tr").first.locator("td").nth(1)).to_be_visible()
    rows = plot(page, "Prior: the offset").locator("details tbody tr")
    expect(rows).to_have_count(churn.points)
    assert re.fullmatch(r"-?0\.\d+", rows.last.locator("td").nth(1).inner_text())


def test_plots_are_saved_as_pictures_and_numbers_as_csv(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    for part in (plot(page, "Since the change"), page.locator("table.segments"), plot(page, "Shape: the slope")):
        expect(part).to_be_visible()
    expect(page.get_by_role("heading", name="What happened")).to_be_visible()

    head, *rows = saved_rows(page, "Shape: the slope (1 is right, below 1 is too sure)")
    assert head == ["At", "slope", "from", "to", "calibrated"]
    assert len(rows) == churn.points
    times = [datetime.fromisoformat(row[0]).timestamp() * 1000 for row in rows]
    assert START_MS < times[0] < times[-1] <= NOW_MS
    lower, slope, upper = (float(rows[-1][at]) for at in (2, 1, 3))
    assert lower < slope < upper < 1.0
    assert len(rows[-1][1]) > 8  # as exact as the service says it

    head, *rows = saved_rows(page, "before and since")
    assert head == ["", "Before the change", "Since the change"]
    since_of = {name: since for name, _, since in rows}
    assert int(since_of["labelled predictions"]) > 1000
    assert (
        datetime.fromisoformat(since_of["from"]).timestamp() * 1000 >= CHANGE_MS - 3_600_000
    )  # not as the page writes times

    for name in ("PNG: Shape: the slope (1 is right, below 1 is too sure)", "PNG: Since the change"):
        image = Image.open(BytesIO(saved(page, name))).convert("RGB")
        assert image.width > 500
        colours = {colour for _, colour in image.getcolors(image.width * image.height) or []}
        assert {(255, 255, 255), (36, 89, 169)} <= colours, name  # the paper, and the line of the data


def test_before_and_since_the_change_and_for_whom(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    spans = page.get_by_role("row").filter(has_text="shape: slope")
    expect(spans).to_be_visible()
    before, since = (float(cell.split()[0]) for cell in spans.get_by_role("cell").all_inner_texts())
    assert since < 0.8 < before
    page.get_by_role("region", name="Segments and classes").scroll_into_view_if_needed()
    europe = page.locator("table.segments").get_by_role("row").filter(has_text="region=eu")
    expect(europe.get_by_role("img", name=re.compile("significantly wrong in [1-9]"))).to_be_visible()
    europe.get_by_role("button", name="region=eu").click()
    assert query(page)["segment"] == "region=eu"
    expect(page.locator(".controls label", has_text="Segment").locator("select")).to_have_value("region=eu")


def test_the_report_of_the_window_is_a_page_and_its_json_one_click_away(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    # By the keyboard: what is drawn above, once it is there, moves the link.
    page.get_by_role("link", name="This window's report").press("Enter")
    expect(page).to_have_url(re.compile(f"^{churn.url}/reports/churn\\?"))
    expect(page.get_by_role("heading", name="The measures")).to_be_visible()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="JSON", exact=True).press("Enter")
    report = json.loads(opened.value.inner_text("body"))
    assert (report["model"], report["version"], report["window"]) == ("churn", "7", "6h")
    assert set(report["measures"]) == {"tce", "smce"}


def test_a_version_that_is_gone_leads_to_those_that_are_there(page: Page, churn: Churn) -> None:
    page.goto(f"{churn.page}?version=6")
    expect(page.locator(".lead")).to_contain_text("choose another")
    page.goto(f"{churn.url}/models/%3Cimg%20src=x%3E")
    expect(page.locator(".lead")).to_have_text("There is no model <img src=x> that you may read.")


def test_a_finger_looks_closer_and_still_scrolls(page: Page, churn: Churn) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    devtools = page.context.new_cdp_session(page)
    devtools.send("Emulation.setTouchEmulationEnabled", {"enabled": True})

    def swipe(to_x: float, to_y: float) -> None:
        """Move a finger from a third of the plot's width, by parts of its width and by pixels downwards."""
        box = over.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 3, box["y"] + box["height"] / 2
        places = [{"x": x + at / 6 * to_x * box["width"], "y": y + at / 6 * to_y} for at in range(7)]
        for at, place in enumerate(places):
            kind = "touchMove" if at else "touchStart"
            devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [place]})
        devtools.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    visit(page, churn.page)
    over = plot(page, "Evidence of each detector").locator(".u-over")
    over.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    swipe(0.05, -200)
    page.wait_for_function("(before) => scrollY > before + 50", arg=before)
    assert "from" not in query(page)
    over.scroll_into_view_if_needed()
    swipe(0.5, 3)
    expect(page.get_by_role("button", name="Whole range")).to_be_visible()
    assert START_MS < np.datetime64(query(page)["from"][:-1], "ms").astype(int) < CHANGE_MS


def test_below_the_fold_is_asked_for_later_without_scrolling(page: Page, churn: Churn) -> None:
    """So that it is printed, and found by the browser's search."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path.removeprefix("/v1/models/churn/")))
    visit(page, churn.page)
    expect(page.locator("table.segments")).to_be_visible()
    expect(page.get_by_role("heading", name="What happened")).to_be_visible()
    first = max(asked.index(name) for name in ("report", "evidence", "diagrams", "history"))
    assert first < min(asked.index("segments"), asked.index("coverage"))


def test_after_a_promotion_the_page_shows_what_is_served_and_with_a_switch_what_the_model_says(
    page: Page, tmp_path: Path
) -> None:
    with churn_site(tmp_path, serves=Temperature(temperature=1.5, classes=2)) as served:
        visit(page, f"{served.page}?window=1h")
        window = page.locator("section", has=page.get_by_role("heading", name="This window"))
        expect(window).to_contain_text("of predictions as the map that serves makes them")
        # A verdict on what the map did not serve yet would be advice to repair what is repaired.
        expect(window).to_contain_text("This window has predictions from before the map served, too")
        expect(window).not_to_contain_text("too sure of themselves")
        smce = window.get_by_role("row").filter(has_text="smCE").get_by_role("cell").first
        as_served = float(smce.inner_text())
        page.get_by_role("combobox", name="Predictions").select_option("as the model makes them")
        expect(window).to_contain_text("of the predictions as the model makes them, before the map that serves")
        expect(window).to_contain_text("too sure of themselves")
        assert float(smce.inner_text()) > 2 * as_served
        assert query(page) == {"window": "1h", "predictions": "model"}
        page.reload()
        expect(window).to_contain_text("too sure of themselves")
        held: list[Route] = []

        def hold(route: Route) -> None:
            held.append(route)

        page.route(re.compile(r"/report\?.*served=true"), hold)
        page.get_by_role("combobox", name="Predictions").select_option("as served")
        # Until the answer is there, numbers are still the model's, and are said to be.
        expect(page).not_to_have_url(re.compile("predictions=model"))
        expect(window).to_contain_text("of the predictions as the model makes them, before the map that serves")
        for route in held:
            route.continue_()
        page.unroute_all()
        expect(window).to_contain_text("of predictions as the map that serves makes them")
        expect(window).not_to_contain_text("too sure of themselves")


@pytest.mark.parametrize(
    ("fired", "covered", "is_shown"), [(False, False, True), (True, False, False), (False, True, False)]
)
def test_the_advice_on_a_common_shock_is_shown_where_nothing_explains_it(
    page: Page, churn: Churn, fired: bool, covered: bool, is_shown: bool
) -> None:
    """A fault swings outcomes together, too: for as long as it is looked back at, also once it is repaired."""

    def answer(route: Route) -> None:
        got = route.fetch()
        body = got.json()
        for version in body["versions"]:
            version["shock"] = {"covered": covered, "sentence": "Outcomes swing together."}
            for detector in version["detectors"]:
                detector["alarm"] = None
            for past in version["history"]["detectors"].values():
                past["firing"] = [fired and one for one in past["firing"]]
        route.fulfill(response=got, json=body)

    page.route("**/v1/models/churn/evidence?*", answer)
    visit(page, churn.page)
    caption = (
        page.locator("section", has=page.get_by_role("heading", name="Evidence", exact=True)).locator("small").last
    )
    expect(caption).to_contain_text("firing")
    assert ("swing together" in caption.inner_text()) is is_shown


def test_without_a_map_that_serves_nothing_is_to_be_chosen(page: Page, churn: Churn) -> None:
    visit(page, churn.page)
    expect(page.get_by_role("combobox", name="Window")).to_be_visible()
    assert page.get_by_role("combobox", name="Predictions").count() == 0
