"""A scorer's client and a whole `monitor serve`: what is logged over REST is what is reported."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from monitor.clock import SystemClock
from monitor.logging import PredictionLogger, Rest
from tests.cli.command import inside
from tests.cli.kafka_service import Served
from tests.patience import PATIENCE_SECONDS

MINUTE_MS = 60_000
COUNT = 2_000


def test_predictions_and_outcomes_over_rest_come_to_the_report(tmp_path: Path) -> None:
    """With a key that may write; single calls, arrays, an event twice, a correction and a bad value."""
    tree = {
        "store": {"url": "sqlite:///state.db"},
        "models": {"defaults": {"horizon": "10m", "allowed_lateness": "1m", "segments": ["region"]}},
        "windows": [{"length": "2h"}],
        "evaluation": {"interval": "300ms", "draws": 0},
        "pipeline": {"checkpoint_interval": "200ms"},
        "api": {"port": 0},
        "log": {"format": "json"},
    }
    (tmp_path / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    key = inside("keys", "create", "scorer", "--role", "write", "--role", "read", cwd=tmp_path).stdout.strip()
    now_ms = SystemClock().now_ms()
    rng = np.random.default_rng(7)
    p = rng.uniform(0, 1, COUNT)
    y = (rng.random(COUNT) < p).astype(int)
    times = [now_ms - 60 * MINUTE_MS + at * 20 for at in range(COUNT)]
    regions = ["eu" if at % 2 else "us" for at in range(COUNT)]
    with Served(tmp_path) as served:
        served.ready()
        served.key = key
        with PredictionLogger("churn", "7", to=Rest(served.url, api_key=key)) as predictions:
            half = COUNT // 2
            ids = [
                predictions.log(at_p, ts=at, segments={"region": region})
                for at_p, at, region in zip(p[:half], times[:half], regions[:half], strict=True)
            ]
            ids += predictions.log_many(p[half:], ts=times[half:], segments={"region": regions[half:]})
            predictions.log(p[0], id=ids[0], ts=times[0], segments={"region": regions[0]})
            predictions.log(1.5)
            predictions.outcome(ids[0], 1 - y[0], ts=times[0] + MINUTE_MS)
            for identifier, at_y, at in zip(ids, y, times, strict=True):
                predictions.outcome(identifier, at_y, ts=at + 2 * MINUTE_MS)
            predictions.log(0.5, ts=now_ms)
            assert predictions.flush(PATIENCE_SECONDS)
        stats = predictions.stats()
        assert (stats.delivered, stats.dropped) == (2 * COUNT + 3, {"invalid": 1})

        def report() -> dict[str, Any]:
            status, found = served.get("/v1/models/churn/report?window=2h")
            return found if status == 200 and found["n"] == COUNT else {}

        found = served.eventually(report, lambda: served.get("/v1/models/churn/report?window=2h"))
        assert (found["version"], found["positives"]) == ("7", int(y.sum()))
        assert np.isclose(found["mean_prediction"], p.mean(), rtol=0, atol=1e-9)
        counted = served.counted()
        assert counted["prediction", "accepted"] == COUNT + 1
        assert counted["prediction", "duplicate"] == 1
        assert counted["outcome", "joined"] == COUNT
        assert counted["outcome", "corrected"] == 1
        served.stop()
