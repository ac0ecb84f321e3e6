"""The tree of errors is the one that its file draws."""

import re

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
