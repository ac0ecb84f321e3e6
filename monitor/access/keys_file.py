"""API keys in a file, such as a Secret of Kubernetes. It holds digests only.

::

    - id: "7f3a0c9d2e41"
      name: prometheus
      sha256: 0b5f...  # 64 hexadecimal digits
      roles: [read]
      expires: 2027-06-30T00:00:00Z  # may be left out
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog
import yaml

from monitor.access.keys import PREFIX, check_name, is_key_id
from monitor.access.model import Grant, StoredKey, parse_grants
from monitor.bounded_file import read_bounded
from monitor.errors import InputError, SettingsError
from monitor.outage_log import LastingProblems
from monitor.yaml_nodes import compose

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_MAX_SHOWN: Final = 80
"""Characters of a wrong value that are shown."""

_log = structlog.get_logger(__name__)


class KeysFile:
    """The keys of a file, parsed again when it has changed: a KeySource. Any thread.

    A file that has become unreadable or invalid is logged once, and the last valid keys stay in force.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    SettingsError
        At the start, it cannot be read or is invalid. Names line and key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._bytes: bytes | None = None
        self._keys: Sequence[StoredKey] = ()
        self._read()
        self._problems = LastingProblems()

    def keys(self) -> Sequence[StoredKey]:
        """The keys of the last valid version of the file."""
        with self._lock:
            try:
                if self._read():
                    _log.info("the file of API keys has changed", file=str(self._path), keys=len(self._keys))
                self._problems.over()
            except SettingsError as error:
                if self._problems.is_new(str(error)):
                    _log.warning(
                        "the file of API keys is invalid; the last valid keys stay in force", detail=str(error)
                    )
            return self._keys

    def _read(self) -> bool:
        """Read the file; returns whether it has changed."""
        try:
            data = read_bounded(self._path)
        except OSError as error:
            raise SettingsError(f"access.keys_file: cannot read {self._path}: {error.strerror}") from error
        # Compared by bytes, not by times: two changes may have the same time, and Kubernetes swaps links.
        changed = data != self._bytes
        if changed:
            self._keys = parse_keys(data, f"access.keys_file: {self._path}")
            self._bytes = data
        return changed


def parse_keys(data: bytes, file: str) -> tuple[StoredKey, ...]:
    """The keys of a file's bytes.

    Parameters
    ----------
    file
        Its name, for messages.

    Raises
    ------
    SettingsError
        Something is wrong. Names line and key, and shows no secret.
    """
    try:
        # Every scalar is text: an id of digits only must not become a number or a time.
        node = compose(yaml.BaseLoader(data.decode()))
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: not UTF-8 (byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        raise SettingsError(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(node, yaml.SequenceNode):
        raise SettingsError(f"{file}: must be a list of keys, each with {', '.join(_FIELDS)}; [] for none")
    keys: list[StoredKey] = []
    taken: set[tuple[str, str]] = set()
    for number, entry in enumerate(node.value):
        keys.append(_key(entry, taken, partial(_refuse, f"{file}:", f"keys[{number}]")))
    return tuple(keys)


def _key(entry: yaml.Node, taken: set[tuple[str, str]], refuse: Callable[[yaml.Node, str, str], NoReturn]) -> StoredKey:
    """The key of an entry; its id and name are added to those that are taken."""
    if not isinstance(entry, yaml.MappingNode):
        refuse(entry, "", f"must have {', '.join(_FIELDS)}")
    nodes: dict[str, yaml.Node] = {}
    for name, value in entry.value:
        field = f".{name.value}"[:_MAX_SHOWN]
        if name.value not in list(_FIELDS):  # a name may be a list, which has no hash
            refuse(name, field, f"is no field of a key, which has {', '.join(_FIELDS)}")
        if name.value in nodes:
            refuse(name, field, "is given twice")
        nodes[name.value] = value
    for name in _FIELDS:
        if name not in nodes and name != "expires":
            refuse(entry, f".{name}", "must be given")
    fields: dict[str, Any] = {}
    for name, node in nodes.items():
        if name != "roles" and not isinstance(node, yaml.ScalarNode):
            refuse(node, f".{name}", "must be text")
        try:
            fields[name] = _FIELDS[name](node.value)
        except InputError as error:
            refuse(node, f".{name}", str(error))
    for name, shown in (("id", fields["id"]), ("name", repr(fields["name"]))):
        if (name, shown) in taken:
            refuse(entry, f".{name}", f"is given twice: {shown}")
        taken.add((name, shown))
    return StoredKey(fields["id"], fields["name"], fields["sha256"], fields["roles"], 0, fields.get("expires"))


def _refuse(file: str, key: str, node: yaml.Node, field: str, problem: str) -> NoReturn:
    # Some messages name their subject, others continue the name of the field.
    colon = "" if problem.startswith(("must", "is ")) else ":"
    raise SettingsError(f"{file}{node.start_mark.line + 1}: {key}{field}{colon} {problem}")


def _id(text: str) -> str:
    if not is_key_id(text):
        raise InputError(f"must be 12 hexadecimal digits, got {_shown(text)}")
    return text


def _name(text: str) -> str:
    check_name(text)
    return text


def _digest(text: str) -> bytes:
    if not _SHA256.fullmatch(text):
        raise InputError(
            f"must be 64 hexadecimal digits, as `monitor keys create NAME --hashed` prints them, got {_shown(text)}"
        )
    return bytes.fromhex(text)


def _time_ms(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise InputError(f"must be a time with its zone, such as 2027-06-30T00:00:00Z, got {_shown(text)}")
    return round(time.astimezone(UTC).timestamp() * 1000)


def _grants(roles: str | Sequence[yaml.Node | tuple[yaml.Node, yaml.Node]]) -> tuple[Grant, ...]:
    names = [roles] if isinstance(roles, str) else [role.value for role in roles if isinstance(role, yaml.ScalarNode)]
    if not isinstance(roles, str) and len(names) < len(roles):
        raise InputError("must be a list of roles, such as [read, promote:churn]")
    return parse_grants(names)


_FIELDS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "id": _id,
    "name": _name,
    "sha256": _digest,
    "roles": _grants,
    "expires": _time_ms,
}
"""The fields of a key, with what reads the value of their YAML node."""


def _shown(text: str) -> str:
    # The key itself may have been written there by mistake.
    return "an API key itself" if PREFIX in text else repr(text[:_MAX_SHOWN])
