"""An open-addressing index from 64-bit key pairs to rows of a table that keeps its columns elsewhere.

A slot holds the low 32 bits of the key's hash and the row's number plus one; 0 is an empty slot. Probing is linear, so
it stays in one cache line, and a row is looked at only where the 32 bits agree. Removal shifts back what follows, so
there are no tombstones and the index never needs cleaning.
"""

import numpy as np
from numpy.typing import NDArray

from monitor.compiled import njit

Slots = NDArray[np.uint64]
Keys = NDArray[np.uint64]
Row = int | np.int64

MAX_LOAD = 0.65
"""Beyond this share of used slots the index is to be grown; probes stay short below it."""

_ROW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)
_EMPTY = np.uint64(0)


def slots_for(rows: int, current: int = 1024) -> int:
    """Number of slots, a power of two, at least ``current``, in which that many rows stay below MAX_LOAD."""
    size = current
    while rows > size * MAX_LOAD:
        size *= 2
    return size


@njit()
def mix(high: np.uint64, low: np.uint64) -> np.uint64:
    """Spread a key pair over 64 bits (the finaliser of MurmurHash3, over both words)."""
    word = high * np.uint64(0x9E3779B97F4A7C15) ^ low
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xFF51AFD7ED558CCD)
    word ^= word >> np.uint64(33)
    word *= np.uint64(0xC4CEB9FE1A85EC53)
    return word ^ (word >> np.uint64(33))


@njit()
def find(slots: Slots, highs: Keys, lows: Keys, high: np.uint64, low: np.uint64) -> Row:
    """Row of a key, or -1."""
    mask = np.uint64(slots.size - 1)
    tag = mix(high, low) & _ROW
    at = tag & mask
    while True:
        slot = slots[at]
        if slot == _EMPTY:
            return -1
        if slot >> _SHIFT == tag:
            row = np.int64(slot & _ROW) - 1
            if lows[row] == low and highs[row] == high:
                return row
        at = (at + _ONE) & mask


@njit()
def insert(slots: Slots, high: np.uint64, low: np.uint64, row: Row) -> None:
    """Enter a row under a key that is not there yet. The caller sees to it that there is room."""
    mask = np.uint64(slots.size - 1)
    tag = mix(high, low) & _ROW
    at = tag & mask
    while slots[at] != _EMPTY:
        at = (at + _ONE) & mask
    slots[at] = (tag << _SHIFT) | np.uint64(row + 1)


@njit()
def remove(slots: Slots, high: np.uint64, low: np.uint64, row: Row) -> None:
    """Take a row out. It must be there under that key."""
    mask = np.uint64(slots.size - 1)
    tag = mix(high, low) & _ROW
    sought = (tag << _SHIFT) | np.uint64(row + 1)
    hole = tag & mask
    while slots[hole] != sought:
        hole = (hole + _ONE) & mask
    at = hole
    while True:
        at = (at + _ONE) & mask
        slot = slots[at]
        if slot == _EMPTY:
            break
        home = (slot >> _SHIFT) & mask
        # A slot may move into the hole unless its home lies behind the hole.
        if ((at - home) & mask) >= ((at - hole) & mask):
            slots[hole] = slot
            hole = at
    slots[hole] = _EMPTY


@njit()
def transfer(old: Slots, new: Slots) -> None:
    """Enter everything that ``old`` holds into ``new``, which is empty and larger. Needs no look at the rows."""
    mask = np.uint64(new.size - 1)
    for index in range(old.size):
        slot = old[index]
        if slot != _EMPTY:
            at = (slot >> _SHIFT) & mask
            while new[at] != _EMPTY:
                at = (at + _ONE) & mask
            new[at] = slot
