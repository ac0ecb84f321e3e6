"""Read a file that a user names: no more than a limit, as it may be a device or a pipe without an end."""

import errno
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 64 << 20
"""Limit for settings, keys, schemas, certificates and the like."""


def read_bounded(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a file. Raises OSError if it cannot be read, or is larger."""
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes >> 20} MiB", str(path))
    return data
