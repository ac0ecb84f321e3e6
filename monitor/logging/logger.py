"""Logs predictions and outcomes from a scorer."""

import os
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from reprlib import repr as short
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import ArrayLike

from monitor.errors import InputError
from monitor.events.fields import wrong_model, wrong_name
from monitor.logging import termination
from monitor.logging.destination import Destination, EncodedEvent
from monitor.logging.entries import Block, Entry, encode_entry
from monitor.logging.outbox import Outbox, Stats

_IDS_AT_ONCE: Final = 64
_ID_BYTES: Final = 16

# Popping from a list is atomic: no two threads get the same id.
_unused_ids: Final[list[str]] = []

_EVENT_BYTES: Final = 400
"""Memory of an event that waits, without segments and features."""
_SEGMENT_BYTES: Final = 100
_ROWS: Final = 1_000
"""Rows of one entry: where not all fit into the buffer, the first do."""

Time = int | str | datetime
"""Milliseconds since the epoch, RFC 3339, or a datetime (UTC where it names no zone)."""


def new_id() -> str:
    """Return an id that no other process, host or fork makes."""
    try:
        return _unused_ids.pop()
    except IndexError:
        first, *others = new_ids(_IDS_AT_ONCE)
        _unused_ids.extend(others)
        return first


def new_ids(count: int) -> list[str]:
    """Return that many ids. One system call for all of them."""
    digits = os.urandom(_ID_BYTES * count).hex()
    return [digits[start : start + 2 * _ID_BYTES] for start in range(0, len(digits), 2 * _ID_BYTES)]


# A forked process would use the same ids as its parent.
os.register_at_fork(after_in_child=_unused_ids.clear)


