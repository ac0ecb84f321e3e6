"""The page of the benchmark: docs/alarms-benchmark.md, from the summary of its results."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
from scipy.stats import gamma

from monitor.arrays import Floats
from tests.alarms_benchmark import oracle, ours
from tests.alarms_benchmark.methods import EVENTS_PER_YEAR, RUN_LENGTH, TUNED
from tests.alarms_benchmark.peers import PEERS
from tests.alarms_benchmark.results import ROOT, SUMMARY, Summary, load
from tests.alarms_benchmark.river_peers import HDDM, KSWIN, RIVER
from tests.alarms_benchmark.scenarios import CHANGES, QUIET
from tests.alarms_benchmark.streams import PREVALENCES
from tests.alarms_benchmark.tune import settings

PAGE: Final = ROOT / "docs" / "alarms-benchmark.md"

BOUNDED: Final = MappingProxyType(
    {
        "D1": ("stationary", "seasonal", "moving"),
        "D2": ("stationary", "seasonal", "moving", "prevalence jumps"),
        "D3": ("stationary", "seasonal", "moving", "accepted"),
        "D4": ("accepted",),
        ours.BLOCKS: ("stationary", "seasonal", "moving", "shocks .1", "shocks .2"),
    }
)
"""Where the null hypothesis of a detector holds, and with it the bound on its false alarms."""

Table = dict[tuple[str, str, str], Summary]
"""By scenario, prevalence and variant."""


def write() -> None:
    """Write the page."""
    PAGE.write_text(text(load()))


def text(rows: Sequence[Summary]) -> str:
    """Return the page that shows a summary."""
    return "\n".join(_lines({(row.scenario, row.prevalence, row.variant): row for row in rows})) + "\n"


def _lines(table: Table) -> Iterator[str]:
    yield from _HEAD.splitlines()
    yield from _not_run(table)
    yield from ("", "## False alarms", "", *_FALSE_ALARMS.splitlines())
    for prevalence in PREVALENCES:
        yield from _section(table, prevalence, list(QUIET), _rate)
    yield from ("", "### Within the bound", "", *_verdict(table))
    yield from ("", "### Shared shocks", "", *_SHOCKS.splitlines(), "", *_shocks(table))
    yield from ("", "## Delay", "", *_DELAY.splitlines())
    for prevalence in PREVALENCES:
        yield from _section(table, prevalence, list(CHANGES), _delay)
    yield from ("", "### Who is first", "", *_WINS.splitlines(), "", *_wins(table))
    yield from ("", "### Beside an oracle", "", *_ORACLE.splitlines())
    for prevalence in PREVALENCES:
        yield from _oracle(table, prevalence)
    yield from ("", "## When the change was", "", *_CHANGE_POINT.splitlines())
    for prevalence in PREVALENCES:
        yield from _section(table, prevalence, list(CHANGES), _change_point)
    yield from ("", "## Settings", "", *_SETTINGS.splitlines(), "", *_settings())


def _not_run(table: Table) -> Iterator[str]:
    """What has no rows so far."""
    for prevalence in PREVALENCES:
        known = {variant.rpartition(", ")[0] for _, at, variant in table if at == prevalence}
        missing = [name for name in (*ours.OURS, *PEERS, *RIVER, *HDDM, *KSWIN) if name not in known]
        if missing:
            yield from ("", f"Not run so far, {prevalence}: {', '.join(missing)}.")


def _section(table: Table, prevalence: str, scenarios: Sequence[str], cell: Callable[[Summary], str]) -> Iterator[str]:
    """A table with a row for each variant that says something."""
    variants = {variant: None for _, at, variant in table if at == prevalence}
    rows = []
    for variant in sorted(variants, key=_order):
        found = [table.get((scenario, prevalence, variant)) for scenario in scenarios]
        cells = ["" if row is None else cell(row) for row in found]
        if any(cells):
            streams = max(row.streams for row in found if row is not None)
            rows.append(f"| {variant} | {streams} | {' | '.join(cells)} |")
    yield from ("", f"### {prevalence.capitalize()}", "")
    yield f"| method | streams | {' | '.join(scenarios)} |"
    yield f"|---|---:|{'---:|' * len(scenarios)}"
    yield from rows


def _order(variant: str) -> tuple[bool, bool, str]:
    """Ours first, then what is tuned, then the rest."""
    return (not _is_ours(variant), not variant.endswith(TUNED), variant)


def _is_ours(variant: str) -> bool:
    return variant.rpartition(", ")[0] in ours.OURS


def _rate(row: Summary) -> str:
    rate, bound = 1e6 * row.false_alarms / row.events, _bound(row)
    if bound is None:
        return f"{rate:.2f}"
    lower, upper = 1e6 * _interval(row) / row.events
    return f"{rate:.2f} ({lower:.2f}-{upper:.2f}){' **over**' if lower > bound else ''}"


def _bound(row: Summary) -> float | None:
    """What false alarms in a million events are at most, on average; None where nothing is promised."""
    name, _, budget = row.variant.rpartition(", ")
    if budget not in ours.RUN_LENGTHS or row.scenario not in BOUNDED.get(name, BOUNDED[name.split()[0]]):
        return None
    return 1e6 / ours.RUN_LENGTHS[budget]


def _interval(row: Summary) -> Floats:
    """A 95% interval of the number of false alarms in so many events, by Poisson's law."""
    return np.array(
        [gamma.ppf(0.025, row.false_alarms) if row.false_alarms else 0.0, gamma.ppf(0.975, row.false_alarms + 1)]
    )


