"""The init container reports settings that the service refuses, the chart those that cannot work in a pod."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.app.settings import load_settings
from monitor.cli.main import run
from monitor.errors import SettingsError
from tests.deploy.chart import CHART, ROOT, Object, container, every, merge, of_values, only, refusal, settings_of
from tests.deploy.test_chart_docs import notes

BROKERS: dict[str, Any] = {"bootstrap_servers": ["kafka:9092"]}
ISSUER = "https://login.example.org/realms/ml"


def kafka(**more: Any) -> dict[str, Any]:
    """Settings with these keys of source.kafka."""
    return {"source": {"kind": "kafka", "kafka": {**BROKERS, **more}}}


def oidc(**keys: Any) -> dict[str, Any]:
    """Settings with these keys of access.oidc."""
    return {"access": {"oidc": keys}}


def declared(**keys: Any) -> dict[str, Any]:
    """Settings of a model."""
    return {"models": {"declared": {"churn": keys}}}


REFUSED: list[tuple[dict[str, Any], str]] = [
    (kafka(security_protocol="SASL_SSL"), "sasl_mechanism must be set when security_protocol is SASL_SSL"),
    (
        kafka(sasl_mechanism="GSSAPI", security_protocol="PLAINTEXT"),
        "security_protocol must be SASL_SSL or SASL_PLAINTEXT when sasl_mechanism is set, got PLAINTEXT",
    ),
    (
        {"source": {"kafka": {"sasl_mechanism": "PLAIN", "security_protocol": "SASL_SSL"}}},
        "sasl_plain_username and sasl_plain_password must be set when sasl_mechanism is PLAIN",
    ),
    (
        {"source": {"topics": {"predictions": "both", "outcomes": "both"}}},
        "source.topics must name a different topic for each type of event",
    ),
    (oidc(issuer="http://login.example.org/realms/ml", audience="a"), "access.oidc.issuer must begin with https://"),
    (oidc(issuer="http://localhost.example.org", audience="a"), "access.oidc.issuer must begin with https"),
    (oidc(issuer="", audience="a"), "access.oidc.issuer "),
    (oidc(issuer=f"{ISSUER}?a=b", audience="a"), "access.oidc.issuer must have no query"),
    (oidc(issuer="https://me@login.example.org", audience="a"), "access.oidc.issuer "),
    (
        oidc(issuer=ISSUER, audience="a", jwks_url="http://login.example.org/keys"),
        "access.oidc.jwks_url must begin with https://",
    ),
    (oidc(issuer=ISSUER), "audience must be set where an issuer is"),
    ({"windows": []}, "windows"),
    ({"windows": [{"length": "1h"}, {"mature": True}]}, "windows[1] must have a length"),
    ({"windows": [{"name": "a", "length": "1h"}, {"name": "a", "last": 9}]}, "windows must have different names"),
    (
        {"windows": [{"name": "early", "length": "1h", "mature": False}]},
        "windows[0].name must have the word immature in it",
    ),
    (declared(sketch_features=256), "models.declared.churn"),
    (declared(classes=3, implied_negative=True), "models.declared.churn"),
    ({"store": {"url": "mysql://db/calibration"}}, "store.url must look like"),
    ({"store": {"url": "sqlite://"}}, "the store must be a file"),
]


@pytest.mark.parametrize(("config", "message"), REFUSED)
def test_settings_that_the_service_refuses_stop_the_pod_before_it_starts(
    config: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output = _check_in_init_container(of_values({"config": config}), tmp_path, capsys)
    assert status == 1
    assert message in output


def test_settings_that_the_service_accepts_pass_the_init_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, output = _check_in_init_container(of_values({}), tmp_path, capsys)
    assert (status, output.split()[0]) == (0, "ok")


def test_the_init_container_reads_what_the_service_reads() -> None:
    objects = of_values({"extraEnv": [{"name": "MONITOR__API__HOST", "value": "::"}]})
    (check,) = only(objects, "StatefulSet")["spec"]["template"]["spec"]["initContainers"]
    service = container(objects)
    for key in ("image", "env", "volumeMounts", "securityContext"):
        assert check[key] == service[key]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"models": {"defaults": {"horizon": "a day"}}}, "config.models.defaults.horizon: Does not match pattern"),
        ({"evaluation": {"interval": "5 sec"}}, "config.evaluation.interval: Does not match pattern"),
        ({"pipeline": {"max_ahead": -1}}, "config.pipeline.max_ahead: Must be greater than or equal to 0"),
    ],
)
def test_what_the_schema_refuses_the_service_refuses(config: dict[str, Any], message: str, tmp_path: Path) -> None:
    assert message in refusal({"config": config})
    with pytest.raises(SettingsError):
        _as_the_service_reads(config, tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        oidc(issuer="HTTPS://login.example.org:8443", audience="a"),
        oidc(issuer="https://[2001:db8::1]:8443/ml", audience="a", jwks_url="https://login.example.org?keys=1"),
        oidc(issuer="http://localhost:8080/realms/ml", audience="a"),
        oidc(issuer="http://127.0.0.2", audience="a", jwks_url="http://[::1]:80/keys"),
        {"windows": [{"name": "early-immature", "length": "1h", "mature": False}, {"name": "late", "last": 9}]},
        {
            "models": {
                "defaults": {"implied_negative": True},
                "declared": {"churn": {"classes": "a, b", "implied_negative": False, "sketch_features": 16}},
            }
        },
        {"models": {"defaults": {"horizon": "1h 30m", "allowed_lateness": " 90 "}}, "pipeline": {"max_ahead": 90}},
        {"source": {"embedded": {"retention": None}}},
        # Null is as if a key were left out.
        {"source": {"topics": {"events": "ev", "predictions": None, "outcomes": None}}},
        oidc(issuer=None, audience=None, jwks_url=None),
        oidc(issuer=ISSUER, audience="a", jwks_url=None),
        {"windows": [{"name": None, "length": "1h", "last": None}, {"name": None, "length": None, "last": 9}]},
        declared(classes=["a", "b"], implied_negative=None, sketch_features=None),
        kafka(sasl_mechanism=None, group_instance_id=None, sasl_plain_password=None, ssl_password=None),
        {"api": {"tls_certfile": None, "tls_keyfile": None}},
    ],
)
def test_what_the_service_accepts_the_chart_accepts(config: dict[str, Any], tmp_path: Path) -> None:
    of_values({"config": config})
    _as_the_service_reads(config, tmp_path)


def test_all_defaults_may_be_written_out() -> None:
    """As `monitor config --default` prints them, with the nulls of all that is not set; but for where a pod listens
    and writes."""
    config = yaml.safe_load((ROOT / "docs" / "monitor.yaml").read_text(encoding="utf-8"))
    config["api"]["host"] = "0.0.0.0"
    config["store"]["url"] = "sqlite:////var/lib/calibration-monitor/state.db"
    config["source"]["embedded"]["directory"] = "/var/lib/calibration-monitor/log"
    rendered = yaml.safe_load(settings_of(of_values({"config": config, "networkPolicy": {"enabled": True}})))
    assert {key for key in config if rendered[key] == config[key]} >= {"models", "windows", "evaluation", "pipeline"}
    config["source"]["kind"] = "kafka"
    of_values({"config": config})


def test_what_the_environment_sets_is_not_missed(tmp_path: Path) -> None:
    def by_environment(name: str, config: dict[str, Any], **values: Any) -> None:
        asked = {"config": config, **values}
        refusal(asked)
        refusal({**asked, "extraEnv": [{"name": name.removeprefix("MONITOR__"), "value": "set"}]})
        of_values({**asked, "extraEnv": [{"name": name, "value": "set"}]})

    by_environment("MONITOR__API__HOST", {"api": {"host": "localhost"}})
    by_environment("MONITOR__STORE__URL_FILE", {"store": {"url": "sqlite:////data/state.db"}})
    by_environment("MONITOR__SOURCE__EMBEDDED__DIRECTORY", {"source": {"embedded": {"directory": "/data/log"}}})
    by_environment("MONITOR__SOURCE__KAFKA__BOOTSTRAP_SERVERS", {"source": {"kind": "kafka"}})
    # Whole sections.
    by_environment("MONITOR__SOURCE__KAFKA", {"source": {"kind": "kafka"}})
    by_environment("MONITOR__API", {"api": {"host": "localhost"}})
    by_environment("MONITOR__STORE", {"store": {"url": "sqlite:////data/state.db"}})
    by_environment("MONITOR__STORE", kafka(), replicaCount=2)
    by_environment("MONITOR__SOURCE__KAFKA__SASL_MECHANISM", kafka(), kafka={"existingSecret": "login"})
    by_environment("MONITOR__SOURCE__KAFKA__SECURITY_PROTOCOL", kafka(), kafka={"tls": {"existingSecret": "ca"}})
    brokers = {"name": "MONITOR__SOURCE__KAFKA__BOOTSTRAP_SERVERS", "value": "kafka:9092"}
    values = {"config": {"source": {"kind": "kafka"}}, "extraEnv": [brokers]}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert "Send it events on calibration-events, where it reads" in " ".join(notes(tmp_path, file).split())


def test_a_database_of_the_environment_is_no_file() -> None:
    """Of a Secret the chart sees no more than its name; what is written out it reads."""

    def store(**variable: Any) -> dict[str, Any]:
        return {"replicaCount": 2, "config": kafka(), "extraEnv": [{"name": "MONITOR__STORE__URL", **variable}]}

    secret = {"secretKeyRef": {"name": "db", "key": "url"}}
    objects = of_values({**store(valueFrom=secret), "networkPolicy": {"enabled": True}})
    ports = [port["port"] for rule in every(objects, "NetworkPolicy")[0]["spec"]["egress"] for port in rule["ports"]]
    assert 5432 in ports
    of_values({**store(valueFrom=secret), "keda": {"enabled": True}, "kafka": {"partitions": 4}})
    of_values(store(value="postgresql://db/calibration"))
    assert "several replicas share one store" in refusal(store(value="sqlite:////var/lib/calibration-monitor/a.db"))


def test_user_and_password_may_come_from_the_environment() -> None:
    values: dict[str, Any] = {"config": kafka(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512")}
    said = "kafka.existingSecret must name the Secret with user and password"
    both = [
        {"name": f"MONITOR__SOURCE__KAFKA__SASL_PLAIN_{key}", "valueFrom": {"secretKeyRef": {"name": "a", "key": key}}}
        for key in ("USERNAME", "PASSWORD")
    ]
    of_values({**values, "extraEnv": both})
    for one in both:
        assert said in refusal({**values, "extraEnv": [one]})
    # KEDA logs in by itself, and sees no variable of the pods.
    scaled = {"keda": {"enabled": True}, "kafka": {"partitions": 4}, "store": {"existingSecret": "db"}}
    assert said in refusal({**values, **scaled, "extraEnv": both})
    of_values({**values, **scaled, "extraEnv": both, "keda": {"enabled": True, "authenticationRef": {"name": "a"}}})
    brokers = [{"name": "MONITOR__SOURCE__KAFKA__BOOTSTRAP_SERVERS", "value": "kafka:9092"}]
    text = refusal({**scaled, "config": {"source": {"kind": "kafka"}}, "extraEnv": brokers})
    assert "config.source.kafka.bootstrap_servers must name the brokers" in text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1", None])
def test_a_host_that_no_probe_reaches_is_refused(host: str | None) -> None:
    """Left out with null, it would be that of the service's own default."""
    text = refusal({"config": {"api": {"host": host}}})
    assert f"config.api.host is {host or '127.0.0.1'}, where no probe and no Service reaches it" in text


