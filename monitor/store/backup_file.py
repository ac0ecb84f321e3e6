"""The file that a backup is: a zip archive of a manifest, and of the whole store as one SQLite file.

Whatever database a store is kept in, its backup is the same, so that a backup of one is restored into the other. With
usual tools: ``unzip -p FILE manifest.json`` shows the manifest, and ``unzip FILE store.db`` takes the SQLite file out.
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
"""Most of a store is hashes, of which no effort makes less."""
_PIECE_BYTES: Final = 1 << 20
_LONGEST_MANIFEST: Final = 16 << 20


class Offset(msgspec.Struct, frozen=True):
    """Where reading goes on in one topic partition: the store holds every record before it, and none from it on."""

    topic: str
    partition: int
    offset: int


class Manifest(msgspec.Struct, frozen=True):
    """What a backup says of itself.

    Attributes
    ----------
    format
        Version of this layout.
    created
        When, RFC 3339.
    service_version
        Of the service that made it.
    database
        ``sqlite`` or ``postgresql``: what the store was kept in.
    schema_revision, grid_version
        Of the store.
    tables
        Table -> its rows.
    offsets
        Where reading goes on.
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
    """What every version of the manifest has."""

    format: int


def write_backup(target: Path, store: Path, manifest: Manifest) -> None:
    """Write a backup: the whole file under its name, or none.

    Raises
    ------
    InputError
        It cannot be written.
    """
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
    try:
        # It holds digests of keys and what models said of people: for its owner alone.
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
def opened_backup(source: Path) -> Iterator[tuple[Manifest, "Contents"]]:
    """The manifest of a backup, and what takes the store out of it.

    Raises
    ------
    InputError
        There is no such file, or it is no backup, or damaged, or of a later format.
    """
    try:
        archive = zipfile.ZipFile(source)
    except zipfile.BadZipFile as error:
        raise InputError(f"{source} is no backup of this service, or only a part of one: {error}") from error
    except OSError as error:
        raise InputError(f"the backup {source} cannot be read: {error.strerror or error}") from error
    with archive:
        manifest = _read_manifest(source, archive)
        yield manifest, Contents(source, archive, manifest)


class Contents:
    """The store in a backup that is open."""

    def __init__(self, source: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._source = source
        self._archive = archive
        self._manifest = manifest

    def extract(self, path: Path) -> None:
        """Take the SQLite file out, and check it.

        Raises
        ------
        InputError
            It is not what was put in.
        """
        try:
            with path.open("xb") as file:
                found = self._copy(file)
        except OSError as error:
            raise InputError(
                f"the store cannot be taken out of the backup {self._source} into {path.parent}, where it needs"
                f" {self._manifest.size:,} bytes: {error.strerror or error}"
            ) from error
        if found != (self._manifest.size, self._manifest.sha256):
            raise InputError(
                f"the backup {self._source} is damaged: its store has {found[0]:,} bytes and SHA-256 {found[1]}, the"
                f" manifest says {self._manifest.size:,} and {self._manifest.sha256}; take another backup"
            )

    def _copy(self, file: IO[bytes]) -> tuple[int, str]:
        digest, size = hashlib.sha256(), 0
        try:
            with self._archive.open(STORE) as member:
                while piece := member.read(_PIECE_BYTES):
                    digest.update(piece)
                    size += len(piece)
                    if size > self._manifest.size:
                        break  # What was not put in need not be taken out.
                    file.write(piece)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise InputError(f"the backup {self._source} is damaged: {error}; take another backup") from error
        return size, digest.hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_manifest(source: Path, archive: zipfile.ZipFile) -> Manifest:
    try:
        with archive.open(MANIFEST) as member:
            text = member.read(_LONGEST_MANIFEST)
        form = msgspec.json.decode(text, type=_Format).format
        if form != FORMAT:
            raise InputError(
                f"the backup {source} is of format {form}, this version reads {FORMAT}: restore it with the version of"
                " the service that made it"
            )
        return msgspec.json.decode(text, type=Manifest)
    except (KeyError, msgspec.MsgspecError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise InputError(f"{source} is no backup of this service: it has no sound {MANIFEST} ({error})") from error
