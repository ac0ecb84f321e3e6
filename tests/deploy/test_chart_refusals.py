"""What the chart refuses, and what it says: the key, the value, and what to do."""

from copy import deepcopy
from typing import Any

import pytest
import yaml

from tests.deploy.chart import merge, of_values, refusal, settings_of

KAFKA: dict[str, Any] = {"kind": "kafka", "kafka": {"bootstrap_servers": ["kafka:9092"]}}
SHARED: dict[str, Any] = {"config": {"source": KAFKA}, "store": {"existingSecret": "db"}}
LOGGED_IN: dict[str, Any] = {
    "kind": "kafka",
    "kafka": {**KAFKA["kafka"], "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
}


def kafka(**more: Any) -> dict[str, Any]:
    """Values with these keys of source.kafka."""
    return {"config": {"source": {"kind": "kafka", "kafka": {**KAFKA["kafka"], **more}}}}


UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"replicas": 2}, "(root): Additional property replicas is not allowed"),
    ({"image": {"tagg": "1"}}, "image: Additional property tagg is not allowed"),
    ({"config": {"sources": {}}}, "config: Additional property sources is not allowed"),
    (
        {"config": {"source": {"kafka": {"topic": "a"}}}},
        "config.source.kafka: Additional property topic is not allowed",
    ),
    (
        {"config": {"models": {"declared": {"churn": {"horizn": "1d"}}}}},
        "config.models.declared.churn: Additional property horizn is not allowed",
    ),
    ({"config": {"windows": [{"len": "1h"}]}}, "config.windows.0: Additional property len is not allowed"),
    ({"rules": {"overrides": {"X": {"fro": "5m"}}}}, "rules.overrides.X: Additional property fro is not allowed"),
    (
        {"recalibration": {"models": [{"model": "a"}]}},
        "recalibration.models.0: Additional property model is not allowed",
    ),
    ({"recalibration": {"models": [{"model": "a"}]}}, "recalibration.models.0: name is required"),
    ({"extraEnv": [{"name": "A", "val": "b"}]}, "extraEnv.0: Additional property val is not allowed"),
    (
        {"networkPolicy": {"ingress": {"from": [{"pods": {}}]}}},
        "networkPolicy.ingress.from.0: Additional property pods is not allowed",
    ),
]

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"replicaCount": "two"}, "replicaCount: Invalid type. Expected: integer, given: string"),
    ({"service": {"port": 70000}}, "service.port: Must be less than or equal to 65535"),
    ({"service": {"type": "Nodeport"}}, 'service.type must be one of the following: "ClusterIP", "NodePort"'),
    # What YAML makes of `mode: off`.
    ({"config": {"access": {"mode": False}}}, 'config.access.mode must be one of the following: "required"'),
    (
        {"config": {"source": {"kind": "pulsar"}}},
        'config.source.kind must be one of the following: "embedded", "kafka"',
    ),
    ({"config": {"evaluation": {"draws": -1}}}, "config.evaluation.draws: Must be greater than or equal to 0"),
    ({"config": {"pipeline": {"max_pending": 1.5}}}, "config.pipeline.max_pending: Invalid type. Expected: integer"),
    ({"config": {"source": {"embedded": {"retention": True}}}}, "config.source.embedded.retention: Invalid type."),
    ({"commonLabels": {"team": "a b"}}, "commonLabels.team: Does not match pattern"),
    ({"commonLabels": {"number": 7}}, "commonLabels.number: Invalid type. Expected: string, given: integer"),
    ({"serviceAccount": {"name": "x\n  evil: true"}}, "serviceAccount.name: Does not match pattern"),
    ({"fullnameOverride": "1st"}, "fullnameOverride: Does not match pattern"),
    ({"image": {"repository": 'x"\n  evil: "'}}, "image.repository: Does not match pattern"),
    ({"image": {"digest": "sha256:12"}}, "image.digest: Does not match pattern"),
    ({"recalibration": {"schedule": "daily"}}, "recalibration.schedule: Does not match pattern"),
    (
        {"podSecurityContext": {"runAsNonRoot": False}},
        "podSecurityContext.runAsNonRoot must be one of the following: true",
    ),
    ({"podSecurityContext": {"runAsUser": 0}}, "podSecurityContext.runAsUser: Must be greater than or equal to 1"),
    (
        {"podSecurityContext": {"seccompProfile": {"type": "Unconfined"}}},
        "podSecurityContext.seccompProfile.type must be",
    ),
    ({"rules": {"overrides": {"X": {"for": "5 minutes"}}}}, "rules.overrides.X.for: Does not match pattern"),
    ({"keda": {"maxReplicas": 0}}, "keda.maxReplicas: Must be greater than or equal to 1"),
    # Null takes a key away.
    ({"service": {"annotations": None}}, "service: annotations is required"),
    ({"securityContext": None}, "(root): securityContext is required"),
    ({"podDisruptionBudget": {"maxUnavailable": "0%"}}, "podDisruptionBudget.maxUnavailable: Does not match pattern"),
]


