"""Names to small integers: the models, strata and series of one partition, and a cache in front of them."""

import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from monitor.events.fields import Rejected, read_model, read_segments, read_version
from monitor.events.model import OTHER, Kind, ModelPolicy, Reason, SeriesKey, Stratum
from monitor.events.wire import Event, seed_of
from monitor.section import Positive, Section

_MIN_GONE: Final = 100
"""Ended strata that are removed, though no cap needs their places, if they are as many as the others."""

REFUSED: Final = -1
"""The id of a model that is not declared, or beyond the cap."""


class Caps(Section):
    """How many names may live in a partition at a time, so that a bad producer cannot fill memory or Prometheus.

    A name gives its place back once no window reaches its newest prediction.
    """

    models: Positive = 200
    """Models that are not declared; events of further ones are refused and counted. Declared ones take no place."""
    versions: Positive = 20
    """Versions of a model; further ones are counted as the version `other`."""
    segment_values: Positive = 50
    """Values of a segment key of a model; further ones are counted as `other`."""
    strata: Positive = 20_000
    """Combinations of version and segment values of a model; the segments of further ones are counted as `other`."""


class Cap(NamedTuple):
    """One cap of a partition, and what it is on."""

    setting: str
    """Name of its setting under ``caps``, and of its attribute of :class:`Caps`."""
    model: str = ""
    """The model whose names it counts; empty for the cap on models."""
    segment_key: str = ""
    """The segment key whose values it counts; empty for the other caps."""


def undeclared(model: str) -> str:
    """Why events of a model without a policy are refused."""
    return (
        f"model {model!r} is not declared, and models.only_declared is set; declare it under models.declared, "
        "and send its events again"
    )


def beyond_cap(model: str) -> str:
    """Why events of a model are refused where as many undeclared ones live in a partition as may."""
    return (
        f"model {model!r} is one more than may live in a partition undeclared (caps.models); declare it, or raise "
        "that, and send its events again"
    )


_FREE: Final = Stratum("", "", ())
"""Stands at an id that no stratum has."""


