"""Text from somebody's data, made fit for a terminal."""

from typing import Final

LONGEST: Final = 120
"""Characters of a name that are shown."""


def plain(text: str) -> str:
    """Text with what would steer a terminal spelled out, and cut where it is very long.

    A value of a column may hold anything: escape sequences, line breaks, marks that turn the direction of writing.
    """
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
