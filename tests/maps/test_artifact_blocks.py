"""Files that would grow when they are read: they are refused before a byte of them is unpacked."""

import hashlib
import json
import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from monitor.errors import CorruptMap, InputError
from monitor.maps import artifact
from monitor.maps.artifact import HASH_KEY, HEADER_KEY, check_uncompressed, from_bytes, to_bytes, to_json
from monitor.maps.base import RecalibrationMap
from monitor.maps.histogram import METHOD as HISTOGRAM
from monitor.maps.identity import Identity
from monitor.scores.labelled import LabelledEvents

_FRAME: Final = 64 * 2**20
"""Zeros that compress to a few kilobytes."""
_SKIPPED: Final = 0x184D2A50
"""Of Zstandard: so begins a frame that says nothing."""


def histogram() -> RecalibrationMap:
    rng = np.random.default_rng(1)
    p = rng.random(500)
    return HISTOGRAM.fit(
        LabelledEvents.of(p, rng.random(500) < p**2), {"bins": 5, "kind": "quantile", "shrinkage": 1.0}
    )


def rewritten(data: bytes, metadata: dict[str, str] | None = None, **options: Any) -> bytes:
    """The same file, written with other options of Arrow."""
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata=metadata)
    return bytes(sink.getvalue())


def bomb(unpacked: int) -> bytes:
    """A map's file, but for the hash, of one array that takes so many bytes once it is unpacked."""
    frame = pa.compress(bytes(min(unpacked, _FRAME)), codec="zstd", asbytes=True)
    packed = frame * max(1, unpacked // _FRAME)
    # What is written first does not compress, so that there is room for what takes its place.
    filler = np.frombuffer(np.random.default_rng(2).bytes(-(-len(packed) // 8) * 8 + 1024), np.int64)
    header = {
        **json.loads(pa.ipc.open_file(pa.BufferReader(to_bytes(histogram(), {}))).schema.metadata[HEADER_KEY]),
        "shapes": {"value": [unpacked // 8]},
        "types": {"value": "int64"},
    }
    text = json.dumps(header).encode()
    column = pa.array([filler], pa.large_list(pa.int64()))
    schema = pa.schema(
        [pa.field("value", column.type)], {HEADER_KEY: text, HASH_KEY: hashlib.sha256(text).hexdigest().encode()}
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([column], schema=schema))
    data = bytearray(sink.getvalue())
    # A compressed buffer begins with its size as it is unpacked.
    written = struct.pack("<q", filler.nbytes) + pa.compress(filler.tobytes(), codec="zstd", asbytes=True)
    at, room = data.index(written), len(written) - 8 - len(packed) - 8
    data[at : at + len(written)] = (
        struct.pack("<q", unpacked) + packed + struct.pack("<II", _SKIPPED, room) + bytes(room)
    )
    return bytes(data)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    # Arrow itself unpacks such files.
    small = pa.ipc.open_file(pa.BufferReader(bomb(2 * _FRAME))).get_batch(0)
    small.validate(full=True)
    assert small.column(0).flatten().buffers()[1].size == 2 * _FRAME
    huge = bomb(16 * 2**30)
    assert len(huge) < 2**20
    for read in (from_bytes, to_json):
        with pytest.raises(CorruptMap, match="the map's buffers are compressed, and those of a map never are"):
            read(huge)
    assert pa.default_memory_pool().max_memory() < 16 * 2**30


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_is_compressed_is_refused_however_it_says_so(codec: str) -> None:
    data = to_bytes(histogram(), {})
    new = rewritten(data, compression=codec)
    old = rewritten(data, {"ARROW:experimental_compression": codec.upper()}, metadata_version=pa.ipc.MetadataVersion.V4)
    for each in (new, old):
        with pytest.raises(CorruptMap, match="buffers are compressed"):
            from_bytes(each)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata_version": pa.ipc.MetadataVersion.V4},
        {"metadata_version": pa.ipc.MetadataVersion.V4, "use_legacy_format": True},
    ],
    ids=["as now", "before 1.0", "before 0.15"],
)
def test_older_writers_are_understood(options: dict[str, Any]) -> None:
    data = to_bytes(histogram(), {"id": "m1"})
    read = from_bytes(rewritten(data, **options))
    assert to_bytes(read.map, read.about) == data


def test_buffers_that_share_their_bytes_are_refused() -> None:
    """A small file of many columns could otherwise say the same megabytes a thousand times."""
    data = bytearray(to_bytes(histogram(), {}))
    arrays = to_json(bytes(data))["arrays"]
    buffer = struct.Struct("<qq")
    # The longest one takes nearly the whole file, and those before it stay.
    largest = max(len(values) for values in arrays.values()) * 8
    at = max(place for place in range(0, len(data) - 16, 8) if buffer.unpack_from(data, place)[1] == largest)
    for length in (len(data) - 64, 2**62, -1):
        data[at : at + 16] = buffer.pack(0, length)
        with pytest.raises(CorruptMap, match=r"the map's buffers take more bytes together than the whole file, \d+"):
            from_bytes(bytes(data))


def test_dictionaries_are_refused() -> None:
    table = pa.table({"a": pa.array(["x", "y"]).dictionary_encode()}).replace_schema_metadata({HEADER_KEY: b"{}"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(CorruptMap, match="a map has no dictionaries, and this has 1"):
        from_bytes(bytes(sink.getvalue()))


def test_tables_that_point_anywhere_are_refused() -> None:
    data = to_bytes(histogram(), {})
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(3000):
        damaged = bytearray(data)
        # Tables stand in words of four bytes; large ones, and those below 0, point out of the file.
        at = 4 * int(rng.integers(len(data) // 4))
        damaged[at : at + 4] = rng.bytes(4)
        try:
            check_uncompressed(bytes(damaged))
        except CorruptMap:
            refused += 1
    assert 0 < refused < 3000
    for length in range(0, len(data), 5):
        with pytest.raises(CorruptMap):
            check_uncompressed(data[:length])


def test_what_a_map_says_of_itself_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of JSON takes twenty of them once it is read."""
    about = {"note": "x" * 2000}
    data = to_bytes(Identity(), about)
    monkeypatch.setattr(artifact, "MAX_HEADER_BYTES", 1000)
    with pytest.raises(CorruptMap, match="the header of a map takes at most"):
        from_bytes(data)
    with pytest.raises(InputError, match="take fewer groups"):
        to_bytes(Identity(), about)


def test_what_is_written_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact, "MAX_BYTES", 1000)
    with pytest.raises(InputError, match="store fewer points, or take fewer dimensions"):
        to_bytes(Identity(), {"note": "x" * 2**20})
