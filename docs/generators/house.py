"""Measure the structure of the package: ``python -m docs.generators.house``.

Writes the tables of rooms and of numbers into docs/contributing.md, and prints the size of each room. A room is a
folder of the package. Floors are those of the first import contract in pyproject.toml.
"""

import ast
import io
import re
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = ROOT / "monitor"
PAGE: Final = ROOT / "docs" / "contributing.md"
GROUND: Final = "monitor"
"""Modules that are in no folder."""


class Room(NamedTuple):
    """A folder of the package."""

    name: str
    floor: int
    files: int
    code_lines: int
    purpose: str
    """The first line of its docstring."""


@cache
def rooms() -> list[Room]:
    """All rooms, the highest floor first."""
    floors = _floors()
    result = []
    for name, files in _files_by_room().items():
        init = PACKAGE / name / "__init__.py"
        purpose = (ast.get_docstring(ast.parse(init.read_text("utf-8"))) or "") if name != GROUND else ""
        lines = sum(code_lines(file.read_text("utf-8")) for file in files)
        result.append(Room(name, floors.get(name, 0), len(files), lines, purpose.partition("\n")[0]))
    return sorted(result, key=lambda room: (-room.floor, room.name))


def _floors() -> Mapping[str, int]:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    return {
        module.split(".")[1]: floor
        for floor, layer in enumerate(reversed(contract["layers"]))
        for module in re.split(r" [|:] ", layer)
    }


def arrows_between_rooms() -> Mapping[str, set[str]]:
    """Room -> the rooms that its modules import."""
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, files in _files_by_room().items():
        for file in files:
            for module in _imports(ast.parse(file.read_text("utf-8"))):
                target = _room_of(PACKAGE.parent / Path(*module.split(".")))
                if target not in {name, GROUND}:
                    arrows[name].add(target)
    return arrows


def protocols() -> list[str]:
    """Names of the protocols of the package."""
    return sorted(
        node.name
        for files in _files_by_room().values()
        for file in files
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases)
    )


def code_lines(source: str) -> int:
    """Lines that hold code: no blank lines, comments or docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                documented.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def _files_by_room() -> dict[str, list[Path]]:
    by_room: dict[str, list[Path]] = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        by_room[_room_of(file.with_suffix(""))].append(file)
    return by_room


def _room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts if path != PACKAGE else ()
    return parts[0] if parts and (PACKAGE / parts[0]).is_dir() else GROUND


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == PACKAGE.name:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == PACKAGE.name)


def room_table() -> str:
    """The table of rooms, in Markdown."""
    rows = ["| floor | room | what it does |", "|---|---|---|"]
    rows += [f"| {room.floor} | `{room.name}/` | {room.purpose} |" for room in rooms() if room.name != GROUND]
    return "\n".join(rows)


def number_table() -> str:
    """The table of numbers, in Markdown: before the house was put in order, after that, today, and the aim."""
    everything = rooms()
    # In thousands, so that not every commit changes the page.
    lines = round(sum(room.code_lines for room in everything), -3)
    return f"""\
| | before | after | today | aim |
|---|---|---|---|---|
| lines of code in `monitor/`, without docstrings and comments | 43,000 | 38,000 | {lines:,} | 44,000 |
| files | 489 | 335 | {sum(room.files for room in everything)} | 400 |
| floors | 13 | 9 | {len(set(_floors().values()))} | 9 |
| rooms | 23 | 20 | {len(everything) - 1} | 14 |
| arrows between rooms | 136 | 115 | {sum(map(len, arrows_between_rooms().values()))} | 120 |
| protocols | 34 | 12 | {len(protocols())} | 8 |"""


def written(page: str) -> str:
    """The page with its tables as they are today, each between two comments."""
    for name, table in (("rooms", room_table()), ("numbers", number_table())):
        page, count = re.subn(
            rf"(<!-- {name}: .*? -->\n\n).*?(\n\n<!-- end of {name} -->)", rf"\1{table}\2", page, flags=re.DOTALL
        )
        if count != 1:
            raise ValueError(f"{PAGE.name} has {count} places for the table of {name}, and needs one")
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
    for room in rooms():
        print(f"{room.floor}  {room.name:16}{room.files:5}{room.code_lines:8,}")
