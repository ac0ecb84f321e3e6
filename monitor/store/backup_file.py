"""The file of a backup: a zip archive of a manifest, and of the whole store as one SQLite file.

It does not depend on the kind of database, so a backup of one is restored into the other. ``unzip -p FILE
manifest.json`` shows the manifest, ``unzip FILE store.db`` extracts the SQLite file.
"""

import hashlib
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import msgspec

from monitor.errors import InputError

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
STORE: Final = "store.db"

_LEVEL: Final = 1
"""Most of a store is hashes, which do not compress."""
_PIECE_BYTES: Final = 1 << 20
_MAX_MANIFEST_BYTES: Final = 16 << 20
_DAMAGED: Final = (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError)
"""Errors from reading a damaged archive; zipfile raises the last for a compression that it does not know."""


class Offset(msgspec.Struct, frozen=True):
    """Next offset of one topic partition: the store contains every record before it and none after."""

    topic: str
    partition: int
    offset: int


class Manifest(msgspec.Struct, frozen=True):
    """Description of a backup.

    Attributes
    ----------
    format
        Version of this layout.
    created
        Time, RFC 3339.
    service_version
        Version of the service that made it.
    database
        ``sqlite`` or ``postgresql``: database of the store.
    schema_revision, grid_version
        Of the store.
    tables
        Table -> number of rows.
    offsets
        Next offsets.
    size, sha256
        Of the SQLite file.
    """

    format: int
    created: str
    service_version: str
    database: str
    schema_revision: str
    grid_version: str
    tables: dict[str, int]
    offsets: list[Offset]
    size: int
    sha256: str


class _Format(msgspec.Struct):
    """The part that every version of the manifest has."""

    format: int


def write_backup(target: Path, store: Path, manifest: Manifest) -> None:
    """Write a backup, all of it or nothing. Raises InputError if it cannot be written."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        # Readable by its owner only: it holds digests of keys and predictions about people.
        handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
                    archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
                    with store.open("rb") as data, archive.open(STORE, "w", force_zip64=True) as member:
                        shutil.copyfileobj(data, member, _PIECE_BYTES)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"the backup {target} cannot be written: {error.strerror or error}") from error


@contextmanager
def _opened(source: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(source)
    except zipfile.BadZipFile as error:
        raise InputError(f"{source} is not a backup of this service, or only a part of one: {error}") from error
    except OSError as error:
        raise InputError(f"the backup {source} cannot be read: {error.strerror or error}") from error
    with archive:
        yield archive


def read_manifest(source: Path) -> Manifest:
    """Read the manifest of a backup; raises InputError if it is missing, damaged, or of another format."""
    with _opened(source) as archive:
        try:
            with archive.open(MANIFEST) as member:
                text = member.read(_MAX_MANIFEST_BYTES)
            version = msgspec.json.decode(text, type=_Format).format
            if version != FORMAT:
                raise InputError(
                    f"the backup {source} is of format {version}, this version reads {FORMAT}: restore it with the"
                    " version of the service that made it"
                )
            return msgspec.json.decode(text, type=Manifest)
        except (*_DAMAGED, msgspec.MsgspecError) as error:
            raise InputError(
                f"{source} is not a backup of this service: it has no valid {MANIFEST} ({error})"
            ) from error


def extract_store(source: Path, manifest: Manifest, path: Path) -> None:
    """Extract the SQLite file of a backup to a new file; raises InputError if it does not match the manifest."""
    try:
        with _opened(source) as archive, path.open("xb") as file:
            size, sha256 = _copy(archive, file, manifest.size)
    except _DAMAGED as error:
        raise InputError(f"the backup {source} is damaged: {error}; use another backup") from error
    except OSError as error:
        raise InputError(
            f"the store cannot be extracted from the backup {source} into {path.parent}, where it needs"
            f" {manifest.size:,} bytes: {error.strerror or error}"
        ) from error
    if (size, sha256) != (manifest.size, manifest.sha256):
        raise InputError(
            f"the backup {source} is damaged: its store has {size:,} bytes and SHA-256 {sha256}, the"
            f" manifest says {manifest.size:,} and {manifest.sha256}; use another backup"
        )


def _copy(archive: zipfile.ZipFile, file: IO[bytes], max_bytes: int) -> tuple[int, str]:
    """Copy the store; returns its size and SHA-256. Stops when it is too large."""
    digest, size = hashlib.sha256(), 0
    with archive.open(STORE) as member:
        while size <= max_bytes and (piece := member.read(_PIECE_BYTES)):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
    return size, digest.hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
