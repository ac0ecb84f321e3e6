"""Reads what a request brings: its body within its limits, its times, its turn to be computed."""

import asyncio
import re
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request

from monitor.events.rejection import Rejected
from monitor.events.times import read_time
from monitor.http.problems import Problem

P = ParamSpec("P")
T = TypeVar("T")

_MILLISECONDS: Final = re.compile(r"-?[0-9]{1,18}")
_SPACED_OFFSET: Final = re.compile(r" (?=\d\d:\d\d$)")


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """The body, never more of it in memory than the limit allows.

    Raises
    ------
    Problem
        413 if it is longer than ``limit`` bytes, 408 if it takes longer than ``seconds``, 415 if it is compressed.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("identity", ""):
        raise Problem(
            415,
            "unsupported-encoding",
            f"Content-Encoding must be identity, got {encoding}; send the body uncompressed",
            headers={"accept-encoding": "identity"},
        )
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit, f"{declared} bytes")
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit, "more")
                chunks.append(chunk)
    except TimeoutError:
        raise Problem(
            408, "slow-body", f"the body was not complete after {seconds:g} seconds; {size} bytes came"
        ) from None
    return b"".join(chunks)


def _too_large(limit: int, got: str) -> Problem:
    return Problem(
        413,
        "body-too-large",
        f"the body must have at most {limit} bytes, got {got}; send it in several requests",
        headers={"connection": "close"},
        limit_bytes=limit,
    )


def check_json(request: Request, allowed: tuple[str, ...]) -> str:
    """The body's media type, one of those allowed.

    A form's types are refused because any web page may send them to any service without being asked.

    Raises
    ------
    Problem
        415.
    """
    declared = request.headers.get("content-type", "")
    media = declared.partition(";")[0].strip().lower()
    if media not in allowed:
        raise Problem(
            415,
            "unsupported-media-type",
            f"Content-Type must be {' or '.join(allowed)}, got {declared or 'none'}",
            headers={"accept": ", ".join(allowed)},
        )
    return media


async def no_parameters(request: Request) -> None:
    """A dependency of routes that take no query.

    Raises
    ------
    Problem
        422: there is one.
    """
    for name, value in request.query_params.items():
        raise Problem(
            422,
            "invalid-parameter",
            f"{name}: there is no such parameter here; /docs lists those there are, got {value[:80]!r}",
        )


def parse_time(text: str, name: str) -> int:
    """Milliseconds since the epoch of a query parameter: RFC 3339, or integer milliseconds.

    Raises
    ------
    Problem
        422.
    """
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        # In a query a plus sign stands for a space, and few write %2B: 10:00:00+01:00 arrives as 10:00:00 01:00.
        return read_time(_SPACED_OFFSET.sub("+", text), text, name)
    except Rejected as why:
        raise Problem(422, "invalid-parameter", why.detail) from None


class Computations:
    """Runs what takes long in threads, a few at a time, so that quick answers stay quick.

    Parameters
    ----------
    at_once
        How many run at one time.
    wait_seconds
        How long another one waits for its turn.
    """

    def __init__(self, at_once: int, wait_seconds: float) -> None:
        self._at_once = at_once
        self._wait_seconds = wait_seconds
        self._limiter: anyio.CapacityLimiter | None = None

    async def run(self, compute: Callable[[], T], *, before: Callable[[], None] | None = None) -> T:
        """The result of ``compute``, once it is its turn.

        Parameters
        ----------
        before
            Called in the event loop's thread when its turn has come; what it raises is raised.

        Raises
        ------
        Problem
            503: its turn did not come in time.
        """
        if self._limiter is None:  # a limiter belongs to the event loop that runs when it is made
            self._limiter = anyio.CapacityLimiter(self._at_once)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._limiter.acquire_on_behalf_of(borrower := object())
        except TimeoutError:
            raise Problem(
                503,
                "busy",
                f"{self._at_once} requests like this are worked on at one time, and none was done within "
                f"{self._wait_seconds:g} seconds; try again later",
            ) from None
        limiter = self._limiter
        try:
            if before is not None:
                before()
            work = asyncio.ensure_future(anyio.to_thread.run_sync(compute))
        except BaseException:
            limiter.release_on_behalf_of(borrower)
            raise

        def ended(done: "asyncio.Future[T]") -> None:
            limiter.release_on_behalf_of(borrower)
            if not done.cancelled():
                # Of what nobody waits for any more, nobody needs to hear how it failed.
                done.exception()

        work.add_done_callback(ended)
        # A request may end before its thread does, which cannot be ended: the turn is the thread's.
        return await asyncio.shield(work)
