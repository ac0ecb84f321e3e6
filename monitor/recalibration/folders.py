"""One folder per running refit, with a locked claim file: an unlocked claim was left by a killed service."""

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
    """The refit of a folder, and its owner."""

    refit: str
    owner: str


class RefitFolders:
    """Folders of the refits of one store on this machine, which no other user can open.

    Parameters
    ----------
    store
        Name of the store: each store has folders of its own, so that a service cleans up only its own store's.
    parent
        A folder for temporary files; the system's if left out.
    """

    def __init__(self, store: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        self._home = parent / f"{_PREFIX}-{os.geteuid()}-{hashlib.sha256(store.encode()).hexdigest()[:16]}"

    @contextmanager
    def new_folder(self, claim: Claim) -> Iterator[Path]:
        """Make a folder; it is removed at the end, or by the next service if this one is killed."""
        home, folder = self._home, self._home / secrets.token_hex(8)
        claim_file, unlocked = folder.with_suffix(_CLAIM), folder.with_suffix(".new")
        file = self._create(unlocked)
        if file is None:
            _log.warning(
                "others may write to the folder of refits: another is used, and waits for its lease if it is killed",
                folder=str(home),
            )
            with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}-") as name:
                yield Path(name)
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(claim._asdict()).encode())
            file.flush()
            # Renamed once it is locked: a service that starts now removes unlocked claims.
            unlocked.rename(claim_file)
            try:
                folder.mkdir(mode=0o700)
                yield folder
            finally:
                _remove(folder, claim_file)

    def _create(self, path: Path) -> BinaryIO | None:
        """Create a file in the private folder; None if others may write to that folder."""
        while True:
            try:
                return None if private_folder(self._home) is None else path.open("xb")
            except FileNotFoundError:
                # Another refit that ended removed the folder; or the parent folder does not exist.
                if not self._home.parent.is_dir():
                    raise

    def remove_abandoned(self) -> list[Claim]:
        """Remove the folders of killed services, because they hold events; return their claims."""
        try:
            home = private_folder(self._home) if self._home.is_dir() else None
        except OSError as error:
            _log.warning("folders of killed services cannot be read", folder=str(self._home), detail=str(error))
            return []
        claims = [] if home is None else [_remove_abandoned(file) for file in sorted(home.glob(f"*{_CLAIM}"))]
        return [claim for claim in claims if claim is not None]


def _remove_abandoned(claim_file: Path) -> Claim | None:
    """Remove a claim that is not locked, with its folder, and return it."""
    try:
        with claim_file.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.fstat(file.fileno()).st_nlink:
                # The refit ended after the file was opened.
                return None
            content = file.read()
            _remove(claim_file.with_suffix(""), claim_file)
    except (BlockingIOError, FileNotFoundError):
        # In use, or just removed.
        return None
    except OSError as error:
        _log.warning("an abandoned claim cannot be read", claim=str(claim_file), detail=str(error))
        return None
    try:
        return Claim(**json.loads(content))
    except (ValueError, TypeError) as error:
        _log.warning("an abandoned claim does not name its refit", claim=str(claim_file), detail=str(error))
        return None


def _remove(folder: Path, claim_file: Path) -> None:
    """Remove a folder, then its claim, while its lock is held: as long as there are events, there is a claim."""
    try:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
        claim_file.unlink(missing_ok=True)
    except OSError as error:
        _log.warning(
            "a refit's folder cannot be removed; the next start tries again", folder=str(folder), detail=str(error)
        )
        return
    with suppress(OSError):
        # Only if it is empty.
        claim_file.parent.rmdir()
