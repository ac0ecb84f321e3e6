"""The folders of refits, one each: who uses one holds a lock on it, so that those of killed services are found."""

import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import structlog

_PREFIX: Final = "calibration-refit-"
_IN_USE: Final = "in-use"

_log = structlog.get_logger(__name__)


class Claim(NamedTuple):
    """Which refit a folder is of, and who ran it."""

    refit: str
    owner: str


@contextmanager
def own_folder(parent: Path, claim: Claim) -> Iterator[Path]:
    """A folder that is removed at the end: by us, or by the next service if we are killed."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=parent) as name, (Path(name) / "new").open("wb") as mark:
        fcntl.flock(mark, fcntl.LOCK_EX)
        mark.write(json.dumps(claim._asdict()).encode())
        mark.flush()
        # Under this name only once it is locked: a service that starts just now removes what nobody has locked.
        (Path(name) / "new").rename(Path(name) / _IN_USE)
        yield Path(name)


class Abandoned(NamedTuple):
    """What a killed service left: its events are gone, its claim stays until it is settled."""

    folder: Path
    claim: Claim

    def settle(self) -> None:
        """The store knows of it, so nobody needs the claim any more."""
        shutil.rmtree(self.folder, ignore_errors=True)


def clear_abandoned(parent: Path) -> list[Abandoned]:
    """Remove what services that were killed left: it holds events, and nobody else would. Whose it was.

    Services with other stores may share ``parent``: what is cleared here may be theirs, so the claim stays for them.
    """
    found: list[Abandoned] = []
    for mark in parent.glob(f"{_PREFIX}*/{_IN_USE}"):
        try:
            with mark.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                told = file.read()
                _clear(mark)
        except OSError as error:
            # In use, or another user's.
            _log.debug("a refit's folder is left", folder=str(mark.parent), detail=str(error))
            continue
        try:
            found.append(Abandoned(mark.parent, Claim(**json.loads(told))))
        except (ValueError, TypeError) as error:
            _log.debug("it is not known which refit a folder was of", folder=str(mark.parent), detail=str(error))
            shutil.rmtree(mark.parent, ignore_errors=True)
    return found


def _clear(mark: Path) -> None:
    """Remove all in its folder but the mark itself."""
    for entry in mark.parent.iterdir():
        if entry == mark:
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()
