"""The backfill as a job for Spark's operator: its definition, the command line and the list of jars agree with it."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from monitor.cli import backfill
from tests.deploy.chart import ROOT, problems

SPARK = ROOT / "deploy" / "spark"
NEWEST = "1.34"  # of Kubernetes; the definition of a custom resource does not depend on it
COORDINATES = re.compile(r"\b[\w.]+:[\w.-]+_?[\d.]*:\d[\w.]*\b")


@pytest.fixture
def job() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((SPARK / "backfill.yaml").read_text(encoding="utf-8"))
    return loaded


def packages() -> list[str]:
    lines = (SPARK / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_the_operator_takes_it(job: dict[str, Any]) -> None:
    assert problems(job, NEWEST) == []
    job["spec"]["driver"]["memry"] = "1g"
    job["spec"]["executor"]["instances"] = "four"
    assert len(problems(job, NEWEST)) == 2


def test_the_command_line_takes_its_arguments(job: dict[str, Any]) -> None:
    assert Path(job["spec"]["mainApplicationFile"]).name == "monitor_command.py"
    name, *arguments = job["spec"]["arguments"]
    assert name == "backfill"
    given = typer.main.get_command(backfill.app).make_context(name, arguments).params
    assert given.items() >= {"spark": True, "model": "churn"}.items()
    (mount,) = job["spec"]["driver"]["volumeMounts"]
    assert Path(given["config"]).parent == Path(mount["mountPath"])


def test_jars_are_those_of_the_list(job: dict[str, Any]) -> None:
    listed = packages()
    assert set(job["spec"]["deps"]["packages"]) <= set(listed)
    named = {jar for page in (ROOT / "docs").glob("*.md") for jar in COORDINATES.findall(page.read_text("utf-8"))}
    assert {jar for jar in named if jar.startswith(("org.apache.", "io.delta"))} <= set(listed)
    tested = (ROOT / "tests" / "real" / "delta_jars.txt").read_text(encoding="utf-8")
    group, artifact, number = next(jar for jar in listed if "delta-spark" in jar).split(":")
    assert f"{group.replace('.', '/')}/{artifact}/{number}/" in tested
    minor = job["spec"]["sparkVersion"].rpartition(".")[0]
    assert artifact.startswith(f"delta-spark_{minor}_")
