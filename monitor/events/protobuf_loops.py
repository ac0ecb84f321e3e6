"""Find the fields in Protobuf messages that stand back to back in one array of bytes.

A message that is not plainly what its type says is marked as such, valid or not: a group, a message in parts, an entry
of a map with further fields. Whoever reads it then decides.

Source: https://protobuf.dev/programming-guides/encoding
"""

from typing import Any

import numpy as np

from monitor.compiled import njit

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

OTHER, TEXT, MESSAGE = 0, 1, 2
"""What a field's bytes are: a text must be UTF-8, of several messages the parts would have to be merged."""

_MAX_VARINT_BYTES = 10
_MAX_TAG_BYTES = 5


@njit()
def _varint(data: Any, at: int, end: int) -> tuple[Any, int]:
    """The 64 bits of a varint, and where it ends; -1 if it does not."""
    value = np.int64(0)
    shift = np.int64(0)
    for place in range(at, min(end, at + _MAX_VARINT_BYTES)):
        byte = np.int64(data[place])
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    return value, -1


@njit()
def _fixed(data: Any, at: int, width: int) -> Any:
    value = np.int64(0)
    for place in range(width):
        value |= np.int64(data[at + place]) << np.int64(8 * place)
    return value


@njit()
def _is_utf8(data: Any, at: int, end: int) -> bool:
    """Source: Unicode 15, table 3-7."""
    highest = np.uint8(0)
    for place in range(at, end):
        highest |= data[place]
    if highest < 0x80:
        return True
    while at < end:
        lead = data[at]
        at += 1
        if lead < 0x80:
            continue
        low, high = 0x80, 0xBF  # of the second byte
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        else:
            return False
        if at + more > end:
            return False
        for _ in range(more):
            if not low <= data[at] <= high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True


@njit()
def _count(data: Any, at: int, end: int, wire: int) -> int:
    """How many numbers are packed in these bytes; -1 if they are not whole."""
    if wire != VARINT:
        width = 8 if wire == FIXED64 else 4
        return -1 if (end - at) % width else (end - at) // width
    count = 0
    while at < end:
        _, at = _varint(data, at, end)
        if at < 0:
            return -1
        count += 1
    return count


@njit()
def find_fields(
    data: Any,
    begins: Any,
    ends: Any,
    fields: Any,
    is_entry: bool,
    first: Any,
    last: Any,
    items: Any,
    good: Any,
) -> int:
    """Find the fields of each message.

    Parameters
    ----------
    data
        uint8, shape (size,): the bytes of all messages.
    begins, ends
        int64, shape (n,): where each message begins and ends.
    fields
        int64, shape (fields, 4): number, wire type, whether it is repeated, and what its bytes are.
    is_entry
        Whether the messages are entries of a map.
    first
        int64, shape (fields, n): set to the 64 bits of a field that is not repeated, or to where its bytes begin.
    last
        int64, shape (fields, n), -1 before: set to 0 where there is a number, or to where its bytes end.
    items
        int64, shape (5, capacity): set to field, row, begin, end and how many there are, of each value of a repeated
        field, or run of packed ones. A capacity of half the bytes is enough.
    good
        bool, shape (n,), True before: set to False for messages that have to be read in another way.

    Returns
    -------
    How many items there are.
    """
    count = 0
    for row in range(begins.size):
        at, end = begins[row], ends[row]
        field = 0
        while at < end:
            begin = at
            tag, at = _varint(data, at, end)
            number, wire = tag >> 3, tag & 7
            if at < 0 or at - begin > _MAX_TAG_BYTES or not 0 < number < 1 << 29:
                good[row] = False
                break
            begin = at
            value: Any = np.int64(0)
            if wire == VARINT:
                value, at = _varint(data, at, end)
            elif wire == BYTES:
                size, begin = _varint(data, at, end)
                at = begin + size if begin >= 0 and 0 <= size <= end - begin else -1
            elif wire == FIXED64 or wire == FIXED32:
                width = 8 if wire == FIXED64 else 4
                if at + width <= end:
                    value = _fixed(data, at, width)
                    at += width
                else:
                    at = -1
            else:
                at = -1  # a group
            if at < 0:
                good[row] = False
                break
            # Most producers write fields in the order of the schema: begin behind the previous one.
            tries = 0
            while tries < len(fields) and fields[field, 0] != number:
                field = field + 1 if field + 1 < len(fields) else 0
                tries += 1
            is_packed = False
            if tries < len(fields) and fields[field, 1] != wire:
                is_packed = wire == BYTES and fields[field, 2] == 1
                if not is_packed:
                    tries = len(fields)
            if tries == len(fields):  # unknown, or of another type
                if is_entry:
                    good[row] = False
                    break
                continue
            if wire == BYTES and fields[field, 3] == TEXT and not _is_utf8(data, begin, at):
                good[row] = False
                break
            if fields[field, 2] == 1:
                size = _count(data, begin, at, fields[field, 1]) if is_packed else 1
                if size < 0:
                    good[row] = False
                    break
                items[0, count] = field
                items[1, count] = row
                items[2, count] = begin
                items[3, count] = at
                items[4, count] = size
                count += 1
            elif wire == BYTES:
                if fields[field, 3] == MESSAGE and last[field, row] >= 0:
                    good[row] = False
                    break
                first[field, row] = begin
                last[field, row] = at
            else:
                first[field, row] = value
                last[field, row] = 0
    return count


@njit()
def read_numbers(data: Any, begins: Any, ends: Any, wire: int, bits: Any) -> None:
    """Read numbers that stand in runs of bytes, as 64 bits each.

    Parameters
    ----------
    data, begins, ends
        As of :func:`find_fields`.
    wire
        Wire type of each number.
    bits
        int64, shape (numbers,): is set.
    """
    count = 0
    for run in range(begins.size):
        at, end = begins[run], ends[run]
        while at < end:
            if wire == VARINT:
                bits[count], at = _varint(data, at, end)
            else:
                width = 8 if wire == FIXED64 else 4
                bits[count] = _fixed(data, at, width)
                at += width
            count += 1


@njit()
def copy_slices(data: Any, begins: Any, ends: Any, copied: Any) -> None:
    """Copy slices of bytes, back to back."""
    to = 0
    for row in range(begins.size):
        for at in range(begins[row], ends[row]):
            copied[to] = data[at]
            to += 1
