"""The tree of errors is the one that its file draws."""

import re
import traceback
from pathlib import Path

import monitor
from monitor import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__module__ == errors.__name__]


def test_the_tree_is_as_drawn() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^ {4}((?:│   |    |├── |└── )*)(\w+)(?:  |$)", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        del path[depth:]
        if path:
            drawn[match[2]] = path[-1]
        path.append(match[2])
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in KINDS if kind is not errors.MonitorError}


def test_every_error_says_what_it_means() -> None:
    assert all(kind.__doc__ for kind in KINDS)


def test_a_notebook_shows_the_callers_lines_and_the_message() -> None:
    try:
        monitor.evaluate([0.5], [1], weight="w")
    except errors.InputError as error:
        shown = error._render_traceback_()
        whole = traceback.format_exception(error)
    assert shown[-1] == "InputError: weight names a column, and p is no table with named columns"
    assert [line.strip() for line in shown[:-1] if "^" not in line] == [
        f'File "{__file__}", line {_render_line()}, in test_a_notebook_shows_the_callers_lines_and_the_message',
        'monitor.evaluate([0.5], [1], weight="w")',
    ]
    assert any("functions.py" in line for line in whole)


def _render_line() -> int:
    lines = Path(__file__).read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.lstrip().startswith("monitor.evaluate(["))
