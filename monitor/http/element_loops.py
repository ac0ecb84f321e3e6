"""Count the elements of a JSON array before an object is made of any."""

from typing import Any

from monitor.loops import njit

_QUOTE, _BACKSLASH, _COMMA = 0x22, 0x5C, 0x2C
_OPENING, _CLOSING = (0x5B, 0x7B), (0x5D, 0x7D)


@njit()
def count_elements(text: Any, most: int) -> int:
    """Count the elements of a JSON array, up to ``most``; an empty array counts as one.

    Parameters
    ----------
    text
        uint8: the array from its bracket on. Of one that is not valid, only the valid part is counted rightly.
    """
    count, depth, at, in_text = 1, 0, 0, False
    while at < text.size and count < most:
        byte = text[at]
        if in_text:
            if byte == _BACKSLASH:
                at += 1
            in_text = byte != _QUOTE
        elif byte == _QUOTE:
            in_text = True
        elif byte in _OPENING:
            depth += 1
        elif byte in _CLOSING:
            depth -= 1
        elif byte == _COMMA and depth == 1:
            count += 1
        at += 1
    return count
