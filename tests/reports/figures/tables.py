"""The data sets that every figure must stand: usual ones and those at the edges; and what a drawn figure holds."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase
from matplotlib.text import Text
from scipy.special import expit

from monitor.scores import GridTable, ScoreTable
from tests.long import short_of


def simulated(n: int, slope: float = 1.0, offset: float = 0.0, mean: float = 0.0, seed: int = 1) -> ScoreTable:
    return ScoreTable.from_events(*events(n, slope, offset, mean, seed))


def events(n: int, slope: float, offset: float, mean: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.normal(mean, 1.2, n)
    return expit(slope * true + offset), rng.random(n) < expit(true)


def certain() -> ScoreTable:
    rng = np.random.default_rng(2)
    p = (rng.random(600) < 0.4).astype(np.float64)
    return ScoreTable.from_events(p, np.where(rng.random(600) < 0.1, 1.0 - p, p))


def one_class() -> ScoreTable:
    return ScoreTable.from_events(np.random.default_rng(3).random(400), np.zeros(400))


def weighted() -> ScoreTable:
    return ScoreTable.from_events(*events(6_000, 1.6, 0.0, 0.0, 4), np.random.default_rng(4).random(6_000))


TABLES: Final[Mapping[str, Callable[[], ScoreTable]]] = {
    "balanced": lambda: simulated(5_000, slope=1.6),
    "one event": lambda: ScoreTable.from_events([0.3], [1]),
    "weighted": weighted,
    "rare": lambda: simulated(10_000, offset=0.7, mean=-5.5),
    "calibrated": lambda: simulated(3_000),
    "common": lambda: simulated(10_000, offset=0.7, mean=5.5),
    "tiny": lambda: simulated(50, slope=1.3),
    "constant": lambda: ScoreTable.from_events([0.3] * 1000, [1] * 400 + [0] * 600),
    "one class": one_class,
    "certain": certain,
    "cells": lambda: GridTable.from_events(*events(20_000, 1.3, 0.0, 0.0, 5)).to_scores(),
    "large": lambda: simulated(1_000_000, slope=1.15),
}

every_table = pytest.mark.parametrize("name", short_of([*TABLES], 4))
every_table_of_counts = pytest.mark.parametrize("name", short_of([name for name in TABLES if name != "weighted"], 4))


def texts(figure: FigureBase) -> list[str]:
    """All that is written, line breaks as spaces."""
    return [each.get_text().replace("\n", " ") for each in _texts(figure)]


def _texts(figure: FigureBase) -> Iterator[Text]:
    yield from (each for each in figure.findobj(Text) if isinstance(each, Text) and each.get_text())


def check_layout(figure: Figure) -> None:
    """Nothing that is written leaves the figure, and the title and the caption are clear of all axes."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    bounds = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box is not None
        inside = box.x0 >= bounds.x0 and box.x1 <= bounds.x1 and box.y0 >= bounds.y0 and box.y1 <= bounds.y1
        assert inside, (axes.get_ylabel(), box, bounds)
    for part in (figure, *figure.subfigs):
        for text in part.texts:
            box = text.get_window_extent(renderer)
            assert bounds.x0 <= box.x0, text.get_text()
            assert box.x1 <= bounds.x1, text.get_text()
            for axes in figure.axes:
                other = axes.get_tightbbox(renderer)
                assert other is not None
                assert not box.overlaps(other), (text.get_text(), axes.get_ylabel())
