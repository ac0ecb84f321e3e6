"""Why an event is refused."""

from typing import Final

from monitor.events.model import Reason

_SHOWN_CHARACTERS: Final = 80


class Rejected(Exception):  # noqa: N818 - no error of the service: the event goes to the dead letters
    """The message is no valid event. Stays inside the room: the decoder turns it into a dead letter.

    Attributes
    ----------
    reason
        What is counted.
    detail
        One line that names key and value and says what is allowed.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def shown(text: str | bytes | memoryview) -> str:
    """A value for a message: one line, printable, and short."""
    if not isinstance(text, str):
        # Four bytes a character at most; the slice keeps an oversized value from being decoded whole.
        text = bytes(text[: 4 * _SHOWN_CHARACTERS + 4]).decode("utf-8", "backslashreplace")
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in cut
    )
