"""Encode samples as Arrow files, described by JSON in the schema."""

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.errors import DamagedStore

KEY: Final = b"calibration-sample"
"""Key of the schema's metadata: a JSON object with ``format``, ``kind`` and fields of that kind."""

FORMAT: Final = 1


def encode(table: Any, kind: str, header: Mapping[str, Any]) -> bytes:
    """Encode a pyarrow.Table. Equal tables with equal headers have equal bytes."""
    text = json.dumps({"format": FORMAT, "kind": kind, **header}, separators=(",", ":"), sort_keys=True)
    # One batch in its own buffers: slices and joined batches have other bytes.
    batch = table.replace_schema_metadata({KEY: text}).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.RecordBatchFileWriter(sink, batch.schema) as writer:
        writer.write_table(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decode(data: bytes, kind: str, schema: Any) -> tuple[Any, dict[str, Any]]:
    """Decode a file into a pyarrow.Table and its header.

    Raises
    ------
    DamagedStore
        It is no such file, or of a newer format.
    """
    try:
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        header = json.loads((table.schema.metadata or {}).get(KEY, b"null"))
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(kind, f"is no Arrow file ({error})") from error
    if not isinstance(header, dict) or header.get("kind") != kind:
        raise _damaged(kind, f"says of itself {header!r}")
    if header.get("format") != FORMAT:
        raise _damaged(kind, f"is of format {header.get('format')!r}, this version reads {FORMAT}")
    if not table.schema.equals(schema):
        raise _damaged(kind, f"has the columns {table.schema.remove_metadata()}")
    for name in schema.names:
        if not schema.field(name).nullable and table[name].null_count:
            raise _damaged(kind, f"has no {name} of some events")
    return table.replace_schema_metadata(None), header


def numbers(table: Any, name: str) -> NDArray[Any]:
    """Return a column of numbers, shape (rows,)."""
    return np.asarray(table[name].to_numpy())


def _damaged(kind: str, what: str) -> DamagedStore:
    return DamagedStore(
        f"stored {kind} of a sample cannot be read: it {what}; restore a backup of the store, or remove it to read the "
        "log again from its beginning"
    )
