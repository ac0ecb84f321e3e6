import pytest

from monitor.errors import CorruptMap
from monitor.maps.artifact import from_bytes, to_bytes
from monitor.maps.identity import Identity

ABOUT = {"id": "m1", "model": "churn", "version": "7", "options": {"n": None}, "fitted_on": {"n": 12}}


def test_a_map_comes_back_with_what_is_known_of_it() -> None:
    data = to_bytes(Identity(3), ABOUT)
    read = from_bytes(data)
    assert read.map == Identity(3)
    assert read.about == ABOUT
    assert to_bytes(read.map, read.about) == data


def test_any_byte_that_changes_leaves_the_same_map_or_none() -> None:
    data = to_bytes(Identity(2), ABOUT)
    refused = 0
    for place in range(len(data)):
        for change in (1, 16, 128, 255):
            damaged = bytearray(data)
            damaged[place] ^= change
            try:
                read = from_bytes(bytes(damaged))
            except CorruptMap:
                refused += 1
            else:
                assert read.map == Identity(2)
                assert read.about == ABOUT
    assert refused > len(data)


def test_a_part_of_a_map_is_none() -> None:
    data = to_bytes(Identity(2), ABOUT)
    for length in range(len(data)):
        with pytest.raises(CorruptMap):
            from_bytes(data[:length])
