"""Cases for the real promtool beside those of each alert: services that crash again and again, and several releases."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.real.promtool import run_rule_tests

pytestmark = pytest.mark.timeout(1800)  # the first time, promtool has to be fetched

ROOT: Final = Path(__file__).parents[3]
RULES: Final = sorted((ROOT / "helm" / "rules").glob("**/*.yaml"))
CASES: Final = sorted((Path(__file__).parent / "more").glob("*.yaml"))


def test_there_are_cases() -> None:
    assert [path.stem for path in CASES] == ["crashes", "releases"]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_cases(path: Path) -> None:
    done = run_rule_tests(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_what_is_told_of_a_namespace_is_told_of_each_release_in_it(path: Path) -> None:
    for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            lists = [set(found.split(", ")) for found in re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"])]
            # An instance belongs to one release alone.
            assert all({"service", "instance"} & names for names in lists if "namespace" in names), lists
            for text in rule.get("annotations", {}).values():
                assert text.count("{namespace=%q") == text.count("{namespace=%q,service=%q")
                assert text.count("$labels.namespace") == text.count("$labels.namespace $labels.service")
