"""Files that a name stands for: a path, a folder, a pattern with * or ?, or any of these in an object store."""

import bz2
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pa_fs

from monitor.errors import InputError

_URL: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_WILDCARD: Final = re.compile(r"[*?\[]")
DELTA_LOG: Final = "_delta_log"
"""The folder of a Delta table that says which files are its own."""

CATALOG: Final = "iceberg://"
"""What the name of an Iceberg table in a catalog begins with."""

METADATA_FOLDER: Final = "metadata"
METADATA_ENDING: Final = ".metadata.json"
"""Where an Iceberg table says the same, and how such files end."""

_CREDENTIALS: Final = re.compile(r"//[^/@]*@")
_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""How Hive and Spark spell a missing value in the name of a folder."""


@dataclass(frozen=True)
class RemoteFile:
    """A file in an object store: what readers need of a path.

    Attributes
    ----------
    filesystem
        Where it is.
    path
        Its path there.
    url
        What messages call it.
    """

    filesystem: pa_fs.FileSystem
    path: str
    url: str

    def __str__(self) -> str:
        return self.url

    @property
    def name(self) -> str:
        """The last part of its path."""
        return PurePosixPath(self.path).name

    @property
    def suffixes(self) -> list[str]:
        """Endings of its name."""
        return PurePosixPath(self.path).suffixes

    @property
    def suffix(self) -> str:
        """The last ending of its name."""
        return PurePosixPath(self.path).suffix

    def is_file(self) -> bool:
        """Whether it exists."""
        return bool(self.filesystem.get_file_info(self.path).is_file)

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return bool(self.filesystem.get_file_info(self.path).type == pa_fs.FileType.Directory)

    def open(self, mode: str = "rb") -> Any:
        """Open it for reading bytes, from any place in it."""
        if mode != "rb":
            raise ValueError(f"a remote file is only read, got mode {mode!r}")
        return self.filesystem.open_input_file(self.path)


StoredFile = Path | RemoteFile


@dataclass(frozen=True)
class FilePart:
    """One file of a data set.

    Attributes
    ----------
    file
        Where it is.
    size
        Bytes.
    partitions
        What the names of its folders, ``key=value``, say of all of its rows; None for a missing value.
    """

    file: StoredFile
    size: int
    partitions: Mapping[str, str | None]


def _open_zstd(file: Any) -> io.BufferedReader:
    native = pa.OSFile(str(file)) if isinstance(file, Path) else file
    # Arrow's streams have neither lines nor all that a text wrapper needs.
    return io.BufferedReader(pa.CompressedInputStream(native, "zstd"), 1 << 20)


PACKED: Final[Mapping[str, Callable[[Any], Any]]] = {".gz": gzip.open, ".bz2": bz2.open, ".zst": _open_zstd}
"""Ending of a text file -> unpacks it, a path or an open file, as it is read."""


def open_bytes(file: StoredFile) -> IO[bytes]:
    """The bytes of a file, unpacked if its name ends in .gz, .bz2 or .zst."""
    unpack = PACKED.get(file.suffix.lower())
    if unpack is None:
        return file.open("rb")
    opened: IO[bytes] = unpack(file.open("rb") if isinstance(file, RemoteFile) else file)
    return opened


_ADVICE: Final = {
    r": line \d+: ": "correct or remove that line",
    r"magic bytes not found|parse the postscript|size is \d+ bytes|is too small|ended before|[Tt]runcated|EOF": (
        "it is cut off, or still being written: write it again, or leave it out"
    ),
    r"[Pp]ermission denied|ACCESS_DENIED|Forbidden": "it must be readable for the user who runs this",
    r"NETWORK_CONNECTION|Could ?n.t resolve|Could not connect": "check the store's address, and the network",
}
"""Words of a cause -> advice."""


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Name a file or folder in errors of reading it, and say what to do."""
    try:
        yield
    except (pa.ArrowException, EOFError, OSError, UnicodeDecodeError, zlib.error) as error:
        reason = str(error).splitlines()[0].replace("Row #", "line ") if str(error) else type(error).__name__
        advice = next((f"; {what}" for cause, what in _ADVICE.items() if re.search(cause, reason)), "")
        raise InputError(f"{name}: cannot be read: {reason.rstrip('.')}{advice}") from error


def is_url(name: str) -> bool:
    """Whether a name is a URL, such as ``s3://bucket/scores``."""
    return _URL.match(name) is not None


def is_one_path(name: str) -> bool:
    """Whether a name is the path of one local file of rows, which need not exist."""
    if is_url(name) or name.endswith(METADATA_ENDING):
        return False
    path = Path(name)
    with naming(name):
        return path.is_file() or not (path.is_dir() or _WILDCARD.search(name))


