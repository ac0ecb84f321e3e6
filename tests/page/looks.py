"""How pages look: pictures of them at a fixed time, reduced to what is the same in every browser.

Fonts are the same everywhere (:mod:`tests.real.chromium`); rasterizers and the metrics of controls are the browser's,
so that pixels differ and lines may be a little higher. What people see at a glance does not: where the boxes, lines and
fields of colour are, and which colours they have. So a picture is reduced to patches of :data:`PATCH` pixels, each the
mean of its colours, after it was scaled to the height of the stored one; and a patch counts as the same if the stored
picture has its colour there or right beside, and the other way round. Most of a page is paper and grey text, beside
which the states, plots and buttons hardly count: so the patches that have a hue are compared by it apart.
``test_looks.py`` shows which faults are seen. Measured: on machines without fonts, with DejaVu and with Liberation
alone, pixels are equal, but for numbers that depend on the second; states without colour change 0.37 of the hues, no
plots 0.64, a column instead of a grid 0.10 of the patches and 0.18 of the hues.

Comparing the boxes of elements was the alternative. It does not see colours, plots or the dark scheme, which is where
pages break without anybody noticing.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page

from tests.page.aged import MODELS, Aged, aged_site, fresh_site
from tests.page.states import LONGEST, NOW_MS, States

STORED: Final = Path(__file__).parent / "pictures"
REDUCED: Final = 4
"""Stored pictures are smaller than the page by this factor, in each direction."""
PATCH: Final = 16
MAX_COLOUR: Final = 10.0
"""Largest difference of a patch's red, green or blue that counts as the same colour, of 255."""
MAX_PATCHES: Final = 0.05
MAX_COLOURS: Final = 0.12
MAX_TALLER: Final = 0.06
"""Largest ratios of :class:`Difference` that are small."""

SCHEMES: Final = {"light": (1280, 900), "dark": (1280, 900), "phone": (390, 844), "dark phone": (390, 844)}
"""Name -> width and height of the window."""
FLEETS: Final = ((1, True), (1, False), (MODELS, True), (MODELS, False))
"""Numbers of models of a fleet, and whether it has just started or has a past of a year."""
MAX_HEIGHT: Final = 2400
"""Pixels of the top of a page that are stored: what follows in a fleet of 200 models are the same rows."""

_COUNT_REQUESTS: Final = """(() => {
  const ask = window.fetch;
  window.underWay = 0;
  window.fetch = async (...given) => {
    window.underWay += 1;
    try {
      const answer = await ask(...given);
      // Until its body is there: a stream of events has no end.
      if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) await answer.clone().arrayBuffer();
      return answer;
    } finally {
      setTimeout(() => { window.underWay -= 1; });
    }
  };
})()"""

_QUIET_FRAMES: Final = """(frames) => new Promise((done) => {
  let quiet = 0;
  const seen = new MutationObserver(() => { quiet = 0; });
  seen.observe(document.documentElement, { subtree: true, childList: true, attributes: true, characterData: true });
  const frame = () => {
    quiet = window.underWay || !document.querySelector("main > :not([hidden])") ? 0 : quiet + 1;
    if (quiet < frames) return requestAnimationFrame(frame);
    seen.disconnect();
    return done(true);
  };
  frame();
})"""


def prepare(page: Page, scheme: str, now_ms: int = NOW_MS) -> None:
    """Give a tab the time, place and screen in which pictures are made."""
    page.clock.set_fixed_time(datetime.fromtimestamp(now_ms / 1000, UTC))
    page.add_init_script(_COUNT_REQUESTS)
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    session.send("Emulation.setLocaleOverride", {"locale": "en-GB"})
    show(page, scheme)


def show(page: Page, scheme: str) -> None:
    """Be another screen."""
    width, height = SCHEMES[scheme]
    page.emulate_media(color_scheme="dark" if scheme.startswith("dark") else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": height})


def visit(page: Page, url: str) -> None:
    """Open a page, read it to its end, and wait until it has drawn what it asked for."""
    page.goto(url)
    settle(page)
    while page.evaluate(
        "() => { scrollBy(0, innerHeight); return scrollY + innerHeight < document.body.scrollHeight; }"
    ):
        settle(page, frames=2)
    settle(page)
    page.evaluate("scrollTo(0, 0)")
    settle(page)


def settle(page: Page, *, frames: int = 12) -> None:
    """Wait until no request is under way and nothing has changed for some frames."""
    page.evaluate(_QUIET_FRAMES, frames)


def places(states: States) -> Iterator[tuple[str, str]]:
    """The pages of which pictures are stored, by name."""
    yield "fleet", f"{states.url}/"
    yield "model", states.model("churn")
    yield "alert", states.alert
    yield "refit", states.refit
    yield "report", f"{states.url}/reports/churn?window=24h"
    yield "alerts", f"{states.url}/alerts"
    yield "refits", f"{states.url}/recalibrations"


@contextmanager
def fleet_pages(models: int, *, is_fresh: bool) -> Iterator[Sequence[tuple[str, str]]]:
    """Serve a fleet of :data:`FLEETS`, and give its pages of which pictures are stored, by name."""
    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as folder,
        (fresh_site if is_fresh else aged_site)(Path(folder), models) as site,
    ):
        yield list(_fleet_places(site, models, is_fresh=is_fresh))


