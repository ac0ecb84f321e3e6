"""The streams of a loaded state: pieces that are read when they are asked for, from one snapshot of the database."""

from collections.abc import Callable, Iterator
from typing import Generic, Self, TypeVar

import sqlalchemy as sa

T = TypeVar("T")


class Snapshot:
    """The connection under so many streams of a loaded state; closed with the last of them."""

    def __init__(self, connection: sa.Connection, streams: int) -> None:
        self._connection = connection
        self._open_streams = streams

    def release(self) -> None:
        """One of the streams is done."""
        self._open_streams -= 1
        if self._open_streams == 0:
            self._connection.close()


class Stream(Generic[T]):
    """An iterator that gives its part of the snapshot back, however it ends."""

    def __init__(self, items: Iterator[T], snapshot: Snapshot) -> None:
        self._items = items
        self._snapshot: Snapshot | None = snapshot

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        try:
            return next(self._items)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Read no further."""
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            close: Callable[[], None] = self._items.close  # type: ignore[attr-defined]  # a generator
            close()
            snapshot.release()

    def __del__(self) -> None:
        self.close()
