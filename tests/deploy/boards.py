"""The dashboards' files, and what they ask."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

FOLDER: Final = Path(__file__).parents[2] / "helm" / "dashboards"


class AskedQuery(NamedTuple):
    """A query of a panel or an annotation, with the dashboard's variables in it."""

    title: str
    expr: str
    legend: str
    instant: bool
    datasource: Mapping[str, str]


def board(name: str) -> dict[str, Any]:
    """A dashboard as its file holds it."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


def panels(name: str) -> list[dict[str, Any]]:
    """Its panels, without the headers of rows."""
    return [panel for panel in board(name)["panels"] if panel["type"] != "row"]


def variables(name: str) -> list[dict[str, Any]]:
    """Its variables that are asked of Prometheus, in their order."""
    return [variable for variable in board(name)["templating"]["list"] if variable["type"] == "query"]


def queries(name: str) -> list[AskedQuery]:
    """Everything that it asks, panels first and annotations after them."""
    asked = [
        AskedQuery(
            panel["title"],
            target["expr"],
            target.get("legendFormat", ""),
            bool(target.get("instant", False)),
            target["datasource"],
        )
        for panel in panels(name)
        for target in panel["targets"]
    ]
    notes = [
        AskedQuery(note["name"], note["expr"], note["titleFormat"] + note["textFormat"], False, note["datasource"])
        for note in board(name)["annotations"]["list"]
    ]
    return asked + notes
