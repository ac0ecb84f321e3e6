"""A report is logged to a run of a real MLflow tracking server, and read back from it."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real.mlflow import mlflow_python, mlflow_server

pytestmark = pytest.mark.long  # MLflow and what it asks for are 300 MB

LOGGED = """
import json, sys
import mlflow, numpy as np
import monitor
from monitor.errors import InputError
from monitor.mlflow import log_report

rng = np.random.default_rng(1)
p = rng.random(3000)
report = monitor.evaluate(p, rng.random(3000) < p**2, seed=0)
vectors = rng.dirichlet(np.ones(3), 400)
classes = monitor.evaluate(vectors, rng.integers(0, 3, 400), seed=0)
unlabelled = monitor.evaluate(p, np.full(3000, np.nan), seed=0)
try:
    log_report(report)
except InputError as error:
    refused = str(error)
with mlflow.start_run() as run:
    log_report(report)
    log_report(classes, "triage")
    log_report(unlabelled, "today")

client = mlflow.MlflowClient()
read = client.get_run(run.info.run_id)
files = {
    folder: sorted(file.path for file in client.list_artifacts(run.info.run_id, folder))
    for folder in ("calibration", "triage", "today")
}
html, picture, document = (
    mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path=f"calibration/{name}")
    for name in ("report.html", "reliability.png", "report.json")
)
print(json.dumps({
    "refused": refused,
    "runs": len(client.search_runs(["0"])),
    "metrics": read.data.metrics,
    "tags": {name: value for name, value in read.data.tags.items() if not name.startswith("mlflow.")},
    "files": files,
    "html": open(html).read(),
    "picture": open(picture, "rb").read(8).hex(),
    "same": json.load(open(document)) == json.loads(json.dumps(report.to_dict())),
    "smce": [report.measures["smce"].value, report.measures["smce"].lower],
    "classes": [classes.measures["skce"].value, classes.top_label.measures["smce"].value],
    "auc": report.performance.auc,
}))
"""


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run that a program logged, as the server has it."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as url:
        environment = {**os.environ, "MLFLOW_TRACKING_URI": url, "PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run(
            [mlflow_python(), "-c", LOGGED], env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_values_and_intervals_are_metrics(logged: Any) -> None:
    metrics = logged["metrics"]
    assert [metrics["calibration/smce"], metrics["calibration/smce.lower"]] == pytest.approx(logged["smce"])
    assert metrics["calibration/auc"] == pytest.approx(logged["auc"])
    assert (metrics["calibration/n"], metrics["today/n"]) == (3000.0, 0.0)
    assert [metrics["triage/skce"], metrics["triage/top_label/smce"]] == pytest.approx(logged["classes"])
    assert "today/smce" not in metrics


def test_the_verdict_is_a_tag(logged: Any) -> None:
    assert logged["tags"]["calibration.verdict"] == "both"
    assert logged["tags"]["calibration.severity"] == "severe"


def test_page_document_and_diagram_are_artifacts(logged: Any) -> None:
    names = ["reliability.png", "report.html", "report.json"]
    assert logged["files"]["calibration"] == [f"calibration/{name}" for name in names]
    assert logged["files"]["triage"] == [f"triage/{name}" for name in names]
    assert logged["files"]["today"] == [f"today/{name}" for name in names[1:]]  # nothing to draw
    assert "Severe prior and shape" in logged["html"]
    assert bytes.fromhex(logged["picture"]) == b"\x89PNG\r\n\x1a\n"
    assert logged["same"]


def test_without_a_run_none_is_made(logged: Any) -> None:
    assert "there is no active run" in logged["refused"]
    assert logged["runs"] == 1
