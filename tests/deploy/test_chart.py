"""The chart as a whole: what Helm, Kubernetes and the service itself say of what it renders."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from pydantic import SecretStr

from deploy.chart.__main__ import generated
from deploy.chart.comments import read_comments
from deploy.chart.readme import rows
from monitor.app.settings import fields, load_settings
from monitor.section import hide_password
from monitor.version import VERSION
from tests.deploy.chart import (
    CHART,
    KUBERNETES,
    MOUNT,
    NAMESPACE,
    VALUES,
    container,
    every,
    helm,
    of_file,
    of_values,
    only,
    problems,
    settings_of,
)

NAMES = [file.name.removesuffix("-values.yaml") for file in VALUES]
all_values = pytest.mark.parametrize("name", NAMES)

# Of https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ and .../names/.
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SERVICE = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def test_values_files_are_those_that_the_tests_know() -> None:
    assert NAMES == ["default", "hostile", "minimal", "production"]


@all_values
def test_lint_finds_nothing(name: str) -> None:
    done = helm("lint", "--strict", CHART, "-f", CHART / "ci" / f"{name}-values.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr


@all_values
@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_would_accept_every_object(name: str, version: str) -> None:
    assert [problem for each in of_file(name) for problem in problems(each, version)] == []


def test_a_schema_that_is_not_kept_is_noticed() -> None:
    broken = {**only(of_file("production"), "ScaledObject")}
    broken["spec"] = {**broken["spec"], "maxReplicas": 3}
    assert "maxReplicas" in " ".join(problems(broken, KUBERNETES[0]))
    broken = {**only(of_file("default"), "StatefulSet")}
    broken["spec"] = {**broken["spec"], "replicas": "3"}
    assert "replicas" in " ".join(problems(broken, KUBERNETES[-1]))


@all_values
def test_the_service_accepts_its_settings(name: str, tmp_path: Path) -> None:
    load_settings(*_as_mounted(of_file(name), tmp_path))


def test_the_service_reads_what_secrets_give(tmp_path: Path) -> None:
    settings = load_settings(*_as_mounted(of_file("production"), tmp_path))
    kafka = settings.source.kafka
    assert settings.store.url == "the contents of calibration-store/url"
    assert kafka.sasl_plain_username == "the contents of calibration-kafka/username"
    assert kafka.sasl_plain_password is not None
    assert kafka.sasl_plain_password.get_secret_value() == "the contents of calibration-kafka/password"
    assert Path(kafka.ssl_cafile or "").read_text(encoding="utf-8") == "the contents of kafka-ca/ca.crt"
    assert (
        Path(settings.access.keys_file or "").read_text(encoding="utf-8")
        == "the contents of calibration-keys/keys.yaml"
    )
    assert kafka.group_instance_id == "rel-calibration-monitor-0"


def test_numbers_and_names_reach_the_service_as_they_were_written(tmp_path: Path) -> None:
    settings = load_settings(*_as_mounted(of_file("hostile"), tmp_path))
    written = yaml.safe_load((CHART / "ci" / "hostile-values.yaml").read_text(encoding="utf-8"))["config"]
    assert settings.source.embedded.retention_bytes == 5_000_000_000_000
    assert settings.source.topics.read["events"].name == "1e3"
    assert settings.dead_letters.topic == "0x1F"
    assert set(settings.models.declared) == set(written["models"]["declared"])
    assert settings.models.declared["quo'te \"d"].segments == ("region", "device")


def test_replicas_of_one_release_are_a_group_of_their_own() -> None:
    settings = yaml.safe_load(settings_of(of_values({"config": {"source": {"kind": "kafka", "kafka": BROKER}}})))
    assert settings["source"]["kafka"]["group_id"] == f"{NAMESPACE}.rel-calibration-monitor"


BROKER = {"bootstrap_servers": ["kafka:9092"]}


@all_values
def test_names_and_labels_fit(name: str) -> None:
    seen = set()
    for each in of_file(name):
        kind, metadata = each["kind"], each["metadata"]
        longest = {"StatefulSet": 52, "CronJob": 52, "Service": 63}.get(kind, 253)
        assert len(metadata["name"]) <= longest, metadata["name"]
        assert (SERVICE if kind == "Service" else SUBDOMAIN).fullmatch(metadata["name"]), metadata["name"]
        assert (kind, metadata["name"]) not in seen
        seen.add((kind, metadata["name"]))
        assert metadata["namespace"] == NAMESPACE
        for key, label in metadata["labels"].items():
            assert KEY.fullmatch(key), key
            assert LABEL.fullmatch(label), (key, label)
        assert metadata["labels"]["app.kubernetes.io/instance"] == "rel"
        assert all(isinstance(text, str) for text in metadata.get("annotations", {}).values())


def test_releases_of_one_namespace_do_not_collide() -> None:
    """Also those whose long names begin alike, and those that no Service may be called."""
    releases = ["a" * 53, "a" * 52 + "b", "blue", "green", "x.y", "x-y", "7", "calibration-monitor"]
    names = []
    for release in releases:
        objects = of_values(
            {"recalibration": {"existingSecret": "key", "models": [{"name": "churn"}]}}, release=release
        )
        names += [(each["kind"], each["metadata"]["name"]) for each in objects]
        for each in every(objects, "Service"):
            assert SERVICE.fullmatch(each["metadata"]["name"]), each["metadata"]["name"]
        assert len(only(objects, "StatefulSet")["metadata"]["name"]) <= 52
    assert len(names) == len(set(names))


def test_a_parent_chart_may_hold_it(tmp_path: Path) -> None:
    """With global values and a condition, which a strict schema is apt to refuse."""
    (tmp_path / "Chart.yaml").write_text(
        "apiVersion: v2\nname: platform\nversion: 0.0.1\ndependencies:\n"
        "  - {name: calibration-monitor, version: 0.x, condition: calibration-monitor.enabled}\n",
        encoding="utf-8",
    )
    shutil.copytree(CHART, tmp_path / "charts" / "calibration-monitor")
    shared = {"global": {"region": "eu"}}
    on = of_values({**shared, "calibration-monitor": {"enabled": True, "service": {"port": 80}}}, chart=tmp_path)
    assert only(on, "StatefulSet")["metadata"]["name"] == "rel-calibration-monitor"
    assert of_values({**shared, "calibration-monitor": {"enabled": False}}, chart=tmp_path) == ()


def test_hostile_text_does_nothing_but_stand_where_it_was_put() -> None:
    written = yaml.safe_load((CHART / "ci" / "hostile-values.yaml").read_text(encoding="utf-8"))
    objects = of_file("hostile")
    assert {each["kind"] for each in objects} == {
        *("ConfigMap", "CronJob", "Ingress", "NetworkPolicy", "Pod", "PodDisruptionBudget", "PrometheusRule"),
        *("Service", "ServiceAccount", "ServiceMonitor", "StatefulSet"),
    }
    for each in objects:
        annotations = each["metadata"]["annotations"]
        assert {key: annotations[key] for key in written["commonAnnotations"]} == written["commonAnnotations"]
        assert each["metadata"]["labels"]["on"] == "yes"
    env = {each["name"]: each["value"] for each in container(objects)["env"]}
    assert {key: env[key] for key in ("NUMBER", "BOOLEAN", "LINES", "EXPANDED")} == {
        each["name"]: each["value"] for each in written["extraEnv"]
    }
    ingress = only(objects, "Ingress")
    assert ingress["spec"]["rules"][0]["http"]["paths"][0]["path"] == written["ingress"]["hosts"][0]["paths"][0]["path"]
    assert "return 200;" in ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/configuration-snippet"]


def test_a_changed_setting_starts_the_pods_anew() -> None:
    def checksum(values: dict[str, Any]) -> str:
        template = only(of_values(values), "StatefulSet")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    before = checksum({})
    assert checksum({}) == before
    assert checksum({"config": {"evaluation": {"interval": "6s"}}}) != before
    # What is no setting starts no pod: its rollout would lose nothing, but move partitions.
    assert checksum({"service": {"port": 80}}) == before
    assert checksum({"podAnnotations": {"checksum/config": "forged"}}) == before


def test_nothing_secret_is_rendered() -> None:
    """Neither as an object nor as a setting that may be a secret."""
    for name in NAMES:
        objects = of_file(name)
        assert every(objects, "Secret") == []
        for path, value in _leaves(yaml.safe_load(settings_of(objects))):
            field = fields.field_at(path)
            assert field is None or not fields.mentions(field.annotation, SecretStr), path
            assert hide_password(str(value)) == str(value), path


def test_the_chart_is_of_this_version_of_the_service() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == VERSION


def test_generated_files_are_up_to_date() -> None:
    for file, text in generated().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run `python -m deploy.chart`"


def test_the_schema_is_one_that_others_than_helm_understand() -> None:
    """Editors, and later versions of Helm, which check schemas with another library."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    assert [error.message for error in Draft7Validator(schema).iter_errors(values)] == []
    misspelt = {**values, "image": {**values["image"], "tagg": "1"}}
    assert [error.json_path for error in Draft7Validator(schema).iter_errors(misspelt)] == ["$.image"]


