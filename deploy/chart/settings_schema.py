"""The JSON schema of `config`, which is monitor.yaml: made of the settings' own model.

Helm checks it before anything is installed. It says what JSON schema can say; the service itself says the rest.
"""

from typing import Any, Final

from monitor.app.settings.model import Settings

_KEPT: Final = (
    "type",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
)
_DURATION: Final = r"^\s*([0-9]+(\.[0-9]+)?|([0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d|w)\s*)+)\s*$"
"""As monitor.durations reads them: 90s, 1h30m, or seconds."""


def settings_schema() -> dict[str, Any]:
    """The schema, whole: definitions stand where they are used, so that messages name the full path of a key."""
    model = Settings.model_json_schema()
    schema = _plain(model, model["$defs"])
    properties = schema["properties"]
    # Replicas are reached from other pods, so that an open service would be open to all.
    properties["access"]["properties"]["mode"]["enum"] = ["required"]
    properties["api"]["properties"]["port"]["minimum"] = 1
    schema["required"] = ["source", "api", "access", "store"]
    for section, key in (("source", "kind"), ("api", "port"), ("access", "mode"), ("store", "url")):
        properties[section]["required"] = [key]
    return schema


def _plain(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        return _plain(definitions[node["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in node:
        return _optional([_plain(each, definitions) for each in node["anyOf"]])
    kept: dict[str, Any] = {key: node[key] for key in _KEPT if key in node}
    if "enum" in kept:
        # The words alone: that `off` is no text to YAML would say less.
        del kept["type"]
    if node.get("format") == "duration":
        return {"type": ["string", "number"], "pattern": _DURATION, "minimum": 0}
    if node.get("type") == "array":
        items = node.get("items", {})
        kept["items"] = _plain(items, definitions) if items else {}
        if items.get("type") == "string":
            # Names may stand in one line with commas between them, or be numbers, as those of classes.
            kept["type"] = ["array", "string", "integer"]
            kept["items"] = {"type": ["string", "number"]}
    if "object" in (node.get("type", ""), *node.get("type", ())):
        kept["additionalProperties"] = False
        if "properties" in node:
            kept["properties"] = {key: _plain(each, definitions) for key, each in node["properties"].items()}
        further = node.get("additionalProperties")
        if isinstance(further, dict):
            kept["additionalProperties"] = _plain(further, definitions)
        elif further is True:
            kept["additionalProperties"] = True
    return kept


def _optional(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for a value that may be null: an `anyOf` would only say that neither fits."""
    real = [choice for choice in choices if choice.get("type") != "null"]
    if len(real) != 1:
        return {"anyOf": choices}
    if "enum" in real[0]:
        return {**real[0], "enum": [*real[0]["enum"], None]}
    kinds = real[0]["type"]
    return {**real[0], "type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
