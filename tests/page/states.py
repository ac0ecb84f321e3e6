"""A service whose pages show every state that people meet, the same in each run: events from seeds, at fixed times.

``python -m tests.page.states`` serves it until Ctrl-C, to look at.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np
from scipy.special import expit, softmax

from monitor.app.parts import make_topics
from monitor.app.replay import route
from monitor.app.service import Service
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.events.encode import encode_labelled, encode_outcome, encode_prediction
from monitor.store.alerts import AlertStore
from tests.patience import eventually

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
NOW_MS: Final = 1_795_176_000_000
"""2026-11-20T12:00:00Z, when all pages are looked at."""
START_MS: Final = NOW_MS - 14 * DAY_MS
CHANGE_MS: Final = NOW_MS - 3 * DAY_MS
"""Since when ``churn`` is too sure of itself."""
YOUNG_MS: Final = NOW_MS - DAY_MS
"""Since when there are the models of the last day: they are evaluated once, as each of many segments costs."""
_EVALUATED_MS: Final = range(START_MS + DAY_MS, NOW_MS + 1, DAY_MS)
"""When what was written until then is evaluated."""
_REFIT_MS: Final = START_MS + 8 * DAY_MS
"""When ``uplift`` gets a map that serves."""

MARKUP: Final = "<img src=x onerror=alert(1)>"
LONGEST: Final = "credit-default-probability-of-retail-customers-" * 2 + "x" * 34
"""As long as a name may be."""
RIGHT_TO_LEFT: Final = "نموذج مخاطر الائتمان"

_MODELS: Final[dict[str, Any]] = {
    "defaults": {"horizon": "6h", "allowed_lateness": "1h"},
    "declared": {
        "churn": {"segments": ["region"], "labels": {"team": "growth"}, "recalibration": {"method": "platt"}},
        "digits": {"classes": 10},
        "ranking": {"segments": ["shop"]},
        "uplift": {"labels": {"team": "growth"}, "recalibration": {"method": "platt"}},
    },
}
_TREE: Final[dict[str, Any]] = {
    "windows": [{"length": "24h"}, {"length": "7d"}],
    # Evaluations are made below, after each step.
    "evaluation": {"interval": "24h", "draws": 29},
    "pipeline": {"checkpoint_interval": "50ms"},
    "api": {"port": 0},
    "access": {"mode": "off"},
}


class Event(NamedTuple):
    """A message, and when it is written."""

    at_ms: int
    value: bytes


class SteppedClock(SystemClock):
    """Wall-clock time stands still until it is set; waiting takes as long as it takes."""

    def __init__(self, now_ms: int) -> None:
        self.stands_ms = now_ms

    def now_ms(self) -> int:
        """The time that was set."""
        return self.stands_ms


def _times(rng: np.random.Generator, count: int, from_ms: int, to_ms: int = NOW_MS) -> list[int]:
    return [int(time_ms) for time_ms in np.sort(rng.integers(from_ms, to_ms, count))]


def _churn() -> Iterator[Event]:
    """Two versions; the second is too sure of itself since the change, most of all in Europe. Outcomes take hours."""
    rng = np.random.default_rng(1)
    for at, time_ms in enumerate(_times(rng, 50_000, START_MS)):
        region = ("eu", "us", "apac")[int(rng.choice(3, p=(0.5, 0.3, 0.2)))]
        logit = rng.normal(-0.4, 1.2)
        slope = 1.0 if time_ms < CHANGE_MS else {"eu": 2.2, "us": 1.6, "apac": 1.0}[region]
        version = "6" if time_ms < START_MS + 4 * DAY_MS else "7"
        segments = {"region": region}
        p = float(expit(slope * logit))
        yield Event(time_ms, encode_prediction("churn", at, time_ms, p, version=version, segments=segments))
        known_ms = time_ms + int(rng.gamma(2.0, HOUR_MS))
        if rng.random() < 0.93:
            yield Event(known_ms, encode_outcome("churn", at, known_ms, int(rng.random() < expit(logit))))


def _uplift() -> Iterator[Event]:
    """Too high since the seventh day: an offset repairs it, and a map with one serves since the eighth."""
    rng = np.random.default_rng(2)
    for at, time_ms in enumerate(_times(rng, 20_000, START_MS)):
        logit = rng.normal(-0.5, 1.0)
        p = float(expit(logit + (0.0 if time_ms < START_MS + 6 * DAY_MS else 0.8)))
        y = int(rng.random() < expit(logit))
        yield Event(time_ms, encode_labelled("uplift", at, time_ms, p, y, version="3"))


def _recent(model: str, seed: int, count: int, mean: float, offset: float = 0.0, **optional: Any) -> Iterator[Event]:
    """Events of the last day, calibrated but for an offset of the predicted logits."""
    rng = np.random.default_rng(seed)
    for at, time_ms in enumerate(_times(rng, count, YOUNG_MS)):
        logit = rng.normal(mean, 0.9)
        y = int(rng.random() < expit(logit))
        yield Event(time_ms, encode_labelled(model, at, time_ms, float(expit(logit + offset)), y, **optional))


def _ranking() -> Iterator[Event]:
    """Fifty segments, one of which is wrong, and one with a name that would be markup."""
    rng = np.random.default_rng(4)
    for at, time_ms in enumerate(_times(rng, 25_000, YOUNG_MS)):
        place = int(rng.integers(49))
        shop = MARKUP if place == 7 else f"shop-{place:02}"
        logit = rng.normal(-1.0, 0.8)
        p = float(expit(logit + (1.0 if place == 3 else 0.0)))
        y = int(rng.random() < expit(logit))
        yield Event(time_ms, encode_labelled("ranking", at, time_ms, p, y, version="2", segments={"shop": shop}))


def _digits() -> Iterator[Event]:
    rng = np.random.default_rng(5)
    for at, time_ms in enumerate(_times(rng, 6_000, YOUNG_MS)):
        logits = rng.normal(0.0, 1.5, 10)
        y = int(rng.choice(10, p=softmax(logits)))
        yield Event(time_ms, encode_labelled("digits", at, time_ms, softmax(1.1 * logits), y, version="1"))


def _constant() -> Iterator[Event]:
    rng = np.random.default_rng(6)
    for at, time_ms in enumerate(_times(rng, 4_000, YOUNG_MS)):
        yield Event(time_ms, encode_labelled("constant", at, time_ms, 0.3, int(rng.random() < 0.3), version="1"))


def _unlabelled() -> Iterator[Event]:
    rng = np.random.default_rng(7)
    for at, time_ms in enumerate(_times(rng, 2_000, YOUNG_MS)):
        yield Event(time_ms, encode_prediction("unlabelled", at, time_ms, float(rng.random()), version="1"))


def _events() -> list[Event]:
    parts = [
        _churn(),
        _uplift(),
        _recent("fraud", 3, 15_000, -5.0, version="2026.11"),
        _recent("leads", 8, 6_000, 0.0, 0.6, version="1"),
        _ranking(),
        _digits(),
        _constant(),
        _unlabelled(),
        _recent(MARKUP, 9, 3_000, 0.0, version="<b>1</b>"),
        _recent(LONGEST, 10, 3_000, 0.0, version="2026-11-18T00:00:00Z+0a1b2c3d4e5f"),
        _recent(RIGHT_TO_LEFT, 11, 3_000, 0.0, version="1"),
    ]
    return sorted((event for part in parts for event in part if event.at_ms < NOW_MS), key=lambda event: event.at_ms)


class States:
    """Where each state is seen."""

    def __init__(self, service: Service, empty: Service) -> None:
        self.service = service
        self.url = service.server.url
        self.empty_url = empty.server.url
        """A service that has no model."""

    def model(self, name: str) -> str:
        """The page of a model."""
        return f"{self.url}/models/{quote(name)}"

    @property
    def alert(self) -> str:
        """The page of the alert about ``churn``."""
        return f"{self.url}/alerts/{alert_about(self.service, 'churn')}"

    @property
    def refit(self) -> str:
        """The page of the refit of ``uplift``."""
        return f"{self.url}/recalibrations/{self.job}"

    job: str = ""


def _service(folder: Path, clock: SteppedClock, models: dict[str, Any]) -> Service:
    places = {
        "source": {"embedded": {"directory": str(folder / "log"), "partitions": 1}},
        "store": {"url": f"sqlite:///{folder / 'state.db'}"},
    }
    service = Service(Settings.model_validate(_TREE | places | {"models": models}), clock)
    service.start()
    eventually(lambda: service.warm)  # before another is made: loops are compiled by one thread at a time
    return service


@contextmanager
def states() -> Iterator[States]:
    """A service in which all states are, and one without a model; both are stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="states-") as name:
        clock = SteppedClock(START_MS)
        service = _service(Path(name) / "all", clock, _MODELS)
        empty = _service(Path(name) / "none", clock, {})
        try:
            made = States(service, empty)
            _write(made, clock)
            yield made
        finally:
            service.stop()
            empty.stop()


