"""All dashboards by name, and how they are written."""

import json
from collections.abc import Callable, Mapping
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
