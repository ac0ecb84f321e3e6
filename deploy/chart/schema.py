"""The JSON schema of the chart's values. Keys that it does not name are refused.

It is of draft 7, which every Helm 3 and 4 reads. Descriptions are the comments of values.yaml.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from deploy.chart.settings_schema import settings_schema

Schema = dict[str, Any]

NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
PROMETHEUS_DURATION: Final = r"^([0-9]+(ms|s|m|h|d|w|y))+$"
DURATION: Final = r"^([0-9]+(\.[0-9]+)? *(ms|s|m|h|d|w) *)+$"
LABEL: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
QUALIFIED: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"


def section(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    """An object with these keys and no others."""
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def text(pattern: str | None = None, *, least: int = 0, most: int | None = None) -> Schema:
    """A text of a form, and of so many characters."""
    schema: Schema = {"type": "string"}
    if pattern:
        schema["pattern"] = pattern
    if least:
        schema["minLength"] = least
    if most:
        schema["maxLength"] = most
    return schema


def or_empty(pattern: str) -> str:
    """The pattern of a text that may also be empty."""
    return f"^$|{pattern}"


def integer(least: int, most: int | None = None, *, optional: bool = False) -> Schema:
    """A whole number within bounds; null, too, if it is optional."""
    schema: Schema = {"type": ["integer", "null"] if optional else "integer", "minimum": least}
    return schema if most is None else {**schema, "maximum": most}


def choice(*choices: Any) -> Schema:
    """One of these values."""
    return {"enum": list(choices)}


def array(items: Schema | None = None) -> Schema:
    """A list of such items; of any objects where none are named."""
    return {"type": "array", "items": items or {"type": "object"}}


BOOLEAN: Final[Schema] = {"type": "boolean"}
OBJECT: Final[Schema] = {"type": "object"}
SECRET: Final = text(or_empty(SUBDOMAIN), most=253)
SECRET_KEY: Final = text(r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", most=253)
PORT: Final = integer(1, 65535)
ANNOTATIONS: Final[Schema] = {
    "type": "object",
    "propertyNames": {"pattern": QUALIFIED},
    "additionalProperties": {"type": "string"},
}
LABELS: Final[Schema] = {
    "type": "object",
    "propertyNames": {"pattern": QUALIFIED},
    "additionalProperties": text(LABEL, most=63),
}
QUANTITIES: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number"], "pattern": QUANTITY},
}
ENV: Final = array(section(("name",), name=text(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"), value=text(), valueFrom=OBJECT))
PEERS: Final = array(section(podSelector=OBJECT, namespaceSelector=OBJECT, ipBlock=OBJECT))
RELABELINGS: Final = array(
    section(
        sourceLabels=array(text()),
        separator=text(),
        targetLabel=text(),
        regex=text(),
        modulus=integer(1),
        replacement=text(),
        action=text(),
    )
)


RESOURCES: Final = section(requests=QUANTITIES, limits=QUANTITIES, claims=array())
"""What a container asks for, and may take at the most."""
PROBE: Final = section(
    initialDelaySeconds=integer(0),
    periodSeconds=integer(1),
    timeoutSeconds=integer(1),
    successThreshold=integer(1),
    failureThreshold=integer(1),
    terminationGracePeriodSeconds=integer(1),
)
"""When and how often a probe asks; what it asks is the chart's affair."""


def egress(*, ports: int = 1) -> Schema:
    """Where something may be reached, on so many ports at least."""
    return section(to=PEERS, ports={**array(PORT), "minItems": ports})


WHOLE: Final = frozenset(
    {
        "config",
        "resources",
        "podSecurityContext",
        "securityContext",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "updateStrategy",
    }
)
"""Sections that are one value: their keys are those of Kubernetes, or of monitor.yaml."""

_MAY_BE_TAKEN_AWAY: Final = frozenset({"resources", "affinity", "nodeSelector", "tolerations", "imagePullSecrets"})


def values_schema(values: Mapping[str, Any], comments: Mapping[tuple[str, ...], str]) -> Schema:
    """The whole schema, of the values that values.yaml has, with what its comments say of each key."""
    # Through JSON and back: parts that several keys share become each key's own.
    schema = json.loads(json.dumps(section(**_sections())))
    _describe(schema, comments, ())
    _require(schema, values)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Written by `python -m deploy.chart`; edit deploy/chart/schema.py and values.yaml instead.",
        "title": "Values of calibration-monitor",
        **schema,
    }


def _require(schema: Schema, values: Mapping[str, Any]) -> None:
    """Refuse null, which takes a key away, where the templates need a value."""
    needed = {key for key, value in values.items() if value is not None} - _MAY_BE_TAKEN_AWAY
    schema["required"] = sorted({*schema.get("required", []), *needed})
    for key, value in values.items():
        if isinstance(value, dict) and value and key not in WHOLE:
            _require(schema["properties"][key], value)


