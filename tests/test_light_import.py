"""Loading a map and applying it imports no server, database driver, Kafka client, compiler or plotting library."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from scipy.special import expit

from monitor.maps import METHODS, LabelledEvents, apply_map, fit_map
from monitor.maps.artifact import to_bytes
from tests.long import short_of

HEAVY: Final = (
    "alembic",
    "confluent_kafka",
    "fastapi",
    "kafka",
    "matplotlib",
    "numba",
    "pandas",
    "prometheus_client",
    "psycopg",
    "pydantic",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.stats",
    "sklearn",
    "sqlalchemy",
    "starlette",
    "structlog",
    "typer",
    "uvicorn",
)
ROOMS: Final = (
    "access",
    "simulation",
    "app",
    "cli",
    "events",
    "http",
    "metrics",
    "recalibration",
    "reports",
    "sources",
    "store",
    "stream",
)

APPLY_MAP: Final = """
import json, pathlib, sys
import monitor
from monitor.maps import apply_map
from monitor.maps.artifact import from_bytes

better = apply_map(from_bytes(pathlib.Path(sys.argv[1]).read_bytes()).map, [0.1, 0.9])
print(json.dumps({"applied": better.tolist(), "modules": sorted(sys.modules)}))
"""


def run(script: str, *arguments: str) -> Any:
    finished = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return json.loads(finished.stdout)


@pytest.mark.parametrize("method", short_of(["isotonic", "beta", "offset", "temperature", "platt", "histogram"], 2))
def test_a_process_that_applies_a_map_imports_no_more_than_it_needs(tmp_path: Path, method: str) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=500)
    chosen = fit_map(METHODS[method], LabelledEvents.of(expit(z), rng.random(500) < expit(0.5 * z)))
    file = tmp_path / "map.arrow"
    file.write_bytes(to_bytes(chosen, {}))

    result = run(APPLY_MAP, str(file))

    assert result["applied"] == apply_map(chosen, [0.1, 0.9]).tolist()
    assert sorted({*HEAVY, *(f"monitor.{room}" for room in ROOMS)}.intersection(result["modules"])) == []


LOG = """
import json, sys
from monitor.logging import File, PredictionLogger, Rest

Rest("http://localhost:8000")
with PredictionLogger("churn", to=File(sys.argv[1])) as predictions:
    predictions.log(0.5, features=[1.0])
print(json.dumps({"delivered": predictions.stats().delivered, "modules": sorted(sys.modules)}))
"""


def test_a_scorer_that_logs_imports_no_more_than_it_needs(tmp_path: Path) -> None:
    result = run(LOG, str(tmp_path / "events.jsonl"))
    assert result["delivered"] == 1
    rooms = {f"monitor.{room}" for room in ROOMS if room != "events"}
    assert sorted({*HEAVY, *rooms}.intersection(result["modules"])) == []


def test_a_scorer_that_logs_to_kafka_compiles_nothing() -> None:
    script = "import json, sys, monitor.logging.kafka_python_producer; print(json.dumps(sorted(sys.modules)))"
    heavy = {*HEAVY, *(f"monitor.{room}" for room in ROOMS if room not in {"events", "sources"})}
    assert sorted(heavy.intersection(run(script))) == ["kafka"]


def test_the_client_of_a_scorer_adds_nothing_but_http() -> None:
    modules = run("import json, sys, monitor.client; print(json.dumps(sorted(sys.modules)))")
    assert "httpx" in modules
    assert sorted({*HEAVY, *(f"monitor.{room}" for room in ROOMS)}.intersection(modules)) == []


REPORT = """
import json, sys
from monitor.cli.main import run

status = run(["report", sys.argv[1], "--draws", "19", "--segment", "region"])
print()
print(json.dumps({"status": status, "modules": sorted(sys.modules)}))
"""


def test_a_report_of_a_table_loads_no_part_of_the_service(tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    rows = [f"{at / 300},{int(at % 7 > 3)},{'a' if at % 2 else ''}" for at in range(1, 300)]
    table.write_text("\n".join(["prediction,outcome,region", *rows]))
    for _ in ("the loops may be compiled", "they are loaded"):
        finished = subprocess.run(
            [sys.executable, "-c", REPORT, str(table)], capture_output=True, text=True, check=True
        )
    result = json.loads(finished.stdout.splitlines()[-1])
    assert result["status"] == 0
    needed = {"pydantic", "typer", "monitor.cli"}
    unneeded = {*HEAVY, *(f"monitor.{room}" for room in ("access", "app", "http", "metrics", "store", "stream"))}
    assert sorted((unneeded - needed).intersection(result["modules"])) == []
