"""Ids of predictions: 128 random bits, as 32 hexadecimal digits."""

import os
from typing import Final

_BLOCK: Final = 64
_BYTES: Final = 16

# Popping from a list is atomic: no two threads get the same id.
_unused: Final[list[str]] = []


def new_id() -> str:
    """Return an id that no other process, host or fork makes."""
    try:
        return _unused.pop()
    except IndexError:
        first, *others = new_ids(_BLOCK)
        _unused.extend(others)
        return first


def new_ids(count: int) -> list[str]:
    """Return that many ids. One system call for all of them."""
    digits = os.urandom(_BYTES * count).hex()
    return [digits[start : start + 2 * _BYTES] for start in range(0, len(digits), 2 * _BYTES)]


# A forked process would use the same ids as its parent.
os.register_at_fork(after_in_child=_unused.clear)
