"""Which of several series the evidence speaks against."""

from collections.abc import Mapping


def name_series(evidence: Mapping[str, float], per_year: float) -> list[str]:
    """Name the series to blame, the largest evidence first, so that few of them are named wrongly.

    The j largest of K are named, for the largest j with evidence of at least K / (j b) each. Whenever that is done, the
    share of wrong names is on average at most b times the years since the evidence was 0: a smaller promise than that
    of alarms.
    Source: e-d-BH of Dandapanthula and Ramdas 2025 (arXiv 2501.04130).

    Parameters
    ----------
    evidence
        Evidence of each series at the same time.
    per_year
        b, above 0.
    """
    order = sorted(evidence, key=lambda name: (-evidence[name], name))
    enough = [count for count, name in enumerate(order, 1) if evidence[name] * count * per_year >= len(order)]
    return order[: max(enough, default=0)]
