"""The JSON schema of the chart's values. Keys that it does not name are refused.

It is of draft 7, which every Helm 3 and 4 reads. Descriptions are the comments of values.yaml.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from deploy.chart.settings_schema import settings_schema

Schema = dict[str, Any]

_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
_QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
_PROMETHEUS_DURATION: Final = r"^([0-9]+(ms|s|m|h|d|w|y))+$"
_DURATION: Final = r"^([0-9]+(\.[0-9]+)? *(ms|s|m|h|d|w) *)+$"
_LABEL: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
_QUALIFIED: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"


def values_schema(comments: Mapping[tuple[str, ...], str]) -> Schema:
    """The whole schema, with what the comments of values.yaml say of each key."""
    # Through JSON and back: parts that several keys share become each key's own.
    schema = json.loads(json.dumps(_section(_sections())))
    _describe(schema, comments, ())
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Written by `python -m deploy.chart`; edit deploy/chart/schema.py and values.yaml instead.",
        "title": "Values of calibration-monitor",
        **schema,
    }


def _describe(schema: Schema, comments: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> None:
    for key, inner in schema.get("properties", {}).items():
        said = comments.get((*path, key))
        if said:
            inner["description"] = said
        _describe(inner, comments, (*path, key))


def _section(properties: Mapping[str, Schema], required: tuple[str, ...] = (), **more: Any) -> Schema:
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties), **more}
    return {**schema, "required": list(required)} if required else schema


def _text(pattern: str | None = None, *, least: int = 0, most: int | None = None) -> Schema:
    schema: Schema = {"type": "string"}
    if pattern:
        schema["pattern"] = pattern
    if least:
        schema["minLength"] = least
    if most:
        schema["maxLength"] = most
    return schema


def _or_empty(pattern: str) -> str:
    return f"^$|{pattern}"


def _integer(least: int, most: int | None = None, *, optional: bool = False) -> Schema:
    schema: Schema = {"type": ["integer", "null"] if optional else "integer", "minimum": least}
    return schema if most is None else {**schema, "maximum": most}


def _choice(*choices: Any) -> Schema:
    return {"enum": list(choices)}


def _list(items: Schema | None = None) -> Schema:
    return {"type": "array", "items": items or {"type": "object"}}


_BOOLEAN: Final[Schema] = {"type": "boolean"}
_OBJECT: Final[Schema] = {"type": "object"}
_SECRET: Final = _text(_or_empty(_SUBDOMAIN), most=253)
_SECRET_KEY: Final = _text(r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", most=253)
_PORT: Final = _integer(1, 65535)
_ANNOTATIONS: Final[Schema] = {
    "type": "object",
    "propertyNames": {"pattern": _QUALIFIED},
    "additionalProperties": {"type": "string"},
}
_LABELS: Final[Schema] = {
    "type": "object",
    "propertyNames": {"pattern": _QUALIFIED},
    "additionalProperties": _text(_LABEL, most=63),
}
_QUANTITIES: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number"], "pattern": _QUANTITY},
}
_ENV: Final = _list(
    _section({"name": _text(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"), "value": _text(), "valueFrom": _OBJECT}, ("name",))
)
_PEERS: Final = _list(_section({"podSelector": _OBJECT, "namespaceSelector": _OBJECT, "ipBlock": _OBJECT}))
_RELABELINGS: Final = _list(
    _section(
        {
            "sourceLabels": _list(_text()),
            "separator": _text(),
            "targetLabel": _text(),
            "regex": _text(),
            "modulus": _integer(1),
            "replacement": _text(),
            "action": _text(),
        }
    )
)


def _resources() -> Schema:
    return _section({"requests": _QUANTITIES, "limits": _QUANTITIES, "claims": _list()})


def _probe() -> Schema:
    return _section(
        {
            "initialDelaySeconds": _integer(0),
            "periodSeconds": _integer(1),
            "timeoutSeconds": _integer(1),
            "successThreshold": _integer(1),
            "failureThreshold": _integer(1),
            "terminationGracePeriodSeconds": _integer(1),
        }
    )


def _egress() -> Schema:
    return _section({"to": _PEERS, "ports": {**_list(_PORT), "minItems": 1}})


def _sections() -> dict[str, Schema]:
    return {
        "nameOverride": _text(_or_empty(_NAME), most=63),
        # A Service's name begins with a letter.
        "fullnameOverride": _text(_or_empty(r"^[a-z]([-a-z0-9]*[a-z0-9])?$"), most=52),
        "enabled": _BOOLEAN,
        # What a parent chart hands to all its charts.
        "global": {"type": "object"},
        "image": _section(
            {
                "repository": _text(r"^[a-z0-9]([-a-z0-9._:/]*[a-z0-9])?$"),
                "tag": _text(r"^$|^[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}$"),
                "digest": _text(r"^$|^sha256:[0-9a-f]{64}$"),
                "pullPolicy": _choice("IfNotPresent", "Always", "Never"),
            },
            ("repository", "pullPolicy"),
        ),
        "imagePullSecrets": _list(_section({"name": _text(_SUBDOMAIN)}, ("name",))),
        "commonLabels": _LABELS,
        "commonAnnotations": _ANNOTATIONS,
        "replicaCount": _integer(0, 1024),
        "config": settings_schema(),
        "store": _section({"existingSecret": _SECRET, "secretKey": _SECRET_KEY, "allowPerReplica": _BOOLEAN}),
        "kafka": _kafka(),
        "access": _section({"existingSecret": _SECRET, "secretKey": _SECRET_KEY}),
        "persistence": _persistence(),
        **_pods(),
        **_network(),
        **_observation(),
        "keda": _keda(),
        "recalibration": _recalibration(),
        "test": _section({"timeoutSeconds": _integer(1, 3600)}),
    }


def _kafka() -> Schema:
    optional_key = _text(r"^$|^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$", most=253)
    names = ("caKey", "certKey", "keyKey", "keyPasswordKey")
    tls = _section({"existingSecret": _SECRET, **dict.fromkeys(names, optional_key)})
    return _section(
        {
            "partitions": _integer(1, 1024, optional=True),
            "existingSecret": _SECRET,
            "usernameKey": _SECRET_KEY,
            "passwordKey": _SECRET_KEY,
            "tls": tls,
        }
    )


def _persistence() -> Schema:
    modes = ("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany")
    return _section(
        {
            "enabled": _BOOLEAN,
            "size": _text(_QUANTITY),
            "storageClass": _text(rf"^-$|{_or_empty(_SUBDOMAIN)}", most=253),
            "accessModes": {**_list(_choice(*modes)), "minItems": 1},
            "annotations": _ANNOTATIONS,
            "whenDeleted": _choice("Retain", "Delete"),
            "whenScaled": _choice("Retain", "Delete"),
        }
    )


def _pods() -> dict[str, Schema]:
    return {
        "resources": _resources(),
        "podAnnotations": _ANNOTATIONS,
        "podLabels": _LABELS,
        "extraEnv": _ENV,
        "extraVolumes": _list({**_OBJECT, "required": ["name"]}),
        "extraVolumeMounts": _list({**_OBJECT, "required": ["name", "mountPath"]}),
        "podSecurityContext": _section(
            {
                # The restricted standard asks for these; null leaves the choice to OpenShift.
                "runAsNonRoot": _choice(True),
                "runAsUser": _integer(1, optional=True),
                "runAsGroup": _integer(0, optional=True),
                "fsGroup": _integer(0, optional=True),
                "fsGroupChangePolicy": _choice("OnRootMismatch", "Always", None),
                "supplementalGroups": _list(_integer(0)),
                "seLinuxOptions": _OBJECT,
                "seccompProfile": _section(
                    {"type": _choice("RuntimeDefault", "Localhost"), "localhostProfile": _text()}, ("type",)
                ),
            },
            ("runAsNonRoot", "seccompProfile"),
        ),
        "securityContext": _section(
            {
                "allowPrivilegeEscalation": _choice(False),
                "privileged": _choice(False),
                "readOnlyRootFilesystem": _BOOLEAN,
                "capabilities": _section({"drop": {**_list(_text()), "contains": {"const": "ALL"}}}, ("drop",)),
                "seLinuxOptions": _OBJECT,
            },
            ("allowPrivilegeEscalation", "capabilities"),
        ),
        "tmpSizeLimit": _text(_QUANTITY),
        "serviceAccount": _section(
            {
                "create": _BOOLEAN,
                "name": _text(_or_empty(_SUBDOMAIN), most=253),
                "annotations": _ANNOTATIONS,
            }
        ),
        "livenessProbe": _probe(),
        "readinessProbe": _probe(),
        "startupProbe": _probe(),
        "terminationGracePeriodSeconds": _integer(15, 3600),
        "preStopSeconds": _integer(0, 300),
        "updateStrategy": _section(
            {
                "type": _choice("RollingUpdate", "OnDelete"),
                "rollingUpdate": _section(
                    {"partition": _integer(0), "maxUnavailable": {"type": ["integer", "string"]}}
                ),
            },
            ("type",),
        ),
        "podManagementPolicy": _choice("Parallel", "OrderedReady"),
        "revisionHistoryLimit": _integer(0, 100),
        "podDisruptionBudget": _section(
            {
                "enabled": _BOOLEAN,
                "maxUnavailable": {"type": ["integer", "string"], "minimum": 1, "pattern": "^[1-9][0-9]?%$|^100%$"},
            }
        ),
        "podAntiAffinity": _choice("soft", "hard", "none"),
        "affinity": _section({"nodeAffinity": _OBJECT, "podAffinity": _OBJECT, "podAntiAffinity": _OBJECT}),
        "topologySpreadConstraints": {
            "type": ["array", "null"],
            "items": {**_OBJECT, "required": ["topologyKey", "maxSkew", "whenUnsatisfiable"]},
        },
        "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
        "tolerations": _list(
            _section(
                {
                    "key": _text(),
                    "operator": _choice("Exists", "Equal"),
                    "value": _text(),
                    "effect": _choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
                    "tolerationSeconds": _integer(0),
                }
            )
        ),
        "priorityClassName": _text(_or_empty(_SUBDOMAIN), most=253),
    }


def _network() -> dict[str, Schema]:
    path = _section({"path": _text(r"^/"), "pathType": _choice("Prefix", "Exact", "ImplementationSpecific")}, ("path",))
    host = _text(r"^(\*\.)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", most=253)
    return {
        "service": _section(
            {
                "type": _choice("ClusterIP", "NodePort", "LoadBalancer"),
                "port": _PORT,
                "nodePort": _integer(1, 65535, optional=True),
                "annotations": _ANNOTATIONS,
                "publishNotReadyAddresses": _BOOLEAN,
            }
        ),
        "ingress": _section(
            {
                "enabled": _BOOLEAN,
                "className": _text(_or_empty(_SUBDOMAIN), most=253),
                "annotations": _ANNOTATIONS,
                "hosts": _list(_section({"host": host, "paths": _list(path)}, ("host",))),
                "tls": _list(_section({"secretName": _text(_SUBDOMAIN, most=253), "hosts": _list(host)})),
            }
        ),
        "networkPolicy": _section(
            {
                "enabled": _BOOLEAN,
                "ingress": _section({"from": _PEERS}),
                "egress": _section(
                    {
                        "dns": _egress(),
                        "kafka": _egress(),
                        "postgresql": _egress(),
                        "oidc": _egress(),
                        "extra": _list(_section({"to": _PEERS, "ports": _list()})),
                    }
                ),
            }
        ),
    }


def _observation() -> dict[str, Schema]:
    override = _section(
        {
            "for": _text(_PROMETHEUS_DURATION),
            "severity": _text(least=1),
            "expr": _text(least=1),
            "disabled": _BOOLEAN,
        }
    )
    return {
        "serviceMonitor": _section(
            {
                "enabled": _BOOLEAN,
                "existingSecret": _SECRET,
                "secretKey": _SECRET_KEY,
                "interval": _text(_PROMETHEUS_DURATION),
                "scrapeTimeout": _text(_PROMETHEUS_DURATION),
                "labels": _LABELS,
                "annotations": _ANNOTATIONS,
                "relabelings": _RELABELINGS,
                "metricRelabelings": _RELABELINGS,
            }
        ),
        "rules": _section(
            {
                "enabled": _BOOLEAN,
                "labels": _LABELS,
                "annotations": _ANNOTATIONS,
                "alertLabels": {
                    "type": "object",
                    "propertyNames": {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$"},
                    "additionalProperties": {"type": "string"},
                },
                "runbookBase": _text(r"^$|^https?://.*/$"),
                "overrides": {"type": "object", "additionalProperties": override},
            }
        ),
        "dashboards": _section(
            {
                "enabled": _BOOLEAN,
                "label": _text(_QUALIFIED),
                "labelValue": _text(_LABEL, most=63),
                "folder": _text(),
                "folderAnnotation": _text(_QUALIFIED),
            }
        ),
    }


def _keda() -> Schema:
    reference = _section(
        {"name": _text(_SUBDOMAIN), "kind": _choice("TriggerAuthentication", "ClusterTriggerAuthentication")}, ("name",)
    )
    return _section(
        {
            "enabled": _BOOLEAN,
            "minReplicas": _integer(1, 1024),
            "maxReplicas": _integer(1, 1024, optional=True),
            "lagThreshold": _integer(1),
            "pollingInterval": _integer(1),
            "stabilizationWindowSeconds": _integer(0, 3600),
            "authenticationRef": {**reference, "type": ["object", "null"]},
        }
    )


def _recalibration() -> Schema:
    schedule = _text(r"^(@[a-z]+|[^ ]+( +[^ ]+){4})$")
    model = _section(
        {
            "name": _text(r"^[^\x00-\x1f\x7f]+$", most=128),
            "version": _text(r"^[^\x00-\x1f\x7f]+$", most=128),
            "schedule": schedule,
            "method": _text(least=1),
            "options": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
            "window": _text(_DURATION),
            "timeout": _text(_DURATION),
            "promote": {"type": ["boolean", "null"]},
            "suspend": _BOOLEAN,
        },
        ("name",),
    )
    return _section(
        {
            "existingSecret": _SECRET,
            "secretKey": _SECRET_KEY,
            "schedule": schedule,
            "timeZone": _text(r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$"),
            "timeout": _text(_DURATION),
            "activeDeadlineSeconds": _integer(60),
            "startingDeadlineSeconds": _integer(10),
            "backoffLimit": _integer(0, 10),
            "successfulJobsHistoryLimit": _integer(0, 100),
            "failedJobsHistoryLimit": _integer(0, 100),
            "promote": {"type": ["boolean", "null"]},
            "resources": _resources(),
            "models": _list(model),
        }
    )
