"""Files that name the refits under way on this machine, each locked while its service lives.

A file that is not locked was left by a killed service: the next service of the same store queues its refit again at
once, and does not wait until its lease expires. Where no such file can be kept, the lease alone decides.
"""

import fcntl
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from monitor.private_directory import private_folder

_SUFFIX: Final = ".claim"

_log = structlog.get_logger(__name__)


class Claim(NamedTuple):
    """A refit under way, and its owner."""

    refit: str
    owner: str


class Claims:
    """Claims on the refits of one store.

    Parameters
    ----------
    store
        Name of the store: each store has a folder of its own, so that services of other stores leave its claims alone.
    parent
        A folder for temporary files; the system's if left out.
    """

    def __init__(self, store: str, parent: Path | None = None) -> None:
        name = f"calibration-refits-{os.geteuid()}-{hashlib.sha256(store.encode()).hexdigest()[:16]}"
        self._folder = (parent or Path(tempfile.gettempdir())) / name

    @contextmanager
    def hold(self, claim: Claim) -> Iterator[None]:
        """Keep a locked file during the block."""
        with ExitStack() as stack:
            try:
                self._create(claim, stack)
            except OSError as error:
                _log.warning(
                    "a refit has no claim: if the service is killed, its lease has to expire", detail=str(error)
                )
            yield

    def _create(self, claim: Claim, stack: ExitStack) -> None:
        if private_folder(self._folder) is None:
            raise PermissionError(f"others may write to {self._folder}")
        path = self._folder / f"{secrets.token_hex(8)}{_SUFFIX}"
        unlocked = path.with_suffix(".new")
        file = stack.enter_context(unlocked.open("xb"))
        stack.callback(_remove, path)
        stack.callback(_remove, unlocked)
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(claim).encode())
        file.flush()
        # Renamed once it is locked: a service that starts now removes unlocked claims.
        unlocked.rename(path)

    def remove_abandoned(self) -> list[Claim]:
        """Remove the claims of killed services, and return them."""
        try:
            is_private = self._folder.is_dir() and private_folder(self._folder) is not None
        except OSError as error:
            _log.warning("claims of killed services cannot be read", folder=str(self._folder), detail=str(error))
            return []
        claims = [_remove_abandoned(path) for path in sorted(self._folder.glob(f"*{_SUFFIX}"))] if is_private else []
        return [claim for claim in claims if claim is not None]


def _remove_abandoned(path: Path) -> Claim | None:
    """Remove a claim that is not locked, and return it."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
            return Claim(*json.loads(file.read()))
    except (BlockingIOError, FileNotFoundError):
        # In use, or just removed.
        return None
    except (OSError, ValueError, TypeError) as error:
        _log.warning("a claim of a killed service cannot be read", claim=str(path), detail=str(error))
        return None


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
