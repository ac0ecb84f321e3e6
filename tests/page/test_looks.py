"""How pages look, to everybody: pictures against stored ones, axe-core, colours, keyboard, phone and print."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Locator, Page, expect

from monitor.page.assets import assets
from tests.page.looks import (
    FLEETS,
    SCHEMES,
    Difference,
    difference,
    fleet_pages,
    hard_cases,
    picture,
    places,
    prepare,
    reduced,
    settle,
    show,
    stored_picture,
    visit,
)
from tests.page.states import LONGEST, MARKUP, RIGHT_TO_LEFT, States, states
from tests.snapshots import NOW_MS as AGED_NOW_MS

AXE: Final = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
"""WCAG 2.2 AA with all that it contains, and what axe holds for good practice."""

FAULTS: Final = {
    "no style sheet": ("alert", "*, *::before { all: revert !important }"),
    "a column instead of a grid": ("alert", ".grid { display: block !important }"),
    "no plots": ("alert", ".uplot, svg { visibility: hidden !important }"),
    "the wrong paper": ("alert", ".card { background: #fffbe6 !important }"),
    "wider than the window": ("alert", "main { max-width: none !important; width: 1700px !important }"),
    "states without colour": ("fleet", ".pill { background: none !important; color: inherit !important }"),
}
_ADD_STYLE: Final = """(css) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  document.adoptedStyleSheets = [sheet];
}"""


@pytest.fixture(scope="module")
def shown() -> Iterator[States]:
    """The service with all states, of the tests in this file."""
    with states() as made:
        yield made


@pytest.mark.long
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_look_as_they_did(page: Page, shown: States, scheme: str) -> None:
    """If a change is meant, ``make pictures`` stores how pages look now: look at what it changed."""
    prepare(page, scheme)
    assert changes(page, list(places(shown)), scheme) == {}


@pytest.mark.long
@pytest.mark.parametrize(("models", "is_fresh"), FLEETS)
def test_fleets_look_as_they_did(page: Page, models: int, is_fresh: bool) -> None:
    """Fleets of one model and of 200, just started and after a year."""
    prepare(page, "light", AGED_NOW_MS)
    with fleet_pages(models, is_fresh=is_fresh) as pages:
        for scheme in SCHEMES:
            show(page, scheme)
            assert changes(page, pages, scheme) == {}


def changes(page: Page, pages: Sequence[tuple[str, str]], scheme: str) -> dict[str, Difference]:
    """The pages that do not look as their stored pictures, or are wider than the window."""
    changed: dict[str, Difference] = {}
    for name, url in pages:
        visit(page, url)
        found = difference(stored_picture(name, scheme), picture(page))
        if not found.is_small:
            changed[name] = found
        assert page.evaluate("document.documentElement.scrollWidth") <= SCHEMES[scheme][0], name
    return changed


@pytest.mark.long
def test_pictures_show_faults(page: Page, shown: States) -> None:
    prepare(page, "light")
    seen: dict[str, Difference] = {}
    for name, url in places(shown):
        visit(page, url)
        stored = reduced(picture(page))
        for fault, css in ((fault, css) for fault, (where, css) in FAULTS.items() if where == name):
            page.evaluate(_ADD_STYLE, css)
            settle(page)
            seen[fault] = difference(stored, picture(page))
    assert {fault for fault, found in seen.items() if not found.is_small} == set(FAULTS), seen


def violations(page: Page) -> list[str]:
    """What axe-core has against what a page shows."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    # What passed need not be described, which takes four times as long.
    found = page.evaluate(
        "(runOnly) => axe.run(document, { runOnly, resultTypes: ['violations'] }).then((found) => found.violations)",
        RULES,
    )
    return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


def test_axe_finds_nothing_in_any_state(page: Page, shown: States) -> None:
    prepare(page, "light")
    found: dict[str, list[str]] = {}
    pages, hard = dict(places(shown)), hard_cases(shown)
    for name, url in (pages | hard).items():
        visit(page, url)
        for scheme in ("light", "dark phone") if name in pages else ("dark phone",):
            show(page, scheme)
            settle(page)
            found[f"{name}, {scheme}"] = violations(page)
            if page.evaluate("document.documentElement.scrollWidth") > SCHEMES[scheme][0]:
                found[f"{name}, {scheme}"].append("is wider than the window")
        show(page, "light")
    assert {state: said for state, said in found.items() if said} == {}


def test_axe_reads_what_is_shown(page: Page, shown: States) -> None:
    prepare(page, "light")
    visit(page, shown.alert)
    page.evaluate(_ADD_STYLE, ".lead { color: #bbb !important }")
    assert any(said.startswith("color-contrast: ") for said in violations(page))


@pytest.mark.parametrize("name", [MARKUP, LONGEST, RIGHT_TO_LEFT])
def test_names_of_models_are_text(page: Page, shown: States, name: str) -> None:
    prepare(page, "phone")
    visit(page, f"{shown.url}/")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    assert page.locator("main img[src=x]").count() == 0
    assert page.locator("bdi", has_text=name).count() > 0


