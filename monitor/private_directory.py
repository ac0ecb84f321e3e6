"""Private folders among the system's temporary files."""

import os
import stat
from contextlib import suppress
from pathlib import Path


def private_folder(path: Path) -> Path | None:
    """Create the folder if necessary and return it; return None if it is another user's, or others can write to it.

    Call it before each use: systems remove old temporary files, and then another user may take the name.

    Raises
    ------
    OSError
        It cannot be created.
    """
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    # lstat, because another user may have put a link there.
    info = path.lstat()
    is_private = stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not stat.S_IMODE(info.st_mode) & 0o077
    return path if is_private else None
