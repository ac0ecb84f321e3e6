"""Numbers, times and names as text: for terminals, pages and figures."""

import math
from datetime import UTC, datetime
from typing import Final

MAX_NAME: Final = 120
"""Characters of a name that are shown."""


def printable(text: str) -> str:
    """Text of unknown origin with everything that would steer a terminal escaped.

    A column may hold anything: escape sequences, line breaks, marks that turn the direction of writing.
    """
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def plain(text: str) -> str:
    """Escape a name of unknown origin, and cut it where it is very long."""
    shown = printable(text)
    return shown if len(shown) <= MAX_NAME else f"{shown[: MAX_NAME - 1]}\N{HORIZONTAL ELLIPSIS}"


def value_text(value: float | None, unit: str) -> str:
    """Format a measure in its unit: ``61.4%`` of percent, ``0.0123`` and ``0.000867`` of other units."""
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    return f"{value:.1f}%" if unit == "percent" else f"{value:.{_places(value)}f}"


def interval_text(lower: float | None, upper: float | None, unit: str) -> str:
    """Format an interval in its unit, both ends to the same decimal place."""
    if lower is None or upper is None:
        return "-"
    if unit == "percent" or math.isinf(lower) or math.isinf(upper):
        return f"{value_text(lower, unit)} to {value_text(upper, unit)}"
    places = _places(max(abs(lower), abs(upper)))
    return f"{lower:.{places}f} to {upper:.{places}f}"


def bound_text(value: float | None, unit: str) -> str:
    """Format how far a value may be off, rounded up to one digit: ``0.00002``, ``0.3%``, ``<1e-6``."""
    if value is None or math.isinf(value):
        return "-"
    if value < 1e-6:
        return "0" if value <= 0.0 else "<1e-6"
    places = max(-math.floor(math.log10(value)), 0)
    text = f"{math.ceil(value * 10.0**places) / 10.0**places:.{places}f}"
    return f"{text}%" if unit == "percent" else text


def _places(value: float) -> int:
    """Decimal places: four, or six for small values that six places still tell from 0."""
    return 6 if 5e-7 <= abs(value) < 0.001 else 4


def p_text(value: float | None) -> str:
    """Format a p-value or a q-value."""
    return "-" if value is None else "<.0001" if value < 0.0001 else f"{value:.2g}" if value < 0.001 else f"{value:.3f}"


def share_text(value: float | None) -> str:
    """Format a share in percent, for a table."""
    return "-" if value is None else f"{100 * value:.2f}%" if value < 0.1 else f"{100 * value:.1f}%"


def rounded_share(value: float | None, missing: str = "-") -> str:
    """Format a share in percent with three digits, for a sentence: ``0.123%``."""
    return missing if value is None else f"{100.0 * value:.3g}%"


def rounded(value: float) -> str:
    """Format a positive number with two digits, for a sentence: ``0.41``, ``2.4``, ``1,600``."""
    digits = 1 - math.floor(math.log10(value))
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def times_text(log10_times: float) -> str:
    """Say how many times its line evidence is: ``160 x``, ``1/40 x``, ``> 1,000,000 x``."""
    if log10_times >= 6.0:
        return "> 1,000,000 x"
    return f"{rounded(10.0**log10_times)} x" if log10_times > -1.0 else f"1/{rounded(10.0**-log10_times)} x"


def evidence_text(log10_evidence: float, log10_line: float) -> str:
    """Say where evidence stands: ``well past the alert line (160 x)``, ``below the alert line (1/40 of it)``."""
    beyond = log10_evidence - log10_line
    if beyond >= 0.0:
        times = f"{rounded(10.0**beyond)} x" if beyond < 6.0 else "more than 1,000,000 x"
        return f"{'well ' if beyond >= 1.0 else ''}past the alert line ({times})"
    if beyond > -1.0:
        return f"close to the alert line ({100.0 * 10.0**beyond:.0f}% of it)"
    return "far below the alert line" if beyond < -4.0 else f"below the alert line (1/{rounded(10.0**-beyond)} of it)"


def time_text(milliseconds: int | None) -> str:
    """Format a time to the second, UTC."""
    if milliseconds is None:
        return "-"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def minute_text(milliseconds: int) -> str:
    """Format a time to the minute, for a sentence."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


def percent(share: float, digits: int = 2) -> str:
    """Format a share in percent, distinct from 0 and from 1: ``65%``, ``1.2%``, ``0.034%``, ``99.7%``."""
    rest = min(share, 1.0 - share)
    if rest <= 0.0:
        return "0%" if share <= 0.0 else "100%"
    if rest < 1e-6:
        return "almost 0%" if share < 0.5 else "almost 100%"
    # What rounds up to 10% is 10%.
    leading = max(-math.floor(math.log10(rest * (1.0 + 5.0 * 10.0**-digits))), 1)
    return f"{100.0 * share:.{max(leading - 3 + digits, 0)}f}%"


def pair(one: float, other: float) -> tuple[str, str]:
    """Format two shares in percent, with as many digits as it takes to tell them apart."""
    for digits in range(2, 6):
        texts = percent(one, digits), percent(other, digits)
        if texts[0] != texts[1]:
            break
    return texts


def tick(share: float) -> str:
    """Format a share in percent without trailing zeros: a label of an axis."""
    return f"{100.0 * share:.5f}".rstrip("0").rstrip(".") + "%"


def points(difference: float) -> str:
    """Format a difference of two shares in percentage points: ``15 points``, ``0.4 points``."""
    size = 100.0 * abs(difference)
    digits = 0 if size >= 9.95 else 1 if size >= 0.095 else 2
    text = f"{size:.{digits}f}"
    return f"{text} point" if text == "1" else f"{text} points"


def count(number: float) -> str:
    """Format a number of events: ``12,345``; a small sum of weights that is no whole number has one decimal."""
    return f"{number:,.0f}" if number == round(number) or number >= 1e4 else f"{number:,.1f}"


def size_text(size: float) -> str:
    """A size in bytes to three digits: ``64 MiB``, ``1.18 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"
