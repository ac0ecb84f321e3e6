"""Labels of an axis of time: each can be read by itself."""

from datetime import UTC, datetime, timedelta

import pytest

from monitor.reports.figures.history import Moment, history_figure
from tests.reports.figures.tables import check_layout, texts


@pytest.mark.parametrize(
    ("step", "some", "none"),
    [
        # "08 15 22 Feb" would be read as days of February.
        (timedelta(days=3), {"8 Jan 2026", "15 Jan 2026"}, {"08", "15", "2026-Feb"}),
        (timedelta(days=45), {"Jan 2026", "Jan 2027"}, {"Jan"}),
        (timedelta(days=700), {"2032", "2040"}, set()),
        (timedelta(hours=2), {"12:00 2 Jan", "16:00 2 Jan"}, {"12:00"}),
        (timedelta(seconds=2), {"00:00:10 2 Jan"}, {"10"}),
    ],
)
def test_every_label_can_be_read_by_itself(step: timedelta, some: set[str], none: set[str]) -> None:
    start = datetime(2026, 1, 2, tzinfo=UTC)
    figure = history_figure([Moment(start + k * step, {}, 0.4, 0.42) for k in range(12)], what="span")
    check_layout(figure)
    written = set(texts(figure))
    assert some <= written
    assert not none & written
