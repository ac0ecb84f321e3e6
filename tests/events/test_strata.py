"""Names to ids: caps, what stands in for names beyond them, and that what is saved comes back the same."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.model import ALL, OTHER, ModelPolicy, SeriesKey, Stratum
from monitor.events.strata import REFUSED, Cap, Caps, Strata

POLICY = ModelPolicy(horizon_ms=1000, lateness_ms=100, segments=("region", "plan"))
SMALL = Caps(models=2, versions=2, segment_values=2, strata=5)


def declare(name: str) -> ModelPolicy | None:
    return None if name.startswith("undeclared") else POLICY


def strata_of(caps: Caps | None = None, policy: Callable[[str], ModelPolicy | None] = declare) -> Strata:
    return Strata(policy, caps)


def test_ids_are_dense_and_stable() -> None:
    strata = strata_of()
    assert [strata.model(name) for name in ("a", "b", "a", "c")] == [0, 1, 0, 2]
    ids = [strata.stratum("b", version, {"region": region}) for version in "12" for region in ("eu", "us")]
    assert ids == [0, 1, 2, 3]
    assert strata.stratum("b", "1", {"region": "us"}) == 1
    assert strata.models == ["a", "b", "c"]
    assert strata.policies == [POLICY] * 3
    assert strata.models_of_strata().tolist() == [1] * 4


def test_a_stratum_interns_its_model() -> None:
    strata = strata_of()
    assert strata.stratum("a", "1", {}) == 0
    assert strata.models == ["a"]


def test_an_undeclared_model_is_refused_and_leaves_no_trace() -> None:
    strata = strata_of()
    assert strata.model("undeclared") == REFUSED
    assert strata.stratum("undeclared", "1", {"region": "eu"}) == REFUSED
    assert (strata.models, strata.strata, strata.series) == ([], [], [])


def test_models_beyond_the_cap_are_refused_and_those_within_stay() -> None:
    strata = strata_of(SMALL)
    assert [strata.model(name) for name in ("a", "b", "c", "a", "b")] == [0, 1, REFUSED, 0, 1]
    assert strata.stratum("c", "1", {}) == REFUSED


def test_a_declared_model_is_not_refused_and_takes_no_place() -> None:
    declared = replace(POLICY, declared=True)
    strata = strata_of(SMALL, lambda name: declared if name.startswith("declared") else POLICY)
    names = ("a", "declared 1", "b", "c", "declared 2", "declared 3")
    assert [strata.model(name) for name in names] == [0, 1, 2, REFUSED, 3, 4]
    # Nor do names of others take places of its versions and segment values.
    for at in range(9):
        strata.place("a", str(at), {"region": str(at)})
    last = [strata.place("declared 4", str(at), {"region": str(at)}) for at in range(2)]
    assert [fold for _, fold in last] == [0, 0]
    assert [strata.strata[at] for at, _ in last] == [
        Stratum("declared 4", str(at), (("region", str(at)),)) for at in range(2)
    ]


def test_ids_that_no_stratum_has_are_given_to_new_ones() -> None:
    strata = strata_of(SMALL)
    kept = {1: Stratum("a", "1", (("region", "eu"),)), 4: Stratum("a", "2", ())}
    strata.restore(["a"], kept)
    assert strata.models_of_strata().tolist() == [REFUSED, 0, REFUSED, REFUSED, 0]
    assert strata.stratum("a", "1", {"region": "eu"}) == 1
    assert [strata.stratum("a", "1", {"region": region}) for region in ("us", "ap")] == [0, 2]
    assert strata.strata[2].segments == (("region", OTHER),)
    assert [strata.stratum("b", version, {}) for version in "12"] == [3, 5]
    assert strata.interned == [1, 4, 0, 2, 3, 5]
    start, series = strata.fan_out()
    assert [strata.series[at] for at in series[start[1] : start[2]]] == list(kept[1].series())


def test_places_are_given_back_where_a_cap_is_half_used() -> None:
    strata = strata_of(Caps(models=2, versions=4, segment_values=4, strata=20))
    ids = [strata.stratum("a", version, {"region": version}) for version in "1"]
    assert not strata.gives_places_back(ids)
    ids += [strata.stratum("a", "2", {"region": "1"}), strata.stratum("a", "2", {"region": "2"})]
    # The version lives on in another stratum, the value in none.
    assert not strata.gives_places_back([ids[1]])
    assert strata.gives_places_back([ids[2]])
    assert strata.gives_places_back([ids[0]])


def test_places_are_given_back_once_as_many_strata_have_ended_as_live() -> None:
    strata = strata_of(Caps(models=2, versions=1_000, segment_values=4, strata=2_000))
    ids = [strata.stratum("a", str(version), {}) for version in range(260)]
    assert not strata.gives_places_back(ids[:129])
    assert strata.gives_places_back(ids[:130])


def test_versions_beyond_the_cap_become_other() -> None:
    strata = strata_of(SMALL)
    for version in ("1", "2", "3", "4", "1"):
        strata.stratum("a", version, {})
    assert [stratum.version for stratum in strata.strata] == ["1", "2", OTHER]
    # Each model has its own.
    strata.stratum("b", "9", {})
    assert strata.strata[-1] == Stratum("b", "9", ())


def test_segment_values_beyond_the_cap_become_other_key_by_key() -> None:
    strata = strata_of(SMALL)
    for region, plan in (("eu", "x"), ("us", "x"), ("ap", "y"), ("za", "z")):
        strata.stratum("a", "1", {"region": region, "plan": plan})
    assert [dict(stratum.segments) for stratum in strata.strata] == [
        {"region": "eu", "plan": "x"},
        {"region": "us", "plan": "x"},
        {"region": OTHER, "plan": "y"},
        {"region": OTHER, "plan": OTHER},
    ]


def test_strata_beyond_the_cap_fold_into_other() -> None:
    strata = strata_of(Caps(models=2, versions=9, segment_values=9, strata=3))
    ids = [strata.stratum("a", "1", {"region": str(n)}) for n in range(6)]
    assert ids == [0, 1, 2, 3, 3, 3]
    assert strata.strata[3].segments == (("region", OTHER),)
    assert strata.stratum("a", "1", {"region": "1"}) == 1
    # One model's flood takes nothing from another.
    assert strata.stratum("b", "1", {"region": "7"}) == 4
    assert strata.strata[4].segments == (("region", "7"),)


def test_the_caps_that_made_a_name_other_are_named() -> None:
    strata = strata_of(Caps(versions=2, segment_values=2, strata=3))
    names = [("1", "1"), ("2", "2"), ("3", "3"), ("1", "2"), ("3", "3")]
    folds = [strata.place("a", version, {"region": region, "plan": "1"})[1] for version, region in names]
    versions, regions = Cap("versions", "a"), Cap("segment_values", "a", "region")
    folded = (versions, regions)
    assert [strata.folds[fold] for fold in folds] == [(), (), folded, (Cap("strata", "a"),), folded]
    plans = Cap("segment_values", "a", "plan")
    assert strata.used() == {Cap("models"): 1, versions: 2, Cap("strata", "a"): 4, regions: 2, plans: 1}


def test_the_word_other_takes_no_place_under_a_cap() -> None:
    strata = strata_of(SMALL)
    for name in (OTHER, "1", "2", OTHER):
        assert strata.place("a", name, {"region": name})[1] == 0
    assert [stratum.version for stratum in strata.strata] == [OTHER, "1", "2"]
    assert [stratum.segments[0][1] for stratum in strata.strata] == [OTHER, "1", "2"]


def test_segments_that_are_not_declared_are_left_out_and_those_that_are_stand_sorted() -> None:
    strata = strata_of()
    strata.stratum("a", "1", {"region": "eu", "shoe": "42", "plan": "x"})
    assert strata.strata[0].segments == (("plan", "x"), ("region", "eu"))


def test_a_key_that_is_declared_twice_counts_once() -> None:
    strata = strata_of(policy=lambda _: ModelPolicy(horizon_ms=1, lateness_ms=1, segments=("region", "region")))
    strata.stratum("a", "1", {"region": "eu"})
    assert strata.fan_out()[1].tolist() == [0, 1]


def test_fan_out_lists_the_series_of_each_stratum() -> None:
    strata = strata_of()
    strata.stratum("a", "1", {"region": "eu"})
    strata.stratum("a", "1", {})
    strata.stratum("a", "1", {"region": "us", "plan": "x"})
    start, series = strata.fan_out()
    keys = strata.series
    got = [[keys[at] for at in series[start[s] : start[s + 1]]] for s in range(3)]
    assert got == [list(stratum.series()) for stratum in strata.strata]
    assert got[2] == [
        SeriesKey("a", "1", ALL),
        SeriesKey("a", "1", "plan=x"),
        SeriesKey("a", "1", "region=us"),
    ]
    assert len(set(keys)) == len(keys) == 4
    assert start.dtype == series.dtype == np.int32


def test_fan_out_of_nothing() -> None:
    start, series = strata_of().fan_out()
    assert (start.tolist(), series.tolist()) == ([0], [])
    assert start.dtype == series.dtype == np.int32
    assert strata_of().models_of_strata().tolist() == []


def test_what_is_restored_goes_on_where_it_stopped() -> None:
    names = st.sampled_from(["a", "b", "c", "undeclared"])
    values = st.sampled_from(["1", "2", "3", "4", OTHER])
    event = st.tuples(names, values, st.dictionaries(st.sampled_from(["region", "plan", "shoe"]), values))

    @given(before=st.lists(event), after=st.lists(event))
    def goes_on(before: list[tuple[str, str, dict[str, str]]], after: list[tuple[str, str, dict[str, str]]]) -> None:
        lived = strata_of(SMALL)
        for model, version, segments in before:
            lived.stratum(model, version, segments)
        restored = strata_of(SMALL)
        restored.restore(lived.models, dict(enumerate(lived.strata)))
        for model, version, segments in after:
            assert restored.stratum(model, version, segments) == lived.stratum(model, version, segments)
        assert restored.models == lived.models
        assert restored.strata == lived.strata
        assert restored.series == lived.series
        assert restored.policies == lived.policies
        for ours, theirs in zip(restored.fan_out(), lived.fan_out(), strict=True):
            assert ours.tolist() == theirs.tolist()
        assert restored.models_of_strata().tolist() == lived.models_of_strata().tolist()

    goes_on()


def test_restoring_asks_no_cap_and_no_policy() -> None:
    restored = strata_of(Caps(models=1, versions=1, segment_values=1, strata=1))
    saved = [Stratum("undeclared", version, (("region", version),)) for version in "123"]
    restored.restore(["undeclared", "b"], dict(enumerate(saved)))
    assert restored.strata == saved
    assert restored.models == ["undeclared", "b"]
    # What it waits for expires at once, in the events' own time; the model that is declared keeps its policy.
    assert restored.policies == [ModelPolicy(horizon_ms=0, lateness_ms=0), POLICY]
    assert restored.stratum("b", "1", {"region": "eu"}) == 3


def test_restoring_needs_an_empty_object() -> None:
    strata = strata_of()
    strata.model("a")
    with pytest.raises(ValueError, match="empty object"):
        strata.restore(["b"], {})


def test_the_caps_hold_whatever_comes() -> None:
    text = st.text("ab=", max_size=2)

    @given(events=st.lists(st.tuples(text, text, st.dictionaries(st.sampled_from(["region", "plan"]), text))))
    def hold(events: list[tuple[str, str, dict[str, str]]]) -> None:
        strata = strata_of(SMALL)
        for model, version, segments in events:
            strata.stratum(model, version, segments)
        assert len(strata.models) <= SMALL.models
        for name in strata.models:
            own = [stratum for stratum in strata.strata if stratum.model == name]
            versions = {stratum.version for stratum in own} - {OTHER}
            assert len(versions) <= SMALL.versions
            for key in ("region", "plan"):
                values = {dict(stratum.segments).get(key) for stratum in own} - {OTHER, None}
                assert len(values) <= SMALL.segment_values
            # Beyond the cap of strata come only those that fold: one a version and set of keys.
            assert len(own) <= SMALL.strata + 4 * (SMALL.versions + 1)
        assert sorted(set(strata.series), key=strata.series.index) == strata.series

    hold()
