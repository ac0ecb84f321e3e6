"""What is refused before a fit is what the fit refuses, of events as the model is declared to have them."""

from dataclasses import replace
from typing import Any

import pytest

from monitor.errors import InputError
from monitor.maps import METHODS, fit_map
from monitor.recalibration.plan import check_suits
from tests.recalibration.samples import sample

BINARY, MANY = sample(600), sample(600, classes=3)


def refused(method: str, classes: int, segments: tuple[str, ...], **options: Any) -> str | None:
    try:
        check_suits(method, options, classes=classes, segments=segments)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("segments", [(), ("half",)], ids=["no segments", "segments"])
@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_refused_cannot_be_fitted_and_the_rest_can(
    method: str, classes: int, segments: tuple[str, ...]
) -> None:
    events = MANY if classes else BINARY
    events = replace(events, segments={key: events.segments[key] for key in segments})
    said = refused(method, classes, segments)
    if said is None:
        assert fit_map(METHODS[method], events).classes == (classes or 2)
        return
    with pytest.raises(InputError):
        fit_map(METHODS[method], events)
    # What it names instead would do.
    named = said.rpartition("take one of ")[2].split(", ")
    assert len(named) > 3
    assert "identity" not in named
    assert [each for each in named if refused(each, classes, segments) is not None] == []


def test_it_names_what_is_wrong_and_what_would_do() -> None:
    assert refused("vector_scaling", 0, ()) == (
        "method 'vector_scaling' is not for predictions P(y = 1), and the model is declared to have no classes: take "
        "one of offset, temperature, mmce_temperature, platt, beta, isotonic, histogram, lore"
    )
    assert refused("beta", 3, ("region",)) == (
        "method 'beta' is not for predictions over 3 classes, and the model is declared to have these: take one of "
        "offset, temperature, mmce_temperature, vector_scaling, matrix_scaling, platt_classwise, beta_classwise, "
        "isotonic_classwise, histogram_classwise, lore, lore_groups, group_wise_offset, group_wise_temperature, "
        "group_wise_vector_scaling"
    )
    told = refused("lore_groups", 0, ())
    assert told is not None
    assert told.startswith("method 'lore_groups' needs segments, and the model is declared to have none: declare them")
    told = refused("group_wise_beta", 0, ("region", "device"), segment="tier")
    assert told == "option segment of group_wise_beta must be one of device, region, as declared, got 'tier'"


def test_what_only_the_events_tell_is_left_to_the_fit() -> None:
    # Which of two segments events really have, and whether they have features.
    assert refused("group_wise_beta", 0, ("region", "device")) is None
    assert refused("group_wise_beta", 0, ("region", "device"), segment="device") is None
    assert refused("lore", 0, ()) is None