class PredictionLogger:
    """Sends predictions and outcomes in a background thread. Thread-safe; create one per model and keep it.

    No call raises or waits, apart from :meth:`flush` and :meth:`close`: an event is put into a bounded buffer, and
    what does not fit is dropped and counted. What is wrong (a prediction of 1.2) is counted, and logged once a minute.
    Events arrive at least once; the service drops duplicates by id.

    The thread starts with the first event. It ends when the process does, after it has delivered what waits, for
    ``exit_seconds`` at most. A forked process begins with an empty buffer, a thread and a connection of its own.

    Parameters
    ----------
    model, version
        Whose predictions.
    to
        Where they go: :class:`~monitor.logging.Kafka`, :class:`~monitor.logging.Rest` or
        :class:`~monitor.logging.File`.
    max_events, max_bytes
        How many events wait at most, and roughly how much memory they take.
    exit_seconds
        How long the end of the process may wait for delivery.
    deliver_at_sigterm
        Whether SIGTERM waits for delivery, too, for ``exit_seconds`` at most. A logger that the main thread makes
        installs a handler, which then calls the one that was there before, or ends the process as without it.

    Raises
    ------
    InputError
        An argument is not allowed.
    """

    def __init__(
        self,
        model: str,
        version: str | int | None = None,
        *,
        to: Destination,
        max_events: int = 100_000,
        max_bytes: int = 64 << 20,
        exit_seconds: float = 5.0,
        deliver_at_sigterm: bool = True,
    ) -> None:
        version = None if version is None else str(version)
        wrong = wrong_model(model)
        if wrong:
            raise InputError(f"model {wrong}, got {model!r}")
        wrong = "must not be empty" if version == "" else wrong_name(version or "")
        if wrong:
            raise InputError(f"version {wrong}, got {version!r}")
        for option, value in (("max_events", max_events), ("max_bytes", max_bytes), ("exit_seconds", exit_seconds)):
            if not value > 0:
                raise InputError(f"{option} must be above 0, got {value!r}")
        self._arguments: dict[str, Any] = {
            "model": model, "version": version, "to": to,
            "max_events": max_events, "max_bytes": max_bytes, "exit_seconds": exit_seconds,
            "deliver_at_sigterm": deliver_at_sigterm,
        }  # fmt: skip

        def encode(entry: Entry) -> EncodedEvent:
            return encode_entry(model, version, entry)

        self._outbox = Outbox(to, encode, max_events=max_events, max_bytes=max_bytes, exit_seconds=exit_seconds)
        if deliver_at_sigterm:
            termination.install(self._outbox)

    def log(
        self,
        p: float | ArrayLike,
        id: str | int | None = None,  # noqa: A002 - the event's key
        ts: Time | None = None,
        features: ArrayLike | None = None,
        segments: Mapping[str, Any] | None = None,
    ) -> str:
        """Log a prediction and return its id, by which its outcome is logged later.

        Parameters
        ----------
        p
            P(y = 1), or the probabilities of K classes.
        id
            1 to 512 characters, unique within the model; random if left out.
        ts
            When it was made; now if left out.
        features
            Shape (D,): the inputs of the model, for recalibration maps that use them.
        segments
            Key -> value: the parts of the population that it belongs to.
        """
        identifier = ""
        try:
            identifier = new_id() if id is None else _text(id)
            size = _EVENT_BYTES
            if type(p) is not float:
                p = _plain(p)
            if segments is not None:
                segments = dict(segments)
                size += _SEGMENT_BYTES * len(segments)
            numbers = None
            if features is not None:
                # A copy: the caller may use the array for the next prediction.
                numbers = np.array(features, np.float64).ravel()
                size += numbers.nbytes
            entry = (False, identifier, _milliseconds(ts), p, segments, numbers)
            self._outbox.add(entry, size)
        except Exception as error:  # noqa: BLE001 - a scorer must not fail
            self._outbox.drop(
                "invalid", f"p {short(p)}, features {short(features)}, segments {short(segments)}: {error}"
            )
        return identifier

    def outcome(self, id: str | int, y: Any, ts: Time | None = None) -> None:  # noqa: A002
        """Log the outcome of a prediction.

        Parameters
        ----------
        id
            The prediction's.
        y
            Whether it came true (0 or 1), or which class did.
        ts
            When it became known; now if left out.
        """
        try:
            self._outbox.add((True, _text(id), _milliseconds(ts), _plain(y), None, None), _EVENT_BYTES)
        except Exception as error:  # noqa: BLE001 - a scorer must not fail
            self._outbox.drop("invalid", f"id {short(id)}, y {short(y)}: {error}")

    def log_many(
        self,
        p: ArrayLike,
        ids: Iterable[Any] | None = None,
        ts: Time | Iterable[Time] | None = None,
        features: ArrayLike | None = None,
        segments: Any = None,
    ) -> list[str]:
        """Log many predictions and return their ids. Much faster than a call for each.

        Parameters
        ----------
        p
            Shape (n,): P(y = 1); or (n, K). An array or a column of a data frame.
        ids
            n ids; random if left out.
        ts
            One time, or n; now if left out.
        features
            Shape (n, D): an array or a data frame.
        segments
            A mapping key -> n values, or a data frame with a column for each key.

        Returns
        -------
        list of str
            n ids; empty if an argument does not fit the others: that is logged and counted like any bad value.
        """
        count = 1
        try:
            scores = np.array(p, np.float64)
            count = len(scores)
            identifiers = new_ids(count) if ids is None else [_text(identifier) for identifier in ids]
            times = _milliseconds(ts) if ts is None or isinstance(ts, Time) else [_milliseconds(time) for time in ts]
            keys = [] if segments is None else getattr(segments, "columns", segments)
            columns = {str(key): _values(segments[key]) for key in keys}
            numbers = None if features is None else np.array(features, np.float64).reshape(count, -1)
            lengths = {key: len(values) for key, values in {"ids": identifiers, **columns}.items()}
            lengths |= {"ts": len(times)} if isinstance(times, list) else {}
            for key, length in lengths.items():
                if length != count:
                    raise InputError(f"{key} must have one value for each of the {count} predictions, got {length}")  # noqa: TRY301
            size = _EVENT_BYTES + _SEGMENT_BYTES * len(columns) + (0 if numbers is None else numbers[:1].nbytes)
            for start in range(0, count, _ROWS):
                rows = slice(start, start + _ROWS)
                block = Block(
                    identifiers[rows],
                    times[rows] if isinstance(times, list) else times,
                    scores[rows],
                    {key: values[rows] for key, values in columns.items()},
                    None if numbers is None else numbers[rows],
                )
                self._outbox.add(block, size * len(block.ids), len(block.ids))
        except Exception as error:  # noqa: BLE001 - a scorer must not fail
            self._outbox.drop("invalid", str(error), max(count, 1))
            return []
        return identifiers

    def flush(self, timeout_seconds: float = 10.0) -> bool:
        """Wait until all that was logged before is delivered or dropped; returns whether it is. Blocks."""
        return self._outbox.flush(timeout_seconds)

    def stats(self) -> Stats:
        """Count what was logged, delivered and dropped, by reason."""
        return self._outbox.stats()

    def close(self, timeout_seconds: float | None = None) -> None:
        """Deliver what waits, for ``exit_seconds`` at most if no other time is given, and end the thread. Blocks."""
        self._outbox.close(timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # A copy of an estimator with a logger shares it; in another process it makes one with the same arguments.

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, arguments: dict[str, Any]) -> None:
        self.__init__(**arguments)  # type: ignore[misc]


def _text(identifier: Any) -> str:
    """An id as text; integers are the same as their decimal text."""
    if isinstance(identifier, str):
        return identifier
    if identifier is None or isinstance(identifier, float | bool | np.floating):
        raise InputError(f"id must be text or an integer, got {identifier!r}")
    return str(identifier)


def _plain(value: Any) -> Any:
    """Numbers and lists of Python, for those of numpy, pandas and torch; lists are copied."""
    return _values(value) if hasattr(value, "tolist") or isinstance(value, list | tuple) else value


def _values(column: Any) -> Any:
    return column.tolist() if hasattr(column, "tolist") else list(column)


def _milliseconds(ts: Any) -> Any:
    if ts is None:
        return time.time_ns() // 1_000_000
    if isinstance(ts, datetime):
        return round((ts if ts.tzinfo else ts.replace(tzinfo=UTC)).timestamp() * 1000)
    return ts.item() if isinstance(ts, np.integer) else ts