UNSAFE: list[tuple[dict[str, Any], str]] = [
    ({"securityContext": {"privileged": True}}, "securityContext.privileged must be one of the following: false"),
    (
        {"securityContext": {"capabilities": {"drop": ["NET_RAW"]}}},
        "securityContext.capabilities.drop: At least one of",
    ),
]


@pytest.mark.parametrize("cases", [UNKNOWN, WRONG, UNSAFE], ids=["unknown keys", "wrong values", "unsafe values"])
def test_the_schema_names_each_key_that_is_wrong(cases: list[tuple[dict[str, Any], str]]) -> None:
    """All in one go, as Helm tells them."""
    values: dict[str, Any] = {}
    for case, _ in cases:
        merge(values, case)
    text = refusal(values)
    assert [said for _, said in cases if said not in text] == [], text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"config": {"store": {"url": "postgresql://monitor:hunter2@db/calibration"}}},
            "config.store.url holds a password, and config goes into a ConfigMap: put the whole address into a Secret,",
        ),
        (
            {"config": {"store": {"url": "postgresql://db/calibration?user=monitor&password=hunter2"}}},
            "config.store.url holds a password",
        ),
        (
            kafka(sasl_plain_password="hunter2"),
            "config.source.kafka.sasl_plain_password is a secret, and config goes into a ConfigMap: put it into a",
        ),
        (kafka(sasl_plain_password="hunter2"), "and name that as kafka.existingSecret"),
        (kafka(ssl_password="hunter2"), "and name that as kafka.tls.existingSecret with keyPasswordKey"),
        (
            {"config": {"access": {"oidc": {"jwks_url": "https://a:hunter2@login.example.org/keys"}}}},
            "config.access.oidc.jwks_url holds a password",
        ),
        (
            {"config": {"api": {"tls_certfile": "/tls.crt", "tls_keyfile": "/tls.key"}}},
            "config.api.tls_certfile and tls_keyfile are not for this chart, whose probes, scrapes and jobs speak http",
        ),
        (
            {"extraEnv": [{"name": "MONITOR__SOURCE__KAFKA__SASL_PLAIN_PASSWORD", "value": "hunter2"}]},
            "MONITOR__SOURCE__KAFKA__SASL_PLAIN_PASSWORD in plain text: give it by valueFrom.secretKeyRef",
        ),
        (
            {"extraEnv": [{"name": "HTTPS_PROXY", "value": "http://me:hunter2@proxy.example.org"}]},
            "extraEnv[0] gives HTTPS_PROXY an address with a password in plain text",
        ),
    ],
)
def test_secrets_are_refused_where_anybody_may_read_them(values: dict[str, Any], said: str) -> None:
    text = refusal(values)
    assert said in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"replicaCount": 2}, "the embedded log belongs to one pod"),
        ({"replicaCount": 2, **kafka()}, "several replicas share one store; name the Secret"),
        ({"keda": {"enabled": True}, "kafka": {"partitions": 4}, **kafka()}, "several replicas share one store"),
        (
            {"replicaCount": 5, "kafka": {"partitions": 4}, **SHARED},
            "replicaCount is 5, but kafka.partitions is 4: the replicas beyond would hold no partition",
        ),
        ({"keda": {"enabled": True}, **SHARED}, "kafka.partitions must be set where keda.enabled is true"),
        (
            {"keda": {"enabled": True, "maxReplicas": 13}, "kafka": {"partitions": 12}, **SHARED},
            "keda.maxReplicas is 13, but kafka.partitions is 12",
        ),
        (
            {"keda": {"enabled": True, "minReplicas": 5, "maxReplicas": 4}, "kafka": {"partitions": 12}, **SHARED},
            "keda.minReplicas is 5, more than the 4 replicas that there may be",
        ),
        ({"config": {"source": {"kind": "kafka"}}}, "config.source.kafka.bootstrap_servers must name the brokers"),
        ({"config": {"source": LOGGED_IN}}, "kafka.existingSecret must name the Secret with user and password"),
        ({"kafka": {"existingSecret": "a"}, **kafka()}, "config.source.kafka.sasl_mechanism is not: say how to log in"),
        ({"kafka": {"tls": {"existingSecret": "a"}}, **kafka()}, "security_protocol is neither SSL nor SASL_SSL"),
        ({"kafka": {"existingSecret": "a"}}, "are for Kafka, but config.source.kind is embedded"),
        ({"kafka": {"tls": {"certKey": "tls.crt"}}, **kafka()}, "kafka.tls.certKey and kafka.tls.keyKey go together"),
        (kafka(group_instance_id="a"), "config.source.kafka.group_instance_id is made of the pod's name: leave it out"),
        (
            {"terminationGracePeriodSeconds": 20, "preStopSeconds": 10},
            "terminationGracePeriodSeconds is 20, but must be at least preStopSeconds + 15 = 25",
        ),
        ({"serviceMonitor": {"enabled": True}}, "serviceMonitor.existingSecret must name a Secret with an API key"),
        ({"recalibration": {"models": [{"name": "a"}]}}, "recalibration.existingSecret must name a Secret"),
        (
            {"recalibration": {"existingSecret": "k", "models": [{"name": "a"}, {"name": "a"}]}},
            'recalibration.models names "a" twice',
        ),
        (
            {
                "config": {"models": {"only_declared": True, "declared": {"a": {}}}},
                "recalibration": {"existingSecret": "k", "models": [{"name": "b"}]},
            },
            'recalibration.models names "b", which config.models.declared does not',
        ),
        (
            {"recalibration": {"existingSecret": "k", "timeout": "2h", "models": [{"name": "a"}]}},
            "it must be longer than these 7200 s, and for 2 attempts (backoffLimit) longer than 14400 s, or lower the",
        ),
        (
            {"recalibration": {"existingSecret": "k", "models": [{"name": "a"}, {"name": "b", "timeout": "49m 60s"}]}},
            'recalibration.activeDeadlineSeconds is 3000, but the job of "b" waits 49m 60s for its refit: it must be',
        ),
        ({"ingress": {"enabled": True}}, "ingress.hosts must name a host"),
        (
            {"rules": {"enabled": True, "overrides": {"CalibrationDegrade": {"for": "1h"}}}},
            "rules.overrides names CalibrationDegrade, which is no alert; there are CalibrationCapNearlyFull,",
        ),
        ({"extraEnv": [{"name": "MONITOR_CONFIG", "value": "a"}]}, "extraEnv[0] sets MONITOR_CONFIG, which the chart"),
        (
            {"extraEnv": [{"name": "A", "value": "a"}, {"name": "A", "value": "b"}]},
            "extraEnv[1] sets A, which the chart or an earlier entry sets already",
        ),
    ],
)
def test_values_that_do_not_fit_together_are_refused(values: dict[str, Any], said: str) -> None:
    assert said in refusal(values)


def test_replicas_that_do_not_read_may_be_more_than_partitions() -> None:
    values: dict[str, Any] = {"replicaCount": 5, "kafka": {"partitions": 4}}
    merge(values, deepcopy(SHARED))
    assert "replicas beyond" in refusal(values | {"config": values["config"] | {"roles": ["consume", "serve"]}})
    objects = of_values(values | {"config": values["config"] | {"roles": ["evaluate", "serve"]}})
    assert yaml.safe_load(settings_of(objects))["roles"] == ["evaluate", "serve"]
