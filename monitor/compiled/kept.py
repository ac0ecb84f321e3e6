"""Keep compiled loops on disk, each in a file whose name is a digest of all that went into it.

That is the bytecode of the loop and of those that it calls, the constants they use, the kinds of the arguments, the
processor, and the releases of Python, numba and LLVM. So a loop that changed is never loaded, whichever file changed;
an installation that was copied, or unpacked anew, loads what it has; and processes that compile the same loop at once
write the same file.
"""

import importlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from monitor.compiled.content import digest
from monitor.compiled.folders import SHIPPED, folders
from monitor.compiled.kinds import Kind

_DIGEST_BYTES: Final = 32
_NO_MATTER: Final = {
    "NUMBA_CACHE_DIR",
    "NUMBA_DEBUG_CACHE",
    "NUMBA_NUM_THREADS",
    "NUMBA_CPU_NAME",
    "NUMBA_CPU_FEATURES",
}
"""Variables of numba that change nothing of the code, or are looked at by themselves."""


@cache
def numba_folder() -> Path:
    """Where numba is, which is not imported for that.

    Raises
    ------
    ImportError
        It is not installed.
    """
    spec = importlib.util.find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba is not installed")
    return Path(spec.origin).parent


@cache
def target() -> bytes:
    """Digest of the processor and of the releases that machine code is for.

    ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` name another processor than this one, as numba reads them;
    ``generic`` is the least that the architecture has.
    """
    named, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = "" if (named or "").lower() == "generic" else llvm.get_host_cpu_features().flatten()
    processor = (llvm.get_process_triple(), named or llvm.get_host_cpu_name(), features)
    set_here = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in _NO_MATTER)
    releases = (sys.implementation.cache_tag, llvmlite.__version__)
    return digest(repr((processor, releases, set_here)).encode(), _release_of_numba())


def _release_of_numba() -> bytes:
    # Read from the file, if there is one: metadata of distributions take 50 ms to import.
    file = numba_folder() / "_version.py"
    return (
        file.read_bytes() if file.exists() else importlib.import_module("importlib.metadata").version("numba").encode()
    )


def name_of(function: Any, content: bytes, form: Sequence[Kind | None] | str) -> str:
    """Name of the file of one form of a loop, without its ending."""
    key = digest(content, repr(form).encode(), target())
    return f"{function.__module__.rpartition('.')[2]}.{function.__name__}-{key.hex()[:32]}"


def read(name: str) -> bytes | None:
    """Return what is kept by this name; None if there is nothing, or what a crash of the machine left of it."""
    for folder in folders().read:
        try:
            content = (folder / name).read_bytes()
        except OSError:
            continue
        data = content[_DIGEST_BYTES:]
        if content[:_DIGEST_BYTES] == digest(data):
            log_debug("loaded from", folder / name)
            return data
    return None


def ship(names: Iterable[str]) -> None:
    """Put the forms of these names that run without numba, and no others, into the package, which is then built.

    Raises
    ------
    OSError
        The package cannot be written to.
    """
    SHIPPED.mkdir(exist_ok=True)
    data = {name: read(name) for name in sorted(f"{name}.nbn" for name in names)}
    shipped = {name: form for name, form in data.items() if form is not None}
    for name, form in shipped.items():
        write(name, form, SHIPPED)
    for file in SHIPPED.iterdir():
        if file.name not in shipped:
            file.unlink()


def write(name: str, data: bytes, folder: Path | None = None) -> None:
    """Keep this in a folder, or where new forms are written, if there is such a place.

    Raises
    ------
    OSError
        The place has no room for it.
    """
    folder = folder or folders().write
    if folder is None:
        return
    path = folder / name
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as stream:
        try:
            stream.write(digest(data) + data)
            stream.flush()
            os.chmod(stream.name, 0o644)  # noqa: PTH101 - a temporary file is its owner's alone
            os.replace(stream.name, path)  # noqa: PTH105
        except BaseException:
            os.unlink(stream.name)  # noqa: PTH108
            raise
    log_debug("saved to", path)


def log_debug(what: str, path: Path) -> None:
    """Print what numba prints of its cache, where ``NUMBA_DEBUG_CACHE`` asks for it."""
    if os.environ.get("NUMBA_DEBUG_CACHE", "0") != "0":
        print(f"[cache] data {what} {str(path)!r}")  # noqa: T201 - as numba does
