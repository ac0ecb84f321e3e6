"""Spans of the work that the service does, where OpenTelemetry is set up; elsewhere they cost nothing."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol


class Span(Protocol):
    """A span of OpenTelemetry, or nothing."""

    def update_name(self, name: str) -> None:
        """Name what was done, if that was not known at its start."""
        ...

    def set_attribute(self, key: str, value: Any) -> None:
        """Add what is known of it."""
        ...


class Tracer(Protocol):
    """Makes spans."""

    def span(self, name: str, parent: Mapping[str, str], attributes: Mapping[str, Any]) -> Any:
        """Return a context manager of a :class:`Span`; an exception that passes it is recorded.

        Parameters
        ----------
        name
            What is done.
        parent
            Headers of a request, of which ``traceparent`` names the caller's span.
        attributes
            What is known of it.
        """
        ...


class _Nothing:
    def update_name(self, name: str) -> None: ...

    def set_attribute(self, key: str, value: Any) -> None: ...


_nothing = _Nothing()
_tracers: list[Tracer] = []
"""One, or none: those of this process, as log handlers are."""


@contextmanager
def span(name: str, parent: Mapping[str, str] | None = None, **attributes: Any) -> Iterator[Span]:
    """Trace what is done in the block."""
    if not _tracers:
        yield _nothing
        return
    with _tracers[-1].span(name, parent or {}, attributes) as current:
        yield current


@contextmanager
def traced_by(tracer: Tracer) -> Iterator[None]:
    """Let spans be made by this tracer in the block."""
    _tracers.append(tracer)
    try:
        yield
    finally:
        _tracers.remove(tracer)