def _alarms_anyway(row: Summary) -> bool:
    """Whether alarms come so often before the change that none tells of it."""
    return row.false_alarms > 3.0 * row.events / RUN_LENGTH


def _delay(row: Summary) -> str:
    if _alarms_anyway(row):
        return "before"
    if row.missed == 1.0:
        return "-"
    missed = f", {row.missed:.0%} missed" if row.missed else ""
    return f"{_events(row.delay)} ({_events(row.delay_90)}{missed})"


def _change_point(row: Summary) -> str:
    if math.isnan(row.error) or _alarms_anyway(row):
        return ""
    return f"{_events(row.error)}, {row.covered:.0%}"


def _events(number: float) -> str:
    return "-" if math.isinf(number) else f"{number:,.0f}"


def _verdict(table: Table) -> Iterator[str]:
    """Whether our detectors keep their bounds, and where they do not."""
    bounded = [(row, bound) for row in table.values() if (bound := _bound(row)) is not None]
    missed = [(row, bound) for row, bound in bounded if 1e6 * _interval(row)[0] / row.events > bound]
    yield f"Within the bound: {'no' if missed else 'yes'}, in {len(bounded) - len(missed)} of {len(bounded)} cases."
    for row, bound in missed:
        yield (
            f"- {row.variant}: {row.scenario}, {row.prevalence}: {row.false_alarms} false alarms in {row.streams} "
            f"streams, where {bound * row.events / 1e6:.1f} are the bound"
        )
    yield ""
    for budget, length in ours.RUN_LENGTHS.items():
        of_budget = [row for row, _ in bounded if row.variant.endswith(f", {budget}")]
        number, events = sum(row.false_alarms for row in of_budget), sum(row.events for row in of_budget)
        yield f"- *{budget}*, all of them: {number:,} false alarms, where {events / length:,.1f} are the bound"


def _shocks(table: Table) -> Iterator[str]:
    """How many times more alarms than the bound allows there are where outcomes share shocks."""
    streams = [(scenario, prevalence) for prevalence in PREVALENCES for scenario in ("shocks .1", "shocks .2")]
    yield f"| | {' | '.join(f'{prevalence}, {scenario}' for scenario, prevalence in streams)} |"
    yield f"|---|{'---:|' * len(streams)}"
    for budget, length in ours.RUN_LENGTHS.items():
        for name in ("D1", "D1 without tolerance", ours.BLOCKS):
            rows = [table.get((*stream, f"{name}, {budget}")) for stream in streams]
            cells = ["" if row is None else f"{row.false_alarms / row.events * length:,.1f}" for row in rows]
            yield f"| {name}, {budget} | {' | '.join(cells)} |"


_MIN_STREAMS: Final = 4
"""With fewer, a median may be that of false alarms that happened to come."""


def _wins(table: Table) -> Iterator[str]:
    """The smallest median delays among what is tuned alike: ours, and those of peers."""
    yield "| | ours | peer | other peers before ours |"
    yield "|---|---|---|---|"
    for prevalence, scenario in itertools.product(PREVALENCES, CHANGES):
        rows = sorted(
            (
                row
                for (at, of, variant), row in table.items()
                if at == scenario and of == prevalence and variant.endswith(TUNED) and not _alarms_anyway(row)
            ),
            key=lambda row: row.delay,
        )
        ours_first = next((row for row in rows if _is_ours(row.variant)), None)
        peers = [row for row in rows if not _is_ours(row.variant)]
        best = next((row for row in peers if row.streams >= _MIN_STREAMS), None)
        if ours_first and best:
            others = ", ".join(_first(row, 0.0) for row in peers if row is not best and row.delay < ours_first.delay)
            least = min(ours_first.delay, best.delay)
            first = " | ".join(_first(row, least) for row in (ours_first, best))
            yield f"| {prevalence}, {scenario} | {first} | {others} |"


