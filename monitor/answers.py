"""The paragraphs of docs/answers.md, by the words that the service and the commands answer with.

``answers.json`` holds them, so that an installation without the documentation has them, too:
``python -m docs.generators.answers`` makes it from the page.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from monitor.errors import MonitorError


class Answer(NamedTuple):
    """A paragraph: ``kind`` says what the word is, such as ``Verdict``, and ``name`` is the word."""

    kind: str
    name: str
    text: str


@cache
def all_answers() -> tuple[Answer, ...]:
    """Return the paragraphs in the order of the page."""
    return tuple(Answer(*row) for row in json.loads(files("monitor").joinpath("answers.json").read_text("utf-8")))


def answers_of(name: str) -> list[Answer]:
    """Return the paragraphs on a word. ``prior_shift``, ``prior-shift`` and ``Prior shift`` are the same word."""
    return [answer for answer in all_answers() if _plain(answer.name) == _plain(name)]


def explained(names: Iterable[str]) -> list[str]:
    """Return the words that have a paragraph, each once."""
    return [name for name in dict.fromkeys(names) if answers_of(name)]


def name_of(error: MonitorError) -> str | None:
    """Return the word that explains an error, or None if its message says everything.

    An error that a service answered is explained by its problem, any other one by its class or the class above.
    """
    words = [error.problem, *(_hyphenated(kind.__name__) for kind in type(error).__mro__)]
    return next(iter(explained(words)), None)


def _plain(name: str) -> str:
    return re.sub(r"[\s_]+", "-", name.strip().lower())


def _hyphenated(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
