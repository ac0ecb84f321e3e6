from typing import Any

import numpy as np
import pytest

from monitor.errors import CorruptMap, InputError
from monitor.maps import METHODS, MapParts, apply_map, fit_map
from monitor.maps.combined import GroupWise
from monitor.maps.platt import METHOD, Platt
from monitor.scores.labelled import LabelledEvents
from tests.maps.drawn import binary_events, class_events

BINARY = ["offset", "temperature", "platt", "beta", "isotonic", "histogram"]


def fitted(name: str, events: LabelledEvents, **options: Any) -> GroupWise:
    found = fit_map(METHODS[f"group_wise_{name}"], events, options)
    assert isinstance(found, GroupWise)
    return found


@pytest.mark.parametrize("name", BINARY)
def test_each_group_has_the_map_of_its_own_events(name: str) -> None:
    events = binary_events(2_000, slope=0.6, weighted=True, groups=3)
    found = fitted(name, events)
    assert found.groups == ("r0", "r1", "r2")
    q = apply_map(found, events.prediction, segments=events.segments)
    for group in found.groups:
        rows = events.segments["region"] == group
        alone = fit_map(METHODS[name], events.select(rows))
        np.testing.assert_array_equal(q[rows], apply_map(alone, events.prediction[rows]))


@pytest.mark.parametrize("name", ["offset", "temperature", "vector_scaling"])
def test_of_many_classes_too(name: str) -> None:
    events = class_events(1_000, slope=0.6)
    known = LabelledEvents.of(events.prediction, events.outcome, segments={"region": ["a", "b"] * 500})
    found = fitted(name, known)
    assert found.classes == 4
    q = apply_map(found, known.prediction, segments=known.segments)
    rows = known.segments["region"] == "b"
    alone = fit_map(METHODS[name], known.select(rows))
    np.testing.assert_array_equal(q[rows], apply_map(alone, known.prediction[rows]))


@pytest.mark.parametrize("name", BINARY)
def test_unknown_small_and_unnamed_groups_have_the_map_of_all(name: str) -> None:
    events = binary_events(2_000, slope=0.6)
    region = np.array(["big"] * 1_500 + ["small"] * 100 + [""] * 400)
    known = LabelledEvents.of(events.prediction, events.outcome, segments={"region": region})
    found = fitted(name, known)
    assert found.groups == ("big",)
    overall = fit_map(METHODS[name], known)
    p = events.prediction[:3]
    for group in ("small", "", "never seen"):
        q = apply_map(found, p, segments={"region": [group] * 3})
        np.testing.assert_array_equal(q, apply_map(overall, p))
    assert fitted(name, known, least=100).groups == ("big", "small")


def test_a_group_of_one_outcome_alone_has_the_map_of_all() -> None:
    events = binary_events(1_000)
    region = np.where(events.outcome == 1, "yes", np.where(np.arange(1_000) % 2, "mixed", "yes"))
    region = np.where((events.outcome == 1) & (np.arange(1_000) % 3 == 0), "sure", region)
    found = fitted("platt", LabelledEvents.of(events.prediction, events.outcome, segments={"region": region}), least=20)
    assert "sure" not in found.groups
    assert "yes" in found.groups


def test_without_groups_all_have_the_map_of_all() -> None:
    events = binary_events(1_000, groups=2)
    found = fitted("beta", events)
    np.testing.assert_array_equal(found.apply(events.prediction), found.overall.apply(events.prediction))


def test_it_repairs_groups_that_are_off_in_opposite_ways() -> None:
    first, second = binary_events(5_000, offset=1.0, seed=1), binary_events(5_000, offset=-1.0, seed=2)
    events = LabelledEvents.of(
        np.r_[first.prediction, second.prediction],
        np.r_[first.outcome, second.outcome],
        segments={"region": ["a"] * 5_000 + ["b"] * 5_000},
    )
    found = fitted("offset", events)
    after = apply_map(found, events.prediction, segments=events.segments)
    for group in ("a", "b"):
        rows = events.segments["region"] == group
        assert after[rows].mean() == pytest.approx(events.outcome[rows].mean(), abs=1e-9)
    assert abs(fit_map(METHODS["offset"], events).parts().arrays["offset"][0]) < 0.1