def test_every_value_is_explained() -> None:
    comments = read_comments(CHART / "values.yaml")
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert [path for path, _ in rows(values, ()) if not comments.get(path)] == []


def _as_mounted(objects: tuple[dict[str, Any], ...], folder: Path) -> tuple[Path, dict[str, str]]:
    """monitor.yaml and the environment as a pod has them, with the mount put at a folder."""
    spec = only(objects, "StatefulSet")["spec"]["template"]["spec"]
    (volume,) = (each for each in spec["volumes"] if each["name"] == "config")
    for source in volume["projected"]["sources"]:
        if "configMap" in source:
            (folder / "monitor.yaml").write_text(settings_of(objects), encoding="utf-8")
        else:
            secret = source["secret"]
            for item in secret["items"]:
                file = folder / item["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(f"the contents of {secret['name']}/{item['key']}", encoding="utf-8")
    pod = f"{only(objects, 'StatefulSet')['metadata']['name']}-0"
    environ = {
        each["name"]: str(each.get("value", pod)).replace(MOUNT, str(folder)) for each in container(objects)["env"]
    }
    return Path(environ["MONITOR_CONFIG"]), environ


def _leaves(node: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(node, dict):
        return [leaf for key, inner in node.items() for leaf in _leaves(inner, (*path, key))]
    return [(path, node)]
