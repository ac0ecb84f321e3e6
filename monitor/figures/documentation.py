"""The figures of the documentation, by the names of their files."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from matplotlib.figure import Figure

from monitor.classes import gce_family
from monitor.figures import counter_examples
from monitor.figures.counter_examples import simulated
from monitor.figures.gce_comparison import gce_figure
from monitor.figures.recalibration_example import example
from monitor.figures.reliability import reliability_diagram
from monitor.figures.tce_diagram import tce_diagram
from monitor.figures.witness import witness_figure
from monitor.scores import ScoreTable


def exaggerating() -> ScoreTable:
    """A model whose log odds are half as large again as they should be."""
    return simulated(5_000, slope=1.5)


def rare() -> ScoreTable:
    """A model of a 1% event, whose log odds are too high by 0.7."""
    return simulated(20_000, offset=0.7, mean=-5.0)


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
        "before-after.svg": lambda: example()["reliability"],
        "worst-by-gamma.svg": lambda: example()["mlce_by_gamma"],
        "local-map.svg": lambda: example()["local_map"],
        "segments.svg": lambda: example()["segments"],
    }
)
"""Each as a function that draws it."""
