from datetime import UTC, datetime, timedelta

import pytest
from matplotlib.dates import date2num

from monitor.reports.figures import Moment, history_figure
from monitor.reports.figures.dates import Dates
from tests.reports.figures.tables import check_layout, texts


@pytest.mark.parametrize(
    ("times", "labels", "offset"),
    [
        # "08 15 22 Feb" over "2026-Feb" would be read as days of February.
        (["2026-01-08", "2026-01-15", "2026-02-01"], ["8 Jan", "15 Jan", "1 Feb"], "2026"),
        (["2025-12-24", "2026-01-01", "2026-01-08"], ["24 Dec", "1 Jan", "8 Jan"], "2025 to 2026"),
        (["2025-11-01", "2026-01-01", "2026-03-01"], ["Nov 2025", "Jan 2026", "Mar 2026"], ""),
        (["2024-01-01", "2026-01-01"], ["2024", "2026"], ""),
        (["2026-05-01T06:00", "2026-05-01T18:00"], ["06:00", "18:00"], "1 May 2026 UTC"),
        (
            ["2026-04-30T12:00", "2026-05-01", "2026-05-01T12:00"],
            ["12:00", "1 May", "12:00"],
            "30 Apr 2026 to 1 May 2026 UTC",
        ),
        (["2026-05-01T06:00:15", "2026-05-01T06:00:30"], ["06:00:15", "06:00:30"], "1 May 2026 UTC"),
        ([], [], ""),
    ],
)
def test_every_label_can_be_read_by_itself(times: list[str], labels: list[str], offset: str) -> None:
    formatter = Dates()
    days = [float(date2num(datetime.fromisoformat(each).replace(tzinfo=UTC))) for each in times]
    assert formatter.format_ticks(days) == labels
    assert formatter.get_offset() == offset


def test_a_label_alone_is_one_of_many() -> None:
    assert Dates()(float(date2num(datetime(2026, 1, 8, tzinfo=UTC)))) == "8 Jan"


def test_days_have_their_month_in_a_figure() -> None:
    start = datetime(2026, 1, 2, tzinfo=UTC)
    figure = history_figure([Moment(start + timedelta(days=3 * k), (), 0.4, 0.42) for k in range(12)], what="span")
    check_layout(figure)
    written = texts(figure)
    assert {"8 Jan", "15 Jan", "2026"} <= set(written)
    assert not {"08", "15", "2026-Feb"} & set(written)
