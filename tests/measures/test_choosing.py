import pytest

from monitor.errors import InputError
from monitor.measures import MEASURES, choose_measures


def test_measures_come_in_the_order_of_a_report() -> None:
    assert list(choose_measures(["ece", "smce", "tce", "ece"])) == ["tce", "smce", "ece"]
    assert list(choose_measures(sorted(MEASURES, reverse=True))) == list(MEASURES)


def test_one_name_is_one_measure() -> None:
    assert list(choose_measures("smce")) == ["smce"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("smec", "there is no measure 'smec'; did you mean smce"),
        (["smce", "accuracy"], "there is no measure 'accuracy'; there are tce, kce, "),
        ([], "at least one measure must be named; there are tce, kce, "),
    ],
)
def test_a_measure_that_is_not_there_is_named(names: str | list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose_measures(names)
