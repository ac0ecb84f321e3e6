import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from docs.generators.tce_diagram import tce_diagram
from monitor.errors import InputError
from monitor.measures import tce_bins
from monitor.reports.figures.style import HAPPENED, INK, PREDICTED
from monitor.scores import ScoreTable
from tests.reports.figures.tables import TABLES, every_table_of_counts, texts


@every_table_of_counts
def test_it_draws_the_bins_of_the_test(name: str) -> None:
    table = TABLES[name]()
    bins = tce_bins(table)
    main, sizes, _ = tce_diagram(table).axes
    rates = [
        each
        for each in main.collections
        if isinstance(each, LineCollection) and np.array_equal(each.get_colors()[0], to_rgba(INK))
    ]
    assert len(rates) == 1
    assert len(rates[0].get_segments()) == bins.sizes.size
    total, refuted = sizes.containers
    assert [bar.get_height() for bar in total] == bins.sizes.tolist()
    assert [bar.get_height() for bar in refuted] == bins.rejected.tolist()
    if name not in {"rare", "common"}:
        np.testing.assert_allclose([segment[0, 1] for segment in rates[0].get_segments()], bins.rate, atol=1e-6)


def test_violins_have_the_colour_of_their_verdict() -> None:
    refuted = ScoreTable.from_events(np.linspace(0.2, 0.3, 200), np.ones(200))
    agreed = ScoreTable.from_events(np.repeat(np.linspace(0.48, 0.52, 100), 2), np.tile([0, 1], 100))
    for table, color, other in ((refuted, HAPPENED, PREDICTED), (agreed, PREDICTED, HAPPENED)):
        colors = np.concatenate([np.asarray(each.get_facecolor()) for each in tce_diagram(table).axes[0].collections])
        drawn = {tuple(each[:3]) for each in colors.tolist()}
        assert to_rgba(color)[:3] in drawn
        assert to_rgba(other)[:3] not in drawn


def test_the_title_gives_the_value_beside_what_chance_gives() -> None:
    written = " ".join(texts(tce_diagram(TABLES["balanced"]())))
    assert "of the predictions disagree with what happened" in written
    assert "a perfectly calibrated model would show about" in written


def test_columns_are_the_bins() -> None:
    table = TABLES["calibrated"]()
    expected = tce_bins(table)
    total, refuted = tce_diagram(table).axes[1].containers
    assert len(total) == expected.sizes.size
    assert [bar.get_height() for bar in refuted] == expected.rejected.tolist()


def test_a_bar_that_the_axis_does_not_reach_is_said_to_lie_beyond() -> None:
    """Of log odds no axis reaches 0%, where the share of a column lies in which nothing came true."""
    assert (tce_bins(TABLES["rare"]()).rate == 0.0).any()
    assert any("lies beyond it" in each for each in texts(tce_diagram(TABLES["rare"]())))
    assert not any("lies beyond it" in each for each in texts(tce_diagram(TABLES["tiny"]())))


def test_weights_are_refused() -> None:
    with pytest.raises(InputError, match="whole counts"):
        tce_diagram(TABLES["weighted"]())
