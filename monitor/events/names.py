"""A bounded memory in front of a partition's names, so that an event finds its own in one look-up."""

import weakref
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.events.fields import read_model, read_segments, read_version
from monitor.events.model import Kind, Reason
from monitor.events.rejection import Rejected
from monitor.events.strata import REFUSED, Strata
from monitor.events.wire import Event, seed_of

Spelling = tuple[str, str | int | None, bytes] | str
"""What an event says of itself, as it is written: a prediction's model, version and segments; an outcome's model."""


class Name(NamedTuple):
    """What a spelling stands for."""

    model: int
    stratum: int
    seed: int
    """Of the hash of the model's ids."""


# A plain integer: the look-up of an enumeration's member costs more than the rest of a comparison.
_OUTCOME: Final = int(Kind.OUTCOME)
_NONE: Final = Name(REFUSED, REFUSED, 0)


class Names(dict[Spelling, Name]):
    """Spellings to names. Forgets all when full: the names themselves stand in the strata.

    Refused models are never remembered, so that a flood of them fills nothing.
    """

    def __init__(self, strata: Strata, capacity: int) -> None:
        super().__init__()
        # Weak, so that a decoder's memory of a partition goes when the partition does.
        self._strata = weakref.ref(strata)
        self._capacity = capacity
        self._rejected: dict[Spelling, tuple[Reason, str]] = {}

    def intern(
        self, events: Sequence[Event], kind: NDArray[np.int8]
    ) -> tuple[list[Name], dict[int, tuple[Reason, str]]]:
        """The name of each event, in order, and by its place which event names itself wrongly, and how."""
        self._rejected = {}
        # No list of the spellings is kept: so many tuples would only feed the garbage collector.
        if not (kind == _OUTCOME).any():
            names = [self[event.model, event.version, bytes(event.segments)] for event in events]
        else:
            names = [
                self[event.model if of == _OUTCOME else (event.model, event.version, bytes(event.segments))]
                for event, of in zip(events, kind.tolist(), strict=True)
            ]
        if not self._rejected:
            return names, {}
        misnamed = {}
        for at, (event, of) in enumerate(zip(events, kind.tolist(), strict=True)):
            spelling = event.model if of == _OUTCOME else (event.model, event.version, bytes(event.segments))
            if spelling in self._rejected:
                misnamed[at] = self._rejected[spelling]
        return names, misnamed

    def __missing__(self, spelling: Spelling) -> Name:
        try:
            name = self._resolve(spelling)
        except Rejected as why:
            # Not the exception, which holds on to the frames that it came through.
            self._rejected[spelling] = (why.reason, why.detail)
            return _NONE
        if name.model != REFUSED:
            if len(self) >= self._capacity:
                self.clear()
            self[spelling] = name
        return name

    def _resolve(self, spelling: Spelling) -> Name:
        strata = self._strata()
        if strata is None:
            raise RuntimeError("the strata of these names are gone: whoever interns must hold them")
        if isinstance(spelling, str):
            model = read_model(msgspec.json.encode(spelling))
            return Name(strata.model(model), REFUSED, seed_of(model))
        model = read_model(msgspec.json.encode(spelling[0]))
        version = read_version(msgspec.json.encode(spelling[1]))
        stratum = strata.stratum(model, version, read_segments(spelling[2]))
        return Name(strata.model(model), stratum, seed_of(model))
