"""`monitor serve` with models to refit: its events, its settings, and what is asked of it."""

import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import yaml

from monitor.clock import SystemClock
from monitor.events.encode import encode_labelled
from monitor.store.sql import SqlStore
from tests.cli.command import inside
from tests.cli.kafka_service import Served
from tests.patience import PATIENCE_SECONDS, eventually

START_MS: Final = 1_790_000_000_000
HOURS: Final = 3
HOUR_MS: Final = 3_600_000

SETTINGS: Final[dict[str, Any]] = {
    "source": {"embedded": {"directory": "log", "partitions": 1}},
    "store": {"url": "sqlite:///state.db"},
    "models": {"defaults": {"horizon": "10m", "allowed_lateness": "5m"}},
    "windows": [{"length": "6h"}],
    "evaluation": {"interval": "1s", "draws": 0},
    "pipeline": {"checkpoint_interval": "100ms"},
    "recalibration": {"jobs": 2},
    "api": {"port": 0},
    "access": {"mode": "off"},
    "log": {"format": "json"},
}


class Refitting(Served):
    """A running `monitor serve` that is asked for refits."""

    def ask_for(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON body of any request; (0, {}) while nothing listens."""
        data = None if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(
            f"{self.url}{path}", data, {"content-type": "application/json", **named}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def refit(self, model: str, **body: Any) -> dict[str, Any]:
        """A refit that was just queued."""
        status, job = self.ask_for("POST", f"/v1/models/{model}/recalibrations", body)
        assert status == 202, job
        return job

    def job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Where a refit stands now."""
        status, found = self.ask_for("GET", job["links"]["self"])
        assert status == 200, found
        return found

    def ended(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """A refit once it has ended."""
        self.eventually(lambda: self.job(job)["finished_at"] is not None, shown=lambda: self.job(job))
        return self.job(job)

    def recalibrate(self, model: str, p: list[float], **more: Any) -> tuple[int, dict[str, Any]]:
        """Predictions recalibrated over REST."""
        return self.ask_for("POST", f"/v1/models/{model}/recalibrate", {"p": p, **more})

    def workers(self) -> list[psutil.Process]:
        """Processes of refits that run now."""
        return psutil.Process(self.process.pid).children()

    def working(self, job: Mapping[str, Any]) -> psutil.Process:
        """The process of a refit, once it is there; no other one may be under way."""

        def look() -> list[psutil.Process]:
            workers = self.workers()
            return workers if len(workers) == 1 and self.job(job)["state"] == "running" else []

        (worker,) = self.eventually(look, shown=lambda: self.job(job))
        return worker


def wait_until_gone(process: psutil.Process) -> None:
    """Wait until a process has ended, by whatever."""

    def look() -> bool:
        # It may go between two questions.
        with contextlib.suppress(psutil.NoSuchProcess):
            return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
        return True

    eventually(look, shown=lambda: process)


def write_settings(folder: Path, **changes: Mapping[str, Any]) -> None:
    """Write a monitor.yaml; ``changes`` take the place of sections."""
    folder.mkdir(exist_ok=True)
    (folder / "monitor.yaml").write_text(yaml.safe_dump(SETTINGS | changes), encoding="utf-8")


def replay(folder: Path, events: list[bytes]) -> None:
    """Put events into the log of a folder, by the command."""
    (folder / "events.jsonl").write_bytes(b"\n".join(events))
    done = inside("replay", "events.jsonl", cwd=folder)
    assert done.returncode == 0, done.stderr


def overconfident(
    model: str,
    n: int,
    *,
    slope: float = 2.0,
    features: Callable[[int], int] = lambda _: 0,
    outcome: int | None = None,
    seed: int = 4,
) -> Iterator[bytes]:
    """Labelled events of a model whose logits are ``slope`` times the true ones, over three hours.

    Parameters
    ----------
    features
        Number of an event -> how many features it has.
    outcome
        What all outcomes are; drawn if left out.
    """
    draw = np.random.default_rng(seed)
    logit = draw.normal(0.0, 1.0, n)
    y = (draw.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(int) if outcome is None else np.full(n, outcome)
    p = 1.0 / (1.0 + np.exp(-slope * logit))
    x = draw.normal(0.0, 1.0, (n, 8))
    for at in range(n):
        count = features(at)
        yield encode_labelled(
            model,
            f"{model}-{at}",
            START_MS + at * HOURS * HOUR_MS // n,
            float(p[at]),
            int(y[at]),
            version="7",
            features=x[at, :count] if count else None,
        )


def wait_until_sampled(served: Served, url: str, wanted: Mapping[str, int]) -> None:
    """Wait until so many events of each model are kept for refits, and the models are evaluated."""
    with SqlStore.open(url, clock=SystemClock()) as store:

        def counts() -> dict[str, int]:
            return {model: store.read_sample(model, "7").population for model in wanted}

        served.eventually(lambda: all(counts()[model] >= least for model, least in wanted.items()), shown=counts)
    # A model can be refitted once it was evaluated.
    served.eventually(lambda: wanted.keys() <= {model["model"] for model in served.get("/v1/models")[1]["models"]})
