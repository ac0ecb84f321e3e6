"""What goes into figures and comes out of them, as plain values."""

from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One measure, as a table or a line of points shows it.

    Attributes
    ----------
    title
        What a person calls the measure: ``TCE``.
    value
        The measure, in ``unit``.
    unit
        ``percent``, ``ratio``, ``nats`` or ``sigma``.
    lower, upper
        95% confidence interval, where there is one.
    null_mean, null_q95
        Mean and 95% point of a perfectly calibrated model that makes the same predictions, where they are known.
    null_lower
        Where the range of such models begins: 0, but for a measure that has a sign.
    verdict
        In words: ``within chance``.
    """

    title: str
    value: float
    unit: str
    lower: float | None = None
    upper: float | None = None
    null_mean: float | None = None
    null_q95: float | None = None
    verdict: str = ""
    null_lower: float = 0.0

    @property
    def beyond_chance(self) -> bool | None:
        """Whether the value lies outside what 95% of calibrated models show; None where that is not known."""
        return None if self.null_q95 is None else not self.null_lower <= self.value <= self.null_q95


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure with words.

    Attributes
    ----------
    name
        Lower case with hyphens: of a file, an anchor.
    title
        What it is: a heading.
    explanation
        How to read it, some plain sentences.
    figure
        The figure itself.
    """

    name: str
    title: str
    explanation: str
    figure: Figure
