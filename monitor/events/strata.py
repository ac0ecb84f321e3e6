"""Names to small integers: the models, strata and series of one partition."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from monitor.events.model import OTHER, ModelPolicy, SeriesKey, Stratum

REFUSED: Final = -1
"""In place of an id: the model is not declared, or is one too many."""


@dataclass(frozen=True, slots=True)
class Caps:
    """How much may appear by itself in one partition, so that a bad producer cannot fill the memory.

    Beyond ``models``, a model's events are refused and counted; beyond ``versions`` (of a model) and
    ``segment_values`` (of a segment key of a model), the name becomes ``other``; beyond ``strata`` (of a model), all
    segment values of the new combination do.
    """

    models: int = 200
    versions: int = 20
    segment_values: int = 50
    strata: int = 20_000


class Strata:
    """Interns what events say of themselves. Grows only; ids are dense and stable, and are saved with the partition.

    Parameters
    ----------
    policy
        The policy of a model by name, or None where the model is not declared and has to be.
    caps
        How much may appear by itself.
    """

    def __init__(self, policy: Callable[[str], ModelPolicy | None], caps: Caps | None = None) -> None:
        self._policy_of = policy
        self._caps = caps or Caps()
        self._models: dict[str, int] = {}
        self.policies: list[ModelPolicy] = []
        """Policy of each model, by model id."""
        self._strata: dict[Stratum, int] = {}
        self._stratum_model: list[int] = []
        self._strata_of: list[int] = []
        self._versions: list[set[str]] = []
        self._segment_values: list[dict[str, set[str]]] = []
        self._series: dict[SeriesKey, int] = {}
        self._fan_out: list[tuple[int, ...]] = []
        self._class_sets: dict[tuple[SeriesKey, ...], int] = {}
        self._class_fan_out: list[tuple[int, int]] = []
        self._class_series: list[int] = []

    @property
    def models(self) -> list[str]:
        """Names of the models, by model id."""
        return list(self._models)

    @property
    def stratum_count(self) -> int:
        """Number of strata."""
        return len(self._strata)

    @property
    def strata(self) -> list[Stratum]:
        """The strata, by stratum id."""
        return list(self._strata)

    @property
    def series(self) -> list[SeriesKey]:
        """The series, by series id."""
        return list(self._series)

    def model(self, name: str) -> int:
        """Id of a model, or REFUSED. A new one is interned while the cap allows it."""
        known = self._models.get(name)
        if known is not None:
            return known
        policy = self._policy_of(name)
        if policy is None or len(self._models) >= self._caps.models:
            return REFUSED
        return self._add_model(name, policy)

    def stratum(self, model: str, version: str, segments: Mapping[str, str]) -> int:
        """Id of the stratum that a prediction belongs to, or REFUSED.

        Segment keys that the model's policy does not declare are left out; names beyond a cap become ``other``.
        """
        model_id = self.model(model)
        if model_id == REFUSED:
            return REFUSED
        versions = self._versions[model_id]
        if version not in versions and len(versions) >= self._caps.versions:
            version = OTHER
        pairs = []
        for key in sorted(set(self.policies[model_id].segments)):
            value = segments.get(key)
            if value is None:
                continue
            values = self._segment_values[model_id].setdefault(key, set())
            pairs.append((key, value if value in values or len(values) < self._caps.segment_values else OTHER))
        stratum = Stratum(model, version, tuple(pairs))
        if stratum not in self._strata and self._strata_of[model_id] >= self._caps.strata:
            stratum = stratum._replace(segments=tuple((key, OTHER) for key, _ in pairs))
        return self._add_stratum(model_id, stratum)

    def restore(self, models: Iterable[str], strata: Iterable[Stratum]) -> None:
        """Take up saved names, in the order of their ids, whatever the caps and policies say today.

        Raises
        ------
        ValueError
            This object has interned something already: ids would not be those that were saved.
        """
        if self._models:
            raise ValueError("names are restored into an empty object only")
        for name in models:
            # A model that is no longer declared keeps its place, and what it waits for, until it expires.
            self._add_model(name, self._policy_of(name) or ModelPolicy(horizon_ms=0, lateness_ms=0))
        for stratum in strata:
            self._add_stratum(self._models[stratum.model], stratum)

    def models_of_strata(self) -> NDArray[np.int32]:
        """Model id of each stratum, int32, shape (strata,)."""
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
        self.policies.append(policy)
        self._versions.append(set())
        self._segment_values.append({})
        self._strata_of.append(0)
        return self._models[name]

    def _add_stratum(self, model_id: int, stratum: Stratum) -> int:
        known = self._strata.get(stratum)
        if known is not None:
            return known
        stratum_id = self._strata[stratum] = len(self._strata)
        self._stratum_model.append(model_id)
        self._strata_of[model_id] += 1
        if stratum.version != OTHER:
            self._versions[model_id].add(stratum.version)
        for key, value in stratum.segments:
            if value != OTHER:
                self._segment_values[model_id].setdefault(key, set()).add(value)
        self._fan_out.append(self._series_ids(stratum.series()))
        classes = stratum.class_series(self.policies[model_id].classes)
        if classes not in self._class_sets:
            self._class_sets[classes] = len(self._class_series)
            self._class_series += self._series_ids(classes)
        self._class_fan_out.append((self._class_sets[classes], len(classes)))
        return stratum_id

    def _series_ids(self, keys: Iterable[SeriesKey]) -> tuple[int, ...]:
        return tuple(self._series.setdefault(key, len(self._series)) for key in keys)
