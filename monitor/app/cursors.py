"""A file that says up to where the outcomes of each model were sent."""

import json
import os
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

from monitor.bounded_file import read_bounded
from monitor.errors import InputError

_TYPES: Final = {"datetime": datetime.fromisoformat, "date": date.fromisoformat}


class Cursors:
    """Cursors by model and column, in one file of JSON. Not for two processes at a time.

    Parameters
    ----------
    path
        The file; made when the first cursor is saved.

    Raises
    ------
    InputError
        The file holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._saved: dict[str, dict[str, Any]] = json.loads(read_bounded(path)) if path.exists() else {}
            for columns in self._saved.values():
                for value in columns.values():
                    _decode(value)
        except (OSError, ValueError, AttributeError, KeyError, RecursionError) as error:
            raise InputError(f"--cursor-file: {path} holds no cursors: {error}; name another, or remove it") from error

    def read(self, model: str, column: str) -> Any:
        """The cursor's value; None before the first."""
        return _decode(self._saved.get(model, {}).get(column))

    def save(self, model: str, column: str, value: Any) -> None:
        """Replace the file by one with this value.

        Raises
        ------
        InputError
            It cannot be written.
        """
        encoded = value
        if isinstance(value, date):
            encoded = {"datetime" if isinstance(value, datetime) else "date": value.isoformat()}
        self._saved.setdefault(model, {})[column] = encoded
        written = self._path.with_name(f"{self._path.name}.new")
        try:
            written.write_text(json.dumps(self._saved, indent=1) + "\n", "utf-8")
            os.replace(written, self._path)  # noqa: PTH105 - whole, or not at all
        except OSError as error:
            raise InputError(f"--cursor-file: cannot write {self._path}: {error.strerror}") from error


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        return _TYPES[kind](text)
    return value
