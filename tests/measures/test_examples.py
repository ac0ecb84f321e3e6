"""The examples in the docstrings say what the functions do."""

import doctest
import importlib

import pytest

from monitor.measures import MEASURES


@pytest.mark.parametrize("name", MEASURES)
def test_the_example_of_a_measure(name: str) -> None:
    module = importlib.import_module(MEASURES[name].value.__module__)
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
