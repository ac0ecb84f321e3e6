"""Reports, comparisons, refits and simulations in one file, opened from the disk in a browser."""

import re
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect
from scipy.special import expit

import monitor
from monitor.page.assets import assets, single_file
from monitor.results import Result
from tests.long import short_of
from tests.page.document import document_of, titles
from tests.page.saving import saved_rows
from tests.real.chromium import render

HOSTILE: Final = "</script><img src=x onerror=\"document.title='taken'\">"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of each kind, of data whose names are hostile."""
    folder = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(3)
    z = rng.normal(-1.0, 1.2, 4000)
    y = (rng.random(4000) < expit(z)).astype(int)
    times = 1_770_000_000_000 + np.sort(rng.integers(0, 10 * 86_400_000, 4000))
    data = {"p": expit(1.8 * z), "q": expit(z), "y": y, "age": rng.normal(40.0, 9.0, 4000), "income": z + y}
    data["ts"] = times.astype("datetime64[ms]")
    data[HOSTILE] = np.array(["eu", "us", HOSTILE])[rng.integers(0, 3, 4000)]
    columns = monitor.Columns("p", "y", time="ts", segments=[HOSTILE], features=["age", "income"])
    table = monitor.read(data, columns, model=HOSTILE)
    made: dict[str, Result] = {
        "report": monitor.evaluate(table, draws=19),
        "comparison": monitor.compare(
            monitor.read(data, monitor.Columns("p", "y"), model=HOSTILE),
            monitor.read(data, monitor.Columns("q", "y")),
            measures=["smce", "tce"],
            draws=19,
        ),
        "refit": monitor.recalibrate(table, methods=["beta"], draws=19),
        "simulation": monitor.simulate_alarms(scenario=["slope=1.5", "none"], runs=2, days=5),
    }
    for name, result in made.items():
        result.to_html(folder / f"{name}.html")
        (folder / f"{name}.notebook").write_text(result._repr_html_(), encoding="utf-8")
    return folder


SHOWN: Final = {
    "report": ["What was predicted, and what came true", "How it went over time", "Where among age and income"],
    "comparison": ["Which of the two is better calibrated", "What was predicted, and what came true"],
    "refit": ["Later rows, before and after", "The largest error", "Where among the features", "The worst segments"],
    "simulation": ["How soon an alarm comes", "False alarms a year"],
}


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", short_of([390, 1280], 1))
def test_a_file_shows_itself_and_asks_for_nothing(
    page: Page, context: BrowserContext, files: Path, name: str, width: int
) -> None:
    """The fixture also fails the test where the console has an error, such as one of the policy."""
    file = files / f"{name}.html"
    assert file.stat().st_size < 300_000
    requests: list[str] = []
    context.on("request", lambda request: requests.append(request.url))
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(file.as_uri())
    document = document_of(file)
    expect(page.get_by_role("heading", level=1)).to_have_text(document["title"])
    expect(page.get_by_role("heading", name=document["sections"][0]["title"], level=2)).to_be_visible()
    for title, begins in zip(titles(file), SHOWN[name], strict=True):
        assert title.startswith(begins)
        expect(page.get_by_role("heading", name=title, level=2)).to_be_visible()
    assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
    # Names are text.
    assert page.title() == document["title"]
    assert page.locator("img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_axes_and_segments_are_chosen_and_rows_are_sorted(page: Page, files: Path) -> None:
    page.goto((files / "report.html").as_uri())
    card = page.locator("section", has=page.get_by_role("heading", name=SHOWN["report"][0], level=2))
    axes, dots = card.get_by_label("Axes"), card.locator("circle.dot")
    before = [dot.get_attribute("cx") for dot in dots.all()]
    axes.select_option("logit" if axes.input_value() == "probability" else "probability")
    expect(dots.first).not_to_have_attribute("cx", str(before[0]))
    segment = card.get_by_label("Shown")
    names = segment.locator("option").all_text_contents()
    assert any(HOSTILE in name for name in names[1:])
    segment.select_option(index=2)
    expect(card.get_by_role("heading", level=3).first).to_have_text(names[2])
    table = page.get_by_role("region", name="The measures")
    table.get_by_role("button", name="measure").click()
    cells = table.locator("tbody td:first-child").all_text_contents()
    assert cells == sorted(cells, key=str.lower)
    table.get_by_role("button", name="value").click()
    values = [float(text.rstrip("%")) for text in table.locator("tbody td:nth-child(2)").all_text_contents()]
    assert values == sorted(values)
    # As it is sorted, and as it is shown.
    heads, *rows = saved_rows(page, "The measures")
    assert heads[:2] == ["measure", "value"]
    assert [row[0] for row in rows] == table.locator("tbody td:first-child").all_text_contents()
    assert [float(row[1].rstrip("%")) for row in rows] == values
    # A number under the pointer is told.
    dots.nth(1).hover()
    expect(card.locator("figcaption").first).to_contain_text("came true")


def test_a_time_range_is_shared(page: Page, files: Path) -> None:
    page.goto((files / "report.html").as_uri())
    plots = page.locator(".u-over")
    plots.first.scroll_into_view_if_needed()
    box = plots.first.bounding_box()
    assert box is not None
    ticks = "Array.from(document.querySelectorAll('.uplot canvas')).map((one) => one.toDataURL())"
    before = page.evaluate(ticks)
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20)
    page.mouse.up()
    page.wait_for_function(f"(before) => {ticks}.every((one, place) => one !== before[place])", arg=before)


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_words_and_tables_as_text(page: Page, files: Path, name: str) -> None:
    html = (files / f"{name}.notebook").read_text(encoding="utf-8")
    assert "<script" not in html
    page.set_content(html)
    (drawing,) = page.locator("img").all()
    assert str(drawing.get_attribute("src")).startswith("data:image/png;base64,")
    assert page.locator("table").count() > 0
    assert len(html) < 150_000


def test_a_file_holds_the_modules_that_it_needs_alone(files: Path) -> None:
    plots = {name: "uPlot" in (files / f"{name}.html").read_text(encoding="utf-8") for name in SHOWN}
    assert plots == {"report": True, "comparison": False, "refit": False, "simulation": False}


def test_the_policy_of_a_file_names_its_parts_by_their_hashes(tmp_path: Path, files: Path) -> None:
    html = (files / "comparison.html").read_text(encoding="utf-8")
    policy = re.search(r'content="(default-src[^"]*)"', html)
    assert policy is not None
    assert "unsafe" not in policy[1]
    assert not re.search(r"https?:", policy[1])
    # A script that is added to it does not run.
    changed = tmp_path / "changed.html"
    changed.write_text(html.replace("</body>", "<script>document.title = 'taken'</script></body>"), encoding="utf-8")
    seen = render(changed)
    assert "<title>Calibration of q against" in seen.text
    assert any("Content Security Policy" in complaint for complaint in seen.complaints)


def test_every_module_can_stand_in_one_file() -> None:
    for name in assets():
        if name.endswith(".js") and not name.startswith("vendor/"):
            assert "</body>" in single_file([name.removesuffix(".js")], "title", {})
