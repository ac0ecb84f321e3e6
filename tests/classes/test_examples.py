"""The examples in the docstrings say what the functions do."""

import doctest
import importlib
import pkgutil

import pytest

import monitor.classes

FILES = [file.name for file in pkgutil.iter_modules(monitor.classes.__path__)]


@pytest.mark.parametrize("file", FILES)
def test_the_examples_of_a_file(file: str) -> None:
    module = importlib.import_module(f"monitor.classes.{file}")
    result = doctest.testmod(module)
    assert result.failed == 0
    # A file that defines a measure shows how to use it.
    assert result.attempted > 0 or not (hasattr(module, "MEASURES") or file == "reductions")
