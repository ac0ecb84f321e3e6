"""The tree of errors is the one that its file draws."""

import re

from monitor import errors


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
    classes = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    assert drawn == {name: kind.__bases__[0].__name__ for name, kind in classes.items() if name != "MonitorError"}


def test_every_error_says_what_it_means() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type):
            assert kind.__doc__
