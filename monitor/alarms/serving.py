"""What alarms know of the map that serves: predictions as it serves them, and evidence that it does harm.

Events and closings hold the model's own predictions. While a map of these alone serves, the detectors bet on what it
makes of them. Maps of features, of groups or of whole vectors cannot be applied to closings: then these detectors rest,
and the map itself is judged on the samples that refits are made of, each span of them a step once it is settled.

When another map serves, or none, all evidence starts again at 0, at the first pane that begins when the newest
prediction had been read at that time, or later.
"""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.alarms.watch import VersionWatch, group_of, level_of, raised_again, raised_by
from monitor.arrays import Floats, Ints
from monitor.errors import CorruptMap, InputError, UnknownRecalibration
from monitor.events.model import ALL, CLASS, SeriesKey
from monitor.events.times import format_time
from monitor.maps import LabelledEvents, RecalibrationMap, apply_map
from monitor.maps.artifact import from_bytes
from monitor.reports.formatting import minute_text, plain
from monitor.scores.recalibrated import recalibrate_steps
from monitor.scores.steps import Steps
from monitor.sequential.detector import Bets
from monitor.sequential.serving_map import SHARES, ServingMapBets, bet_on_events, gains
from monitor.sequential.watch import Watch
from monitor.store import servings
from monitor.store.model_evidence import EvidenceLevel, Raised
from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.samples import span_ends
from monitor.store.servings import Serving
from monitor.store.sql import SqlStore
from monitor.windows.panes import ClosedPanes

SERVING_MAP: Final = "serving_map"
"""The detector of a map that does harm: only versions with a map have it."""

HARM: Final = "harm"
"""Label of an alert about a map."""

_CLASSES: Final = "the probabilities of all classes"

_NORMAL_975: Final = 1.959963984540054


@dataclass(frozen=True)
class LoadedMap:
    """A map that serves.

    Attributes
    ----------
    map
        None if it cannot be read.
    resting
        Why predictions cannot be judged as it serves them; empty if they can.
    """

    map: RecalibrationMap | None
    resting: str = ""

    @classmethod
    def of(cls, chosen: RecalibrationMap) -> "LoadedMap":
        """The map, and whether closings can be moved through it."""
        if chosen.feature_count is not None:
            needs = "features"
        elif chosen.segment_key is not None:
            needs = f"the segment {chosen.segment_key!r}"
        elif chosen.classes > 2:
            needs = _CLASSES
        else:
            return cls(chosen)
        return cls(chosen, _needs(needs))

    def recalibrate(self, prediction: Floats) -> Floats:
        """What it makes of predictions, float64, shape (n,). Only where nothing rests."""
        return apply_map(self._map, prediction)

    @cached_property
    def bets(self) -> ServingMapBets:
        """The bets that it does harm. Only where nothing rests."""
        return ServingMapBets(self.recalibrate)

    def apply(self, events: LabelledEvents) -> Floats:
        """What it makes of labelled events. Raises InputError where they lack what it needs."""
        return apply_map(self._map, events.prediction, features=events.features, segments=events.segments)

    @property
    def _map(self) -> RecalibrationMap:
        if self.map is None:
            raise InputError(self.resting)
        return self.map


def _needs(what: str) -> str:
    return f"the map that serves needs {what} of each event, which closings do not hold"


