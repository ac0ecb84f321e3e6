r"""The process that turns bets into evidence: Shiryaev-Roberts, weighted by time.

Each alternative k of a series has a process

.. math:: M_k \leftarrow (M_k + \Delta t / P)\, e_k

with e_k its bet on a step, P a year and dt the time since the series' last bet, which is known before the outcomes are.
The evidence of a series is the mean of its M_k, that of several series at the same time a weighted average. Its mean
under the null hypotheses is at most the time that has passed, in years. So alarms at 1 / b, after each of which it
starts again at 0, are at most b false ones a year on average, whatever the rate of events.
Source: section 4 of the mathematics.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.errors import InputError
from monitor.sequential.detector import Bets, State
from monitor.sequential.process_loops import NEVER, accumulate

YEAR_MS: Final = 31_557_600_000
"""A Julian year: the period that false alarms are counted for."""


_CARRIES: Final = 0.5
"""Share of the largest score from which on the data speak for an alternative too."""


class SeriesEvidence(NamedTuple):
    """What one series contributes."""

    evidence: float
    """Mean over the alternatives."""
    score: float
    """Logarithm of the largest gain of an alternative since some step."""
    since_ms: int
    """End of the step before that gain began: an estimate of when the change was."""
    alternatives: tuple[int, ...]
    """Columns of the alternatives whose logarithm is at least half as large, the largest first; none if none gained."""


class Alarm(NamedTuple):
    """The evidence has reached the threshold."""

    end_ms: int
    """End of the step in which it did."""
    evidence: float
    threshold: float
    groups: Mapping[str, Mapping[str, SeriesEvidence]]
    """Group -> series -> what it contributed."""


class Evidence:
    """Evidence of one detector on the series of one model and version.

    Series come in groups, for instance the whole in one and the segments in another. Groups have equal weights, and so
    have the series of a group, among those that have had a bet since the evidence was 0.

    Parameters
    ----------
    start_ms
        When the first step begins.
    """

    def __init__(self, start_ms: int) -> None:
        self.position_ms = start_ms
        """End of the last step with a bet."""
        self.threshold = 0.0
        self._average = 0.0
        self._series = _Series.none()

    @property
    def value(self) -> float:
        """The current evidence, 0 or more."""
        return self._average

    def groups(self) -> dict[str, dict[str, SeriesEvidence]]:
        """Return what each series contributes: group -> series -> its evidence."""
        result: dict[str, dict[str, SeriesEvidence]] = {}
        series = self._series
        for at, (group, name) in enumerate(series.names):
            score = series.score[at]
            order = np.argsort(-score, kind="stable")
            best = order[0]
            result.setdefault(group, {})[name] = SeriesEvidence(
                float(series.mean[at]),
                float(score[best]),
                int(series.since_ms[at, best]),
                tuple(k for k in order.tolist() if score[k] > 0.0 and score[k] >= _CARRIES * score[best]),
            )
        return result

    def update(self, bets: Mapping[str, Mapping[str, Bets]], threshold: float) -> list[Alarm]:
        """Add bets: those of all series on the steps up to a time that follow those of earlier calls.

        Parameters
        ----------
        bets
            Group -> series -> its bets.
        threshold
            1 / b: see :mod:`monitor.sequential.budget`. A lower one than before waits until the evidence starts again
            at 0.

        Returns
        -------
        The alarms, in order. After each the evidence starts again at 0.

        Raises
        ------
        InputError
            A step ends before the last one that was added.
        """
        alarms = []
        while (alarm := self.update_until_alarm(bets, threshold)) is not None:
            alarms.append(alarm)
            bets = after(bets, alarm.end_ms)
        return alarms

    def update_until_alarm(self, bets: Mapping[str, Mapping[str, Bets]], threshold: float) -> Alarm | None:
        """Add bets as :meth:`update` does, up to the first alarm: those on later steps are left out."""
        rows = _Rows.of(bets)
        if not rows.end_ms.size:
            return None
        if rows.end_ms[0] <= self.position_ms:
            raise InputError(f"steps must end after {self.position_ms} ms, where evidence is, got {rows.end_ms[0]}")
        self.threshold = max(self.threshold, threshold)
        series = self._series.extended(sorted({*self._series.names, *rows.names}), rows.log_bets.shape[1])
        self.position_ms, self._average = series.accumulate(rows, self.position_ms, self.threshold)
        self._series = series.started()
        if self._average < self.threshold:
            return None
        alarm = Alarm(self.position_ms, self._average, self.threshold, self.groups())
        self.restart(threshold)
        return alarm

    def restart(self, threshold: float = 0.0) -> None:
        """Start again at 0, at the end of the last step: after an alarm, or when the model's reference is new."""
        self.threshold, self._average, self._series = threshold, 0.0, _Series.none()

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        series = self._series
        return {
            "position_ms": self.position_ms,
            "threshold": self.threshold,
            "average": self._average,
            "groups": [group for group, _ in series.names],
            "series": [name for _, name in series.names],
            "value": series.value,
            "score": series.score,
            "since_ms": series.since_ms,
            "mean": series.mean,
            "to_ms": series.to_ms,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Evidence":
        """Continue from a state."""
        result = cls(int(state["position_ms"]))
        result.threshold, result._average = float(state["threshold"]), float(state["average"])
        result._series = _Series(
            list(zip(state["groups"], state["series"], strict=True)),
            np.array(state["value"], np.float64),
            np.array(state["score"], np.float64),
            np.array(state["since_ms"], np.int64),
            np.array(state["mean"], np.float64),
            np.array(state["to_ms"], np.int64),
        )
        return result


def until(bets: Mapping[str, Mapping[str, Bets]], end_ms: int) -> dict[str, dict[str, Bets]]:
    """The bets on steps up to the one that ends at a time."""
    return {group: {name: one.until(end_ms) for name, one in series.items()} for group, series in bets.items()}


def after(bets: Mapping[str, Mapping[str, Bets]], end_ms: int) -> dict[str, dict[str, Bets]]:
    """The bets on steps that end after a time."""
    return {group: {name: one.after(end_ms) for name, one in series.items()} for group, series in bets.items()}


class _Rows(NamedTuple):
    """Bets of all series in order of time."""

    names: list[tuple[str, str]]
    series: Ints
    """Index into ``names``, ascending at equal ends."""
    end_ms: Ints
    log_bets: Floats

    @classmethod
    def of(cls, bets: Mapping[str, Mapping[str, Bets]]) -> "_Rows":
        parts = sorted(
            ((group, name), part) for group, series in bets.items() for name, part in series.items() if part.end_ms.size
        )
        if not parts:
            return cls([], np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 0)))
        end_ms = np.concatenate([part.end_ms for _, part in parts])
        series = np.repeat(np.arange(len(parts)), [part.end_ms.size for _, part in parts])
        order = np.argsort(end_ms, kind="stable")
        log_bets = np.concatenate([part.log_bets for _, part in parts])[order]
        return cls([key for key, _ in parts], series[order], end_ms[order], log_bets)


