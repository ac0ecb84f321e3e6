"""Draw the figures of the documentation: ``python -m docs.generators.figures``."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from matplotlib.figure import Figure

from docs.generators import concepts, counter_examples
from docs.generators.counter_examples import simulated
from docs.generators.gce_comparison import gce_figure
from docs.generators.recalibration_example import example
from docs.generators.svg import to_svg
from docs.generators.tce_diagram import tce_diagram
from docs.generators.witness import witness_figure
from monitor.classes import gce_family
from monitor.reports.figures.reliability import reliability_diagram
from monitor.reports.figures.style import to_png
from monitor.scores import ScoreTable
from monitor.simulation.figures import delays_figure
from monitor.simulation.predictions import DrawnPredictions
from monitor.simulation.scenarios import Scenario
from monitor.simulation.simulate import Fleet, Plan, simulate


def exaggerating() -> ScoreTable:
    """A model whose log odds are half as large again as they should be."""
    return simulated(5_000, slope=1.5)


def rare() -> ScoreTable:
    """A model of a 1% event, whose log odds are too high by 0.7."""
    return simulated(20_000, offset=0.7, mean=-5.0)


def delays() -> Figure:
    """How soon alarms come on a model of a 2% event, in a short form of the simulation that the page prints."""
    scenarios = [Scenario.parse(name) for name in ("slope", "offset", "prevalence")]
    plan = Plan(scenarios, days=5.0, runs=8)
    simulation = simulate(DrawnPredictions.normal(0.02, 1.5, 2000.0), plan, Fleet(models=40))
    return delays_figure(simulation, scenarios)


FIGURES: Final[Mapping[str, Callable[[], Figure]]] = MappingProxyType(
    {
        "reliability.png": lambda: reliability_diagram(exaggerating()),
        "reliability-rare.png": lambda: reliability_diagram(rare()),
        "witness.png": lambda: witness_figure(exaggerating()),
        "test-based.png": lambda: tce_diagram(exaggerating()),
        "discontinuity.svg": counter_examples.discontinuity_figure,
        "cancellation.svg": counter_examples.cancellation_figure,
        "prevalence.svg": counter_examples.prevalence_figure,
        "gce.svg": lambda: gce_figure(gce_family(counter_examples.too_sure_classes())),
        "sample-size.svg": counter_examples.sample_size_figure,
        "temperature.svg": counter_examples.temperature_figure,
        "before-after.svg": lambda: example().plot(),
        "simulated-delays.svg": delays,
        "score-table.svg": concepts.score_table_figure,
        "null-level.svg": concepts.null_level_figure,
        "settled-edge.svg": concepts.settled_edge_figure,
        "evidence.svg": concepts.evidence_figure,
        "prior-and-shape.svg": concepts.prior_and_shape_figure,
        "local-error.svg": concepts.local_error_figure,
    }
)
"""Each as a function that draws it."""


def draw_bytes(name: str) -> bytes:
    """Draw the figure of that file name."""
    figure = FIGURES[name]()
    return to_svg(figure).encode() if name.endswith(".svg") else to_png(figure)


if __name__ == "__main__":
    for name in FIGURES:
        (Path(__file__).parents[1] / "figures" / name).write_bytes(draw_bytes(name))