def list_parts(name: str) -> list[FilePart]:
    """List the files that a name stands for, sorted by path.

    Names that begin with ``_`` or ``.`` are left out, of files and of folders: so do Spark and Hive, which keep
    ``_SUCCESS`` and ``_delta_log`` beside the data.

    Parameters
    ----------
    name
        A file, a folder (with all files in it and below), or a pattern (``*``, ``?``, ``[ab]`` within a name, ``**``
        for folders between); of the local disk or as a URL.

    Raises
    ------
    InputError
        Nothing is there, or the store cannot be read.
    """
    try:
        with naming(describe([name])):
            filesystem, path = locate(name)
            infos = _files(filesystem, path)
    except ValueError as error:
        raise InputError(f"{describe([name])}: cannot be read: {error}") from error
    base = _base(path)
    if not infos:
        bucket = base.partition("/")[0]
        if is_url(name) and bucket and filesystem.get_file_info(bucket).type == pa_fs.FileType.NotFound:
            raise InputError(
                f"{describe([name])}: there is no bucket {bucket!r}; check its name, and region and endpoint behind ?"
            )
        raise InputError(
            f"{describe([name])}: no file is there; name a file, a folder with files, or a pattern that some match"
        )
    return [
        FilePart(_stored(name, filesystem, info.path), max(info.size or 0, 0), _partitions(info.path, base))
        for info in sorted(infos, key=lambda info: info.path)
    ]


def locate(name: str) -> tuple[pa_fs.FileSystem, str]:
    """The store of a name, and the path in it, pattern included.

    Raises
    ------
    ValueError
        There is no such kind of store.
    OSError
        It does not answer.
    """
    if not is_url(name):
        return pa_fs.LocalFileSystem(), name.rstrip("/") or "/"
    # Arrow knows no patterns; behind "?" stand options of the store, such as its region.
    address, question, options = name.partition("?")
    base = _base(address)
    filesystem, path = pa_fs.FileSystem.from_uri(f"{base}{question}{options}")
    return filesystem, path.rstrip("/") + address[len(base) :].rstrip("/")


def _base(path: str) -> str:
    """The folders before the first wildcard; the path itself if it has none."""
    match = _WILDCARD.search(path)
    return path if match is None else path[: max(path.rfind("/", 0, match.start()), 0)]


def _files(filesystem: pa_fs.FileSystem, path: str) -> list[pa_fs.FileInfo]:
    """All files of a path or pattern, but for hidden ones."""
    base = _base(path)
    if base == path:
        info = filesystem.get_file_info(path)
        if info.is_file:
            return [info]
    selector = pa_fs.FileSelector(base or ".", recursive=True, allow_not_found=True)
    infos = [info for info in filesystem.get_file_info(selector) if info.is_file]
    if base != path:
        wanted = re.compile(_pattern(path))
        # A pattern may name folders, whose files are meant then.
        infos = [info for info in infos if wanted.match(_plain(info.path, base))]
    for info in infos:
        if DELTA_LOG in info.path.split("/") or info.path.endswith(METADATA_ENDING):
            raise ValueError("holds a Delta or Iceberg table, whose files may hold deleted rows: name that table alone")
    return [info for info in infos if not _is_hidden(_plain(info.path, base)[len(base) :])]


def _plain(path: str, base: str) -> str:
    """A path as the pattern has it: below ``.``, Arrow begins with ``./``."""
    return path if base else path.removeprefix("./")


def _pattern(path: str) -> str:
    """A regular expression for a pattern of paths, and for all that is below them."""
    parts = []
    for token in re.split(r"(\*\*/|\*|\?|\[[^\]]*\])", path):
        wildcard = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(token)
        is_set = token.startswith("[") and token.endswith("]")
        parts.append(wildcard or (token.replace("[!", "[^") if is_set else re.escape(token)))
    return f"{''.join(parts)}(?:/.*)?$"


def _is_hidden(path: str) -> bool:
    return any(name[:1] in {"_", "."} for name in path.strip("/").split("/"))


def _partitions(path: str, base: str) -> dict[str, str | None]:
    """``key=value`` of the folders below ``base``, as text: 01 stays 01."""
    folders = path[len(base) :].split("/")[:-1]
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return {unquote(key): None if value == _NULL_PARTITION else unquote(value) for key, _, value in pairs}


def _stored(name: str, filesystem: pa_fs.FileSystem, path: str) -> StoredFile:
    return RemoteFile(filesystem, path, f"{name.partition('://')[0]}://{path}") if is_url(name) else Path(path)


def describe(names: Sequence[str]) -> str:
    """What messages call several names; credentials and options of URLs are left out."""
    first = _CREDENTIALS.sub("//", names[0].partition("?")[0]) if is_url(names[0]) else names[0]
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"


def parts_of(names: Sequence[str]) -> Iterator[FilePart]:
    """Yield the files of all names, each once."""
    known: set[str] = set()
    for name in names:
        for part in list_parts(name):
            if str(part.file) not in known:
                known.add(str(part.file))
                yield part