def test_the_segment_is_the_one_named_or_the_only_one() -> None:
    events = binary_events(1_000)
    several = LabelledEvents.of(
        events.prediction, events.outcome, segments={"region": ["x"] * 1_000, "age": ["young", "old"] * 500}
    )
    with pytest.raises(InputError, match="option segment of group_wise_platt must name one of age, region"):
        fitted("platt", several)
    with pytest.raises(InputError, match="option segment of group_wise_platt must be one of age, region, got 'colour'"):
        fitted("platt", several, segment="colour")
    assert fitted("platt", several, segment="age").groups == ("old", "young")
    with pytest.raises(InputError, match="needs segments, and these events have none"):
        fitted("platt", events)


def test_options_of_the_inner_method_reach_it() -> None:
    events = binary_events(2_000, groups=2)
    found = fitted("histogram", events, bins=4)
    assert [one.parts().arrays["value"].size for one in (found.overall, *found.maps)] == [4, 4, 4]


def test_it_says_its_groups_and_no_endless_list() -> None:
    many = GroupWise(METHOD, "region", tuple("abcdefgh"), Platt(0.0, 1.0), (Platt(0.5, 1.0),) * 8)
    said = many.describe()
    assert "8 groups" in said
    assert "a: takes logit p to 1 logit p + 0.5" in said
    assert "and 3 more" in said
    assert "f: " not in said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"segment_key": ""}, "segment_key must be a text"),
        ({"groups": ["a"]}, "one for all and one a group, got 3 for 1 groups"),
        ({"groups": ["a", "a"]}, "must not contain duplicates"),
        ({"maps": [None, None, None]}, "one for all and one a group"),
        ({"maps": "x"}, "maps must be a list"),
        ({"maps": [{"slope": 1.0}] * 3}, "map 0 of 3: the map has no setting 'intercept'"),
    ],
)
def test_parts_that_do_not_fit_are_refused(settings: dict[str, Any], said: str) -> None:
    parts = GroupWise(METHOD, "region", ("a", "b"), Platt(0.0, 1.0), (Platt(0.5, 1.0),) * 2).parts()
    assert GroupWise.load(METHOD, parts).groups == ("a", "b")
    with pytest.raises(CorruptMap, match=said):
        METHODS["group_wise_platt"].load(MapParts({**parts.settings, **settings}, parts.arrays))


def test_of_many_groups_each_has_its_own_map() -> None:
    rng = np.random.default_rng(6)
    n, groups = 4000, 400
    region = np.array([f"район {number}" for number in rng.integers(0, groups, n)])
    p = rng.uniform(0.2, 0.8, n)
    events = LabelledEvents.of(p, rng.random(n) < p, segments={"region": region}, features=rng.normal(size=(n, 2)))
    found = fitted("offset", events, least=5)
    assert len(found.groups) > groups * 0.9
    asked = np.concatenate([np.unique(region), ["", "unknown"]])
    q = apply_map(found, np.full(asked.size, 0.4), segments={"region": asked})
    for name, one in zip(asked.tolist(), q.tolist(), strict=True):
        own = found.maps[found.groups.index(name)] if name in found.groups else found.overall
        assert one == own.apply(np.array([0.4]))[0]


def test_groups_that_do_not_ascend_are_refused() -> None:
    parts = fitted("platt", binary_events(2_000, groups=2)).parts()
    with pytest.raises(CorruptMap, match="groups must be ascending, got r1, r0"):
        METHODS["group_wise_platt"].load(MapParts({**parts.settings, "groups": ["r1", "r0"]}, parts.arrays))
