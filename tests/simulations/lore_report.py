"""What was measured of LoRe, as tables and pictures: for the terminal and for docs/lore.md."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullLocator

from docs.generators.svg import to_svg
from monitor.arrays import Bools
from monitor.local.calibration import DEFAULT_GAMMA
from monitor.recalibration.refit_figures import GammaCurve
from monitor.reports.figures.style import (
    BLUE,
    CHANCE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PINK,
    SKY,
    YELLOW,
    dress,
    frame,
    framed,
    legend,
    name_panel,
    new_figure,
    panel,
)
from monitor.reports.formatting import points
from tests.simulations.lore_data import SETTINGS


@dataclass(frozen=True)
class Measured:
    """A measure of the tables.

    Attributes
    ----------
    title
        For people.
    scale, digits
        What it is multiplied by, and digits after the point.
    higher
        Whether more is better.
    """

    title: str
    scale: float = 100.0
    digits: int = 1
    higher: bool = False


MEASURES: Final[Mapping[str, Measured]] = MappingProxyType(
    {
        "group_mce": Measured("Maximum group-wise MCE, points"),
        "mlce_excess": Measured("MLCE at gamma .4 above chance, points"),
        "mlce": Measured("MLCE at gamma .4, points"),
        "ece": Measured("ECE, points", digits=2),
        "nll": Measured("NLL", 1.0, 4),
        "brier": Measured("Brier score", 1.0, 4),
        "truth": Measured("Distance from the true probabilities, points", digits=2),
        "prr": Measured("Prediction rejection ratio", 1.0, 3, higher=True),
        "reward": Measured("Reward at w/u = 10", 1.0, 3, higher=True),
    }
)
"""In the order of the tables."""

SHOWN: Final = (
    "no map",
    "temperature",
    "beta",
    "isotonic",
    "histogram",
    "MMCE temperature",
    "histogram by group",
    "LoRe as in the paper",
    "LoRe",
)
"""Contenders of the pictures: more lines cannot be told apart."""

_MARK: Final = re.compile(r"(<!-- lore: ([a-z_]+) ?([a-z]*) -->\n).*?(<!-- /lore -->)", re.DOTALL)
_COLORS: Final = {"temperature": YELLOW, "beta": GREEN, "histogram": PINK, "LoRe as in the paper": GREY, "LoRe": BLUE}


def table(summary: Mapping[str, Any], measure: str, kind: str) -> str:
    """Means and standard deviations over seeds, a contender a row and a setting a column, the best in bold."""
    settings = _of_kind(summary, kind)
    measured = MEASURES[measure]
    cells: dict[str, dict[str, str]] = {}
    for name in settings:
        means = {
            each: pair for each, pair in summary["settings"][name]["measures"][measure].items() if pair[0] is not None
        }
        best = (max if measured.higher else min)((pair[0] for pair in means.values()), default=None)
        for each, (mean, spread) in means.items():
            text = f"{_number(mean, measured)} \u00b1 {_number(spread, measured)}"
            cells.setdefault(each, {})[name] = f"**{text}**" if mean == best else text
    rows = [[each, *(cells.get(each, {}).get(name, "\u2013") for name in settings)] for each in _contenders(summary)]
    return _markdown([measured.title, *settings], [row for row in rows if set(row[1:]) != {"\u2013"}])


def differences(summary: Mapping[str, Any], kind: str, rivals: str = "global") -> str:
    """LoRe less the best of its rivals, seed by seed: mean and standard error; better in bold, worse in italics."""
    names = [name for name in MEASURES if name != "mlce" and not (name == "truth" and kind == "real")]
    rows = []
    for setting in _of_kind(summary, kind):
        row = [setting]
        for name in names:
            measured, of_all = MEASURES[name], summary["settings"][setting]["measures"][name]
            means = {each: of_all[each][0] for each in summary[rivals] if of_all.get(each, [None])[0] is not None}
            best = (max if measured.higher else min)(means, key=means.__getitem__, default=None)
            if best is None:
                row.append("\u2013")
                continue
            mean, error = summary["settings"][setting]["differences"][name][best]
            text = f"{_number(mean, measured, sign=True)} \u00b1 {_number(error, measured)}"
            better = mean > 0.0 if measured.higher else mean < 0.0
            sure = abs(mean) > 2.0 * error
            row.append((f"**{text}**" if better else f"_{text}_") if sure else text)
        rows.append(row)
    who = "global method" if rivals == "global" else "of the paper's global methods"
    return _markdown([f"LoRe less the best {who}", *(MEASURES[name].title for name in names)], rows)


def paper_differences(summary: Mapping[str, Any], kind: str) -> str:
    """The same against the global methods of the paper's experiments, which Platt's and beta are not among."""
    return differences(summary, kind, "paper")


def correlations(summary: Mapping[str, Any], kind: str) -> str:
    """Correlation of each measure with the maximum group-wise MCE, over contenders and seeds (the paper's Table 2)."""
    settings = _of_kind(summary, kind)
    rows = []
    for name in ("ece", "nll", "brier", "mlce", "mlce_excess"):
        found = [summary["settings"][setting]["correlation_with_group_mce"].get(name) for setting in settings]
        rows.append(
            [
                MEASURES[name].title.removesuffix(", points"),
                *("\u2013" if x is None else f"{x:.2f}".replace("-", "\u2212") for x in found),
            ]
        )
    return _markdown(["Correlation with the maximum group-wise MCE", *settings], rows)


def settings_table(summary: Mapping[str, Any], kind: str) -> str:
    """What each setting is."""
    return _markdown(["Setting", "What it is"], [[name, SETTINGS[name].meaning] for name in _of_kind(summary, kind)])


TABLES: Final[Mapping[str, Callable[[Mapping[str, Any], str], str]]] = MappingProxyType(
    {
        "settings": settings_table,
        "differences": differences,
        "paper_differences": paper_differences,
        "correlations": correlations,
    }
)
"""Those that are not of one measure, by the names of their marks."""


def rendered(summary: Mapping[str, Any], page: str) -> str:
    """The page with every marked table anew."""

    def anew(match: re.Match[str]) -> str:
        name, kind = match[2], match[3]
        made = TABLES[name](summary, kind) if name in TABLES else table(summary, name, kind)
        return f"{match[1]}\n{made}\n\n{match[4]}"

    return _MARK.sub(anew, page)


def text(summary: Mapping[str, Any]) -> str:
    """All tables."""
    parts = [
        made
        for kind in ("synthetic", "real")
        if _of_kind(summary, kind)
        for made in (
            *(table(summary, name, kind) for name in MEASURES if not (name == "truth" and kind == "real")),
            differences(summary, kind),
            paper_differences(summary, kind),
            correlations(summary, kind),
        )
    ]
    return "\n\n".join(parts)


def write(summary: Mapping[str, Any], docs: Path) -> None:
    """Keep the summary, draw the figures, and put the tables into lore.md where it has marks for them."""
    folder = docs / "lore"
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    for name, figure in figures(summary).items():
        (folder / f"{name}.svg").write_text(to_svg(figure), encoding="utf-8")
    page = docs / "lore.md"
    page.write_text(rendered(summary, page.read_text(encoding="utf-8")), encoding="utf-8")


def figures(summary: Mapping[str, Any]) -> dict[str, Figure]:
    """MLCE against gamma (the paper's Figures 3 and 5), and the reward at ratios of costs (Figure 4)."""
    found = {
        f"gamma-{name}": gamma_figure(_curves(summary, name))
        for name in ("clusters", "local", "global", "happiness")
        if name in summary["settings"]
    }
    panels = [name for name in ("clusters", "loans", "happiness") if name in summary["settings"]]
    if panels:
        found["reward"] = _reward_figure(summary, panels)
    return found


def _curves(summary: Mapping[str, Any], setting: str) -> dict[str, GammaCurve]:
    of_all = summary["settings"][setting]["curves"]
    return {
        name: GammaCurve(
            np.asarray(summary["gammas"], np.float64),
            *(np.array(of_all[name][each], np.float64) for each in ("mlce", "null_mean", "null_q95")),
        )
        for name in SHOWN
        if name in of_all
    }


def _reward_figure(summary: Mapping[str, Any], settings: Sequence[str]) -> Figure:
    height = 5.0
    figure = new_figure(height)
    grid = frame(
        figure,
        height,
        "What recalibration is worth to one who may say \u201cunsure\u201d",
        "How to read it: an answer is given where the confidence is above 1 - u/w, and \u201cunsure\u201d elsewhere, "
        "at the cost u; a wrong answer costs w. The lines are the mean reward an event, in units of u, less "
        "that with no map: above 0, the map pays. Mean over the seeds.",
        columns=(1.0,) * len(settings),
        gap=0.45,
        above=0.75,
    )
    first = None
    for column, setting in enumerate(settings):
        axes = figure.add_subplot(grid[0, column])
        dress(axes, grid="both")
        rewards = summary["settings"][setting]["rewards"]
        before = np.asarray(rewards["no map"], np.float64)
        axes.axhline(0.0, color=INK, lw=1.2, ls=(0, (4, 2)))
        for name, color in _COLORS.items():
            if name in rewards:
                gained = np.asarray(rewards[name], np.float64) - before
                axes.plot(
                    summary["cost_ratios"], gained, color=color, lw=2.4 if name == "LoRe" else 1.5, marker="o", ms=3
                )
        axes.set_xscale("log")
        axes.set_xticks(summary["cost_ratios"], [f"{each:g}" for each in summary["cost_ratios"]])
        axes.minorticks_off()
        axes.set_xlabel("w/u")
        name_panel(axes, setting, "")
        if first is None:
            first = axes
            axes.set_ylabel("reward gained")
    if first is not None:
        handles = (Line2D([], [], color=color, lw=2.0, label=name) for name, color in _COLORS.items())
        legend(first, *handles, columns=5, above=0.4)
    return figure


def _of_kind(summary: Mapping[str, Any], kind: str) -> list[str]:
    return [name for name in summary["settings"] if SETTINGS[name].real == (kind == "real")]


def _contenders(summary: Mapping[str, Any]) -> list[str]:
    """All that take part anywhere, LoRe as the package fits it last."""
    names = list(dict.fromkeys(each for of in summary["settings"].values() for each in of["measures"]["ece"]))
    return sorted(names, key=summary["contenders"].index)


def _number(value: float, measured: Measured, *, sign: bool = False) -> str:
    scaled = value * measured.scale
    return f"{scaled:{'+' if sign else ''}.{measured.digits}f}".replace("-", "\u2212")


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


_GAMMA_HEIGHT: Final = 7.6
_GAMMA_CAPTION: Final = (
    "How to read it: gamma says how alike predictions must be to count as neighbours; on the left only the most alike "
    "count, on the right all of about the same prediction do. The upper lines are the largest local errors (MLCE) less "
    "what a calibrated model shows on average; the lower lines are as measured. The grey fields are where chance puts "
    "95% of calibrated models (the widest of these maps'). A line begins where neighbourhoods are worth 50 events."
)
_LINES: Final = ((YELLOW, "-"), (GREEN, "-"), (PINK, "-"), (SKY, "-"), (ORANGE, "-"), (GREEN, ":"), (PINK, ":"))


def gamma_figure(curves: Mapping[str, GammaCurve]) -> Figure:
    """Draw the largest local error of several maps against gamma: above chance, and as measured.

    Parameters
    ----------
    curves
        What each map is called -> its curve, all at the same gammas. The first is before, the last after.
    """
    measured = np.asarray(np.isfinite([curve.mlce for curve in curves.values()]).all(axis=0))
    figure, grid = framed(
        _GAMMA_HEIGHT,
        _gamma_title(list(curves.values()), measured),
        _GAMMA_CAPTION,
        rows=(1.0, 1.0),
        gap=0.3,
        above=0.22 * -(-(len(curves) + 1) // _columns(curves)) + 0.05,
    )
    upper, lower = panel(figure, grid[0, 0]), panel(figure, grid[1, 0])
    x = next(iter(curves.values())).gamma
    for axes, raw in ((upper, False), (lower, True)):
        axes.set_xscale("log")
        axes.set_xlim(x[measured][0] / 1.08, x[-1] * 1.08)
        high = np.max([curve.null_q95 - (0.0 if raw else curve.null_mean) for curve in curves.values()], axis=0)
        axes.fill_between(x, 0.0, high, color=CHANCE, lw=0.0)
        handles: list[Artist] = []
        for place, (label, curve) in enumerate(curves.items()):
            y = curve.mlce if raw else curve.mlce - curve.null_mean
            handles += axes.plot(x, y, marker="o", ms=3.0, label=label, **_line(place, len(curves)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{100.0 * value:.3g}")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_minor_locator(NullLocator())
    upper.tick_params(axis="x", labelbottom=False)
    upper.axhline(0.0, color=GREY, lw=1.0)
    upper.set_ylabel("points above chance")
    lower.set_ylabel("points, as measured")
    lower.set_ylim(bottom=0.0)
    lower.set_xlabel(
        "most alike only    \N{LEFTWARDS ARROW}    gamma    \N{RIGHTWARDS ARROW}    all of about the same prediction"
    )
    handles.append(Patch(color=CHANCE, label="chance"))
    legend(upper, *handles, columns=_columns(curves))
    return figure


def _columns(curves: Mapping[str, GammaCurve]) -> int:
    longest = max(map(len, curves))
    return 4 if longest <= 22 else 3 if longest <= 26 else 2


def _line(place: int, number: int) -> dict[str, Any]:
    if place == 0:
        return {"color": INK, "ls": (0, (4, 2)), "lw": 1.8}
    if place == number - 1:
        return {"color": BLUE, "ls": "-", "lw": 2.6}
    color, style = _LINES[(place - 1) % len(_LINES)]
    return {"color": color, "ls": style, "lw": 1.5}


def _gamma_title(curves: Sequence[GammaCurve], measured: Bools) -> str:
    distance = np.where(measured, np.abs(np.log(curves[0].gamma / DEFAULT_GAMMA)), np.inf)
    at = int(np.argmin(distance))
    before, after = (
        f"{points(float(curve.mlce[at]))} ({'beyond' if curve.mlce[at] > curve.null_q95[at] else 'within'} chance)"
        for curve in (curves[0], curves[-1])
    )
    return (
        f"Worst error among predictions that are alike (gamma {curves[0].gamma[at]:.2g}):\n"
        f"before {before}, after {after}"
    )