class Strata:
    """Interns the names in events. Only grows; ids are stable, and those of strata are saved with the partition.

    Parameters
    ----------
    policy
        The policy of a model by name, or None for a model that must be declared and is not.
    caps
        How many names events may add.
    """

    def __init__(self, policy: Callable[[str], ModelPolicy | None], caps: Caps | None = None) -> None:
        self._policy_of = policy
        self._caps = caps or Caps()
        self._models: dict[str, int] = {}
        self.policies: list[ModelPolicy] = []
        """Policy of each model, by model id."""
        self._undeclared = 0
        self._strata: dict[Stratum, int] = {}
        self._by_id: list[Stratum] = []
        self._free: list[int] = []
        self.interned: list[int] = []
        """Ids of the strata, in the order in which they were interned or restored."""
        self._stratum_model: list[int] = []
        self._strata_of: list[int] = []
        self._versions: list[set[str]] = []
        self._segment_values: list[dict[str, set[str]]] = []
        self._series: dict[SeriesKey, int] = {}
        self._fan_out: list[tuple[int, ...]] = []
        self._class_sets: dict[tuple[SeriesKey, ...], int] = {}
        self._class_fan_out: list[tuple[int, int]] = []
        self._class_series: list[int] = []
        self._folds: dict[tuple[Cap, ...], int] = {(): 0}

    @property
    def models(self) -> list[str]:
        """Names of the models, by model id."""
        return list(self._models)

    @property
    def is_full(self) -> bool:
        """Whether a model that is not declared, and not among these, is refused."""
        return self._undeclared >= self._caps.models

    def refusal(self, name: str) -> str:
        """Why :meth:`model` refuses this model, and what to do."""
        return undeclared(name) if self._policy_of(name) is None else beyond_cap(name)

    @property
    def strata(self) -> Sequence[Stratum]:
        """The strata, by stratum id; without names at an id that none has. Do not change it."""
        return self._by_id

    @property
    def folds(self) -> list[tuple[Cap, ...]]:
        """The caps that made names of a prediction ``other``, by fold id; the first is empty."""
        return list(self._folds)

    @property
    def series(self) -> list[SeriesKey]:
        """The series, by series id."""
        return list(self._series)

    def model(self, name: str) -> int:
        """Id of a model, or REFUSED. A new one is interned while the cap allows it."""
        model_id = self._models.get(name)
        if model_id is not None:
            return model_id
        policy = self._policy_of(name)
        if policy is None or (self.is_full and not policy.declared):
            return REFUSED
        return self._add_model(name, policy)

    def stratum(self, model: str, version: str, segments: Mapping[str, str]) -> int:
        """Id of the stratum of a prediction, or REFUSED.

        Segment keys that the model's policy does not declare are ignored; names beyond a cap become ``other``.
        """
        return self.place(model, version, segments)[0]

    def place(self, model: str, version: str, segments: Mapping[str, str]) -> tuple[int, int]:
        """Id of the stratum of a prediction, as from :meth:`stratum`, and id of its fold."""
        model_id = self.model(model)
        if model_id == REFUSED:
            return REFUSED, 0
        caps = []
        versions = self._versions[model_id]
        if version != OTHER and version not in versions and len(versions) >= self._caps.versions:
            version = OTHER
            caps.append(Cap("versions", model))
        pairs = []
        for key in sorted(set(self.policies[model_id].segments)):
            value = segments.get(key)
            if value is None:
                continue
            values = self._segment_values[model_id].setdefault(key, set())
            if value != OTHER and value not in values and len(values) >= self._caps.segment_values:
                value = OTHER
                caps.append(Cap("segment_values", model, key))
            pairs.append((key, value))
        stratum = Stratum(model, version, tuple(pairs))
        if stratum not in self._strata and self._strata_of[model_id] >= self._caps.strata:
            whole = stratum._replace(segments=tuple((key, OTHER) for key, _ in pairs))
            if whole != stratum:
                caps.append(Cap("strata", model))
            stratum = whole
        fold = self._folds.setdefault(tuple(caps), len(self._folds))
        return self._add_stratum(model_id, stratum), fold

    def restore(self, models: Iterable[str], strata: Mapping[int, Stratum]) -> None:
        """Restore saved models, and strata by id, regardless of the current caps and policies.

        Ids below the largest that no stratum has are given to new ones.

        Raises
        ------
        ValueError
            This object is not empty: ids would differ from the saved ones.
        """
        if self._models:
            raise ValueError("names are restored into an empty object only")
        for name in models:
            # A model that is no longer declared keeps its id until its predictions expire.
            self._add_model(name, self._policy_of(name) or ModelPolicy(horizon_ms=0, lateness_ms=0))
        size = max(strata, default=-1) + 1
        self._by_id = [_FREE] * size
        self._stratum_model = [REFUSED] * size
        self._fan_out = [()] * size
        self._class_fan_out = [(0, 0)] * size
        for stratum_id, stratum in sorted(strata.items()):
            self._set_stratum(stratum_id, self._models[stratum.model], stratum)
        self._free = sorted(set(range(size)) - strata.keys(), reverse=True)

    def limit(self, cap: Cap) -> int:
        """How many names a cap lets live."""
        limit: int = getattr(self._caps, cap.setting)
        return limit

    def used(self) -> dict[Cap, int]:
        """How many names live under each cap."""
        used = {Cap("models"): self._undeclared}
        for (model, model_id), versions in zip(self._models.items(), self._versions, strict=True):
            used[Cap("versions", model)] = len(versions)
            used[Cap("strata", model)] = self._strata_of[model_id]
            for key, values in self._segment_values[model_id].items():
                used[Cap("segment_values", model, key)] = len(values)
        return used

    def gives_places_back(self, gone: Collection[int]) -> bool:
        """Whether these strata are as many as the others, or a cap that is half used would have places without them."""
        stay = [stratum for at, stratum in enumerate(self._by_id) if stratum is not _FREE and at not in gone]
        if len(gone) >= max(len(stay), _MIN_GONE):
            return True
        versions = {(stratum.model, stratum.version) for stratum in stay if stratum.version != OTHER}
        values = {(stratum.model, *pair) for stratum in stay for pair in stratum.segments if pair[1] != OTHER}
        left = Counter(Cap("strata", stratum.model) for stratum in stay)
        left.update(Cap("versions", model) for model, _ in versions)
        left.update(Cap("segment_values", model, key) for model, key, _ in values)
        # Combinations come and go with their parts: half of them have to be gone.
        return any(
            left[cap] <= names / 2 if cap.setting == "strata" else left[cap] < names
            for cap, names in self.used().items()
            if cap.model and 2 * names >= self.limit(cap)
        )

    def models_of_strata(self) -> NDArray[np.int32]:
        """Model id of each stratum, int32, shape (strata,); REFUSED at an id that none has."""
        return np.array(self._stratum_model, np.int32)

    def fan_out(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The series of each stratum: those of stratum s are ``series[start[s]:start[s + 1]]``.

        Returns
        -------
        start
            int32, shape (strata + 1,).
        series
            int32, shape (start[-1],): series ids.
        """
        start = np.zeros(len(self._fan_out) + 1, np.int32)
        np.cumsum([len(ids) for ids in self._fan_out], out=start[1:])
        return start, np.array([series for ids in self._fan_out for series in ids], np.int32)

    def class_fan_out(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """The series of each class of each stratum's model: class k of stratum s has ``series[first[s] + k]``.

        Returns
        -------
        first, count
            int32, shape (strata,) each: where its classes begin, and how many there are; none for a binary model.
        series
            int32: series ids.
        """
        places = np.array(self._class_fan_out, np.int32).reshape(-1, 2)
        return places[:, 0].copy(), places[:, 1].copy(), np.array(self._class_series, np.int32)

    def _add_model(self, name: str, policy: ModelPolicy) -> int:
        self._models[name] = len(self._models)
        self._undeclared += not policy.declared
        self.policies.append(policy)
        self._versions.append(set())
        self._segment_values.append({})
        self._strata_of.append(0)
        return self._models[name]

    def _add_stratum(self, model_id: int, stratum: Stratum) -> int:
        existing = self._strata.get(stratum)
        if existing is not None:
            return existing
        if self._free:
            stratum_id = self._free.pop()
        else:
            stratum_id = len(self._by_id)
            self._by_id.append(_FREE)
            self._stratum_model.append(REFUSED)
            self._fan_out.append(())
            self._class_fan_out.append((0, 0))
        self._set_stratum(stratum_id, model_id, stratum)
        return stratum_id

    def _set_stratum(self, stratum_id: int, model_id: int, stratum: Stratum) -> None:
        self._strata[stratum] = stratum_id
        self._by_id[stratum_id] = stratum
        self.interned.append(stratum_id)
        self._stratum_model[stratum_id] = model_id
        self._strata_of[model_id] += 1
        if stratum.version != OTHER:
            self._versions[model_id].add(stratum.version)
        for key, value in stratum.segments:
            if value != OTHER:
                self._segment_values[model_id].setdefault(key, set()).add(value)
        self._fan_out[stratum_id] = self._series_ids(stratum.series())
        classes = stratum.class_series(self.policies[model_id].classes)
        if classes not in self._class_sets:
            self._class_sets[classes] = len(self._class_series)
            self._class_series += self._series_ids(classes)
        self._class_fan_out[stratum_id] = (self._class_sets[classes], len(classes))

    def _series_ids(self, keys: Iterable[SeriesKey]) -> tuple[int, ...]:
        return tuple(self._series.setdefault(key, len(self._series)) for key in keys)


Spelling = tuple[str, str | int | None, bytes] | str
"""The names in an event, as written: a prediction's model, version and segments; an outcome's model."""


class Name(NamedTuple):
    """The ids of a spelling."""

    model: int
    stratum: int
    seed: int
    """Seed of the hash of the model's ids."""
    fold: int = 0
    """Id of the caps that made names ``other``: see :attr:`Strata.folds`."""


# A plain integer: comparing with an enumeration's member takes much longer.
_OUTCOME: Final = int(Kind.OUTCOME)
_NONE: Final = Name(REFUSED, REFUSED, 0)


class Names(dict[Spelling, Name]):
    """Cache of the names of spellings, so that an event needs one look-up. Cleared when full.

    Refused models are not cached, so that a flood of them fills nothing.
    """

    def __init__(self, strata: Strata, capacity: int) -> None:
        super().__init__()
        # Weak, so that the cache does not keep a partition alive.
        self._strata = weakref.ref(strata)
        self._capacity = capacity
        self._rejected: dict[Spelling, tuple[Reason, str]] = {}

    def intern(
        self, events: Sequence[Event], kind: NDArray[np.int8]
    ) -> tuple[list[Name], dict[int, tuple[Reason, str]]]:
        """The name of each event, in order; and by position, why an event has invalid names."""
        self._rejected = {}
        # No list of spellings: so many tuples would slow the garbage collector down.
        # Segments that are bytes already were read by columns: equal ones are one object, which keeps its hash.
        if not (kind == _OUTCOME).any():
            names = [
                self[event.model, event.version, raw if type(raw := event.segments) is bytes else bytes(raw)]
                for event in events
            ]
        else:
            names = [
                self[
                    event.model
                    if of == _OUTCOME
                    else (event.model, event.version, raw if type(raw := event.segments) is bytes else bytes(raw))
                ]
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
            # Not the exception, which would keep its frames alive.
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
            raise RuntimeError("the strata of these names no longer exist: the caller must keep them")
        if isinstance(spelling, str):
            model = read_model(msgspec.json.encode(spelling))
            return Name(strata.model(model), REFUSED, seed_of(model))
        model = read_model(msgspec.json.encode(spelling[0]))
        version = read_version(msgspec.json.encode(spelling[1]))
        stratum, fold = strata.place(model, version, read_segments(spelling[2]))
        return Name(strata.model(model), stratum, seed_of(model), fold)