def test_a_host_that_probes_reach_is_accepted() -> None:
    for host in ("0.0.0.0", "::"):
        assert yaml.safe_load(settings_of(of_values({"config": {"api": {"host": host}}})))["api"]["host"] == host


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"store": {"url": "sqlite:////data/state.db"}}, "config.store.url is at /data/state.db, where nothing is"),
        ({"store": {"url": "sqlite+pysqlite:////data/a.db?timeout=5"}}, "config.store.url is at /data/a.db, where"),
        (
            {"store": {"url": "sqlite:////var/lib/calibration-monitor-2/state.db"}},
            "config.store.url is at /var/lib/calibration-monitor-2/state.db, where nothing is mounted",
        ),
        (
            {"store": {"url": "sqlite:////var/lib/calibration-monitor/../state.db"}},
            "config.store.url is at /var/lib/state.db, where nothing is mounted",
        ),
        (
            {"source": {"embedded": {"directory": "/data/log"}}},
            "config.source.embedded.directory is at /data/log, where nothing is mounted that can be written",
        ),
    ],
)
def test_state_and_log_elsewhere_than_on_a_volume_are_refused(config: dict[str, Any], said: str) -> None:
    assert said in refusal({"config": config})


def test_state_and_log_may_be_on_a_volume_of_ones_own() -> None:
    config = {"store": {"url": "sqlite:////data/state.db"}, "source": {"embedded": {"directory": "/data/log"}}}
    volume = {"name": "own", "persistentVolumeClaim": {"claimName": "own"}}
    mount = {"name": "own", "mountPath": "/data/"}
    objects = of_values({"config": config, "extraVolumes": [volume], "extraVolumeMounts": [mount]})
    assert mount in container(objects)["volumeMounts"]
    text = refusal({"config": config, "extraVolumes": [volume], "extraVolumeMounts": [{**mount, "readOnly": True}]})
    assert "config.store.url is at /data/state.db" in text
    # Relative paths begin in the folder of the settings, which only reads.
    assert "is at /etc/calibration-monitor/a.db," in refusal({"config": {"store": {"url": "sqlite:///a.db"}}})
    assert "is at /etc/calibration-monitor/a," in refusal({"config": {"source": {"embedded": {"directory": "a"}}}})
    # Kafka needs no log.
    of_values({"config": {"source": {"kind": "kafka", "kafka": BROKERS, "embedded": {"directory": "/data/log"}}}})
    # A Secret replaces the address.
    of_values({"config": {"store": {"url": "sqlite:////data/state.db"}}, "store": {"existingSecret": "db"}})


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"source": {"embedded": {"directory": "/data/log"}}}, "/data/log"),
        ({"source": {"embedded": {"directory": "/data/log/"}}}, "/data/log"),
        ({"store": {"url": "sqlite:////data/state.db"}}, "/data/state.db"),
    ],
)
def test_a_volume_may_be_mounted_at_the_very_place(config: dict[str, Any], place: str) -> None:
    own: dict[str, Any] = {"extraVolumes": [{"name": "own", "persistentVolumeClaim": {"claimName": "own"}}]}
    mount = {"name": "own", "mountPath": place}
    of_values({"config": config, **own, "extraVolumeMounts": [mount]})
    refusal({"config": config, **own, "extraVolumeMounts": [{**mount, "readOnly": True}]})
    refusal({"config": config, **own, "extraVolumeMounts": [{**mount, "mountPath": f"{place}2"}]})


def test_the_log_may_be_the_whole_volume_of_the_chart() -> None:
    of_values({"config": {"source": {"embedded": {"directory": "/var/lib/calibration-monitor"}}}})


def test_the_images_working_directory_is_the_volume() -> None:
    lines = (CHART.parent / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    final = [line for line in lines if line.startswith("WORKDIR")][-1]
    mounts = {mount["name"]: mount["mountPath"] for mount in container(of_values({}))["volumeMounts"]}
    assert final == f"WORKDIR {mounts['data']}"
    assert "workingDir" not in container(of_values({}))


def _check_in_init_container(
    objects: tuple[Object, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Run the command of the init container on the rendered settings; return its status and its output."""
    (check,) = only(objects, "StatefulSet")["spec"]["template"]["spec"]["initContainers"]
    file = folder / "monitor.yaml"
    file.write_text(settings_of(objects), encoding="utf-8")
    program, *arguments = check["command"]
    assert program == "monitor"
    status = run([*arguments, "--config", str(file)])
    return status, capsys.readouterr().out


def _as_the_service_reads(config: dict[str, Any], folder: Path) -> None:
    """Let the service read these settings, over the chart's own."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["config"]
    merge(values, config)
    file = folder / "monitor.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    load_settings(file, {})
