"""Types that msgspec reads, learnt where they are defined.

msgspec learns a structure or a dataclass when it is first read. If two threads do so at once, one reads by what the
other has not finished, and the process crashes (msgspec 0.22). An import is of one thread: a decoder that a module
makes has learnt its type, and :func:`learn` does the same for types that are read without one.
"""

from typing import Any

import msgspec


def learn(*types: Any) -> None:
    """Let msgspec learn these types, and those that they hold."""
    for one in types:
        msgspec.json.Decoder(one)
