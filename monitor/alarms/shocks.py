"""The common shock of each version, from panes that are kept, and a warning where the tolerance does not cover it."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import structlog

from monitor.clock import Clock
from monitor.errors import NotEnoughData
from monitor.events.model import ALL, SeriesKey
from monitor.sequential.shock import common_shock
from monitor.store.model_evidence import ModelEvidence, Shock
from monitor.windows.panes import ClosedPanes

_log: Final = structlog.get_logger(__name__)


class _Known(NamedTuple):
    """The estimate of one version."""

    end: int
    """Number of the first period that is not settled."""
    shock: Shock | None


_SHARE: Final = 0.1
"""Share of an evaluation's time for estimates: at a start, and at the end of a day, those of all versions are due."""
_MAX_SECONDS: Final = 1.0


class Shocks:
    """Estimates the common shock of versions, anew whenever a period of one horizon has been settled.

    An estimate takes some tens of milliseconds. Those for which there is no time wait for the next call; until then a
    version keeps the one before.

    Parameters
    ----------
    panes
        Of all partitions.
    widths_ms
        The widths that panes are kept in.
    tolerance
        Model -> error of its logits up to which nothing is called a fault.
    clock
        Measures estimates.
    """

    def __init__(
        self,
        panes: ClosedPanes,
        widths_ms: Sequence[int],
        tolerance: Callable[[str], float],
        clock: Clock,
    ) -> None:
        self._panes = panes
        self._widths_ms = sorted(widths_ms)
        self._tolerance = tolerance
        self._known: dict[SeriesKey, _Known] = {}
        self._uncovered: set[SeriesKey] = set()
        self._clock = clock
        self._seconds = _MAX_SECONDS
        """Left for estimates."""
        self._refilled = self._clock.monotonic()

    def add(self, model: str, evidence: ModelEvidence) -> ModelEvidence:
        """The evidence on a model with the common shock of each of its versions."""
        now = self._clock.monotonic()
        self._seconds = min(self._seconds + _SHARE * (now - self._refilled), _MAX_SECONDS)
        self._refilled = now
        versions = {
            version: found._replace(shock=self._estimate(SeriesKey(model, version, ALL)))
            for version, found in evidence.versions.items()
        }
        gone = [key for key in self._known if key.model == model and key.version not in versions]
        for key in gone:
            del self._known[key]
        self._uncovered.difference_update(gone)
        return evidence._replace(versions=versions)

    def _estimate(self, series: SeriesKey) -> Shock | None:
        horizon_ms = self._panes.policy(series.model).horizon_ms
        # Of the widths of which a period is made, the one that reaches back most periods.
        spans = [
            (-(-self._panes.kept_from_ms(series, width_ms) // horizon_ms), width_ms)
            for width_ms in self._widths_ms
            if width_ms <= horizon_ms and horizon_ms % width_ms == 0
        ]
        if not spans:
            return None
        first, width_ms = min(spans)
        end = self._panes.edge_ms(series.model) // horizon_ms
        known = self._known.get(series)
        if (known is None or known.end != end) and self._seconds > 0.0:
            began = self._clock.monotonic()
            shock = self._compute(series, width_ms, horizon_ms, first, end)
            self._seconds -= self._clock.monotonic() - began
            known = self._known[series] = _Known(end, shock)
            self._warn(series, shock)
        return None if known is None else known.shock

    def _compute(self, series: SeriesKey, width_ms: int, horizon_ms: int, first: int, end: int) -> Shock | None:
        steps = self._panes.settled_steps(series, width_ms, first * horizon_ms, end * horizon_ms)
        try:
            found = common_shock(steps, horizon_ms)
        except NotEnoughData:
            return None
        return Shock(found.deviation, found.lower, found.upper, found.periods, self._tolerance(series.model))

    def _warn(self, series: SeriesKey, shock: Shock | None) -> None:
        if shock is None or shock.covered:
            self._uncovered.discard(series)
        elif series not in self._uncovered:  # logged once, not at every period
            self._uncovered.add(series)
            _log.warning(
                "the tolerance does not cover the common shock",
                model=series.model,
                version=series.version,
                detail=shock.sentence,
            )
