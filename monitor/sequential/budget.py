r"""How a budget of false alarms a year for a fleet is shared by models and detectors.

Write b_i(t) for the share of process i (a detector on a model and version) and M_i for its evidence. Then the fleet has
at most B false alarms a year on average, whatever the rates of events are and however the series depend on one another:

1. Between restarts let c_i be the lowest b_i so far, so that 1 / c_i is the threshold. As c_i never grows, c_i M_i
   grows by at most c_i dt / P <= b_i dt / P in a step on average under the null hypothesis, given the past.
2. c_i M_i starts at 0, is at least 0, and at least 1 at an alarm. So process i has on average at most the integral of
   b_i dt / P alarms (optional stopping, added up over the restarts).
3. Averages add under any dependence, and the b_i add up to B at any time.

Source: e-d-Bonferroni of Dandapanthula and Ramdas 2025 (arXiv 2501.04130), with shares that move.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from monitor.errors import SettingsError

Unit = TypeVar("Unit", bound=Hashable)


def share_budget(
    per_year: float, units: Mapping[Unit, float], detectors: Mapping[str, float]
) -> dict[tuple[Unit, str], float]:
    """Share a budget by the weights of units times those of detectors.

    Parameters
    ----------
    per_year
        False alarms a year of the whole fleet, above 0.
    units
        Weight of each (model, version), above 0.
    detectors
        Weight of each detector, at least 0: one of weight 0 has no share.

    Returns
    -------
    False alarms a year of each unit and detector. An alarm is at evidence of 1 / share.

    Raises
    ------
    SettingsError
        The budget or a weight is out of its range.
    """
    if per_year <= 0.0:
        raise SettingsError(f"a budget of false alarms must be above 0 a year, got {per_year}")
    for unit, weight in units.items():
        if weight <= 0.0:
            raise SettingsError(f"the weight of {unit} must be above 0, got {weight}")
    for detector, weight in detectors.items():
        if weight < 0.0:
            raise SettingsError(f"the weight of detector {detector} must be at least 0, got {weight}")
    used = {detector: weight for detector, weight in detectors.items() if weight > 0.0}
    whole = sum(units.values()) * sum(used.values())
    return {
        (unit, detector): per_year * unit_weight * detector_weight / whole
        for unit, unit_weight in units.items()
        for detector, detector_weight in used.items()
    }
