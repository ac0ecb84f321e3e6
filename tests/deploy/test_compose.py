"""The compose file, and what it mounts: held to their own schemas and programs, and as far as it goes, run."""

import json
import os
import re
import shlex
import subprocess
import time
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from monitor.app.settings import load_settings
from monitor.cli.main import COMMANDS
from monitor.durations import to_ms
from monitor.simulation.traffic import HORIZON_MS, LATENESS_MS
from monitor.version import VERSION
from tests.cli.command import environment, inside, monitor_in_path
from tests.cli.kafka_service import Served
from tests.deploy.compose import DEPLOY, mounts, read
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.debian import AMTOOL, PROMTOOL, program
from tests.real.prometheus import Alertmanager, Prometheus

pytestmark = pytest.mark.timeout(1800)  # the first time, the programs may have to be fetched or built

CHECKOUT: Final = Path(__file__).parents[2]
OURS: Final = f"calibration-monitor:{VERSION}"
PINNED: Final = re.compile(r"[\w./-]+:v?\d+\.\d+(\.\d+)?(-\w+)?(@sha256:[0-9a-f]{64})?")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    tree: dict[str, Any] = read(DEPLOY / "compose.yaml")
    return tree


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


# ---------------------------------------------------------------------- the file


def test_it_is_a_compose_file(compose: dict[str, Any]) -> None:
    schema = json.loads((Path(__file__).parent / "schemas" / "compose-spec.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(compose)] == []
    assert "version" not in compose
    # And the schema is no schema that takes anything.
    assert list(validator.iter_errors({**compose, "services": {"x": {"image": "x", "prots": []}}}))


def test_images_are_pinned_and_kafka_is_the_one_of_the_tests(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert PINNED.fullmatch(service["image"]), name
    jars = (CHECKOUT / "tests" / "real" / "kafka_jars.txt").read_text(encoding="utf-8")
    version = re.match(r"# Apache Kafka (\S+) ", jars)
    assert version is not None
    assert services["kafka"]["image"] == services["topics"]["image"] == f"apache/kafka:{version.group(1)}"


def test_ports_are_open_on_the_loopback_alone(services: dict[str, dict[str, Any]]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 5
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
    assert all("network_mode" not in service and "privileged" not in service for service in services.values())


def test_what_is_mounted_is_there_and_none_of_it_is_a_copy(compose: dict[str, Any]) -> None:
    sources = set()
    for name, service in compose["services"].items():
        for source, _, read_only in mounts(service):
            if source.startswith("."):
                assert (DEPLOY / source).exists(), (name, source)
                assert read_only, (name, source)
                sources.add(source)
            else:
                assert source in compose["volumes"], (name, source)
    # Rules and dashboards are the chart's own.
    assert {"../helm/rules", "../helm/dashboards"} <= sources
    held = [path for path in DEPLOY.rglob("*") if path.suffix in {".json", ".yaml", ".yml"}]
    assert not [path for path in held if "groups:" in path.read_text(encoding="utf-8")]


def test_all_are_held_short(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        if name != "postgres":  # whose image changes its user itself
            assert service["cap_drop"] == ["ALL"], name
            assert service["security_opt"] == ["no-new-privileges:true"], name
        if service["image"] == OURS:
            assert service["read_only"] is True
            assert service["user"] == "65532:65532"
            assert any(each.startswith("/tmp:") for each in service["tmpfs"])
            assert service["build"] == {"context": "..", "dockerfile": "deploy/Dockerfile"}
    assert sum(service["image"] == OURS for service in services.values()) == 5


def test_it_is_started_in_order_and_ended_in_order(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, name
            if how["condition"] == "service_healthy":
                assert services[other]["healthcheck"]["test"][0] == "CMD", (name, other)
            optional = bool(services[other].get("profiles"))
            assert how.get("required", True) is not optional, (name, other)
    assert services["monitor"]["stop_grace_period"] == "20s"
    assert set(services["monitor"]["depends_on"]) == {"postgres", "topics"}
    assert services["simulator"]["depends_on"]["monitor"] == {"condition": "service_healthy"}


# ---------------------------------------------------------------------- the service and its commands


def test_the_settings_fit_the_topics_and_the_simulator(services: dict[str, dict[str, Any]]) -> None:
    variables = {"MONITOR__STORE__URL": "sqlite:////var/lib/calibration-monitor/state.db"}
    settings = load_settings(DEPLOY / "monitor.yaml", variables)
    made = re.search(r"for topic in (.*); do", services["topics"]["command"][0])
    assert made is not None
    assert made.group(1).split() == [topic.name for topic in settings.source.topics.read.values()]
    # One number for all topics.
    assert services["topics"]["command"][0].count("--partitions") == 1
    listener = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")[0]
    assert listener == f"INTERNAL://{settings.source.kafka.bootstrap_servers[0]}"
    assert to_ms(settings.models.defaults.horizon) == HORIZON_MS
    assert to_ms(settings.models.defaults.allowed_lateness) == LATENESS_MS
    assert settings.access.mode == "required"
    assert services["monitor"]["ports"] == [f"127.0.0.1:{settings.api.port}:{settings.api.port}"]
    default = re.fullmatch(r"\$\{MONITOR_STORE_URL:-(.*)\}", services["monitor"]["environment"]["MONITOR__STORE__URL"])
    assert default is not None
    assert default.group(1) == variables["MONITOR__STORE__URL"]


def test_replicas_share_the_store_and_read_no_events(services: dict[str, dict[str, Any]]) -> None:
    first, others = services["monitor"], services["replica"]
    settings = load_settings(DEPLOY / "monitor.yaml", others["environment"] | {"MONITOR__STORE__URL": "sqlite:///s.db"})
    assert settings.roles == ("evaluate", "serve")
    assert others["environment"]["MONITOR__STORE__URL"] == first["environment"]["MONITOR__STORE__URL"]
    assert set(mounts(others)) < set(mounts(first))
    assert (others["command"], others["healthcheck"]) == (first["command"], first["healthcheck"])
    # One port of this machine can be that of one container.
    assert "ports" not in others
    assert others["profiles"] == ["replicas"]
    (job,) = (
        job
        for job in read(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"]
        if job["job_name"] == "calibration-monitor"
    )
    assert job["dns_sd_configs"] == [{"names": ["replica"], "type": "A", "port": settings.api.port}]


def test_the_commands_are_commands(services: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    for name in ("monitor", "simulator"):
        command, *rest = services[name]["command"]
        assert command in COMMANDS
        assert inside(command, *rest, "--help", cwd=tmp_path).returncode == 0


# ---------------------------------------------------------------------- Prometheus, Alertmanager, Grafana


def scraping(tmp_path: Path, target: str, alertmanager: str) -> dict[str, Any]:
    """The Prometheus settings of the compose file, for addresses of this machine."""
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    for container, here in (
        ("/etc/prometheus/rules", str(CHECKOUT / "helm" / "rules")),
        ("/run/calibration-monitor", str(tmp_path)),
        ("alertmanager:9093", alertmanager),
        ("monitor:8000", target),
        ("15s", "1s"),
    ):
        assert container in text
        text = text.replace(container, here)
    tree: dict[str, Any] = yaml.safe_load(text)
    return tree


def test_promtool_accepts_the_settings_with_the_real_rules(tmp_path: Path) -> None:
    (tmp_path / "prometheus").write_text("cmk_something", encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(scraping(tmp_path, "m:1", "a:1")), encoding="utf-8")
    done = subprocess.run(
        [program(PROMTOOL), "check", "config", tmp_path / "prometheus.yml"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = re.search(r"(\d+) rule files found", done.stdout)
    assert files is not None
    assert int(files.group(1)) == len(list((CHECKOUT / "helm" / "rules").glob("*.yaml"))) > 10


@pytest.mark.parametrize(("severity", "receiver"), [("critical", "pager"), ("warning", "tickets")])
def test_amtool_accepts_the_routes_and_they_lead_where_they_should(severity: str, receiver: str) -> None:
    config = DEPLOY / "alertmanager" / "alertmanager.yml"
    amtool = program(AMTOOL)
    checked = subprocess.run(
        [amtool, "check-config", config], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    labels = ["alertname=CalibrationDegraded", f"severity={severity}"]
    routed = subprocess.run(
        [amtool, "config", "routes", "test", f"--config.file={config}", f"--verify.receivers={receiver}", *labels],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert routed.returncode == 0, routed.stdout + routed.stderr


def test_severities_and_inhibitions_name_what_there_is() -> None:
    rules = [
        rule
        for path in (CHECKOUT / "helm" / "rules").glob("*.yaml")
        for group in read(path)["groups"]
        for rule in group["rules"]
        if "alert" in rule
    ]
    names = {rule["alert"] for rule in rules}
    settings = read(DEPLOY / "alertmanager" / "alertmanager.yml")
    (route,) = settings["route"]["routes"]
    (matcher,) = route["matchers"]
    assert matcher.split('"')[1] in {rule["labels"]["severity"] for rule in rules}
    for inhibition in settings["inhibit_rules"]:
        for matcher in (*inhibition["source_matchers"], *inhibition["target_matchers"]):
            if matcher.startswith("alertname"):
                # Each part of a choice is an alert.
                before, _, choice = matcher.split('"')[1].rstrip(")").partition("(")
                assert {f"{before}{part}" for part in choice.split("|")} <= names, matcher
    # None of them sends anything anywhere.
    assert all(set(receiver) == {"name"} for receiver in settings["receivers"])


def test_grafana_finds_prometheus_and_the_dashboards(services: dict[str, dict[str, Any]]) -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = read(provisioning / "datasources" / "prometheus.yaml")["datasources"]
    assert (source["type"], source["access"], source["isDefault"]) == ("prometheus", "proxy", True)
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in services
    (provider,) = read(provisioning / "dashboards" / "calibration.yaml")["providers"]
    mounted = {target: DEPLOY / source for source, target, _ in mounts(services["grafana"]) if source.startswith(".")}
    assert sorted(path.name for path in mounted[provider["options"]["path"]].iterdir()) == [
        "fleet.json",
        "model.json",
        "pipeline.json",
    ]
    assert mounted["/etc/grafana/provisioning"].resolve() == provisioning
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert (mounted[str(Path(home).parent)] / Path(home).name).exists()
    # The version whose dashboards the tests make.
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (sdk,) = [each for each in project["optional-dependencies"]["dev"] if each.startswith("grafana-foundation-sdk")]
    major = re.search(r"\d+\.\d+", services["grafana"]["image"])
    assert major is not None
    assert f"!{major.group().partition('.')[0]}." in sdk


# ---------------------------------------------------------------------- as far as it can be run here


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service with the settings of the compose file, on a log of its own and on the loopback."""
    folder = tmp_path_factory.mktemp("service")
    tree = read(DEPLOY / "monitor.yaml")
    tree["source"]["kind"] = "embedded"
    tree["source"]["embedded"] = {"directory": "log"}
    tree["store"] = {"url": "sqlite:///state.db"}
    tree["api"] = {"host": "127.0.0.1", "port": 0}
    (folder / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    made = inside("keys", "create", "prometheus", "--role", "read", "--write-key", "prometheus", cwd=folder)
    assert made.returncode == 0, made.stderr
    with Served(folder) as running:
        running.eventually(lambda: bool(running.url))
        yield running
        running.stop()


def test_a_real_prometheus_scrapes_it_with_the_key_and_tells_a_real_alertmanager(
    served: Served, tmp_path: Path
) -> None:
    settings = read(DEPLOY / "alertmanager" / "alertmanager.yml")
    with Alertmanager(tmp_path / "alertmanager", settings=settings) as alertmanager:
        target = served.url.removeprefix("http://")
        scrape = scraping(served.folder, target, alertmanager.address)
        # Beside its own: one that fires at once, so that the way to the Alertmanager is seen.
        rule = {"alert": "Reaches", "expr": 'up{job="calibration-monitor"} == 1', "labels": {"severity": "critical"}}
        (tmp_path / "rule.yaml").write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": [rule]}]}))
        scrape["rule_files"].append(str(tmp_path / "rule.yaml"))
        with Prometheus(tmp_path / "prometheus", settings=scrape) as prometheus:
            prometheus.wait_for('up{job="calibration-monitor"} == 1')
            prometheus.wait_for("calibration_build_info")
            wrong = [rule for group in prometheus.rules() for rule in group["rules"] if rule.get("lastError")]
            assert wrong == []
            told = eventually(
                lambda: [alert for alert in alertmanager.alerts() if alert["labels"]["alertname"] == "Reaches"],
                shown=alertmanager.alerts,
            )
            assert [receiver["name"] for receiver in told[0]["receivers"]] == ["pager"]


def test_without_the_key_it_is_not_scraped(served: Served) -> None:
    assert served.ask("/metrics")[0] == 401
    assert served.ask("/healthz")[0] == 200


# ---------------------------------------------------------------------- systemd


def test_the_unit_is_closed_and_its_command_line_parses(tmp_path: Path) -> None:
    lines = (DEPLOY / "systemd" / "calibration-monitor.service").read_text(encoding="utf-8").splitlines()
    told: dict[str, list[str]] = {}
    for line in lines:
        if line and not line.startswith(("#", "[")):
            key, equals, value = line.partition("=")
            assert equals, line
            assert re.fullmatch(r"[A-Z]\w+", key), line
            told.setdefault(key, []).append(value)
    assert [line for line in lines if line.startswith("[")] == ["[Unit]", "[Service]", "[Install]"]
    (command,) = told["ExecStart"]
    path, *arguments = shlex.split(command)
    assert path.endswith("/bin/monitor")
    assert inside(arguments[0], "--help", cwd=tmp_path).returncode == 0
    assert arguments[1:] == ["--config", "/etc/calibration-monitor/monitor.yaml"]
    expected = {
        "DynamicUser": "yes",
        "ProtectSystem": "strict",
        "NoNewPrivileges": "yes",
        "StateDirectory": "calibration-monitor",
        "UMask": "0077",
        "Restart": "on-failure",
        "RestartPreventExitStatus": "2",
        "CapabilityBoundingSet": "",
    }
    assert {key: told[key][-1] for key in expected} == expected
    # The workers of refits lower their priority, and kernels are compiled into memory that is then executed.
    assert told["SystemCallFilter"] == ["@system-service", "~@privileged"]
    assert "MemoryDenyWriteExecute" not in told


def test_the_nightly_backups_are_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    page = (CHECKOUT / "docs" / "install.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^0 3 \* \* \* root (.*)$", page, re.MULTILINE)
    # Under a user that changes, the folder is a link; and nothing is cleared away where no backup was made.
    held, folder = tmp_path / "private", tmp_path / "backups"
    held.mkdir()
    folder.symlink_to(held)
    command = line.replace("/var/lib/calibration-monitor-backups", str(folder))
    command = command.replace("/usr/local/sbin/calibration-monitor", "monitor")
    (tmp_path / "monitor.yaml").write_text("store: {url: 'sqlite:///state.db'}\n", encoding="utf-8")
    long_ago = time.time() - 20 * 86_400
    for name in ("calibration-monitor-2026-11-01T03-00-01Z.db", "store.db"):
        (held / name).write_text("x", encoding="utf-8")
        os.utime(held / name, (long_ago, long_ago))
    (held / "calibration-monitor-2026-11-20T03-00-01Z.db").write_text("x", encoding="utf-8")
    before = sorted(held.iterdir())
    with monitor_in_path(tmp_path / "bin") as path:
        shell, env = ["/bin/sh", "-c", command], environment(PATH=path)
        run = partial(subprocess.run, shell, cwd=tmp_path, env=env, timeout=PATIENCE_SECONDS, check=False)
        assert run().returncode != 0
        assert sorted(held.iterdir()) == before
        assert inside("keys", "create", "x", "--role", "read", cwd=tmp_path).returncode == 0
        assert run().returncode == 0
    kept = {path.name for path in held.iterdir()}
    assert len(kept) == 3
    assert {"store.db", "calibration-monitor-2026-11-20T03-00-01Z.db"} < kept
    assert "calibration-monitor-2026-11-01T03-00-01Z.db" not in kept
