"""How much a request's ``Accept`` likes a media type (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence

from fastapi import Request


def weight_of(request: Request, media: str) -> float:
    """How much ``Accept`` likes a media type, from 0 to 1; without ``Accept``, all alike."""
    accept = request.headers.get("accept", "").strip().lower()
    return _quality(media, [_range(each) for each in accept.split(",")]) if accept else 1.0


def _range(text: str) -> tuple[str, float]:
    """A media range and its weight; one that cannot be read weighs nothing."""
    media, *parameters = (part.strip() for part in text.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return media, 0.0
            return media, quality if 0.0 <= quality <= 1.0 else 0.0
    return media, 1.0


def _quality(media: str, ranges: Sequence[tuple[str, float]]) -> float:
    """The weight of the most specific range that a media type is in; 0 if it is in none."""
    for of in (media, f"{media.partition('/')[0]}/*", "*/*"):
        weights = [quality for each, quality in ranges if each == of]
        if weights:
            return max(weights)
    return 0.0
