"""The fields that a schema declares, with their types: also those that no message has."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.events.formats.protobuf import message_type
from monitor.events.schemas import Schema

_MAX_DEPTH: Final = 8
"""Depth of nested records that is followed: schemas may be recursive."""


def declared_fields(schema: Schema, payload: bytes | None = None) -> dict[str, str]:
    """Path of each field, as a mapping names it -> its type, in words of the schema's language.

    Parameters
    ----------
    schema
        The schema, of Avro, Protobuf or JSON Schema.
    payload
        A message, of a schema of Protobuf in a registry: each says of which type it is.
    """
    if schema.kind == "PROTOBUF":
        return dict(_protobuf_fields(message_type(schema, payload), "", 0))
    tree = json.loads(schema.text)
    if schema.kind == "AVRO":
        named: dict[str, Any] = {}
        for reference in schema.references:
            list(_avro_fields(json.loads(reference.text), "", named, 0))
        return dict(_avro_fields(tree, "", named, 0))
    return dict(_json_fields(tree, "", 0))


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _avro_fields(node: Any, path: str, named: dict[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        branches = [branch for branch in node if branch != "null"]
        if len(branches) == 1:
            yield from _avro_fields(branches[0], path, named, depth)
        elif path:
            yield path, " or ".join(_avro_name(branch) for branch in branches)
        return
    node = named.get(node, node) if isinstance(node, str) else node
    kind = node.get("type") if isinstance(node, Mapping) else node
    if isinstance(kind, dict | list):
        yield from _avro_fields(kind, path, named, depth)
    elif kind == "record":
        named[node["name"]] = named[f"{node.get('namespace', '')}.{node['name']}".lstrip(".")] = node
        for field in node["fields"] if depth < _MAX_DEPTH else ():
            yield from _avro_fields(field["type"], _joined(path, field["name"]), named, depth + 1)
    elif kind == "array" and _is_record(node["items"], named):
        yield from _avro_fields(node["items"], f"{path}[]", named, depth + 1)
    elif path:
        yield path, _avro_name(node)


def _is_record(node: Any, named: Mapping[str, Any]) -> bool:
    node = named.get(node, node) if isinstance(node, str) else node
    return isinstance(node, Mapping) and node.get("type") == "record"


def _avro_name(node: Any) -> str:
    if not isinstance(node, Mapping):
        return str(node)
    if node.get("type") == "enum":
        return f"enum of {', '.join(node['symbols'])}"
    inner = node.get("items", node.get("values"))
    return str(node.get("logicalType", node["type"])) + ("" if inner is None else f" of {_avro_name(inner)}")


def _json_fields(node: Mapping[str, Any], path: str, depth: int) -> Iterator[tuple[str, str]]:
    if "properties" in node and depth < _MAX_DEPTH:
        for name, inner in node["properties"].items():
            yield from _json_fields(inner, _joined(path, name), depth + 1)
        return
    kind = node.get("type")
    if kind == "array" and "properties" in node.get("items", {}):
        yield from _json_fields(node["items"], f"{path}[]", depth + 1)
        return
    if "enum" in node:
        yield path, f"enum of {', '.join(map(str, node['enum']))}"
        return
    kinds = [one for one in (kind if isinstance(kind, list) else [kind]) if one not in {None, "null"}]
    if kinds:
        yield path, str(node.get("format", " or ".join(kinds)))


def _protobuf_fields(descriptor: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    for field in descriptor.fields:
        at, inner = _joined(path, field.name), field.message_type
        repeated = "repeated " * bool(field.is_repeated)
        if inner is None:
            enum = field.enum_type
            name = _SCALARS[field.type] if enum is None else f"enum of {', '.join(value.name for value in enum.values)}"
            yield at, repeated + name
        elif inner.GetOptions().map_entry or inner.full_name.startswith("google.protobuf.") or depth == _MAX_DEPTH:
            yield at, "map" if inner.GetOptions().map_entry else repeated + inner.full_name
        else:
            yield from _protobuf_fields(inner, f"{at}[]" if field.is_repeated else at, depth + 1)


_SCALARS: Final = dict(
    enumerate(
        [
            "double",
            "float",
            "int64",
            "uint64",
            "int32",
            "fixed64",
            "fixed32",
            "bool",
            "string",
            "group",
            "message",
            "bytes",
            "uint32",
            "enum",
            "sfixed32",
            "sfixed64",
            "sint32",
            "sint64",
        ],
        start=1,
    )
)
"""FieldDescriptor.TYPE_*, by number."""
