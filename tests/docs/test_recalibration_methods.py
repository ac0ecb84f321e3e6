"""The page on recalibration methods names every method and option as they are, and its examples print what it says."""

import doctest
import json
import re
from typing import Final

import pytest

from monitor.maps import METHODS
from monitor.maps.base import OptionValue
from tests.docs.test_docs import DOCS, blocks, text_of

PAGE: Final = DOCS / "recalibration-methods.md"

_OPTION: Final = re.compile(r"^\| ((?:`[a-z_*]+`(?:, )?)+) \| `([a-z_]+)` \| ([^|]+) \|", re.MULTILINE)


def options() -> list[tuple[str, str, str]]:
    """Method, option and default, of each row of the table of options and each method that it names."""
    return [
        (method, option, default)
        for methods, option, default in _OPTION.findall(text_of(PAGE))
        for method in re.findall(r"`([a-z_*]+)`", methods)
    ]


def written(default: OptionValue) -> str:
    return default if isinstance(default, str) else json.dumps(default).removesuffix(".0")


def test_the_examples_print_what_they_say() -> None:
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks(PAGE, "pycon")), {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 20
    said: list[str] = []
    failures = doctest.DocTestRunner().run(examples, out=said.append).failed
    assert failures == 0, "".join(said)


def test_every_method_is_in_the_table_with_what_it_is_for() -> None:
    section = text_of(PAGE).partition("\n## The methods\n")[2].partition("\n## ")[0]
    rows = {
        name: [cell.strip() for cell in line.split("|")[2:4]]
        for line in section.splitlines()
        for name in re.findall(r"`([a-z_]+)`", line.split("|")[1] if line.startswith("| `") else "")
    }
    assert set(rows) == set(METHODS)
    for name, told in rows.items():
        if not name.startswith("group_wise_"):
            method = METHODS[name]
            assert [cell == "yes" for cell in told] == [method.binary, method.many_classes], name


@pytest.mark.parametrize("name", METHODS)
def test_every_option_is_in_the_table_with_its_default(name: str) -> None:
    told = {(method, option): default for method, option, default in options()}
    inner = name.removeprefix("group_wise_").removesuffix("_classwise")
    for option, declared in METHODS[name].options.items():
        assert told.get((inner, option), told.get(("group_wise_*", option))) == written(declared.default), option


def test_no_option_is_told_that_there_is_not() -> None:
    for method, option, _ in options():
        names = [name for name in METHODS if name == method or (method == "group_wise_*" and name[:11] == method[:-1])]
        assert names, method
        for name in names:
            assert option in METHODS[name].options, (name, option)