def test_labels_of_the_settings_are_shown_and_filtered_by(page: Page, shown: States) -> None:
    page.goto(f"{shown.url}/")
    rows = page.locator("tr[data-key]")
    expect(rows.filter(has_text="churn").first).to_contain_text("team:growth")
    page.get_by_label("Label").select_option("team:growth")
    expect(page.get_by_text(re.compile(r"^\d of \d+$"))).to_be_visible()
    assert set(page.locator("tr[data-key] .name a").all_inner_texts()) == {"churn", "uplift"}


def test_a_firing_model_takes_about_two_screens_and_one_column_on_a_phone(page: Page, shown: States) -> None:
    prepare(page, "light")
    page.set_viewport_size({"width": 1280, "height": 800})
    visit(page, shown.model("churn"))
    assert page.evaluate("document.documentElement.scrollHeight") <= 2.3 * 800
    show(page, "phone")
    settle(page)
    boxes = [card.bounding_box() for card in page.locator("main .card").all()]
    assert len({round(box["x"]) for box in boxes if box}) == 1


def colours(scheme: str) -> Mapping[str, str]:
    """The colours of the style sheet by name."""
    style = assets()["style.css"].decode()
    light, dark = re.split(r"@media screen and \(prefers-color-scheme: dark\)", style, maxsplit=1)
    parts = [light] if scheme == "light" else [light, dark[: dark.index("\n}")]]
    return {name: colour for part in parts for name, colour in re.findall(r"--([\w-]+): (#\w{3,6})\b", part)}


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_from_what_is_behind_them(scheme: str) -> None:
    of = colours(scheme)
    letters = [(of[name], of[paper]) for name in ("ink", "soft", "link") for paper in ("paper", "card", "hover")]
    letters += [
        (of[tone], of[paper]) for tone in ("good", "warn", "bad", "seen") for paper in (f"{tone}-fill", "paper", "card")
    ]
    letters += [(of["soft"], of["none-fill"]), (of["paper"], of["link"])]
    assert [pair for pair in letters if contrast(*pair) < 4.5] == []
    lines = [(of[name], of["paper"]) for name in ("faint", "data", "second", "third", "fourth")]
    assert [pair for pair in lines if contrast(*pair) < 3.0] == []
    assert contrast("#000", "#ffffff") == pytest.approx(21.0)


def test_the_keyboard_reaches_everything_in_its_order_and_one_sees_where_it_is(page: Page, shown: States) -> None:
    prepare(page, "light")
    visit(page, shown.alert)
    controls = page.locator("a[href], button:enabled, select, summary, [tabindex='0']")
    expected = controls.evaluate_all("(all) => all.filter((one) => one.checkVisibility()).map((one) => one.outerHTML)")
    reached = []
    for _ in expected:
        page.keyboard.press("Tab")
        html, outline, style = page.evaluate(
            "() => { const at = document.activeElement, css = getComputedStyle(at);"
            " return [at.outerHTML, parseFloat(css.outlineWidth), css.outlineStyle]; }"
        )
        reached.append(html)
        assert outline >= 2, html
        assert style == "solid", html
    assert reached == expected


def test_paper_has_what_matters_in_ink(page: Page, shown: States) -> None:
    prepare(page, "dark")
    visit(page, shown.alert)
    page.emulate_media(media="print", color_scheme="dark")
    settle(page)
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(page.get_by_role("button", name="Acknowledge")).to_be_hidden()
    expect(page.locator(".lead")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('.lead')).color") == "rgb(0, 0, 0)"
    assert 1 <= sheets(page) <= 3


def test_plots_fit_on_paper_in_ink(page: Page, shown: States) -> None:
    """They were drawn for a wider window, in other colours."""
    prepare(page, "dark")
    visit(page, shown.model("churn"))
    page.locator("details.fold > summary").click()
    plots = page.locator(".uplot canvas")
    dark, light = colours("dark")["data"], colours("light")["data"]
    assert dark in colours_of_pixels(plots.first)
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size({"width": 700, "height": 990})
    settle(page)
    assert plots.count() > 8
    for at in range(plots.count()):
        drawn = colours_of_pixels(plots.nth(at))
        assert light in drawn
        assert dark not in drawn
        assert plots.nth(at).evaluate("(plot) => plot.getBoundingClientRect().right") <= 700
    assert 3 <= sheets(page) <= 6


def colours_of_pixels(canvas: Locator) -> set[str]:
    """Those that are opaque."""
    pixels = canvas.evaluate(
        "(canvas) => [...new Set(new Uint32Array(canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data.buffer))]"
    )
    # Little-endian: alpha, blue, green, red from the highest byte on.
    return {f"#{pixel.to_bytes(4, 'little')[:3].hex()}" for pixel in pixels if pixel >> 24 == 255}


def sheets(page: Page) -> int:
    """How many sheets of paper a page takes."""
    return len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
