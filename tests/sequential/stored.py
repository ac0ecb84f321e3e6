"""States as a store has them."""

from typing import Any

import msgspec
import numpy as np

from monitor.sequential.detector import State


def stored(state: State) -> dict[str, Any]:
    """Write a state as MessagePack, which has no arrays, and read it again."""

    def encode(value: object) -> object:
        if isinstance(value, np.ndarray):
            return {"type": value.dtype.str, "shape": value.shape, "bytes": value.tobytes()}
        raise NotImplementedError(f"a state holds plain values and arrays, got {type(value)}")

    def decode(value: Any) -> Any:
        if isinstance(value, dict):
            return np.frombuffer(value["bytes"], value["type"]).reshape(value["shape"])
        return value

    data = msgspec.msgpack.encode(state, enc_hook=encode)
    return {name: decode(value) for name, value in msgspec.msgpack.decode(data).items()}
