"""Evidence in the database: for each version of a model what its detectors continue from, in one blob.

It is saved in the transaction in which the model's evaluation is, under its lease: so evidence is added once, whichever
replica does it, and one that lost its lease adds nothing.
"""

import zlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import sqlalchemy as sa

from monitor.errors import DamagedStore, IncompatibleStore
from monitor.store.database import Database
from monitor.store.schema import EVIDENCE

_FORMAT: Final = 4
_ARRAY: Final = 1
"""Extension of MessagePack: the kind of an array, its shape, and its bytes."""
_LEVEL: Final = 1

Tree = Mapping[str, Any]
"""Values and arrays by name, nested."""


class StoredEvidence(NamedTuple):
    """The evidence of one version."""

    model: str
    version: str
    to_ms: int
    """Predictions before this time are in it."""
    state: bytes
    """State of the evidence, as :func:`encode` writes it."""


def encode(tree: Tree) -> bytes:
    """The format, and compressed MessagePack with arrays."""
    return bytes([_FORMAT]) + zlib.compress(_ENCODER.encode(tree), _LEVEL)


def decode(data: bytes) -> dict[str, Any]:
    """What :func:`encode` wrote.

    Raises
    ------
    DamagedStore
        The bytes are nothing of the kind.
    IncompatibleStore
        They are of another format.
    """
    if data[:1] != bytes([_FORMAT]):
        raise IncompatibleStore(
            f"evidence has format {data[:1]!r}, this version of the service reads {_FORMAT}: run the one that wrote it"
        )
    try:
        tree: dict[str, Any] = _DECODER.decode(zlib.decompress(data[1:]))
    except (zlib.error, msgspec.MsgspecError, ValueError) as error:
        raise DamagedStore(f"evidence cannot be read ({error}); restore a backup of the store") from None
    return tree


def read(database: Database, models: Collection[str]) -> list[StoredEvidence]:
    """The evidence of all versions of these models. Raises StoreUnavailable where the database does not answer."""
    of = EVIDENCE.c
    with database.reading() as connection:
        return [
            StoredEvidence(*row)
            for model in models
            for row in connection.execute(
                sa.select(*(of[name] for name in StoredEvidence._fields)).where(of.model == model).order_by(of.version)
            )
        ]


def read_ends(database: Database) -> dict[tuple[str, str], int]:
    """(Model, version) -> end of its evidence. Raises StoreUnavailable where the database does not answer."""
    of = EVIDENCE.c
    rows = database.rows(sa.select(of.model, of.version, of.to_ms))
    return {(model, version): to_ms for model, version, to_ms in rows}


def remove_stopped(database: Database, forget_ms: int) -> int:
    """Remove the evidence on versions that ends so long before the newest of their model; returns their number."""
    of, newer = EVIDENCE.c, EVIDENCE.alias()
    is_old = sa.exists().where(newer.c.model == of.model, newer.c.to_ms - of.to_ms > forget_ms)
    with database.writing() as connection:
        removed = connection.execute(sa.delete(EVIDENCE).where(is_old).returning(of.model)).all()
    return len(removed)


def remove_models(connection: sa.Connection, models: Collection[str]) -> None:
    """Remove the evidence on models."""
    connection.execute(sa.delete(EVIDENCE).where(EVIDENCE.c.model.in_(models)))


def save(connection: sa.Connection, database: Database, evidence: Iterable[StoredEvidence]) -> None:
    """Replace the evidence of versions, within a transaction that holds the leases of their models."""
    rows = [one._asdict() for one in evidence]
    if rows:
        # With RETURNING the rows are in one statement, which does not outlive the lease.
        connection.execute(database.upsert(EVIDENCE).returning(EVIDENCE.c.model), rows)


def _pack(value: object) -> msgspec.msgpack.Ext:
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"objects of type {type(value).__name__} are not stored")
    little = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
    return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode((little.dtype.str, little.shape, little.tobytes())))


def _unpack(code: int, data: memoryview) -> np.ndarray[Any, Any]:
    if code != _ARRAY:
        raise ValueError(f"there is no extension {code}")
    kind, shape, content = msgspec.msgpack.decode(data, type=tuple[str, tuple[int, ...], bytes])
    return np.frombuffer(content, kind).reshape(shape).astype(np.dtype(kind).newbyteorder("="))


_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_pack)
_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_unpack)
