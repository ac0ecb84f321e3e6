"""A running service shows what is backfilled beside it: in any order, replaced, and through kill -9."""

import json
import signal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import yaml

from monitor.app.parts import make_panes, make_watcher, open_store
from monitor.app.settings import Settings, load_settings
from monitor.arrays import Bools, Floats, Ints
from monitor.clock import SystemClock
from monitor.store import evidence as stored_evidence
from monitor.store.model_evidence import NO_EVIDENCE
from monitor.store.schema import META
from monitor.windows.panes import read_closings
from tests.cli.command import inside, start
from tests.cli.kafka_service import Served, without_evidence
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.postgres import PostgresServer

DAY_MS = 86_400_000
START_MS = 19_600 * DAY_MS
LIVE_DAY, DAYS, ROWS = 18, 20, 4_000
END_MS = START_MS + DAYS * DAY_MS
WINDOW = "30d"
REPORT = f"/v1/models/churn/report?window={WINDOW}"


class Past(NamedTuple):
    """Predictions that are too high, with their outcomes, in the order of time."""

    time_ms: Ints
    p: Floats
    y: Ints

    def write(self, path: Path, rows: Bools) -> None:
        columns = {"ts": pa.array(self.time_ms[rows], pa.timestamp("ms", "UTC")), "p": self.p[rows], "y": self.y[rows]}
        pq.write_table(pa.table(columns), path)

    def between(self, from_day: int, to_day: int) -> Bools:
        return (self.time_ms >= START_MS + from_day * DAY_MS) & (self.time_ms < START_MS + to_day * DAY_MS)

    def events(self, rows: Bools) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for at in np.flatnonzero(rows).tolist():
            event = {"model": "churn", "id": str(at), "ts": int(self.time_ms[at])}
            made += [
                {"type": "prediction", "p": self.p[at], **event},
                {"type": "outcome", "y": int(self.y[at]), **event},
            ]
        # Later ones, so that all before are settled.
        last = {"model": "churn", "id": "last", "ts": END_MS + DAY_MS}
        return [*made, {"type": "prediction", "p": 0.5, **last}, {"type": "outcome", "y": 1, **last}]


def drawn() -> Past:
    rng = np.random.default_rng(5)
    p = rng.beta(1.0, 4.0, ROWS)
    return Past(np.sort(rng.integers(START_MS, END_MS, ROWS)), p, (rng.random(ROWS) < p**1.4).astype(np.int64))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgres, pytest.mark.long])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.url(server.new_database())


def backfill(folder: Path, file: str, batch: str, to_day: int, *more: str) -> list[str]:
    to = np.datetime64(START_MS + to_day * DAY_MS, "ms").item().isoformat() + "Z"
    return ["backfill", str(folder / file), "--model", "churn", "--batch", batch, "--to", to, *more]


def is_saved(settings: Settings, batch: str) -> bool:
    with open_store(settings, SystemClock()) as store, store.database.reading() as connection:
        return any(json.dumps(batch) in key for key in connection.execute(sa.select(META.c.key)).scalars())


def kill_during(folder: Path, settings: Settings, arguments: list[str], batch: str) -> None:
    """Kill a backfill before it saves anything, and another one as soon as it has saved its closings."""
    with (folder / "killed.txt").open("wb") as output:
        for is_soon in (True, False):
            process = start(*arguments, cwd=folder, output=output)
            if not is_soon:
                eventually(lambda: is_saved(settings, batch))
            process.send_signal(signal.SIGKILL)
            assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
            assert is_saved(settings, batch) is not is_soon


