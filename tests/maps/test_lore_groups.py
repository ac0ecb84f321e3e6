from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, logit

from monitor.errors import CorruptMap, InputError, NotEnoughData
from monitor.maps import MapParts, apply_map, fit_map
from monitor.maps.lore_groups import METHOD, GroupedLore
from monitor.scores.labelled import LabelledEvents
from tests.long import examples
from tests.reference import naive_lore

Floats = NDArray[np.float64]


def simulated(seed: int, n: int = 400, *, weighted: bool = False) -> LabelledEvents:
    """Predictions that are right on average, and off in each of two regions; some events tell no region."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["eu", "us", ""], n, p=[0.45, 0.45, 0.1])
    p = rng.uniform(0.1, 0.9, n)
    off = np.where(region == "eu", 1.0, np.where(region == "us", -1.0, 0.0))
    y = rng.random(n) < expit(logit(p) + off)
    weight = rng.uniform(0.2, 3.0, n) if weighted else None
    return LabelledEvents.of(p, y, weight=weight, segments={"region": region, "plan": rng.choice(["a", "b"], n)})


def fit(events: LabelledEvents, **options: Any) -> GroupedLore:
    found = fit_map(METHOD, events, {"segment": "region", **options})
    assert isinstance(found, GroupedLore)
    return found


@examples(8, 20)
@given(st.integers(0, 10**6), st.integers(1, 15), st.sampled_from([(0.0, 0.0), (5.0, 1.0)]), st.booleans())
def test_it_is_the_share_of_hits_of_the_group_in_the_bin(
    seed: int, bins: int, added: tuple[float, float], weighted: bool
) -> None:
    shrinkage, prior = added
    events, asked = simulated(seed, 120, weighted=weighted), simulated(seed + 1, 30)
    names = asked.segments["region"].tolist()
    names[:3] = ["mars", "", "eu"]
    grouped = fit(events, bins=bins, shrinkage=shrinkage, prior=prior)
    found = apply_map(grouped, asked.prediction, segments={"region": names})
    data = (events.prediction, events.outcome.astype(np.float64), events.prediction[:, None], events.weight)
    groups = ["none" if name == "" else str(name) for name in events.segments["region"]]
    for p, name, q in zip(asked.prediction, names, found, strict=True):
        wanted = naive_lore.by_group(p, name, data, groups, bins=bins, shrinkage=shrinkage, prior=prior)
        assert q == pytest.approx(wanted, rel=1e-9, abs=5e-8)


def test_it_mends_each_group() -> None:
    events, later = simulated(1, 20_000), simulated(2, 5000)
    found = apply_map(fit(events), later.prediction, segments=later.segments)
    for name in ("eu", "us"):
        rows = later.segments["region"] == name
        before = (later.prediction[rows] - later.outcome[rows]).mean()
        assert abs((found[rows] - later.outcome[rows]).mean()) < 0.2 * abs(before)


def test_two_events_of_weight_one_tell_more_than_one_of_weight_two() -> None:
    events = simulated(3)
    rows = np.repeat(np.arange(len(events)), 2)
    twice = LabelledEvents.of(
        events.prediction[rows], events.outcome[rows], segments={"region": events.segments["region"][rows]}
    )
    np.testing.assert_allclose(fit(twice).group_mean, fit(events).group_mean)
    np.testing.assert_allclose(fit(twice).group_n_eff, 2.0 * fit(events).group_n_eff)


def test_an_empty_bin_leaves_predictions_as_they_are() -> None:
    events = simulated(4)
    grouped = fit(events.select(events.prediction < 0.5))
    found = apply_map(grouped, [0.8, 0.8], segments={"region": ["eu", "mars"]})
    assert found.tolist() == [0.8, 0.8]


def test_the_only_segment_need_not_be_named() -> None:
    events = simulated(5)
    one = LabelledEvents.of(events.prediction, events.outcome, segments={"region": events.segments["region"]})
    chosen = fit_map(METHOD, one)
    assert chosen.segment_key == "region"
    with pytest.raises(InputError, match="option segment of lore_groups must name one of plan, region"):
        fit_map(METHOD, events)
    with pytest.raises(InputError, match="must be one of plan, region, got 'tier'"):
        fit_map(METHOD, events, {"segment": "tier"})
    nobody = LabelledEvents.of(events.prediction, events.outcome, segments={"region": [""] * len(events)})
    with pytest.raises(InputError, match="needs the segment 'region', and no event has it"):
        fit_map(METHOD, nobody)


def test_what_is_missing_is_said() -> None:
    events = simulated(6)
    with pytest.raises(NotEnoughData, match="49 labelled events"):
        fit(events.select(slice(49)))
    with pytest.raises(InputError, match="the map needs the segment 'region'"):
        apply_map(fit(events), [0.5])


def test_it_says_what_it_does() -> None:
    assert fit(simulated(7, 1200)).describe() == (
        "share of hits in each of 2 groups by region, within 15 bins of confidence, shrunk towards the bin by 5 events"
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("segment", 3, "segment must be text"),
        ("groups", ["us", "eu"], "groups ascending"),
        ("groups", [], "not empty"),
        ("groups", ["a", "b", "c"], "group_mean must have the shape \\(3, 5\\)"),
        ("bins", 0, "bins must be"),
        ("group_mean", np.full((2, 5), -0.1), "group_mean must be finite and from 0 to 1"),
        ("group_n_eff", np.full((2, 5), -1.0), "group_n_eff must be finite and from 0"),
        ("bin_mean", np.zeros(4), "of 5 bins"),
    ],
)
def test_parts_of_no_map_are_refused(name: str, value: Any, message: str) -> None:
    parts = fit(simulated(8)).parts()
    if name in parts.settings:
        wrong = MapParts({**parts.settings, name: value}, parts.arrays)
    else:
        wrong = MapParts(parts.settings, {**parts.arrays, name: value})
    with pytest.raises(CorruptMap, match=message):
        METHOD.load(wrong)
