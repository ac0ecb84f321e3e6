"""What people read: the notes after an install, values on the page of the documentation, the script for a cluster."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.chart import CHART, ROOT, every, of_file, of_values, only, pods
from tests.patience import PATIENCE_SECONDS

PAGE = ROOT / "docs" / "kubernetes.md"
PAGES = (PAGE, ROOT / "docs" / "kubernetes-operations.md")


def notes(folder: Path, values: Path | None = None) -> str:
    """The notes as Helm prints them after an install. It renders them without a cluster only as part of an object."""
    chart = folder / "chart"
    shutil.copytree(CHART, chart)
    text = chart / "templates" / "NOTES.txt"
    object_of_notes = '{{ define "notes" }}' + text.read_text(encoding="utf-8") + "{{ end }}"
    object_of_notes += 'kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(object_of_notes, encoding="utf-8")
    text.unlink()
    given = yaml.safe_load(values.read_text(encoding="utf-8")) if values else {}
    return str(only(of_values(given or {}, chart=chart), "Notes")["text"])


def test_notes_say_what_to_do_and_what_is_missing(tmp_path: Path) -> None:
    text = notes(tmp_path)
    stateful = only(of_file("default"), "StatefulSet")["metadata"]["name"]
    assert f"kubectl exec --namespace ml {stateful}-0 -- monitor keys create admin" in text
    assert f"kubectl port-forward --namespace ml service/{stateful} 8000:8000" in text
    assert "helm test rel --namespace ml" in text
    for missing in ("Nobody scrapes it", "Nobody is alerted", "No dashboards", "networkPolicy.enabled", "one replica"):
        assert missing in text
    assert "Secrets that have to be there" not in text
    assert "{{" not in text


def test_notes_name_every_secret_that_the_release_needs(tmp_path: Path) -> None:
    text = notes(tmp_path, CHART / "ci" / "production-values.yaml")
    objects = of_file("production")
    needed = {only(objects, "ServiceMonitor")["spec"]["endpoints"][0]["authorization"]["credentials"]["name"]}
    for _, pod in pods(objects):
        for volume in pod["spec"]["volumes"]:
            needed |= {
                each["secret"]["name"] for each in volume.get("projected", {}).get("sources", []) if "secret" in each
            }
        for each in pod["spec"]["containers"]:
            refs = [variable.get("valueFrom", {}).get("secretKeyRef", {}) for variable in each.get("env", [])]
            needed |= {ref["name"] for ref in refs if ref}
    assert len(needed) == 6
    listed = re.findall(r"^  ([-a-z]+): [-a-z., ]+$", text.partition("\n1. ")[0], re.MULTILINE)
    assert set(listed) == needed
    # Everything is set up.
    assert "Not set up" not in text


def blocks() -> list[str]:
    """The values on the pages."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    return re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_pages_show_values() -> None:
    assert len(blocks()) == 9


@pytest.mark.parametrize("block", blocks(), ids=lambda block: block.partition(":")[0])
def test_values_on_the_pages_are_accepted(block: str) -> None:
    values = yaml.safe_load(block)
    kinds = {each["kind"] for each in of_values(values)}
    for key, kind in {
        "serviceMonitor": "ServiceMonitor",
        "rules": "PrometheusRule",
        "networkPolicy": "NetworkPolicy",
        "ingress": "Ingress",
        "recalibration": "CronJob",
        "keda": "ScaledObject",
    }.items():
        assert (kind in kinds) == (key in values), kind


def test_the_page_lists_what_the_chart_sets() -> None:
    """All that values.yaml has of the settings, but for the kind of source, which is the default."""

    def paths(section: dict[str, Any], before: str = "") -> set[str]:
        inner = [
            paths(value, f"{before}{key}.") if isinstance(value, dict) else {before + key}
            for key, value in section.items()
        ]
        return set().union(*inner)

    config = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    (listed,) = re.findall(r"but for eight keys that the chart sets for a pod: (.*?) \(", text)
    assert set(re.findall(r"`([^`]+)`", listed)) == paths(config) - {"source.kind"}


def test_values_on_the_pages_go_together() -> None:
    """As somebody would who wants all of it."""
    merged: dict[str, object] = {}
    for block in blocks():
        _merge(merged, yaml.safe_load(block))
    objects = of_values(merged)
    assert len(every(objects, "CronJob")) == 2
    assert only(objects, "ScaledObject")["spec"]["maxReplicaCount"] == 12


def test_the_script_for_a_cluster_is_one_that_a_shell_understands() -> None:
    script = ROOT / "deploy" / "kind.sh"
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert (done.returncode, done.stderr) == (0, "")
    text = script.read_text(encoding="utf-8")
    assert script.stat().st_mode & 0o111
    for file in re.findall(r"\b(?:deploy|helm)/[\w./*-]+\.(?:py|yaml)", text):
        assert list(ROOT.glob(file)), file
    # What it sets are values that there are.
    sets = dict(each.split("=", 1) for each in re.findall(r"--set ([a-zA-Z.]+=[\w]+)", text))
    assert len(sets) >= 6
    values: dict[str, object] = {}
    for path, value in sets.items():
        nested: object = yaml.safe_load(value)
        for part in reversed(path.split(".")):
            nested = {part: nested}
        _merge(values, nested)
    of_values(values)


def _merge(into: dict[str, object], values: object) -> None:
    assert isinstance(values, dict)
    for key, value in values.items():
        inner = into.get(key)
        if isinstance(value, dict) and isinstance(inner, dict):
            _merge(inner, value)
        else:
            into[key] = value