def _describe(schema: Schema, comments: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> None:
    for key, inner in schema.get("properties", {}).items():
        said = comments.get((*path, key))
        if said:
            inner["description"] = said
        _describe(inner, comments, (*path, key))


def _sections() -> dict[str, Schema]:
    return {
        "nameOverride": text(or_empty(NAME), most=63),
        # A Service's name begins with a letter.
        "fullnameOverride": text(or_empty(r"^[a-z]([-a-z0-9]*[a-z0-9])?$"), most=52),
        "enabled": BOOLEAN,
        # What a parent chart hands to all its charts.
        "global": {"type": "object"},
        "image": section(
            ("repository", "pullPolicy"),
            repository=text(r"^[a-z0-9]([-a-z0-9._:/]*[a-z0-9])?$"),
            tag=text(r"^$|^[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}$"),
            digest=text(r"^$|^sha256:[0-9a-f]{64}$"),
            pullPolicy=choice("IfNotPresent", "Always", "Never"),
        ),
        "imagePullSecrets": array(section(("name",), name=text(SUBDOMAIN))),
        "commonLabels": LABELS,
        "commonAnnotations": ANNOTATIONS,
        "replicaCount": integer(0, 1024),
        "config": settings_schema(),
        "store": section(existingSecret=SECRET, secretKey=SECRET_KEY),
        "kafka": _kafka(),
        "access": section(existingSecret=SECRET, secretKey=SECRET_KEY),
        "persistence": _persistence(),
        **_pods(),
        **_network(),
        **_observation(),
        "keda": _keda(),
        "recalibration": _recalibration(),
        "test": section(timeoutSeconds=integer(1, 3600)),
    }


def _kafka() -> Schema:
    optional_key = text(r"^$|^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", most=253)
    names = ("caKey", "certKey", "keyKey", "keyPasswordKey")
    tls = section(existingSecret=SECRET, **dict.fromkeys(names, optional_key))
    return section(
        partitions=integer(1, 1024, optional=True),
        existingSecret=SECRET,
        usernameKey=SECRET_KEY,
        passwordKey=SECRET_KEY,
        tls=tls,
    )


def _persistence() -> Schema:
    modes = ("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")
    return section(
        enabled=BOOLEAN,
        size=text(QUANTITY),
        storageClass=text(rf"^-$|{or_empty(SUBDOMAIN)}", most=253),
        accessModes={**array(choice(*modes)), "minItems": 1},
        annotations=ANNOTATIONS,
        whenDeleted=choice("Retain", "Delete"),
        whenScaled=choice("Retain", "Delete"),
    )


def _pods() -> dict[str, Schema]:
    return {
        "resources": RESOURCES,
        "podAnnotations": ANNOTATIONS,
        "podLabels": LABELS,
        "extraEnv": ENV,
        "extraVolumes": array({**OBJECT, "required": ["name"]}),
        "extraVolumeMounts": array({**OBJECT, "required": ["name", "mountPath"]}),
        "podSecurityContext": section(
            ("runAsNonRoot", "seccompProfile"),
            # The restricted standard asks for these; null leaves the choice to OpenShift.
            runAsNonRoot=choice(True),
            runAsUser=integer(1, optional=True),
            runAsGroup=integer(0, optional=True),
            fsGroup=integer(0, optional=True),
            fsGroupChangePolicy=choice("OnRootMismatch", "Always", None),
            supplementalGroups=array(integer(0)),
            seLinuxOptions=OBJECT,
            seccompProfile=section(("type",), type=choice("RuntimeDefault", "Localhost"), localhostProfile=text()),
        ),
        "securityContext": section(
            ("allowPrivilegeEscalation", "capabilities"),
            allowPrivilegeEscalation=choice(False),
            privileged=choice(False),
            readOnlyRootFilesystem=BOOLEAN,
            capabilities=section(("drop",), drop={**array(text()), "contains": {"const": "ALL"}}),
            seLinuxOptions=OBJECT,
        ),
        "tmpSizeLimit": text(QUANTITY),
        "serviceAccount": section(
            create=BOOLEAN,
            name=text(or_empty(SUBDOMAIN), most=253),
            annotations=ANNOTATIONS,
        ),
        "livenessProbe": PROBE,
        "readinessProbe": PROBE,
        "startupProbe": PROBE,
        "terminationGracePeriodSeconds": integer(15, 3600),
        "preStopSeconds": integer(0, 300),
        "updateStrategy": section(
            ("type",),
            type=choice("RollingUpdate", "OnDelete"),
            rollingUpdate=section(partition=integer(0), maxUnavailable={"type": ["integer", "string"]}),
        ),
        "podManagementPolicy": choice("Parallel", "OrderedReady"),
        "revisionHistoryLimit": integer(0, 100),
        "podDisruptionBudget": section(
            enabled=BOOLEAN,
            maxUnavailable={"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]?%$|^100%$"},
        ),
        "podAntiAffinity": choice("soft", "hard", "none"),
        "affinity": section(nodeAffinity=OBJECT, podAffinity=OBJECT, podAntiAffinity=OBJECT),
        "topologySpreadConstraints": {
            "type": ["array", "null"],
            "items": {**OBJECT, "required": ["topologyKey", "maxSkew", "whenUnsatisfiable"]},
        },
        "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
        "tolerations": array(
            section(
                key=text(),
                operator=choice("Exists", "Equal"),
                value=text(),
                effect=choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
                tolerationSeconds=integer(0),
            )
        ),
        "priorityClassName": text(or_empty(SUBDOMAIN), most=253),
    }


def _network() -> dict[str, Schema]:
    path = section(("path",), path=text(r"^/"), pathType=choice("Prefix", "Exact", "ImplementationSpecific"))
    host = text(r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", most=253)
    return {
        "service": section(
            type=choice("ClusterIP", "NodePort", "LoadBalancer"),
            port=PORT,
            nodePort=integer(1, 65535, optional=True),
            annotations=ANNOTATIONS,
            publishNotReadyAddresses=BOOLEAN,
        ),
        "ingress": section(
            enabled=BOOLEAN,
            className=text(or_empty(SUBDOMAIN), most=253),
            annotations=ANNOTATIONS,
            hosts=array(section(("host",), host=host, paths=array(path))),
            tls=array(section(secretName=text(SUBDOMAIN, most=253), hosts=array(host))),
        ),
        "networkPolicy": section(
            enabled=BOOLEAN,
            ingress=section(**{"from": PEERS}),
            egress=section(
                dns=egress(),
                kafka=egress(),
                postgresql=egress(),
                # None: those of its addresses.
                oidc=egress(ports=0),
                extra=array(section(to=PEERS, ports=array())),
            ),
        ),
    }


def _observation() -> dict[str, Schema]:
    override = section(
        **{"for": text(PROMETHEUS_DURATION)},
        severity=text(least=1),
        expr=text(least=1),
        disabled=BOOLEAN,
    )
    return {
        "serviceMonitor": section(
            enabled=BOOLEAN,
            existingSecret=SECRET,
            secretKey=SECRET_KEY,
            interval=text(PROMETHEUS_DURATION),
            scrapeTimeout=text(PROMETHEUS_DURATION),
            labels=LABELS,
            annotations=ANNOTATIONS,
            relabelings=RELABELINGS,
            metricRelabelings=RELABELINGS,
        ),
        "rules": section(
            enabled=BOOLEAN,
            windows=BOOLEAN,
            labels=LABELS,
            annotations=ANNOTATIONS,
            alertLabels={
                "type": "object",
                "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
                "additionalProperties": {"type": "string"},
            },
            runbookBase=text(r"^$|^https?://.*/$"),
            overrides={"type": "object", "additionalProperties": override},
        ),
        "dashboards": section(
            enabled=BOOLEAN,
            label=text(QUALIFIED),
            labelValue=text(LABEL, most=63),
            folder=text(),
            folderAnnotation=text(QUALIFIED),
        ),
    }


def _keda() -> Schema:
    reference = section(
        ("name",), name=text(SUBDOMAIN), kind=choice("TriggerAuthentication", "ClusterTriggerAuthentication")
    )
    return section(
        enabled=BOOLEAN,
        minReplicas=integer(1, 1024),
        maxReplicas=integer(1, 1024, optional=True),
        lagThreshold=integer(1),
        pollingInterval=integer(1),
        stabilizationWindowSeconds=integer(0, 3600),
        authenticationRef={**reference, "type": ["object", "null"]},
    )


def _recalibration() -> Schema:
    schedule = text(r"^(@[a-z]+|[^ ]+( +[^ ]+){4})$")
    model = section(
        ("name",),
        name=text(r"^[^\x00-\x1f\x7f]+$", most=128),
        version=text(r"^[^\x00-\x1f\x7f]+$", most=128),
        schedule=schedule,
        method=text(least=1),
        options={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
        window=text(DURATION),
        timeout=text(DURATION),
        promote={"type": ["boolean", "null"]},
        suspend=BOOLEAN,
    )
    return section(
        existingSecret=SECRET,
        secretKey=SECRET_KEY,
        schedule=schedule,
        timeZone=text(r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"),
        timeout=text(DURATION),
        activeDeadlineSeconds=integer(60),
        startingDeadlineSeconds=integer(10),
        backoffLimit=integer(0, 10),
        successfulJobsHistoryLimit=integer(0, 100),
        failedJobsHistoryLimit=integer(0, 100),
        promote={"type": ["boolean", "null"]},
        resources=RESOURCES,
        models=array(model),
    )
