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
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import structlog
import yaml

from monitor.access.keys import PREFIX, check_name, is_key_id
from monitor.access.model import Grant, StoredKey, parse_grants
from monitor.errors import InputError, SettingsError

_REQUIRED: Final = ("id", "name", "sha256", "roles")
_FIELDS: Final = (*_REQUIRED, "expires")
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_MAX_SHOWN: Final = 80
"""Characters of a wrong value that are shown."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


class KeysFile:
    """The keys of a file, parsed again when it has changed: a KeySource. Any thread.

    A file that has become unreadable or broken is logged once, and the last valid keys stay in force.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    SettingsError
        It cannot be read, or is broken, at the start. Names line and key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        # Compared by bytes, not by times: two changes may have the same time, and Kubernetes swaps links.
        self._bytes = _read(path)
        self._keys = _parse(self._bytes, path)
        self._problem: str | None = None
        """What was logged last, and is not fixed yet."""

    def keys(self) -> Sequence[StoredKey]:
        """The keys of the last valid version of the file."""
        with self._lock:
            try:
                data = _read(self._path)
                if data != self._bytes:
                    self._keys = _parse(data, self._path)
                    self._bytes = data
                    _log.info("the file of API keys has changed", file=str(self._path), keys=len(self._keys))
                self._problem = None
            except SettingsError as error:
                if str(error) != self._problem:
                    self._problem = str(error)
                    _log.warning("the file of API keys is broken; those before hold", detail=self._problem)
            return self._keys


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
        node = yaml.BaseLoader(data.decode()).get_single_node()
    except UnicodeDecodeError as error:
        raise SettingsError(f"{file}: not UTF-8 (byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{file}:{mark.line + 1}" if mark else file
        raise SettingsError(f"{where}: not valid YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(node, yaml.SequenceNode):
        raise SettingsError(f"{file}: must be a list of keys, each with {', '.join(_FIELDS)}; [] for none")
    keys: list[StoredKey] = []
    for number, entry in enumerate(node.value):
        key = _key(entry, file, f"[{number}]")
        for earlier in keys:
            if key.key_id == earlier.key_id:
                _refuse(entry, file, f"[{number}].id", f"is given twice: {key.key_id}")
            if key.name == earlier.name:
                _refuse(entry, file, f"[{number}].name", f"is given twice: {key.name!r}")
        keys.append(key)
    return tuple(keys)


def _key(entry: yaml.Node, file: str, where: str) -> StoredKey:
    if not isinstance(entry, yaml.MappingNode):
        _refuse(entry, file, where, f"must have {', '.join(_FIELDS)}")
    fields: dict[str, yaml.Node] = {}
    for name, value in entry.value:
        if name.value not in _FIELDS:
            problem = f"is no field of a key, which has {', '.join(_FIELDS)}"
            _refuse(name, file, f"{where}.{name.value}"[:_MAX_SHOWN], problem)
        if name.value in fields:
            _refuse(name, file, f"{where}.{name.value}", "is given twice")
        fields[name.value] = value
    for name in _REQUIRED:
        if name not in fields:
            _refuse(entry, file, f"{where}.{name}", "must be given")
    return StoredKey(
        key_id=_field(fields["id"], file, f"{where}.id", _id),
        name=_field(fields["name"], file, f"{where}.name", _name),
        digest=_field(fields["sha256"], file, f"{where}.sha256", _digest),
        grants=_grants(fields["roles"], file, f"{where}.roles"),
        created_ms=0,
        expires_ms=_field(fields["expires"], file, f"{where}.expires", _time_ms) if "expires" in fields else None,
    )


def _field(node: yaml.Node, file: str, where: str, rule: Callable[[str], _T]) -> _T:
    if not isinstance(node, yaml.ScalarNode):
        _refuse(node, file, where, "must be text")
    try:
        return rule(node.value)
    except InputError as error:
        _refuse(node, file, where, str(error))


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


def _grants(node: yaml.Node, file: str, where: str) -> tuple[Grant, ...]:
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    for item in nodes:
        if not isinstance(item, yaml.ScalarNode):
            _refuse(item, file, where, "must be a list of roles, such as [read, promote:churn]")
    try:
        return parse_grants(item.value for item in nodes)
    except InputError as error:
        _refuse(node, file, where, str(error))


def _shown(text: str) -> str:
    # The key itself may have been written there by mistake.
    return "an API key itself" if PREFIX in text else repr(text[:_MAX_SHOWN])


def _refuse(node: yaml.Node, file: str, where: str, problem: str) -> NoReturn:
    # Some messages name their subject, others continue the name of the key.
    colon = "" if problem.startswith(("must", "is ")) else ":"
    raise SettingsError(f"{file}:{node.start_mark.line + 1}: keys{where}{colon} {problem}")


def _parse(data: bytes, path: Path) -> tuple[StoredKey, ...]:
    try:
        return parse_keys(data, str(path))
    except SettingsError as error:
        raise SettingsError(f"access.keys_file: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"access.keys_file: cannot read {path}: {error.strerror}") from error
