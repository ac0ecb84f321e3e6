"""Windows as obvious loops over the predictions of a log, each with what is known of it in the end."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pytest

from monitor.events.model import SeriesKey, Stratum
from monitor.measures import WINDOW_MEASURES
from monitor.reports.evaluation.assess import assess
from monitor.scores import GridTable
from monitor.store.history import FIELDS
from tests.reference.naive_join import NaiveJoin
from tests.reference.naive_measures import ece_by_loops, kce_by_double_sum


class Row(NamedTuple):
    """A prediction with its outcome, or with none (-1)."""

    time_ms: int
    p: float
    y: int


class NaiveWindows:
    """Every prediction of every series, from the joins of all partitions."""

    def __init__(self, joins: Iterable[NaiveJoin]) -> None:
        self._rows: defaultdict[SeriesKey, list[Row]] = defaultdict(list)
        for join in joins:
            for known in join.predictions.values():
                event = known.event
                for series in Stratum(event.model, event.version, event.segments).series():
                    self._rows[series].append(Row(event.time_ms, event.p, known.y))

    @property
    def series(self) -> Sequence[SeriesKey]:
        """All series."""
        return sorted(self._rows)

    def rows(self, series: SeriesKey, from_ms: int, to_ms: int) -> list[Row]:
        """The predictions of a series that were made in [from, to)."""
        return [row for row in self._rows[series] if from_ms <= row.time_ms < to_ms]

    def assert_report(self, series: SeriesKey, report: Mapping[str, Any], *, draws: int = 0) -> None:
        """A report, or a point of the history, says what is true of the predictions of its window.

        Parameters
        ----------
        draws
            Resamples of its intervals and levels, which are those of a table of these predictions alone.
        """
        from_ms, to_ms = (round(datetime.fromisoformat(report[name]).timestamp() * 1000) for name in ("from", "to"))
        rows = self.rows(series, from_ms, to_ms)
        p = np.array([row.p for row in rows if row.y >= 0])
        y = np.array([row.y for row in rows if row.y >= 0])
        assert [report[name] for name in ("predictions", "n", "positives")] == [len(rows), p.size, int(y.sum())]
        assert report["mean_prediction"] == (pytest.approx(p.mean(), rel=1e-6) if p.size else None)
        assert report["prevalence"] == (pytest.approx(y.mean(), rel=1e-6) if p.size else None)
        scores = GridTable.from_events(p, y).to_scores()
        expected = assess(scores, measures=WINDOW_MEASURES, draws=draws).measures
        assert report["measures"].keys() == expected.keys()
        for name, result in expected.items():
            measured = [report["measures"][name][field] for field in FIELDS]
            fields = [getattr(result, field) for field in FIELDS]
            assert np.array(measured, float) == pytest.approx(np.array(fields, float), rel=1e-6, nan_ok=True), name
        if expected:
            # From their definitions, too. Bins are exact on the grid; kCE has a bound of what its cells may cost.
            ece, kce = (report["measures"][name]["value"] for name in ("ece", "kce"))
            assert ece == pytest.approx(ece_by_loops(p, y, 10, 1), rel=1e-6)
            bound = WINDOW_MEASURES["kce"].error_bound(scores, kce)
            assert kce == pytest.approx(kce_by_double_sum(p, y), abs=bound, rel=1e-6)