class ServedMaps:
    """The maps that serve, as alarms need them. One thread calls it.

    Parameters
    ----------
    panes, store
        Of all partitions.
    """

    def __init__(self, panes: ClosedPanes, store: SqlStore) -> None:
        self._panes = panes
        self._store = store
        self._maps = RecalibrationStore(store.database)
        self._servings: Mapping[tuple[str, str], Serving] = {}
        self._loaded: dict[str, LoadedMap] = {}

    def refresh(self, models: Collection[str]) -> Mapping[tuple[str, str], Serving]:
        """Read what serves the versions of these models that ever had a map: (model, version) -> what serves.

        Raises
        ------
        StoreUnavailable
            The database does not answer.
        """
        with self._store.database.reading() as connection:
            rows = servings.read(connection, models)
        self._servings = {(row.model, row.version): row for row in rows}
        serving = {row.map_id for row in rows}
        self._loaded = {map_id: loaded for map_id, loaded in self._loaded.items() if map_id in serving}
        return self._servings

    def load(self, map_id: str) -> LoadedMap:
        """A map, read once while it serves."""
        if map_id not in self._loaded:
            try:
                loaded = LoadedMap.of(from_bytes(self._maps.artifact(map_id).artifact).map)
            except (CorruptMap, UnknownRecalibration) as error:
                return LoadedMap(None, f"the map that serves cannot be read: {error}")
            self._loaded[map_id] = loaded
        return self._loaded[map_id]

    def serve(self, series: SeriesKey, steps: Steps) -> Steps:
        """The steps of a series as the map makes them that serves its version; as they are where none can."""
        serving = self._servings.get((series.model, series.version))
        if serving is None or serving.map_id is None:
            return steps
        loaded = self.load(serving.map_id)
        return steps if loaded.resting else recalibrate_steps(steps, loaded.recalibrate)

    def bet_on_samples(self, serving: Serving, loaded: LoadedMap, from_ms: int, to_ms: int) -> Bets:
        """Bet that a map does harm, on the sampled events of each span that ends in (from, to].

        Raises
        ------
        InputError
            The map needs what the events do not have.
        """
        ends, rows = span_ends(self._store.database, *serving[:2], from_ms=from_ms, to_ms=to_ms), []
        for end_ms in ends:
            events = self._store.read_sample(*serving[:2], from_ms=from_ms, to_ms=end_ms).events
            rows.append(
                bet_on_events(events.prediction, loaded.apply(events), events.outcome)
                if len(events)
                else np.zeros(len(SHARES))
            )
            from_ms = end_ms
        return Bets(np.array(ends, np.int64), np.array(rows).reshape(-1, len(SHARES)))

    def explain(self, model: str, version: str, since_ms: int, to_ms: int) -> tuple[str, int, dict[str, Any]]:
        """Say what harm a map does: a sentence, how many events say so, and JSON."""
        serving = self._servings.get((model, version))
        if serving is None or serving.map_id is None:
            return "", 0, {}
        after = self._harm(serving, since_ms, to_ms)
        before = self._harm(serving, serving.from_ms, since_ms)
        command = f"monitor rollback {shlex.quote(model)} --version {shlex.quote(version)}"
        document = {
            "label": HARM,
            "map": serving.map_id,
            "revision": serving.revision,
            "after": after.to_json(),
            "before": before.to_json(),
            "remedy": {"text": "Roll the map back.", "command": command},
        }
        name = f"{plain(model)} {plain(version)}"
        summary = f"The map {serving.map_id} of {name} does harm since {minute_text(since_ms)}: {after}. Roll it back."
        return summary, after.n, document

    def _harm(self, serving: Serving, from_ms: int, to_ms: int) -> "Harm":
        loaded = self.load(serving.map_id or "")
        if loaded.map is None or from_ms >= to_ms:
            return Harm(from_ms, to_ms)
        if loaded.resting:
            events = self._store.read_sample(*serving[:2], from_ms=from_ms, to_ms=to_ms).events
            try:
                served = loaded.apply(events)
            except InputError:  # none are kept, or features were others for most of that time
                return Harm(from_ms, to_ms)
            count = np.ones(len(events), np.int64)
            return Harm.of((from_ms, to_ms), events.prediction, served, events.outcome, count)
        _, table = self._panes.settled_span(SeriesKey(serving.model, serving.version, ALL), from_ms, to_ms)
        scores = table.to_scores()
        p, count = np.tile(scores.score, 2), np.concatenate([scores.positives, scores.negatives])
        y = np.repeat(np.array([1, 0]), scores.score.size)
        held = count > 0
        return Harm.of((from_ms, to_ms), p[held], loaded.recalibrate(p[held]), y[held], count[held].astype(np.int64))


