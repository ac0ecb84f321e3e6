"""Docstrings begin with the thing that they describe, in words that a reader knows."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

_BEGINS: Final = re.compile(r"(Of|Those|They|It|So|That|And|But|Whoever|Who|By|As in|As :|From|With|\.\.\.)\b|\.\.\.")
"""Beginnings without a noun: a reader asks "what?" at once."""
_WORDS: Final = re.compile(
    r"\b(told|heard|whoever|whereof|thereby|which is what|nobody asked|beyond chance)\b", re.IGNORECASE
)


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is a statement: docstrings, and what follows an attribute."""
    with path.open("rb") as file:
        is_first = True
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.STRING and is_first and token.string.startswith('"""'):
                yield token.start[0], token.string.removeprefix('"""')
            if token.type not in {tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT}:
                is_first = token.type in {tokenize.NEWLINE, tokenize.ENCODING}


@pytest.mark.parametrize(
    "room", sorted({path.parent for path in (ROOT / "monitor").rglob("*.py")}), ids=lambda room: room.name
)
def test_docstrings_name_the_thing(room: Path) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted(room.glob("*.py"))
        for line, text in docstrings(path)
        if _BEGINS.match(text) or _WORDS.search(re.sub("``.*?``", "", text))
    ]
    assert wrong == []