def _fleet_places(site: Aged, models: int, *, is_fresh: bool) -> Iterator[tuple[str, str]]:
    """The pages of a fleet of some models, just started or after a year, of which pictures are stored, by name.

    The pages of one model, alert or refit do not depend on how many others there are.
    """
    what = f"{models} {'fresh' if is_fresh else 'after a year'}"
    yield f"fleet of {what}", f"{site.url}/"
    if is_fresh and models > 1:
        return
    yield f"alerts of {what}", f"{site.url}/alerts"
    if models > 1:
        return
    yield f"refits of {what}", f"{site.url}/recalibrations"
    yield f"model of {what}", site.model
    yield f"report of {what}", site.report
    if not is_fresh:
        yield f"alert of {what}", site.alert
        yield f"refit of {what}", site.refit


def hard_cases(states: States) -> dict[str, str]:
    """The states that are hard to show, by name; each of them is a page."""
    models = {
        "one probability": "constant",
        "no labels": "unlabelled",
        "one in a hundred": "fraud",
        "ten classes": "digits",
        "fifty segments": "ranking",
        "a map that serves": "uplift",
        "the longest name": LONGEST,
        "unknown": 10 * LONGEST,
    }
    return {
        "no model": f"{states.empty_url}/",
        "no alert": f"{states.empty_url}/alerts",
        "no refit": f"{states.empty_url}/recalibrations",
    } | {state: states.model(name) for state, name in models.items()}


def picture(page: Page) -> Image.Image:
    """The page as it is seen, its top of :data:`MAX_HEIGHT`, in three colours."""
    whole = Image.open(BytesIO(page.screenshot(full_page=True, animations="disabled"))).convert("RGB")
    return whole.crop((0, 0, whole.width, min(MAX_HEIGHT, whole.height)))


def reduced(image: Image.Image) -> Image.Image:
    """A smaller picture, to be stored."""
    return image.resize((image.width // REDUCED, max(image.height // REDUCED, 1)), Image.Resampling.BOX)


class Difference(NamedTuple):
    """How far a page is from its stored picture, as ratios."""

    taller: float
    """Of the heights."""
    patches: float
    """Share of all patches that changed their colour."""
    colours: float
    """Share of the coloured patches whose hue changed, or that came or went."""

    @property
    def is_small(self) -> bool:
        """Whether people would take one for the other."""
        return abs(self.taller) <= MAX_TALLER and self.patches <= MAX_PATCHES and self.colours <= MAX_COLOURS


def path_of(name: str, scheme: str) -> Path:
    """Where the reduced picture of a page is kept."""
    return STORED / f"{name}-{scheme}.png".replace(" ", "-")


def stored_picture(name: str, scheme: str) -> Image.Image:
    """The reduced picture of a page that is kept."""
    return Image.open(path_of(name, scheme)).convert("RGB")


def difference(stored: Image.Image, shown: Image.Image) -> Difference:
    """Compare a page with a stored picture."""
    old = _patches(stored)
    new = _patches(reduced(shown).resize(stored.size, Image.Resampling.BOX))
    old_hue, new_hue = _hues(old), _hues(new)
    coloured = np.maximum(np.abs(old_hue).max(axis=2), np.abs(new_hue).max(axis=2)) > MAX_COLOUR
    return Difference(
        taller=reduced(shown).height / stored.height - 1.0,
        patches=float(_moved(old, new).mean()),
        colours=float(_moved(old_hue, new_hue)[coloured].mean()) if coloured.any() else 0.0,
    )


def _moved(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which patches of either have no like in the other, there or right beside."""
    return _without_like(one, other) | _without_like(other, one)


def _without_like(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    rows, columns = one.shape[:2]
    beside = np.pad(other, ((1, 1), (1, 1), (0, 0)), mode="edge")
    shifts = [beside[down : down + rows, right : right + columns] for down in range(3) for right in range(3)]
    nearest: NDArray[np.float64] = np.min([np.abs(shifted - one).max(axis=2) for shifted in shifts], axis=0)
    return nearest > MAX_COLOUR


def _hues(patches: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is no grey, beside the colour of the paper: letters have none."""
    beside_paper = patches - np.median(patches, axis=(0, 1))
    hues: NDArray[np.float64] = beside_paper - beside_paper.mean(axis=2, keepdims=True)
    return hues


def _patches(image: Image.Image) -> NDArray[np.float64]:
    side = PATCH // REDUCED
    size = (-(-image.width // side), -(-image.height // side))
    return np.asarray(image.resize(size, Image.Resampling.BOX), np.float64)
