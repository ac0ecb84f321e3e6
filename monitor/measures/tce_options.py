"""The options of TCE."""

from dataclasses import dataclass
from typing import Final, Literal, TypedDict, get_args

from monitor.errors import InputError
from monitor.measures.bins import DEFAULT_N_BINS
from monitor.measures.checks import require_choice, require_whole

Bins = Literal["pava_bc", "pava", "quantile", "equal_width"]
Test = Literal["binomial", "t", "t_published"]

DEFAULT_ALPHA: Final = 0.05
DEFAULT_BINS: Final[Bins] = "pava_bc"
DEFAULT_TEST: Final[Test] = "binomial"

NARROWER_FROM: Final = 8_000
"""Events from which on the isotonic bins hold a smaller share of them. See :meth:`Options.size_limits`."""


class TceKeywords(TypedDict, total=False):
    """The options as keywords, for what hands them on."""

    alpha: float
    bins: Bins
    n_bins: int
    min_size: int | None
    max_size: int | None
    test: Test


@dataclass(frozen=True, slots=True)
class Options:
    """The options of TCE, checked; :func:`~monitor.measures.tce.tce` says what they mean.

    Raises
    ------
    InputError
        One of them is wrong.
    """

    alpha: float = DEFAULT_ALPHA
    bins: Bins = DEFAULT_BINS
    n_bins: int = DEFAULT_N_BINS
    min_size: int | None = None
    max_size: int | None = None
    test: Test = DEFAULT_TEST

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise InputError(f"alpha must lie between 0 and 1, both excluded, got {self.alpha}")
        require_choice("bins", self.bins, get_args(Bins))
        require_choice("test", self.test, get_args(Test))
        require_whole("n_bins", self.n_bins, 1)
        for name, size in (("min_size", self.min_size), ("max_size", self.max_size)):
            if size is not None:
                require_whole(name, size, 0)
                if self.bins != "pava_bc":
                    raise InputError(
                        f"{name} limits the bins of pava_bc alone, got {name}={size} with bins={self.bins!r}"
                    )

    def size_limits(self, n: int) -> tuple[int, int]:
        """The least and the most events of an isotonic bin, of n events.

        If left out, floor(n / 20) and floor(n / 5) as in the paper, and n^(2/3), rounded, and four times as many from
        8,000 events on, where the two agree. A bin's predictions differ by its width, and the test can tell
        predictions apart that differ by about 1 / sqrt(events in the bin). With bins of a fixed share of the events the
        width stays and the test sharpens, until it refutes nearly all predictions of a calibrated model (83% at a
        million events, 92% at five) and no fault raises that. With bins of n^(2/3) events both shrink as n^(-1/3).

        Raises
        ------
        InputError
            The least are more than the most.
        """
        if self.bins == "pava":
            return 0, n
        low, high = (n // 20, n // 5) if n <= NARROWER_FROM else (round(n ** (2 / 3)), 4 * round(n ** (2 / 3)))
        low = low if self.min_size is None else self.min_size
        high = high if self.max_size is None else self.max_size
        if low > high:
            raise InputError(
                f"min_size must be at most max_size, got min_size={low} and max_size={high} for {n} events"
                " (if left out, floor(n / 20) and floor(n / 5), beyond 8,000 events n^(2/3) and four times that)"
            )
        return low, high