class Harm(NamedTuple):
    """The Brier score with a map and without it, on the labelled events of [from, to)."""

    from_ms: int
    to_ms: int
    n: int = 0
    difference: float = 0.0
    """Loss with the map, less that without it: above 0 it does harm."""
    half_width: float = 0.0
    """Half width of the 95% interval of the difference."""

    @classmethod
    def of(cls, span: tuple[int, int], prediction: Floats, served: Floats, outcome: Ints, count: Ints) -> "Harm":
        """Compare the events of [from, to), each ``count`` times."""
        n = int(count.sum())
        if n == 0:
            return cls(*span)
        loss, _ = gains(served, prediction, outcome)
        mean = float(count @ loss) / n
        variance = max(float(count @ loss**2) / n - mean**2, 0.0)
        return cls(*span, n, mean, float(_NORMAL_975 * np.sqrt(variance / n)))

    def to_json(self) -> dict[str, Any]:
        """Numbers."""
        numbers: dict[str, Any] = {"from": format_time(self.from_ms), "to": format_time(self.to_ms), "labelled": self.n}
        if self.n:
            interval = [self.difference - self.half_width, self.difference + self.half_width]
            numbers |= {"brier_difference": self.difference, "brier_difference_interval": interval}
        return numbers

    def __str__(self) -> str:
        if self.n == 0:
            return "the events since then cannot be compared"
        lower, upper = self.difference - self.half_width, self.difference + self.half_width
        return (
            f"it adds {self.difference:.2g} ({lower:.2g} to {upper:.2g}) to the mean squared error (Brier score) of "
            f"{self.n:,} predictions"
        )


@dataclass(slots=True)
class _MapWatch:
    """Evidence and alarms on the map that serves a version."""

    to_ms: int
    """Events before this time are in it."""
    watch: Watch
    raised: Raised | None = None

    @classmethod
    def begin(cls, from_ms: int) -> "_MapWatch":
        return cls(from_ms, Watch(from_ms))

    def update(self, bets: Bets, line: float, forget_ms: int) -> None:
        """Add bets. After a gap longer than ``forget_ms`` evidence starts again at 0."""
        gaps = np.flatnonzero(np.diff(bets.end_ms, prepend=self.to_ms) > forget_ms).tolist()
        for start, stop in pairwise(sorted({0, *gaps, bets.end_ms.size})):
            if start in gaps:
                self.watch, self.raised = Watch(int(bets.end_ms[start]) - 1), None
            part = Bets(bets.end_ms[start:stop], bets.log_bets[start:stop])
            for event in self.watch.update({group_of(ALL): {ALL: part}}, line):
                if event.alarm is None:
                    self.raised = None
                else:
                    raised = raised_by(event.alarm)
                    self.raised = raised if self.raised is None else raised_again(self.raised, raised)
            self.to_ms = int(part.end_ms[-1])

    def state(self) -> dict[str, Any]:
        raised = None if self.raised is None else list(self.raised)
        return {"to_ms": self.to_ms, "watch": self.watch.state(), "raised": raised}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "_MapWatch":
        raised = None if state["raised"] is None else Raised(*state["raised"])
        return cls(state["to_ms"], Watch.from_state(state["watch"]), raised)


