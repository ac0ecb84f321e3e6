"""Which of several forms of a resource a request prefers (RFC 9110, section 12.5.1)."""

from collections.abc import Sequence

from fastapi import Request

from monitor.http.accept import weight_of
from monitor.http.problems import Problem


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
    liked = [(weight_of(request, media), media) for media in offered]
    best = max(quality for quality, _ in liked)
    if best <= 0.0:
        raise Problem(406, "not-acceptable", f"Accept must allow {' or '.join(offered)}, got {accept[:200]}")
    return next(media for quality, media in liked if quality == best)
