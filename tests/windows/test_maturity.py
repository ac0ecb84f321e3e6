import numpy as np

from monitor.clock import ManualClock
from monitor.events.model import ALL, ModelPolicy, SeriesKey
from monitor.windows.evaluator import Evaluator
from monitor.windows.maturity import COHORTS, CoverageByAge
from monitor.windows.windows import Window
from tests.windows.memory import CHURN, DAY_MS, HOUR_MS, MINUTE_MS, MemoryPanes

HOUR = Window("1h", HOUR_MS)
DAY = Window("24h", DAY_MS)
WEEK = Window("7d", 7 * DAY_MS)
NOW_MS = 40 * DAY_MS
VERSION = ("churn", "7")


def panes(horizon_ms: int, ages_ms: list[int], answered: list[bool], *, implied_negative: bool = False) -> MemoryPanes:
    """Predictions of these ages, answered or not."""
    memory = MemoryPanes(ModelPolicy(horizon_ms, HOUR_MS, implied_negative=implied_negative))
    memory.add(CHURN, NOW_MS - np.array(ages_ms), np.full(len(ages_ms), 0.3), np.where(answered, 1, -1))
    memory.advance_to("churn", NOW_MS)
    return memory


def taken(memory: MemoryPanes, windows: list[Window]) -> dict[str, tuple[int, int]]:
    cohorts = CoverageByAge(memory, windows).update([CHURN], 1)[VERSION]
    assert tuple(each.cohort for each in cohorts) == COHORTS
    return {each.cohort: (each.predictions, each.labelled) for each in cohorts}


def test_predictions_are_counted_by_quarters_of_the_horizon() -> None:
    ages = [HOUR_MS * hours for hours in (1, 5, 7, 13, 17, 19, 30, 31, 32)]
    memory = panes(DAY_MS, ages, [False, False, True, False, True, True, True, True, False])
    assert taken(memory, [HOUR, DAY]) == {
        "0-25%": (2, 0),
        "25-50%": (1, 1),
        "50-75%": (2, 1),
        "75-100%": (1, 1),
        "mature": (3, 2),
    }


def test_the_mature_cohort_reaches_back_as_far_as_the_window_with_its_panes() -> None:
    ages = [DAY_MS + 23 * HOUR_MS, 2 * DAY_MS + HOUR_MS]
    assert taken(panes(DAY_MS, ages, [True, True]), [HOUR, DAY])["mature"] == (1, 1)
    assert taken(panes(DAY_MS, ages, [True, True]), [DAY, WEEK])["mature"] == (1, 1), "3 h panes are too wide for a day"
    assert taken(panes(7 * DAY_MS, [8 * DAY_MS, 13 * DAY_MS], [True, True]), [HOUR, WEEK])["mature"] == (2, 2)


def test_what_is_called_mature_had_its_whole_horizon() -> None:
    """Though its pane began in time, the prediction may be of the end of it."""
    just_mature, almost = DAY_MS + 1, DAY_MS
    assert taken(panes(DAY_MS, [just_mature], [True]), [DAY])["mature"] == (1, 1)
    assert taken(panes(DAY_MS, [almost], [True]), [DAY])["75-100%"] == (1, 1)


def test_the_mature_cohort_is_what_the_mature_window_holds() -> None:
    """Of the predictions whose horizon has passed, some are not settled: their outcomes may be on their way."""

    class Waiting(MemoryPanes):
        def edge_ms(self, model: str) -> int:
            return super().edge_ms(model) - self.of_all.lateness_ms

    memory = Waiting(ModelPolicy(DAY_MS, HOUR_MS))
    ages = DAY_MS + np.arange(0, 30 * HOUR_MS, 5 * MINUTE_MS)
    memory.add(CHURN, NOW_MS - ages, np.full(ages.size, 0.3), np.where(ages < DAY_MS + HOUR_MS, -1, 1))
    memory.advance_to("churn", NOW_MS)
    snapshot = Evaluator(memory, [DAY], draws=0, clock=ManualClock()).evaluate()
    (report,) = snapshot.reports.values()
    mature = snapshot.coverage[VERSION][-1]
    assert (mature.predictions, mature.labelled) == (report.predictions, report.n) == (288, 288)


def test_panes_wider_than_the_horizon_know_the_newest_and_the_mature() -> None:
    found = taken(panes(MINUTE_MS, [0, 5 * HOUR_MS], [False, True]), [WEEK])
    assert found["0-25%"] == (1, 0)
    assert found["mature"] == (1, 1)


def test_implied_negatives_are_no_answers() -> None:
    memory = panes(DAY_MS, [30 * HOUR_MS, 31 * HOUR_MS], [True, False], implied_negative=True)
    assert taken(memory, [DAY])["mature"] == (2, 1)


def test_a_version_that_is_gone_is_forgotten_and_segments_have_none() -> None:
    memory = panes(DAY_MS, [HOUR_MS], [False])
    memory.add(SeriesKey("churn", "7", "region=eu"), [NOW_MS], [0.5], [1])
    memory.add(SeriesKey("churn", "8", ALL), [NOW_MS], [0.5], [1])
    snapshot = Evaluator(memory, [DAY], draws=0, clock=ManualClock()).evaluate()
    assert set(snapshot.coverage) == {("churn", "7"), ("churn", "8")}
    found = CoverageByAge(memory, [DAY])
    assert set(found.update([CHURN, SeriesKey("churn", "8", ALL)], 1)) == {("churn", "7"), ("churn", "8")}
    assert set(found.update([CHURN], 2)) == {("churn", "7")}


def test_a_horizon_of_many_panes_is_looked_at_less_often() -> None:
    """30 days in panes of a minute are 43,260 of them: they are looked up every tenth evaluation."""
    memory = panes(30 * DAY_MS, [HOUR_MS], [False])
    coverage = CoverageByAge(memory, [HOUR])
    assert coverage.update([CHURN], 1)[VERSION][0].labelled == 0
    memory.answer(CHURN, [0], 1)
    assert [coverage.update([CHURN], number)[VERSION][0].labelled for number in range(2, 13)] == [0] * 9 + [1, 1]

    quick = CoverageByAge(memory, [HOUR, WEEK])
    assert quick.update([CHURN], 1)[VERSION][0].labelled == 1
    memory.add(CHURN, [NOW_MS], [0.5], [1])
    assert quick.update([CHURN], 2)[VERSION][0].labelled == 2


def test_coverage_is_counted_at_each_evaluation_also_before_anything_is_settled() -> None:
    class Unsettled(MemoryPanes):
        def edge_ms(self, model: str) -> int:
            return -1

    memory = Unsettled(ModelPolicy(DAY_MS, HOUR_MS))
    memory.add(CHURN, [NOW_MS - HOUR_MS], [0.3], [-1])
    coverage = CoverageByAge(memory, [HOUR])
    coverage.update([CHURN], 1)
    memory.add(CHURN, NOW_MS - np.arange(9) * MINUTE_MS, np.full(9, 0.3), np.ones(9, np.int64))
    assert sum(cohort.labelled for cohort in coverage.update([CHURN], 2)[VERSION]) == 9
