"""Store how pages look: ``python -m tests.page.pictures``, or ``make pictures``.

Writes the reduced pictures that ``test_looks.py`` compares with, and those of the documentation.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser, Page

from docs.generators.recalibration_example import example
from tests.page.looks import (
    FLEETS,
    SCHEMES,
    difference,
    fleet_pages,
    path_of,
    picture,
    places,
    prepare,
    reduced,
    stored_picture,
    visit,
)
from tests.page.states import NOW_MS, states
from tests.real.chromium import start_browser
from tests.snapshots import NOW_MS as AGED_NOW_MS

DOCS: Final = Path(__file__).parents[2] / "docs" / "pictures"
SHOWN: Final = {"fleet": 640, "model": 1000, "alert": 640}
"""A page of the documentation -> how many pixels of its top are shown."""
REFIT: Final = {"gamma": "The largest error", "map": "Where among the features", "segments": "The worst segments"}
"""A picture of a refit -> how the heading of its figure begins."""
MAX_BYTES: Final = 100_000


def main() -> None:
    """Write all pictures; those that still look alike stay as they are."""
    with states() as made:
        playwright, browser = start_browser()
        _store(browser, list(places(made)), NOW_MS)
        _store_refit(browser.new_page(viewport={"width": 1500, "height": 900}))
        for models, is_fresh in FLEETS:
            with fleet_pages(models, is_fresh=is_fresh) as pages:
                _store(browser, pages, AGED_NOW_MS)
        browser.close()
        playwright.stop()


def _store(browser: Browser, pages: Sequence[tuple[str, str]], now_ms: int) -> None:
    for scheme in SCHEMES:
        page = browser.new_context().new_page()
        prepare(page, scheme, now_ms)
        for name, url in pages:
            visit(page, url)
            image = picture(page)
            _store_reduced(image, name, scheme)
            if scheme == "light" and name in SHOWN:
                top = image.crop((0, 0, image.width, min(SHOWN[name], image.height)))
                _save(top.quantize(128, dither=Image.Dither.NONE), DOCS / f"{name}.png")
        page.context.close()


def _store_reduced(image: Image.Image, name: str, scheme: str) -> None:
    target = path_of(name, scheme)
    if not target.exists() or not difference(stored_picture(name, scheme), image).is_small:
        # In steps of 16 of 255, which compresses; a palette would change the hue of what is small.
        _save(reduced(image).point([min(value // 16 * 16 + 8, 255) for value in range(256)] * 3), target)


def _store_refit(page: Page) -> None:
    page.set_content(example().to_html())
    for name, heading in REFIT.items():
        image = Image.open(BytesIO(page.locator("section", has_text=heading).last.screenshot())).convert("RGB")
        _save(image.quantize(128, dither=Image.Dither.NONE), DOCS / f"refit-{name}.png")


def _save(image: Image.Image, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    image.save(target, optimize=True)
    size = target.stat().st_size
    assert size < MAX_BYTES, f"{target} has {size:,} bytes, at most {MAX_BYTES:,} are wanted: show less of the page"
    print(f"{target.name}: {size:,} bytes")


if __name__ == "__main__":
    main()
