"""Writes the settings down: the effective ones, monitor.yaml with every default, and the page of the documentation."""

import inspect
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import yaml
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from monitor.app.settings import fields
from monitor.app.settings.model import Settings
from monitor.durations import format_duration
from monitor.section import Section

_WIDTH: Final = 110

_HEAD: Final = """\
Settings of the calibration monitor: every key with its default. Keys that are left out keep it.
Durations are text such as 90s, 15m, 24h or 7d, or a number of seconds.
Relative paths begin in this file's folder; those of variables, and of defaults, in the working directory.
An environment variable overrides a key: MONITOR__SOURCE__KAFKA__GROUP_ID sets source.kafka.group_id; with _FILE
behind its name, the value is read from the file that it names, which is the way to hand over a secret.
`monitor config` prints the settings in force.
"""


def effective(settings: Settings) -> str:
    """The settings in force as YAML, secrets hidden."""
    tree = settings.model_dump(mode="json")
    return str(yaml.safe_dump(tree, sort_keys=False, width=_WIDTH, allow_unicode=True))


def default_file() -> str:
    """monitor.yaml: every setting with its meaning and its default. It loads, and says what the defaults say."""
    lines = [f"# {line}" for line in _HEAD.splitlines()]
    described: set[type[Section]] = set()
    for name in Settings.model_fields:
        lines.append("")
        lines.extend(_entry((name,), Settings, described))
    return "\n".join(lines) + "\n"


def reference() -> str:
    """docs/settings.md: every setting in tables."""
    lines = [
        "# Settings",
        "",
        "<!-- Written by `monitor config --reference`; a test compares. Edit the sections in the code instead. -->",
        "",
        "`monitor serve --config monitor.yaml` reads them; without `--config` it reads `monitor.yaml` in the working",
        "directory if there is one. `monitor config` prints the settings in force, with secrets hidden, and",
        "`monitor config --default` a [monitor.yaml](monitor.yaml) with every default, to start from.",
        "",
        "A *duration* is text such as `90s`, `15m`, `24h`, `7d` or `1h30m`, or a number of seconds.",
        "",
        "An environment variable overrides each key: its path in upper case, with `MONITOR__` in front and `__` for",
        "each dot. `MONITOR__SOURCE__KAFKA__GROUP_ID=blue` sets `source.kafka.group_id`. Lists are comma-separated;",
        "whole sections are YAML or JSON: `MONITOR__WINDOWS='[{length: 1h}, {last: 10000}]'`. With `_FILE` behind the",
        "name, the value is read from a file: `MONITOR__SOURCE__KAFKA__SASL_PLAIN_PASSWORD_FILE=/run/secrets/kafka`.",
        "",
        "A *relative path* in the file begins in the folder of that file, wherever a command is run. That of a",
        "variable, and the default of a key that the file leaves out, begin in the working directory. `monitor config`",
        "prints them absolute.",
        "",
        "An unknown key or variable, or a wrong value, is refused with one line that names the place, the key, the",
        "value and what is allowed. The file may have 64 MiB and hold a million keys and values, those of an alias",
        "counted where it is used.",
    ]
    for path, section in _sections(Settings, (), set()):
        lines.extend(["", f"## {path}" if path else "## Top level", ""])
        if section is not Settings:
            lines.extend([_prose(inspect.getdoc(section) or ""), ""])
        lines.extend(["| key | default | allowed | meaning |", "|---|---|---|---|"])
        for name, field in section.model_fields.items():
            if fields.subsection(field) is not None:
                continue
            default = "required" if field.is_required() else f"`{_default(field)}`"
            meaning = _description(name, section).replace("|", "\\|")
            lines.append(f"| `{name}` | {default} | {_allowed(field)} | {meaning} |")
    return "\n".join(lines) + "\n"


