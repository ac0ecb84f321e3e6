"""``python -m deploy.dashboards``: write helm/dashboards/*.json anew."""

from pathlib import Path

from deploy.dashboards.every import DASHBOARDS, to_json

if __name__ == "__main__":
    directory = Path(__file__).parents[2] / "helm" / "dashboards"
    directory.mkdir(exist_ok=True)
    for name, make in DASHBOARDS.items():
        (directory / f"{name}.json").write_text(to_json(make()), encoding="utf-8")