@dataclass(slots=True)
class ServedVersion:
    """The evidence on one version: on its predictions as they are served, and on the map that serves them.

    Attributes
    ----------
    watch
        The detectors of predictions.
    revision
        Of what serves: 0 if no map ever did.
    from_ms
        Panes that begin earlier are left out.
    resting
        Why the detectors of predictions have no evidence; empty where they have.
    """

    watch: VersionWatch
    revision: int = 0
    from_ms: int = 0
    resting: str = ""
    _map: _MapWatch | None = field(default=None)
    """None while no map serves."""

    @property
    def to_ms(self) -> int:
        """Predictions before this time are in the evidence, or were left out."""
        return self.watch.to_ms

    def serve(self, serving: Serving) -> bool:
        """Start anew if what serves has changed; returns whether it has."""
        if serving.revision == self.revision:
            return False
        self.watch.restart()
        self.watch.to_ms = max(self.watch.to_ms, serving.from_ms)
        self.revision, self.from_ms, self.resting = serving.revision, serving.from_ms, ""
        self._map = None if serving.map_id is None else _MapWatch.begin(self.watch.to_ms)
        return True

    def switch_off(self, lines: Mapping[str, float]) -> bool:
        """End the alarms of detectors without a line; returns whether evidence was dropped."""
        dropped = self.watch.switch_off(lines)
        if self._map is not None and self._map.raised is not None and SERVING_MAP not in lines:
            self.watch.ended_by_settings[SERVING_MAP] = self.watch.to_ms
            self._map, dropped = _MapWatch.begin(self.watch.to_ms), True
        return dropped

    def update(
        self,
        steps: Mapping[str, Steps],
        edge_ms: int,
        lines: Mapping[str, float],
        *,
        pane_ms: int,
        serving: Serving | None,
        maps: ServedMaps,
    ) -> None:
        """Add the panes of each segment that were settled since, up to ``edge_ms``."""
        steps = {segment: kept for segment, one in steps.items() if (kept := _since(one, self.from_ms + pane_ms))}
        if serving is None or serving.map_id is None or self._map is None:
            if steps:
                self.watch.update(steps, lines)
            return
        of_predictions, line = {name: one for name, one in lines.items() if name != SERVING_MAP}, lines.get(SERVING_MAP)
        if line is None:  # its detector is switched off
            self._map = _MapWatch.begin(self.watch.to_ms)
        loaded = maps.load(serving.map_id)
        self.resting = loaded.resting
        if not loaded.resting and any(segment.startswith(f"{CLASS}=") for segment in steps):
            self.resting = _needs(_CLASSES)
        if not self.resting:
            if steps:
                moved = {segment: recalibrate_steps(one, loaded.recalibrate) for segment, one in steps.items()}
                self.watch.update(moved, of_predictions)
                if line is not None:
                    self._map.update(loaded.bets.bet(steps[ALL]), line, self.watch.forget_ms)
            return
        self.watch.to_ms = max([self.watch.to_ms, *(int(one.end_ms[-1]) for one in steps.values())])
        if loaded.map is None or line is None:
            return
        try:
            bets = maps.bet_on_samples(serving, loaded, self._map.to_ms, edge_ms)
        except InputError as error:
            self.resting = f"the map that serves cannot be applied: {error}"
        else:
            self._map.update(bets, line, self.watch.forget_ms)

    def levels(self, lines: Mapping[str, float]) -> dict[str, EvidenceLevel]:
        """Detector -> its evidence now."""
        levels = self.watch.levels(lines)
        if self._map is not None and SERVING_MAP in lines:
            levels[SERVING_MAP] = level_of(self._map.watch, self._map.raised, lines[SERVING_MAP])
        return levels

    def state(self) -> dict[str, Any]:
        """Return what :meth:`from_state` continues from."""
        return {
            **self.watch.state(),
            "serving": {
                "revision": self.revision,
                "from_ms": self.from_ms,
                "resting": self.resting,
                "map": None if self._map is None else self._map.state(),
            },
        }

    @classmethod
    def from_state(cls, model: str, version: str, to_ms: int, state: Mapping[str, Any]) -> "ServedVersion":
        """Continue from a state."""
        watch = VersionWatch.from_state(model, version, to_ms, state)
        serving = state["serving"]
        watch.to_ms = max(to_ms, serving["from_ms"])
        on_map = None if serving["map"] is None else _MapWatch.from_state(serving["map"])
        return cls(watch, serving["revision"], serving["from_ms"], serving["resting"], on_map)


def _since(steps: Steps, end_ms: int) -> Steps | None:
    """The steps that end at a time or later; None if there are none."""
    start = int(np.searchsorted(steps.end_ms, end_ms))
    return steps.part(start, steps.end_ms.size) if start < steps.end_ms.size else None
