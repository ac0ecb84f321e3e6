"""The chart as Helm renders it, and what Kubernetes says of that."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.patience import PATIENCE_SECONDS

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "helm"
VALUES: Final = tuple(sorted(CHART.glob("ci/*-values.yaml")))
NAMESPACE: Final = "ml"
MOUNT: Final = "/etc/calibration-monitor"

# The oldest that the chart is for, one in between, and the newest that is known.
KUBERNETES: Final = ("1.27.0", "1.31.0", "1.37.0")

Object = dict[str, Any]


def helm(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """What Helm says and answers."""
    program = Path(sys.executable).parent / "helm"
    return subprocess.run(
        [program, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )


@cache
def of_file(name: str) -> tuple[Object, ...]:
    """What a values file of helm/ci makes, as Kubernetes would get it."""
    return _objects(
        helm("template", "rel", CHART, "--namespace", NAMESPACE, "-f", CHART / "ci" / f"{name}-values.yaml")
    )


def of_values(values: Mapping[str, Any], *, chart: Path = CHART, release: str = "rel") -> tuple[Object, ...]:
    """What values make."""
    return _objects(_template(values, chart, release))


def refusal(values: Mapping[str, Any]) -> str:
    """What Helm says of values that are refused, in one line."""
    done = _template(values, CHART, "rel")
    assert done.returncode != 0, f"Helm accepts {values}"
    return " ".join(done.stderr.split())


def _template(values: Mapping[str, Any], chart: Path, release: str) -> subprocess.CompletedProcess[str]:
    return helm("template", release, chart, "--namespace", NAMESPACE, "-f", "-", stdin=yaml.safe_dump(dict(values)))


def _objects(done: subprocess.CompletedProcess[str]) -> tuple[Object, ...]:
    assert done.returncode == 0, done.stderr
    return tuple(each for each in yaml.load_all(done.stdout, _UniqueKeys) if each)


class _UniqueKeys(yaml.SafeLoader):
    """Refuses keys that are given twice, as Kubernetes does, where YAML's own loader takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"given twice: {sorted(key for key in keys if keys.count(key) > 1)}"
        return super().construct_mapping(node, deep)


def only(objects: tuple[Object, ...], kind: str) -> Object:
    """The one object of a kind."""
    (found,) = every(objects, kind)
    return found


def every(objects: tuple[Object, ...], kind: str) -> list[Object]:
    """All objects of a kind."""
    return [each for each in objects if each["kind"] == kind]


def pods(objects: tuple[Object, ...]) -> Iterator[tuple[str, Object]]:
    """Every pod that the objects make, named by who makes it: its metadata and spec."""
    for each in objects:
        name = f"{each['kind']}/{each['metadata']['name']}"
        if each["kind"] == "Pod":
            yield name, each
        elif each["kind"] == "StatefulSet":
            yield name, each["spec"]["template"]
        elif each["kind"] == "CronJob":
            yield name, each["spec"]["jobTemplate"]["spec"]["template"]


def container(objects: tuple[Object, ...]) -> Object:
    """The service's container."""
    (found,) = only(objects, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def settings_of(objects: tuple[Object, ...]) -> str:
    """The rendered monitor.yaml."""
    (text,) = (each["data"]["monitor.yaml"] for each in every(objects, "ConfigMap") if "monitor.yaml" in each["data"])
    return str(text)


def problems(each: Object, version: str) -> list[str]:
    """What Kubernetes of a version, or the definition of a custom resource, finds wrong with an object."""
    validator = _validator(each["apiVersion"], each["kind"], version)
    name = f"{each['kind']}/{each['metadata']['name']}"
    return [f"{name} {error.json_path}: {error.message}" for error in validator.iter_errors(each)]


@cache
def _validator(api_version: str, kind: str, version: str) -> Draft202012Validator:
    custom = Path(__file__).parent / "schemas" / f"{kind.lower()}-{api_version.replace('/', '-')}.json"
    if custom.is_file():
        return Draft202012Validator(json.loads(custom.read_text(encoding="utf-8")))
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    short = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api_version)
    schema = json.loads((folder / f"{kind.lower()}-{short}.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema, registry=_definitions(version))


@cache
def _definitions(version: str) -> Registry[Any]:
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
    contents = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))
    return Resource.from_contents(contents) @ Registry()


def merge(into: dict[str, Any], values: dict[str, Any]) -> None:
    """Lay values over others, key by key, as helm does."""
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value
