"""Compiled loops for Kafka's format of batches: where the records of one begin and end."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.loops import njit

Int = int | np.int64

SPANS: Final = 9
"""Columns of what :func:`locate_records` fills in."""

_LONGEST_VARINT: Final = 10


@njit()
def _varint(data: NDArray[np.uint8], at: Int) -> tuple[Int, Int]:
    """A zigzag varint, and where it ends; that is -1 if it does not end within the data."""
    value = np.uint64(0)
    for place in range(_LONGEST_VARINT):
        if at + place >= data.size:
            return 0, -1
        byte = np.uint64(data[at + place])
        value |= (byte & np.uint64(0x7F)) << np.uint64(7 * place)
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at + place + 1
    return 0, -1


@njit()
def locate_records(data: NDArray[np.uint8], at: Int, spans: NDArray[np.int64]) -> bool:
    """Find the records.

    Parameters
    ----------
    data
        The batch.
    at
        Where its first record begins.
    spans
        int64, shape (records, SPANS), filled in: length of the record, timestamp delta, offset delta, start and
        length of the key, start and length of the value (length -1: null), start and number of the headers.

    Returns
    -------
    bool
        Whether the batch holds exactly that many records, each as long as it says.
    """
    for index in range(spans.shape[0]):
        length, at = _varint(data, at)
        if at < 0 or length < 1 or at + length > data.size:
            return False
        end = at + length
        at += 1  # attributes: none are in use
        timestamp, at = _varint(data, at)
        if at < 0:
            return False
        offset, at = _varint(data, at)
        if at < 0:
            return False
        key_length, key = _varint(data, at)
        if key < 0 or key_length > end - key:
            return False
        value_length, value = _varint(data, key + max(key_length, 0))
        if value < 0 or value_length > end - value:
            return False
        headers, at = _varint(data, value + max(value_length, 0))
        if at < 0 or headers < 0:
            return False
        first_header = at
        for _ in range(2 * headers):  # a name and a value each
            part_length, at = _varint(data, at)
            if at < 0 or part_length > end - at:
                return False
            at += max(part_length, 0)
        if at != end:
            return False
        spans[index, 0] = length
        spans[index, 1] = timestamp
        spans[index, 2] = offset
        spans[index, 3] = key
        spans[index, 4] = key_length
        spans[index, 5] = value
        spans[index, 6] = value_length
        spans[index, 7] = first_header
        spans[index, 8] = headers
    return at == data.size
