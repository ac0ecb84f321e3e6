"""Spans of the work that the service does, where OpenTelemetry is set up; elsewhere they cost nothing."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol


class Span(Protocol):
    """A span of OpenTelemetry, or nothing."""

    def update_name(self, name: str) -> None:
        """Name what was done, if that was not known at its start."""
        ...

    def set_attribute(self, key: str, value: Any) -> None:
        """Add what is known of it."""
        ...


StartSpan = Callable[[str, Mapping[str, str], Mapping[str, Any]], AbstractContextManager[Span]]
"""Starts a span: its name, the headers of a request, of which ``traceparent`` names the caller's span, and what is
known of it. An exception that passes the span is recorded."""


class _Nothing:
    def update_name(self, name: str) -> None: ...

    def set_attribute(self, key: str, value: Any) -> None: ...


_nothing = _Nothing()
_tracers: list[StartSpan] = []
"""One, or none: that of this process, as log handlers are."""


@contextmanager
def span(name: str, parent: Mapping[str, str] | None = None, **attributes: Any) -> Iterator[Span]:
    """Trace what is done in the block."""
    if not _tracers:
        yield _nothing
        return
    with _tracers[-1](name, parent or {}, attributes) as current:
        yield current


@contextmanager
def traced_by(tracer: StartSpan) -> Iterator[None]:
    """Let spans be made by this tracer in the block."""
    _tracers.append(tracer)
    try:
        yield
    finally:
        _tracers.remove(tracer)