def evidence_from_the_start(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Detector -> evidence, as a service computes it that has none yet."""
    with open_store(settings, SystemClock()) as store, monkeypatch.context() as patched:
        patched.setattr(stored_evidence, "read", lambda *_: [])
        panes = make_panes(settings)
        read_closings(store, panes)
        watched = make_watcher(settings, panes, store, SystemClock()).update({"churn": 1})
        (version,) = watched.evidence["churn"].versions.values()
        return {name: level.log10_evidence for name, level in version.levels.items()}


def evidence(served: Served) -> dict[str, float]:
    """The same as a service says it; none while it has none."""
    versions = served.get("/v1/models/churn/evidence")[1].get("versions", [{"detectors": []}])
    return {
        one["detector"]: NO_EVIDENCE if one["log10_evidence"] is None else one["log10_evidence"]
        for version in versions
        for one in version["detectors"]
    }


def test_a_running_service_sees_every_backfill(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    past = drawn()
    past.write(tmp_path / "first.parquet", past.between(0, 10))
    past.write(tmp_path / "second.parquet", past.between(10, 17))
    all_positive = past._replace(y=np.ones_like(past.y))
    all_positive.write(tmp_path / "corrected.parquet", past.between(5, 12))
    live = past.between(LIVE_DAY, DAYS)
    (tmp_path / "live.jsonl").write_text("\n".join(map(json.dumps, past.events(live))))
    tree = {
        "store": {"url": url},
        "source": {"embedded": {"directory": "log"}},
        "models": {"defaults": {"horizon": "1h", "allowed_lateness": "10m"}},
        "windows": [{"length": WINDOW}, {"length": "1d"}],
        "evaluation": {"interval": "300ms", "draws": 0},
        "pipeline": {"checkpoint_interval": "200ms"},
        "api": {"port": 0},
        "access": {"mode": "off"},
        "log": {"format": "json"},
    }
    (tmp_path / "monitor.yaml").write_text(yaml.safe_dump(tree))
    settings = load_settings(tmp_path / "monitor.yaml", {})

    def run(arguments: list[str]) -> str:
        done = inside(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with Served(tmp_path) as served:

        def shows(rows: Bools, y: Ints = past.y) -> dict[str, Any]:
            """The report, once it is on these rows."""
            expected = (int(rows.sum()), int(y[rows].sum()))

            def report() -> dict[str, Any] | None:
                status, body = served.get(REPORT)
                return body if status == 200 and (body["n"], body["positives"]) == expected else None

            found = served.eventually(report, lambda: served.get(REPORT))
            assert found is not None
            return found

        served.eventually(lambda: served.get("/readyz")[0] == 200, served.readiness)
        run(["replay", "live.jsonl"])
        shows(live)
        run(backfill(tmp_path, "second.parquet", "second", 17))
        shows(live | past.between(10, 17))
        # Earlier than a batch that the service has, and killed in the middle.
        first = backfill(tmp_path, "first.parquet", "first", 10)
        kill_during(tmp_path, settings, first, "first")
        whole = live | past.between(0, 17)
        shows(whole)
        assert run(first).startswith(f"churn: {past.between(0, 10).sum():,} predictions")
        assert run(first) == run(first)
        report = shows(whole)
        (tmp_path / "whole.jsonl").write_text("\n".join(map(json.dumps, past.events(whole))))
        of_log = json.loads(run(["report", "whole.jsonl", "--json"]))["reports"]
        expected_report = next(one for one in of_log if one["window"] == WINDOW and one["segment"] == "all")
        assert without_evidence(report) == expected_report
        # Replaced, where another batch holds the times; what the service has read is never touched.
        corrected = backfill(tmp_path, "corrected.parquet", "corrected", 12)
        refused = inside(*corrected, cwd=tmp_path)
        assert "or add --replace" in refused.stderr
        beyond = backfill(tmp_path, "corrected.parquet", "corrected", 19, "--replace")
        assert "the service has read predictions from" in inside(*beyond, cwd=tmp_path).stderr
        shows(whole)
        kill_during(tmp_path, settings, [*corrected, "--replace"], "corrected")
        outcomes = np.where(past.between(5, 12), 1, past.y)
        shows(whole, outcomes)
        run([*corrected, "--replace"])
        shows(whole, outcomes)

        expected = evidence_from_the_start(settings, monkeypatch)
        assert expected["calibration"] > 20
        served.eventually(lambda: evidence(served) == expected, lambda: (evidence(served), expected))
        # The history has each day of windows, the first ones from the backfill and the last ones from the log.
        ends = served.get(f"/v1/models/churn/history?window={WINDOW}&measure=smce&step=1d")[1]["points"]
        assert len(ends) > 17
        served.kill()
    with Served(tmp_path) as served:
        served.eventually(lambda: evidence(served) == expected, lambda: (evidence(served), expected))
