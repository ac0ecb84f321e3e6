"""``python -m deploy.dashboards``: write helm/dashboards/*.json anew."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.dashboards.fleet import fleet
from deploy.dashboards.model import model
from deploy.dashboards.pipeline import pipeline

DASHBOARDS: Final[Mapping[str, Callable[[], Dashboard]]] = {"fleet": fleet, "model": model, "pipeline": pipeline}


def to_json(dashboard: Dashboard) -> str:
    """As a file holds it."""
    return json.dumps(dashboard, cls=JSONEncoder, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    directory = Path(__file__).parents[2] / "helm" / "dashboards"
    for name, make in DASHBOARDS.items():
        (directory / f"{name}.json").write_text(to_json(make()), encoding="utf-8")
