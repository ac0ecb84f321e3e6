"""Kinds of value that the chart's schema is made of."""

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
QUANTITY: Final = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
PROMETHEUS_DURATION: Final = r"^([0-9]+(ms|s|m|h|d|w|y))+$"
DURATION: Final = r"^([0-9]+(\.[0-9]+)? *(ms|s|m|h|d|w) *)+$"
LABEL: Final = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"
QUALIFIED: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"


def section(properties: Mapping[str, Schema], required: tuple[str, ...] = (), **more: Any) -> Schema:
    """An object with these keys and no others."""
    schema: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties), **more}
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
ENV: Final = array(
    section({"name": text(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$"), "value": text(), "valueFrom": OBJECT}, ("name",))
)
PEERS: Final = array(section({"podSelector": OBJECT, "namespaceSelector": OBJECT, "ipBlock": OBJECT}))
RELABELINGS: Final = array(
    section(
        {
            "sourceLabels": array(text()),
            "separator": text(),
            "targetLabel": text(),
            "regex": text(),
            "modulus": integer(1),
            "replacement": text(),
            "action": text(),
        }
    )
)


def resources() -> Schema:
    """What a container asks for, and may take at the most."""
    return section({"requests": QUANTITIES, "limits": QUANTITIES, "claims": array()})


def probe() -> Schema:
    """When and how often a probe asks; what it asks is the chart's affair."""
    return section(
        {
            "initialDelaySeconds": integer(0),
            "periodSeconds": integer(1),
            "timeoutSeconds": integer(1),
            "successThreshold": integer(1),
            "failureThreshold": integer(1),
            "terminationGracePeriodSeconds": integer(1),
        }
    )


def egress(*, ports: int = 1) -> Schema:
    """Where something may be reached, on so many ports at least."""
    return section({"to": PEERS, "ports": {**array(PORT), "minItems": ports}})
