"""The examples in the docstrings say what the functions do."""

import doctest
import importlib
import pkgutil

import pytest

import monitor.measures
from monitor.measures import MEASURES

EXAMPLES = {
    file.name: found
    for file in pkgutil.iter_modules(monitor.measures.__path__, "monitor.measures.")
    if (found := [each for each in doctest.DocTestFinder().find(importlib.import_module(file.name)) if each.examples])
}


@pytest.mark.parametrize("module", EXAMPLES)
def test_an_example_prints_what_it_says(module: str) -> None:
    runner = doctest.DocTestRunner()
    said: list[str] = []
    for example in EXAMPLES[module]:
        runner.run(example, out=said.append)
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_has_an_example(name: str) -> None:
    assert MEASURES[name].value.__module__ in EXAMPLES
