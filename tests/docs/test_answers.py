"""docs/answers.md has a paragraph, with an anchor, for each word by which the service answers, and no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from docs.generators import answers
from monitor import errors
from monitor.alarms import attribution
from monitor.alarms.serving import HARM
from monitor.answers import all_answers, name_of
from monitor.http.schemas import EvidenceStateBody
from monitor.recalibration import refit_view
from monitor.reports.evaluation.report import Verdict
from monitor.reports.view import Word
from monitor.store.alert import Kind
from monitor.store.recalibrations import JobState
from tests.docs.test_docs import DOCS, ROOT, anchors, text_of

PAGE: Final = DOCS / "answers.md"
LABELS: Final = {
    attribution.PRIOR_SHIFT,
    attribution.MISSING_LABELS,
    attribution.SHAPE,
    attribution.BOTH,
    attribution.UNCLEAR,
    attribution.NOT_WORSE,
    HARM,
}
SAY_ALL: Final = {
    *(errors.SettingsError, errors.InputError, errors.OptionError),
    *(errors.MonitorError, errors.SourceError, errors.StoreError),
}
"""Errors whose message holds all that there is to say: bad use, and the roots of the others."""


def _constant(node: ast.AST, kind: type) -> Any:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, kind) else None


def problems(source: str) -> Iterator[str]:
    """Yield the kinds of problems of a module: of calls, and of tables of errors and of statuses."""
    for node in ast.walk(ast.parse(source)):
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
            pairs = [(node.args[0], node.args[1])]
        elif isinstance(node, ast.Tuple) and len(node.elts) == 3:
            pairs = [(node.elts[1], node.elts[2])]
        elif isinstance(node, ast.Dict):
            pairs = [
                (key, value.elts[0])
                for key, value in zip(node.keys, node.values, strict=True)
                if key is not None and isinstance(value, ast.Tuple) and value.elts
            ]
        for status, kind in pairs:
            if 400 <= (_constant(status, int) or 0) < 600 and _constant(kind, str):
                yield _constant(kind, str)


def all_problems() -> set[str]:
    return {kind for path in (ROOT / "monitor" / "http").rglob("*.py") for kind in problems(path.read_text("utf-8"))}


def headings(first: str) -> set[str]:
    return set(re.findall(rf"^### {first} (\S+)$", text_of(PAGE), re.MULTILINE))


def test_every_verdict_has_a_paragraph() -> None:
    assert headings("Verdict") == {*Verdict}


def test_every_kind_and_label_of_an_alert_has_a_paragraph() -> None:
    assert headings("Kind") == {*get_args(Kind)}
    assert headings("Label") == LABELS
    # Those of the REST API are the same.
    (allowed, _none) = get_args(EvidenceStateBody.model_fields["label"].annotation)
    assert set(get_args(allowed)) == LABELS


def test_every_problem_has_a_paragraph() -> None:
    assert headings("Problem") == all_problems()


def test_every_state_of_a_refit_has_a_paragraph() -> None:
    assert headings("Refit") == {*JobState}


def test_every_word_about_a_method_has_a_paragraph() -> None:
    words = {word.value.replace(" ", "-") for word in vars(refit_view).values() if isinstance(word, Word)}
    assert headings("Method") == words
    assert len(words) == 6


def errors_of(root: type[errors.MonitorError]) -> set[type[errors.MonitorError]]:
    return {root, *(kind for child in root.__subclasses__() for kind in errors_of(child))}


def test_every_error_has_a_paragraph_unless_its_message_says_all() -> None:
    names = {kind: name_of(kind("field", " detail")) for kind in errors_of(errors.MonitorError)}
    assert {kind for kind, name in names.items() if name is None} == SAY_ALL
    # And none is about an error that there is not.
    assert headings("Error") <= set(names.values())
    assert headings("Error") & headings("Problem") == set()


def test_an_error_that_a_service_answered_is_explained_by_its_problem() -> None:
    error = errors.ServiceUnavailable("detail")
    assert name_of(error) == "service-unavailable"
    error.problem = "busy"
    assert name_of(error) == "busy"
    error.problem = "of-a-later-version"
    assert name_of(error) == "service-unavailable"
    assert name_of(errors.UnknownModel("detail")) == "unknown-series"


def test_the_package_holds_the_paragraphs_of_the_page() -> None:
    assert answers.FILE.read_text("utf-8") == answers.document(), "run: python -m docs.generators.answers"
    counted = len(re.findall("^### ", text_of(PAGE), re.MULTILINE))
    assert len(all_answers()) == counted
    assert [answer for answer in all_answers() if "](" in answer.text or "\n" in answer.text] == []


def test_rest_names_the_same_problems() -> None:
    table = text_of(DOCS / "rest.md").partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d{3}) \| (.+?) \|", table, re.MULTILINE)
    shown = {kind: status for status, kinds in rows for kind in re.findall(r"`([a-z-]+)`", kinds)}
    assert set(shown) == all_problems()
    for kind, status in shown.items():
        assert f"\n### Problem {kind}\n\nStatus {status}" in text_of(PAGE), kind


@pytest.mark.parametrize("name", ["verdict-prior_shift", "kind-map", "label-not_worse", "problem-too-many-events"])
def test_a_paragraph_has_the_anchor_of_its_word(name: str) -> None:
    assert name in anchors(Path(PAGE))


def test_a_problem_without_a_paragraph_is_noticed() -> None:
    assert [*problems('raise Problem(503, "new-one", "detail")')] == ["new-one"]
    assert [*problems('T = ((errors.X, 422, "of-a-table"),)')] == ["of-a-table"]
    assert [*problems('T = {409: ("of-a-status", "example")}')] == ["of-a-status"]
