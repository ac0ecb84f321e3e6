"""Store how pages look: ``python -m tests.page.pictures``, or ``make pictures``.

Writes the reduced pictures that ``test_looks.py`` compares with, and those of the documentation.
"""

from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.page.looks import (
    STORED,
    STORED_SCHEMES,
    difference,
    picture,
    places,
    prepare,
    reduced,
    stored_picture,
    visit,
)
from tests.page.states import States, states
from tests.real.chromium import chromium

DOCS: Final = Path(__file__).parents[2] / "docs" / "pictures"
SHOWN: Final = {"fleet": 640, "model": 1000, "alert": 640}
"""A page of the documentation -> how many pixels of its top are shown."""
MAX_BYTES: Final = 100_000


def main() -> None:
    """Write all pictures; those that still look alike stay as they are."""
    with states() as made, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for scheme in STORED_SCHEMES:
            page = browser.new_context().new_page()
            prepare(page, scheme)
            _store(page, made, scheme)
            page.context.close()
        browser.close()


def _store(page: Page, made: States, scheme: str) -> None:
    for name, url in places(made):
        visit(page, url)
        image = picture(page)
        target = STORED / f"{name}-{scheme}.png"
        if not target.exists() or not difference(stored_picture(name, scheme), image).is_small:
            _save(reduced(image), target)
        if scheme == "light" and name in SHOWN:
            _save(image.crop((0, 0, image.width, min(SHOWN[name], image.height))), DOCS / f"{name}.png")


def _save(image: Image.Image, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    image.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)
    size = target.stat().st_size
    assert size < MAX_BYTES, f"{target} has {size:,} bytes, at most {MAX_BYTES:,} are wanted: show less of the page"
    print(f"{target.name}: {size:,} bytes")


if __name__ == "__main__":
    main()