def _first(row: Summary, least: float) -> str:
    text = f"{row.variant.removesuffix(TUNED)} {_events(row.delay)}, of {row.streams}"
    return f"**{text}**" if row.delay == least else text


_ORACLE_PEERS: Final = ("D1 without tolerance", "D1", "D2", "D3", "CUSUM on log odds")


def _oracle(table: Table, prevalence: str) -> Iterator[str]:
    """The oracle's delay in each scenario, and how many times as long others take."""
    optima = oracle.load()
    of_tuned = [f"{name}, tuned" for name in _ORACLE_PEERS]
    of_year = [f"{name}, a year" for name in _ORACLE_PEERS if name in ours.OURS]
    yield from ("", f"#### {prevalence.capitalize()}", "")
    yield (
        f"| change | log(1e5) / KL | oracle, 1e5 | {' | '.join(of_tuned)} "
        f"| log(a year) / KL | oracle, a year | {' | '.join(of_year)} |"
    )
    yield f"|---|{'---:|' * (4 + len(of_tuned) + len(of_year))}"
    for scenario in CHANGES:
        cells: list[str] = []
        for budget, variants in (("1e5", of_tuned), ("a year", of_year)):
            optimum = optima.get((scenario, prevalence, budget))
            if optimum is None:
                break
            cells += [_events(optimum.bound), _events(optimum.delay)]
            cells += [_times(table.get((scenario, prevalence, variant)), optimum.delay) for variant in variants]
        if cells:
            yield f"| {scenario} | {' | '.join(cells)} |"


def _times(row: Summary | None, least: float) -> str:
    """How many times the oracle's delay that of a row is; nothing where it alarms anyway or more than half miss."""
    if row is None or _alarms_anyway(row) or math.isinf(row.delay):
        return ""
    return f"{row.delay / least:.2f}"


def _settings() -> Iterator[str]:
    tuned = settings()
    yield f"| peer | {' | '.join(PREVALENCES)} |"
    yield f"|---|{'---:|' * len(PREVALENCES)}"
    for peer in sorted({peer for values in tuned.values() for peer in values}):
        values = [tuned.get(prevalence, {}).get(peer) for prevalence in PREVALENCES]
        yield f"| {peer} | {' | '.join('' if value is None else f'{value:.4g}' for value in values)} |"


_HEAD: Final = f"""# Alarms, beside those of others

Written by `make alarms` from [{SUMMARY.name}]({SUMMARY.name}); do not edit.

Streams of a million binary predictions with delayed outcomes: predictions are sigmoid(z), z normal with a
standard deviation of 1.5, and a mean that makes the prevalence 50% (balanced), 5% or 1%. 8,600 predictions come
in an hour, in panes of a minute. Outcomes take up to 4 hours, and every method reads the events once they are
settled, in order of prediction time, so alarms come 4 hours after what is shown. Each stream is drawn from a
seed, which is the same for all methods; `monitor/simulation/generator.py` draws the outcomes, `scenarios.py` of
`tests/alarms_benchmark` lists the streams.

- **D1, D2, D3, D4** are the detectors of this package, one series each, with the bound of one false alarm in
  100,000 events (*1e5*), or one a year (*a year*: {EVENTS_PER_YEAR:,.0f} events), and tuned like the others. D4 watches
  the map that makes the accepted model calibrated.
- **D1 in blocks** is `dependence: within_horizon`: it counts the events of 4 hours as one observation. A budget of
  1e5 events is one of 12 hours, so there it alarms by the time that passes, whatever the outcomes.
- **Windows** are of 5,000 events, measured every 1,000: ECE, Brier score, smCE; the limit is the mean + 3
  standard deviations of the first 50, or tuned.
- **CUSUM on log odds** (Franck et al. 2025): control charts of four recalibrations, offsets of +-0.25 and
  slopes of 1.3 and 0.77; limits are constant here, while theirs are simulated for the predictions.
- **PITMonitor** (after Farran 2026): a mixture of conformal test martingales on randomised probability integral
  transforms, in 10 bins, as its abstract describes it; not compared with the author's code.
- **river**: ADWIN, Page-Hinkley, DDM, HDDM-A and KSWIN, on y - p and on the log loss, with river's defaults and
  tuned. DDM reads errors at 0.5; HDDM-A numbers in [0, 1]: (1 + y - p) / 2, and the log loss, at most 8,
  divided by 8.
- **Tuned**: to one false alarm in {RUN_LENGTH:,.0f} events of calibrated, stationary streams of the same
  prevalence, other than those below. All are tuned on 5 million events, so their rates are uncertain by a seventh.
  HDDM-A is tuned on 1 million: on y - p it alarms about that often at most, with a confidence near .5, and on the
  log loss hardly with any. KSWIN takes 30 microseconds an event: it is tuned on 300,000.
  D3 at 5% and 1% was tuned before its blocks became smaller ([decision 42](decisions/0042-changes-of-odds.md)): it has
  13 there where the others have 10, for which its delays are some 3% too short.
  D1 was run before four of its alternatives were learnt ([decision 46](decisions/0046-bets-that-learn.md)): on the
  changes below, delays of offsets and slopes are 0% to 3% longer since, and those of bumps up to 8% shorter.
- **always**, **never**: an alarm every minute, or none.

The column *streams* says how many streams a row is of: slow methods are run on few, and KSWIN on streams of
150,000 events. `make alarms` runs 200 for our detectors, CUSUM and PITMonitor, 20 for windows, river and blocks, and 1
for HDDM-A and KSWIN, in order of their seeds, so that streams that are done are the same for all methods; it goes on
where it was interrupted. Rows of fewer streams are not finished yet."""