@dataclass(frozen=True, slots=True)
class _Series:
    """State of the series, in order of their names: see :func:`monitor.sequential.process_loops.accumulate`."""

    names: list[tuple[str, str]]
    """Group and series."""
    value: Floats
    score: Floats
    since_ms: Ints
    mean: Floats
    to_ms: Ints

    @classmethod
    def none(cls, names: list[tuple[str, str]] | None = None, alternatives: int = 0) -> "_Series":
        """Series without a step."""
        names = names or []
        shape = (len(names), alternatives)
        return cls(
            names,
            np.zeros(shape),
            np.zeros(shape),
            np.zeros(shape, np.int64),
            np.zeros(len(names)),
            np.full(len(names), NEVER),
        )

    def extended(self, names: list[tuple[str, str]], alternatives: int) -> "_Series":
        """The same series among more."""
        result = _Series.none(names, alternatives)
        if self.names:
            place = {name: at for at, name in enumerate(names)}
            at = [place[name] for name in self.names]
            for new, old in zip(result.arrays(), self.arrays(), strict=True):
                new[at] = old
        return result

    def started(self) -> "_Series":
        """The series that have had a bet."""
        kept = self.to_ms != NEVER
        if not kept.any():
            return _Series.none()
        names = [name for name, keep in zip(self.names, kept, strict=True) if keep]
        return _Series(names, *(array[kept] for array in self.arrays()))

    def arrays(self) -> tuple[Floats, Floats, Ints, Floats, Ints]:
        return self.value, self.score, self.since_ms, self.mean, self.to_ms

    def accumulate(self, rows: _Rows, position_ms: int, threshold: float) -> tuple[int, float]:
        groups = sorted({group for group, _ in self.names})
        place = {name: at for at, name in enumerate(self.names)}
        return accumulate(
            *self.arrays(),
            np.array([groups.index(group) for group, _ in self.names]),
            position_ms,
            np.array([place[name] for name in rows.names])[rows.series],
            rows.end_ms,
            rows.log_bets,
            YEAR_MS,
            threshold,
        )
