"""Compose YAML that a user wrote, with a bound on what its aliases stand for."""

from typing import Any, Final

import yaml

MAX_VALUES: Final = 1_000_000
"""Keys and values of a document, those of an alias counted where it is used: 200,000 models of one line have less."""


def compose(loader: Any) -> yaml.Node | None:
    """Compose the one document of a loader; None if it is empty.

    Raises
    ------
    yaml.YAMLError
        It is not valid, is nested too deeply, or holds more than MAX_VALUES.
    """
    counts: dict[int, int] = {}

    def count(node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) not in counts:
            inner = (
                node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
            )
            counts[id(node)] = 1 + sum(map(count, inner))
        return counts[id(node)]

    try:
        node: yaml.Node | None = loader.get_single_node()
        values = 0 if node is None else count(node)
    except RecursionError as error:
        raise yaml.YAMLError("it is nested too deeply, or holds itself") from error
    if values > MAX_VALUES:
        raise yaml.YAMLError(f"it holds {values:,} values, with aliases expanded, and may hold {MAX_VALUES:,}")
    return node
