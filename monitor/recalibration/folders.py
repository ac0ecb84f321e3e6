"""The folders of refits, one each: who uses one holds a lock on its claim, so that killed services' are found."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import structlog

from monitor.private_directory import private_folder

_PREFIX: Final = "calibration-refits"
_CLAIM: Final = ".claim"

_log = structlog.get_logger(__name__)


class Claim(NamedTuple):
    """Which refit a folder is of, and who runs it."""

    refit: str
    owner: str


class Workplace:
    """Where the refits of one store work on this machine.

    Services of other stores have places of their own: what a killed service left is found by the next one that can do
    something about it. Other users get in nowhere: events are read there, and files are removed.

    Parameters
    ----------
    store
        The same for all services of the store, and for no others.
    parent
        A folder for temporary files; the system's own if left out.
    """

    def __init__(self, store: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        self._home = parent / f"{_PREFIX}-{os.geteuid()}-{hashlib.sha256(store.encode()).hexdigest()[:16]}"

    @contextmanager
    def own_folder(self, claim: Claim) -> Iterator[Path]:
        """A folder that is removed at the end: by us, or by the next service if we are killed."""
        home, folder = self._home, self._home / secrets.token_hex(8)
        mark, unlocked = folder.with_suffix(_CLAIM), folder.with_suffix(".new")
        file = self._new(unlocked)
        if file is None:
            _log.warning(
                "others may write where refits work: this one works elsewhere, and waits for its lease if it is killed",
                folder=str(home),
            )
            with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}-") as name:
                yield Path(name)
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(claim._asdict()).encode())
            file.flush()
            # Under this name only once it is locked: a service that starts just now takes what nobody has locked.
            unlocked.rename(mark)
            try:
                folder.mkdir(mode=0o700)
                yield folder
            finally:
                _remove(folder, mark)

    def _new(self, path: Path) -> BinaryIO | None:
        """A new file in a folder that is private; None where it is not."""
        while True:
            try:
                return None if private_folder(self._home) is None else path.open("xb")
            except FileNotFoundError:
                # A refit that ends just now took the folder with it; or there is no place for temporary files at all.
                if not self._home.parent.is_dir():
                    raise

    def take_abandoned(self) -> list[Claim]:
        """Remove the folders of services that were killed: they hold events, and nobody else would. Whose they were."""
        try:
            home = private_folder(self._home) if self._home.is_dir() else None
        except OSError as error:
            _log.warning(
                "it is not known what killed services left of refits", folder=str(self._home), detail=str(error)
            )
            return []
        found = [] if home is None else [_take(mark) for mark in sorted(home.glob(f"*{_CLAIM}"))]
        return [claim for claim in found if claim is not None]


def _take(mark: Path) -> Claim | None:
    """A claim that nobody holds, whose folder is removed with it."""
    try:
        with mark.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(file.fileno()).st_nlink:
                # Its refit came to its end between our opening the file and its lock.
                return None
            told = file.read()
            _remove(mark.with_suffix(""), mark)
    except (BlockingIOError, FileNotFoundError):
        # In use, or at its end.
        return None
    except OSError as error:
        _log.warning("what a refit left cannot be looked at", claim=str(mark), detail=str(error))
        return None
    try:
        return Claim(**json.loads(told))
    except (ValueError, TypeError) as error:
        _log.warning("it is not known which refit a folder was of", claim=str(mark), detail=str(error))
        return None


def _remove(folder: Path, mark: Path) -> None:
    """The claim last, and by who holds its lock: as long as there are events, there is a claim."""
    try:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
        mark.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("a refit's folder is left: the next start tries again", folder=str(folder), detail=str(error))
        return
    with suppress(OSError):
        # Only where nobody else works there.
        mark.parent.rmdir()
