"""Writes helm/values.schema.json and helm/README.md."""

import json
from pathlib import Path
from typing import Final

import yaml

from deploy.chart.comments import read_comments
from deploy.chart.readme import readme
from deploy.chart.schema import values_schema

CHART: Final = Path(__file__).parents[2] / "helm"


def generated() -> dict[Path, str]:
    """What belongs into each file."""
    comments = read_comments(CHART / "values.yaml")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    return {
        CHART / "values.schema.json": json.dumps(values_schema(values, comments), indent=1) + "\n",
        CHART / "README.md": readme(chart, values, comments),
    }


if __name__ == "__main__":
    for file, text in generated().items():
        file.write_text(text, encoding="utf-8")
