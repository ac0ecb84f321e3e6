"""The pictures of a refit: they draw on every kind of data, and say what is so."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from docs.generators.recalibration_example import example
from monitor.errors import NotEnoughData
from monitor.local import local_calibration_error
from monitor.maps import METHODS
from monitor.maps.labelled import LabelledEvents
from monitor.measures import smce
from monitor.recalibration.comparison import local_finding
from monitor.reports.diagrams.refit import GAMMAS, MAX_SEGMENTS, GammaCurve, SegmentRow, gamma_curves
from monitor.reports.figures.local_map import plane_figure
from monitor.reports.figures.output import to_svg
from monitor.reports.figures.recalibration import gamma_figure, refit_figures, segments_figure
from monitor.reports.figures.style import WIDTH, fitting
from monitor.scores import ScoreTable
from tests.reports.figures.tables import check_layout, texts

Floats = NDArray[np.float64]

NAMES = {"reliability", "mlce_by_gamma", "local_map", "segments"}


class Refit:
    """A model that errs where a feature is high, no map, one that is right on average, and the truth."""

    def __init__(
        self, n: int, mean: float = 0.0, *, constant: bool = False, weighted: bool = False, seed: int = 1
    ) -> None:
        rng = np.random.default_rng(seed)
        self.phi = rng.normal(size=(n, 3))
        log_odds = mean + 1.2 * rng.normal(size=n)
        truth = expit(log_odds + np.tanh(2.0 * self.phi[:, 0]))
        p = np.full(n, 0.3) if constant else expit(1.4 * log_odds + 0.4)
        self.events = LabelledEvents.of(
            p,
            (rng.random(n) < truth).astype(np.float64),
            features=self.phi,
            segments={"region": np.where(self.phi[:, 0] > 0.0, "north", "south")},
            weight=rng.uniform(0.5, 4.0, n) if weighted else None,
        )
        average = np.full(n, self.events.outcome.mean())
        self.predictions: Mapping[str, Floats] = {
            "none": p,
            "champion": average if constant else expit(log_odds),
            "challenger": truth,
        }

    def segments(self) -> list[dict[str, Any]]:
        found = []
        for value in ("north", "south"):
            inside = self.events.segments["region"] == value
            entry: dict[str, Any] = {"segment": f"region={value}", "n": int(inside.sum())}
            for name, p in self.predictions.items():
                entry[name] = {"smce": smce(ScoreTable.from_events(p[inside], self.events.outcome[inside]))}
            found.append(entry)
        return found


REFITS = {
    "balanced": lambda: Refit(2000),
    "rare": lambda: Refit(3000, -5.0),
    "constant": lambda: Refit(1500, constant=True),
    "weighted": lambda: Refit(2000, weighted=True),
    "tiny": lambda: Refit(40),
}


@pytest.mark.parametrize(
    ("name", "champion"), [("balanced", False), ("rare", True), ("constant", True), ("weighted", True), ("tiny", True)]
)
def test_the_pictures_draw_and_stay_in_their_frames(name: str, champion: bool) -> None:
    refit = REFITS[name]()
    predictions = {each: p for each, p in refit.predictions.items() if champion or each != "champion"}
    found = refit_figures(
        refit.events,
        predictions,
        refit.phi,
        segments=[each if champion else {**each, "champion": None} for each in refit.segments()],
        methods={"champion": "beta", "challenger": "lore"},
    )
    # Of forty events no neighbourhood is worth fifty.
    assert set(found) == (NAMES if name != "tiny" else {"reliability", "segments"})
    for figure in found.values():
        check_layout(figure)
    written = texts(found["reliability"])
    assert "new: lore" in written
    assert ("champion: beta" in written) == champion


def test_the_longest_names_of_methods_stay_in_their_frames() -> None:
    refit = REFITS["balanced"]()
    longest, other = sorted(METHODS, key=len, reverse=True)[:2]
    found = refit_figures(
        refit.events,
        refit.predictions,
        refit.phi,
        segments=refit.segments(),
        methods={"champion": longest, "challenger": other},
    )
    assert set(found) == NAMES
    for name, figure in found.items():
        check_layout(figure)
        if name in {"reliability", "local_map"}:
            panels = [axes for axes in figure.axes if any(text.get_text() for text in axes.texts)]
            assert len(panels) >= 3
            for axes in panels:
                box = axes.get_window_extent()
                for text in axes.texts:
                    assert text.get_window_extent().x1 <= box.x1 + 0.05 * box.width, text.get_text()
    for name in ("local_map", "mlce_by_gamma"):
        assert {f"champion: {longest}", f"new: {other}"} <= set(texts(found[name]))


def test_a_text_shrinks_before_it_is_cut() -> None:
    assert fitting("short", WIDTH, 10.0) == ("short", 10.0)
    text, size = fitting("a text of some length", 1.3, 10.0)
    assert text == "a text of some length"
    assert 7.0 <= size < 10.0
    text, size = fitting("a text of some length", 0.5, 10.0, bold=True)
    assert text.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert 7.0 <= size < 8.0
    assert fitting("", 1.0, 10.0) == ("", 10.0)


def test_a_coordinate_that_is_the_same_for_all_is_a_strip() -> None:
    refit = REFITS["balanced"]()
    plane = np.column_stack([refit.phi[:, 0], np.full(refit.phi.shape[0], 7.0)])
    outcome = dict.fromkeys(("before", "after"), refit.events.outcome.astype(np.float64))
    predictions = {"before": refit.predictions["none"], "after": refit.predictions["challenger"]}
    figure = plane_figure(predictions, outcome, plane)
    check_layout(figure)
    assert figure.axes[0].get_ylim() == pytest.approx((-0.5, 0.5))
    assert not any("e-" in each or "e\N{MINUS SIGN}" in each for each in texts(figure))


def test_a_picture_and_its_comparison_are_the_same_numbers() -> None:
    refit = Refit(3000)
    curves = gamma_curves(refit.predictions, refit.events.outcome, refit.phi, gammas=(0.4,), seed=3)
    for name, curve in curves.items():
        told = local_finding(refit.predictions[name], refit.events.outcome, None, refit.phi, seed=3).document
        assert told is not None
        assert told["gamma"] == 0.4
        shown = {"value": curve.mlce[0], "null_mean": curve.null_mean[0], "null_q95": curve.null_q95[0]}
        assert shown == pytest.approx({key: told["mlce"][key] for key in shown})


def test_the_same_refit_gives_the_same_bytes() -> None:
    refit = REFITS["balanced"]()
    first, second = (
        {name: to_svg(figure) for name, figure in figures.items()}
        for figures in (
            refit_figures(refit.events, refit.predictions, refit.phi, segments=refit.segments()) for _ in range(2)
        )
    )
    assert first == second
    assert set(first) == NAMES


def test_what_is_not_there_is_not_drawn() -> None:
    refit = REFITS["balanced"]()
    assert set(refit_figures(refit.events, refit.predictions)) == {"reliability"}
    line = set(refit_figures(refit.events, refit.predictions, refit.phi[:, :1]))
    assert line == {"reliability", "mlce_by_gamma"}


def test_many_classes_are_drawn_by_their_largest_probability() -> None:
    rng = np.random.default_rng(3)
    truth = rng.dirichlet([1.0, 1.0, 2.0], 2000)
    outcome = (rng.random((2000, 1)) > truth.cumsum(axis=1)).sum(axis=1)
    sure = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    events = LabelledEvents.of(sure, outcome)
    phi = rng.normal(size=(2000, 2))
    found = refit_figures(events, {"none": sure, "challenger": truth}, phi)
    assert set(found) == NAMES - {"segments"}
    top = ScoreTable.from_events(sure.max(axis=1), sure.argmax(axis=1) == outcome)
    assert any(f"error {100 * smce(top):.2g} points" in each for each in texts(found["reliability"]))


def test_titles_say_what_became_better_and_what_did_not() -> None:
    refit = REFITS["balanced"]()
    better = refit_figures(refit.events, refit.predictions, refit.phi, segments=refit.segments())
    swapped = {"none": refit.predictions["challenger"], "challenger": refit.predictions["none"]}
    back = [
        {**each, "none": each["challenger"], "challenger": each["none"], "champion": None} for each in refit.segments()
    ]
    worse = refit_figures(refit.events, swapped, refit.phi, segments=back)

    def title(figures: Mapping[str, Any], name: str) -> str:
        return str(figures[name].texts[0].get_text())

    assert "The error fell from" in title(better, "reliability")
    assert "The error did not fall" in title(worse, "reliability")
    assert "(within chance)" in title(better, "mlce_by_gamma").partition("after")[2]
    assert "(beyond chance)" in title(worse, "mlce_by_gamma").partition("after")[2]
    assert title(better, "local_map").startswith("Before, predictions that are alike were up to")
    assert "not better than before" in title(worse, "local_map")
    assert "within chance after: 2 of 2 segments" in title(better, "segments")
    assert "2 of 2 are worse than before, beyond chance" in title(worse, "segments")


def test_a_curve_is_the_local_error_at_each_gamma() -> None:
    refit = REFITS["balanced"]()
    p, y = refit.predictions["none"], refit.events.outcome
    curve = gamma_curves({"p": p}, y, refit.phi, gammas=(0.4, 3.0), max_points=5000, draws=19, seed=5)["p"]
    for place, gamma in enumerate(curve.gamma.tolist()):
        alone = local_calibration_error(p, y, refit.phi, gamma=gamma, draws=19, seed=5)
        assert curve.mlce[place] == pytest.approx(alone.mlce)
        assert alone.mlce_excess is not None
        # Draws of their own.
        assert curve.excess[place] == pytest.approx(alone.mlce_excess, abs=0.03)
    assert {0.2, 0.4} <= {round(each, 12) for each in GAMMAS}


def test_a_curve_has_no_value_where_neighbours_are_too_few() -> None:
    refit = REFITS["balanced"]()
    p = {"p": refit.predictions["none"]}
    curve = gamma_curves(p, refit.events.outcome, refit.phi, gammas=(1e-3, 3.0), max_points=200, draws=19)["p"]
    assert np.isnan(curve.mlce[0])
    assert np.isfinite(curve.mlce[1])
    nowhere = GammaCurve(curve.gamma, *np.full((3, 2), np.nan))
    with pytest.raises(NotEnoughData, match="take more events"):
        gamma_figure({"before": curve, "after": nowhere})


def test_errors_of_a_plane_count_events_by_their_weight() -> None:
    rng = np.random.default_rng(7)
    plane = rng.normal(size=(600, 2))
    p, y = {"a": np.full(600, 0.5), "b": np.full(600, 0.4)}, (np.arange(600) % 2).astype(np.float64)
    outcome = {"a": y, "b": y}
    even = texts(plane_figure(p, outcome, plane, gamma=1e6))
    assert "at worst 0.00 points off" in even
    assert "at worst 10 points off" in even
    # Positives count thrice: 75% of the stream came true.
    uneven = texts(plane_figure(p, outcome, plane, 1.0 + 2.0 * y, gamma=1e6))
    assert "at worst 25 points off" in uneven
    assert "at worst 35 points off" in uneven


def test_segments_that_became_worst_are_drawn_too() -> None:
    rows = [SegmentRow(f"region={k:02d}", 100, before=0.3 - 0.01 * k, after=0.01 * k) for k in range(20)]
    written = texts(segments_figure(rows))
    shown = [each for each in written if each.startswith("region=")]
    assert len(shown) == MAX_SEGMENTS
    assert set(shown) == {f"region={k:02d}" for k in [*range(8), *range(16, 20)]}
    assert any(f"{MAX_SEGMENTS} of 20 segments are shown" in each for each in written)


def test_a_long_name_of_a_segment_is_cut() -> None:
    figure = segments_figure([SegmentRow("a-key-that-says-much=" + "x" * 60, 100, 0.1, 0.05)])
    check_layout(figure)
    assert any(each.endswith("\N{HORIZONTAL ELLIPSIS}") for each in texts(figure))


def test_the_example_of_the_documentation_is_repaired() -> None:
    found = example()
    assert set(found) == NAMES
    title = found["mlce_by_gamma"].texts[0].get_text()
    assert "(beyond chance), after" in title
