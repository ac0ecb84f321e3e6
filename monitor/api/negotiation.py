"""Which of several forms of a resource a request prefers (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence

from fastapi import Request

from monitor.api.problems import Problem


def preferred(request: Request, offered: Sequence[str]) -> str:
    """The offered media type that ``Accept`` likes best; of equals, and without ``Accept``, the first.

    Raises
    ------
    Problem
        406: it takes none of them.
    """
    accept = request.headers.get("accept", "").strip()
    if not accept:
        return offered[0]
    ranges = [_range(each) for each in accept.lower().split(",")]
    liked = [(_quality(media, ranges), media) for media in offered]
    best = max(quality for quality, _ in liked)
    if best <= 0.0:
        raise Problem(406, "not-acceptable", f"Accept must allow {' or '.join(offered)}, got {accept[:200]}")
    return next(media for quality, media in liked if quality == best)


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
