"""Detectors of river on the streams."""

import math

import numpy as np
import pytest
from river import drift
from scipy import stats

from monitor.scores.steps import Steps
from monitor.simulation.generator import Law
from tests.alarms_benchmark.__main__ import STEPS, parse
from tests.alarms_benchmark.river_peers import HDDM, KSWIN, RIVER
from tests.alarms_benchmark.streams import parts
from tests.long import short_of


@pytest.mark.parametrize("name", short_of([*RIVER, *HDDM, *KSWIN], 3))
def test_a_large_change_is_seen_and_sooner_with_a_sensitive_setting(name: str) -> None:
    peer = {**RIVER, **HDDM, **KSWIN}[name]
    events = 500 if name in KSWIN else 10_000
    stream = list(parts(Law(offset=3.0, slope=0.3, change_at=events // 2), "balanced", 0, events))

    def first(setting: float | None) -> float:
        method = peer.make("balanced", 0, setting)
        assert method.variants == (f"{name}, {'default' if setting is None else 'tuned'}",)
        return min((alarm.event for part in stream for alarm in method.read(part, Steps.of([]))), default=math.inf)

    assert first(peer.sensitive) < first(peer.insensitive)
    assert first(peer.sensitive) <= first(None) <= first(peer.insensitive)


@pytest.mark.parametrize("ties", [False, True])
def test_samples_of_kswin_are_tested_as_scipy_does(ties: bool) -> None:
    rng = np.random.default_rng(5)
    for shift in np.linspace(0.0, 3.0, 40):
        first, second = rng.normal(0, 1, 30), rng.normal(shift, 1, 30)
        if ties:
            first, second = np.round(first), np.round(second)
        peer = drift.KSWIN(alpha=0.0, window_size=60, stat_size=30, seed=1)
        for value in (*first, *second):
            peer.update(value)
        assert peer.p_value == stats.ks_2samp(first[np.argsort(rng.random(30))], second).pvalue


def test_everything_is_done_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([]).do == STEPS
    assert parse(["write"]).do == ["write"]
    with pytest.raises(SystemExit):
        parse(["publish"])
    assert "'publish' is none of tune, run, oracle, write" in capsys.readouterr().err
