"""Check the files that a command writes, and write them."""

from pathlib import Path

from monitor.errors import InputError


def check_target(option: str, path: Path) -> None:
    """Raise InputError if a file cannot be written there, before any work is done."""
    if path.is_dir():
        raise InputError(f"{option}: {path} is a directory; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{option}: there is no directory {path.parent}; make it first")
    if option == "--png" and path.suffix.lower() != ".png":
        raise InputError(f"--png: the name of {path} must end in .png, which is what is written")


def write_target(option: str, path: Path, content: bytes) -> None:
    """Write a file; one that is there is replaced.

    Raises
    ------
    InputError
        It cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"{option}: cannot write {path}: {error.strerror}") from error
