"""A measure, a route and an event format are one file each: nothing else has to be edited."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[1]

MEASURE = '''
"""The mean of the residuals: calibration in the large."""

from monitor.measures.base import Measure
from monitor.scores import ScoreTable


def mean_residual(table: ScoreTable) -> float:
    """The absolute value of the mean residual."""
    return abs(float(table.residual.sum())) / table.total


MEASURE = Measure(
    name="mean_residual",
    title="Mean residual",
    help="How far the mean prediction is from the prevalence.",
    unit="ratio",
    value=mean_residual,
    error_bound=lambda table, value: 0.0,
)
'''

ROUTE = '''
"""GET /v1/moon."""

from typing import Final

from fastapi import APIRouter

from monitor.http.authorization import public

router: Final = APIRouter()


@router.get("/v1/moon", summary="The phase of the moon", dependencies=[public()])
async def moon() -> dict[str, str]:
    return {"phase": "full"}
'''

FORMAT = '''
"""Events as one line with commas: csv;MODEL,ID,MILLISECONDS,P,Y."""

from monitor.events.formats.base import Format, Messages
from monitor.events.model import Kind, Reason, Record
from monitor.events.fields import Rejected
from monitor.events.wire import Event


def _decode_one(value):
    try:
        model, id_, time_ms, p, y = value.removeprefix(b"csv;").decode().split(",")
        return Event(model=model, id=id_, ts=int(time_ms), p=float(p), y=int(y), type="labelled")
    except ValueError:
        return None


def decode(messages: Messages) -> list[Event | None]:
    return [_decode_one(value) for value in messages.values]


def examine(record: Record, rules, kind) -> Event:
    event = _decode_one(record.value or b"")
    if event is None:
        raise Rejected(Reason.NOT_JSON, "a line has five fields: MODEL,ID,MILLISECONDS,P,Y")
    return event


def matches(messages: Messages) -> set[int]:
    return {row for row, value in enumerate(messages.values) if value.startswith(b"csv;")}


FORMAT = Format(decode, examine, matches)
'''

SCRIPT = """
import sys

import numpy as np

import monitor
from docs.generators.series import to_markdown
from monitor.events.codec import Decoder
from monitor.events.model import RecordBatch
from monitor.measures import MEASURES, WINDOW_MEASURES
from monitor.metrics.exposition import Exposition
from monitor.sklearn import mean_residual_score
from monitor.sources.log_format import LogRecord
from tests.events.messages import new_strata
from tests.http.service import Service
from tests.snapshots import Evaluations, report, snapshot, window_families

assert monitor.__file__.startswith(sys.argv[1]), monitor.__file__
rng = np.random.default_rng(1)
p = rng.random(500)
y = rng.random(500) < p * 0.5
result = monitor.evaluate(p, y, measures=["mean_residual"], draws=19)
assert result.to_dict()["measures"]["mean_residual"]["value"] > 0.1
assert "Mean residual" in str(result)
assert mean_residual_score(y, p) == result.measures["mean_residual"].value

client = Service().client()
assert "mean_residual" in {row["name"] for row in client.get("/v1/measures").json()["measures"]}
answer = client.post("/v1/reports", json={"p": p.tolist(), "y": y.astype(int).tolist()}).json()
assert "mean_residual" in answer["measures"], answer
assert client.get("/v1/moon").json() == {"phase": "full"}
assert "/v1/moon" in client.get("/openapi.json").json()["paths"]

assert "`calibration_mean_residual`" in to_markdown(MEASURES.values())
measures = list(WINDOW_MEASURES.values())
evaluations = Evaluations()
evaluations.show(snapshot([report(measures=measures)]))
assert "calibration_mean_residual{" in Exposition([window_families(evaluations, measures)]).render()[0].decode()

lines = [b"csv;churn,7f3a,1700000000000,0.83,1", b"csv;churn"]
records = [LogRecord(offset, 1_700_000_000_000, None, line, ()) for offset, line in enumerate(lines)]
decoded = Decoder().decode(RecordBatch("events", 0, records, len(records)), new_strata(), None)
assert decoded.columns.prediction.tolist() == [0.83]
assert [letter.detail for letter in decoded.dead_letters] == ["a line has five fields: MODEL,ID,MILLISECONDS,P,Y"]
print("all there")
"""


def test_one_file_adds_a_measure_a_route_and_an_event_format(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "monitor", tmp_path / "monitor")
    (tmp_path / "monitor" / "measures" / "mean_residual.py").write_text(MEASURE, encoding="utf-8")
    (tmp_path / "monitor" / "http" / "routes" / "moon.py").write_text(ROUTE, encoding="utf-8")
    (tmp_path / "monitor" / "events" / "formats" / "csv_line.py").write_text(FORMAT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.stdout.endswith("all there\n"), done.stderr
