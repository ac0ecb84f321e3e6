"""Numbers as people read them."""

import math


def percent(share: float, digits: int = 2) -> str:
    """A share in percent, with digits that tell it from 0 and from 1: ``65%``, ``1.2%``, ``0.034%``, ``99.7%``."""
    rest = min(share, 1.0 - share)
    if rest <= 0.0:
        return "0%" if share <= 0.0 else "100%"
    if rest < 1e-6:
        return "almost 0%" if share < 0.5 else "almost 100%"
    # What rounds up to 10% is 10%.
    leading = max(-math.floor(math.log10(rest * (1.0 + 5.0 * 10.0**-digits))), 1)
    return f"{100.0 * share:.{max(leading - 3 + digits, 0)}f}%"


def pair(one: float, other: float) -> tuple[str, str]:
    """Two shares in percent, with as many digits as it takes to tell them apart."""
    for digits in range(2, 6):
        texts = percent(one, digits), percent(other, digits)
        if texts[0] != texts[1]:
            break
    return texts


def tick(share: float) -> str:
    """A share in percent with no digit that it does not need: a label of an axis."""
    return f"{100.0 * share:.5f}".rstrip("0").rstrip(".") + "%"


def points(difference: float) -> str:
    """A difference of two shares, in percentage points: ``15 points``, ``0.4 points``."""
    size = 100.0 * abs(difference)
    digits = 0 if size >= 9.95 else 1 if size >= 0.095 else 2
    text = f"{size:.{digits}f}"
    return f"{text} point" if text == "1" else f"{text} points"


def count(number: float) -> str:
    """A number of events: ``12,345``; of weights with a digit after the point where they are no whole number."""
    return f"{number:,.0f}" if number == round(number) or number >= 1e4 else f"{number:,.1f}"


def short_count(number: float) -> str:
    """A number of events in a few characters, for an axis: ``9,876``, ``96k``, ``1.2M``."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size:
            scaled = number / (1e3 if unit == "k" else size)
            return f"{scaled:.{0 if scaled >= 10.0 else 1}f}{unit}"
    return count(number)


def amount(value: float, unit: str) -> str:
    """A measure in its unit, as reports write it: ``61.4%`` of percent, ``0.0123`` and ``0.000867`` of others."""
    if math.isinf(value):
        return "infinite"
    return f"{value:.1f}%" if unit == "percent" else f"{value:.{_places(value)}f}"


def span(lower: float, upper: float, unit: str) -> str:
    """An interval, both ends of it to the same place."""
    if unit == "percent" or math.isinf(lower) or math.isinf(upper):
        return f"{amount(lower, unit)} to {amount(upper, unit)}"
    places = _places(max(abs(lower), abs(upper)))
    return f"{lower:.{places}f} to {upper:.{places}f}"


def _places(value: float) -> int:
    """Digits after the point: more of what is very small, but not of what would be 0 all the same."""
    return 6 if 5e-7 <= abs(value) < 0.001 else 4