def _write(made: States, clock: SteppedClock) -> None:
    service = made.service
    topics, events, first, written = make_topics(service._settings), _events(), 0, 0
    for clock.stands_ms in _EVALUATED_MS:
        last = first
        while last < len(events) and events[last].at_ms < clock.stands_ms:
            last += 1
        service.log.writer.write([route(event.value, topics) for event in events[first:last]])
        written += last - first
        first = last
        _settle(service, written)
        if clock.stands_ms == _REFIT_MS:
            made.job = _refit(service)
    service.recalibration.live.update()
    note = "The campaign ended on Wednesday; an offset is on its way."
    alerts = AlertStore(service.store.database)
    alerts.acknowledge(alert_about(service, "leads"), actor="ada", note=note, now_ms=NOW_MS)


def alert_about(service: Service, model: str) -> str:
    """The id of the alert that a model's predictions are wrong."""
    (found,) = (
        of.id for key, of in service.evaluation.alerts.items() if of and (key[0], key[2]) == (model, "calibration")
    )
    return found


def _settle(service: Service, written: int) -> None:
    """Wait until all that was written is saved, evaluate it, and save that."""
    eventually(lambda: _saved(service) == written, shown=lambda: (_saved(service), written, service.status))
    service.evaluation.tick()


def _saved(service: Service) -> int:
    return sum(service.store.saved_offsets().values())


def _refit(service: Service) -> str:
    refits = service.recalibration.recalibrations
    job, _ = refits.request(refits.make_request("uplift"), actor="ada")
    eventually(lambda: refits.store.job(job.id).finished_ms, shown=lambda: refits.store.job(job.id))
    refits.promote(job.id, actor="ada", note="Better on two days that it never saw.")
    return job.id


def main() -> None:
    """Serve the states until Ctrl-C."""
    began = time.monotonic()
    with states() as made, suppress(KeyboardInterrupt):
        print(f"after {time.monotonic() - began:.1f} s: {made.url} (without a model: {made.empty_url})", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
