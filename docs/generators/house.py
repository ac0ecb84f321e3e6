"""Measure the structure of the package: ``python -m docs.generators.house``.

Writes the tables of rooms, of numbers and of the largest features into docs/contributing.md, and prints the size of
each room. A room is a folder of the package. Floors are those of the first import contract in pyproject.toml.
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


class Feature(NamedTuple):
    """A function of the product that could be given up whole."""

    name: str
    globs: str
    """Files that it alone needs, below the package."""
    cost: str
    """Loss of its users without it."""

    @property
    def files(self) -> list[Path]:
        """Its files."""
        return [file for glob in self.globs.split() for file in sorted(PACKAGE.glob(glob))]

    @property
    def code_lines(self) -> int:
        """Their lines of code."""
        return sum(code_lines(file.read_text("utf-8")) for file in self.files)


SHOWN_FEATURES: Final = 10
FEATURES: Final = (
    Feature(
        "Refits: queue and worker, comparison on later events, guard, promotion, rollback, maps for scorers",
        "recalibration/*.py store/recalibration*.py store/refits.py store/servings.py http/recalibration_schemas.py "
        "http/routes/recalibrations.py http/routes/serving.py http/artifacts.py cli/recalibrate*.py cli/promote.py "
        "cli/rollback.py cli/apply.py app/recalibration.py metrics/refits.py",
        "Drift would be shown and not corrected. Maps would be fitted elsewhere, serve without a comparison on later "
        "events, and be taken back by hand.",
    ),
    Feature(
        "Alerts: sequential evidence, attribution, webhooks",
        "alarms/*.py sequential/*.py store/alert*.py store/webhooks.py store/evidence*.py store/model_evidence.py "
        "metrics/alerts.py metrics/evidence.py http/routes/alerts.py http/routes/evidence.py cli/alerts.py",
        "Thresholds on windows instead, whose false alarms grow with each look: no budget for a year of all models, "
        "no change point, no segments to blame, no remedy.",
    ),
    Feature(
        "Simulation of models and of alarms, the demo",
        "simulation/*.py alarm_functions.py cli/simulate*.py cli/demo.py app/history.py",
        "No `monitor demo`. A tolerance and a budget would be chosen in an incident, and not before.",
    ),
    Feature(
        "Access: roles, API keys, tokens of a provider, sessions",
        "access/*.py app/access.py app/checks/access.py http/authorization.py http/routes/sessions.py cli/keys.py "
        "store/api_keys.py",
        "A proxy in front would have to know models and roles, and the audit trail would not say who.",
    ),
    Feature(
        "Local calibration and LoRe",
        "maps/lore*.py local/*.py reports/evaluation/local.py reports/evaluation/features.py reports/diagrams/plane.py",
        "Errors among events that are alike, which cancel on the whole, would be neither seen nor corrected, and the "
        "guard would pass maps that make them worse.",
    ),
    Feature(
        "Many classes: measures and tests of whole vectors, their maps",
        "classes/*.py reports/evaluation/classes.py scores/class_table.py scores/sketch*.py maps/temperature.py "
        "maps/vector_scaling.py",
        "A report on one class at a time, no measure of whole vectors, and no map for predictions over classes.",
    ),
    Feature(
        "Mapping of messages of another shape, and its proposal",
        "events/mapping.py events/proposal.py events/observations.py events/declared_fields.py events/presets/*.py "
        "app/mapping_proposal.py app/checks/messages.py cli/map.py",
        "Producers would have to write the events of this service, or a translator would run between.",
    ),
    Feature(
        "Spark: reports, refits and backfills of a lake",
        "spark/*.py app/spark_backfill.py",
        "What one machine does not read would be sampled by its owner before it is reported on.",
    ),
    Feature(
        "Avro, Protobuf, JSON Schema, MessagePack, the schema registry",
        "events/formats/avro.py events/formats/protobuf.py events/formats/json_schema.py events/formats/messagepack.py "
        "events/schema_format.py events/schemas.py sources/schema_registry.py",
        "Plain JSON alone: most topics of Kafka would need a converter.",
    ),
    Feature(
        "The scorer's client, and that of services",
        "logging/*.py client.py",
        "Scorers would write to Kafka or REST themselves, and a slow or absent log would delay or fail them.",
    ),
    Feature(
        "Segments, groups and spans of a file; comparison of two files",
        "reports/evaluation/segments.py reports/evaluation/segment_search.py reports/evaluation/groups.py "
        "reports/evaluation/counting.py reports/evaluation/spans.py reports/evaluation/compare.py",
        "A file would have one report: not for whom it is wrong, since when, or whether the new model is better.",
    ),
    Feature(
        "`monitor check`",
        "app/checks/[!am]*.py app/checks/machine.py cli/check.py",
        "A wrong setting, topic or clock would be found by the first incident.",
    ),
    Feature(
        "Figures by matplotlib: `plot()`, and reports as PNG",
        "reports/figures/*.py reports/pictures.py",
        "Notebooks and pull requests would have no picture; pages draw their own.",
    ),
)
"""No file is one of two of them: what several need stays as long as one of them does."""


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


def feature_table() -> str:
    """The table of the largest features, in Markdown, with lines in hundreds."""
    sizes = {feature: round(feature.code_lines, -2) for feature in FEATURES}
    rows = ["| what | lines | files | without it |", "|---|---|---|---|"]
    largest = sorted(FEATURES, key=lambda feature: -sizes[feature])[:SHOWN_FEATURES]
    rows += [f"| {one.name} | {sizes[one]:,} | {len(one.files)} | {one.cost} |" for one in largest]
    return "\n".join(rows)


def written(page: str) -> str:
    """The page with its tables as they are today, each between two comments."""
    tables = {"rooms": room_table(), "numbers": number_table(), "features": feature_table()}
    for name, table in tables.items():
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