def _sections(
    section: type[Section], path: tuple[str, ...], described: set[type[Section]]
) -> Iterator[tuple[str, type[Section]]]:
    """The sections with their paths; of an optional one that stands in several places, the first."""
    own = any(fields.subsection(field) is None for field in section.model_fields.values())
    if own or section is Settings:
        yield fields.dotted(path), section
    for name, field in section.model_fields.items():
        inner = fields.section_in(field.annotation)
        if inner is not None and not (fields.is_optional(field.annotation) and inner in described):
            described.add(inner)
            keyed, listed = fields.is_keyed(field.annotation), fields.is_listed(field.annotation)
            yield from _sections(inner, (*path, name + (".<name>" if keyed else "[]" if listed else "")), described)


def _entry(path: tuple[str, ...], owner: type[Section], described: set[type[Section]]) -> list[str]:
    field = owner.model_fields[path[-1]]
    indent = "  " * (len(path) - 1)
    section = fields.subsection(field)
    if section is not None:
        lines = [*_comment(inspect.getdoc(section) or "", indent), f"{indent}{path[-1]}:"]
        return lines + [line for name in section.model_fields for line in _entry((*path, name), section, described)]
    lines = _comment(_meaning(path[-1], owner), indent)
    section = fields.section_in(field.annotation)
    if section is not None and section not in described:
        described.add(section)
        lines.append(f"{indent}# Keys of each:")
        for name in section.model_fields:
            lines.extend(_comment(f"{name}: {_description(name, section)}", indent, "#   ", "#     "))
    default = _plain(field.get_default(call_default_factory=True))
    if isinstance(default, list) and default and isinstance(default[0], dict):
        return [*lines, f"{indent}{path[-1]}:", *(f"{indent}  - {_inline(item)}" for item in default)]
    return [*lines, f"{indent}{path[-1]}: {_inline(default)}"]


def _meaning(name: str, section: type[Section]) -> str:
    allowed = _allowed(section.model_fields[name])
    obvious = not allowed or allowed.startswith(("text", "true", "list", "section", "values"))
    return f"{_prose(fields.docstrings(section).get(name, ''))}{'' if obvious else f' [{allowed}]'}".replace("`", "")


def _allowed(field: FieldInfo) -> str:
    choices = fields.choices(field.annotation)
    optional = " or null" if fields.mentions(field.annotation, type(None)) else ""
    if choices:
        return f"{', '.join(choices)}{optional}"
    if fields.is_optional(field.annotation) and fields.section_in(field.annotation) is not None:
        return "section or null"
    if fields.section_in(field.annotation) is not None:
        return "list of sections" if fields.is_listed(field.annotation) else "sections by name"
    bounds = [f"{words} {_inline(_plain(bound))}" for words, bound in fields.bounds(field).items()]
    return " ".join(filter(None, [_kind(field), ", ".join(bounds)])) + optional


def _kind(field: FieldInfo) -> str:
    if fields.is_keyed(field.annotation):
        return "values by name"
    kinds = {
        timedelta: "duration",
        bool: "true or false",
        int: "whole number",
        float: "number",
        SecretStr: "text, secret",
    }
    if fields.mentions(field.annotation, tuple) or "tuple" in str(field.annotation):
        return "list of text"
    return next((words for kind, words in kinds.items() if fields.mentions(field.annotation, kind)), "text")


def _description(name: str, section: type[Section]) -> str:
    """The description of a field, or else of the setting of the same name, whose default it overrides."""
    same_name = (leaf.description for leaf in fields.leaves() if leaf.path[-1] == name)
    return _prose(fields.docstrings(section).get(name) or next(same_name, ""))


def _default(field: FieldInfo) -> str:
    return _inline(_plain(field.get_default(call_default_factory=True)))


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _inline(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _prose(text: str) -> str:
    return " ".join(text.split())


def _comment(text: str, indent: str, first: str = "# ", following: str = "# ") -> list[str]:
    # The width does not count the "# " of a line.
    return textwrap.wrap(_prose(text), _WIDTH + 2, initial_indent=indent + first, subsequent_indent=indent + following)