_FALSE_ALARMS: Final = """\
Alarms in a million events on which nothing changes. The bound is 10 at a budget of 1e5 events, and 0.013 at one a
year, where the null hypothesis of a detector holds:

| stream | | holds for |
|---|---|---|
| stationary | calibrated | all |
| seasonal | predictions move by 1 logit over a day, outcomes with them, and the volume by 80% | all |
| moving | the same, by a random number every day (standard deviation .7), and the volume by 50% | all |
| shocks .1, .2 | all outcomes within 4 hours share a random offset with this standard deviation | D1 in blocks |
| prevalence jumps | outcomes alone have a random offset every day (standard deviation .5) | D2 |
| accepted | a stable miscalibrated model: slope 1/1.5, offset .3 | D3, D4 |

"All" says nothing of the others, which have no bound but CUSUM by its bound, and PITMonitor. In brackets, where the
bound holds: a 95% interval of the mean, *over* if all of it lies above the bound. What is *tuned* has its own bound,
with which it raises 10 on stationary streams."""

_SHOCKS: Final = """\
Shocks that outcomes share within the horizon break what the guarantee rests on. So many times more alarms than the
bound allows were raised, with a tolerance of .05 logits, without, and in blocks of one horizon, for which it holds."""

_DELAY: Final = """\
Events from the change to the alarm: median, and in brackets the 90% point and the share of streams without an
alarm in 900,000 events (those count as infinitely late). The change comes after 100,000 events. *Segment of
5%*: an offset of 1 in a random twentieth of the events, which no method is told of. Ramps take 50,000 events.
Compare rows that end in *tuned*, which have as many false alarms on stationary streams. A budget is a bound: it is
kept on every stream on which the null hypothesis holds, so on most of them there are fewer false alarms. *before*:
more than three alarms in 100,000 events come before the change, so that those after it say nothing of it; D1 and most
others do not accept a miscalibrated model."""

_WINS: Final = """\
The smallest median delay of our detectors and of the peers, of what is tuned alike, with the number of streams; the
smaller one in bold. HDDM-A and KSWIN have one stream, of which the first alarm may be a false one that happened to
come: where they alarm before ours, they are in the last column. Of a few streams a median is rough.
Settings are tuned on stationary streams: what is first here may alarm far more often where predictions move, as windows
of the Brier score do at 5% and 1%.

CUSUM on log odds bets on four alternatives, and the changes simulated here are among them or near them. D1 has 36 here,
of which each gets an equal share of the evidence; that is what bumps and small changes are seen by. It also waits for
the end of a pane, half of which are 70 events. Both cost it some delay where CUSUM is first."""

_ORACLE: Final = """\
How many times the median delay of an oracle each takes. The oracle is Shiryaev-Roberts with the likelihood ratio of the
change: told the laws before and after it and which events are in the segment, not when it comes. It reads single
events, where ours wait for the end of a pane (half of one is 70), and has exactly as many false alarms as the budget
allows. So has what is *tuned*; ours at *a year* have fewer, as their budget is a bound. log(budget) / KL is the
number of events in which the logarithm of the budget is gained on average: the oracle is faster where evidence from
before the change and chance help it. Ramps have no single ratio. A budget of 1e5 is reached by chance in 70,000 events:
where the oracle takes longer than some 10,000, many of its alarms are such. Empty: alarms come before the change, or
more than half of the streams have none.

With a tolerance of .05 a detector is not meant to see what lies within: so D1 takes many times as long to see an offset
of .1. The tolerance's own price is part of its ratio."""

_CHANGE_POINT: Final = """\
Median distance of the estimate from the change, in events, and the share of alarms whose set of change points
holds it. Ramps have no single point: it is where they begin."""

_SETTINGS: Final = "What tuning chose: the threshold, or river's parameter."
