"""docs/answers.md has a paragraph, with an anchor, for each word by which the service answers, and no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from monitor.alarms import attribution
from monitor.alarms.serving import HARM
from monitor.http.schemas import EvidenceStateBody
from monitor.reports.evaluation.report import Verdict
from monitor.store.alert import Kind
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
