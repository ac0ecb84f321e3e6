"""Folders among the system's temporary files that no other user of the machine can write to, or plant anything in."""

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_folder(path: Path) -> Path | None:
    """The folder, made if it is not there; None where it is another user's, or others may write to it.

    Ask anew each time it is used: systems remove temporary files that were not used for long, and whoever comes first
    may take the name.

    Raises
    ------
    OSError
        It is not there and cannot be made.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    # Not stat: a link leads wherever who made it likes.
    found = path.lstat()
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return path if ours else None
