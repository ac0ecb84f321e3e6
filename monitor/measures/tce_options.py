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

        Raises
        ------
        InputError
            The least are more than the most.
        """
        if self.bins == "pava":
            return 0, n
        low = n // 20 if self.min_size is None else self.min_size
        high = n // 5 if self.max_size is None else self.max_size
        if low > high:
            raise InputError(
                f"min_size must be at most max_size, got min_size={low} and max_size={high} for {n} events"
                " (floor(n / 20) and floor(n / 5) if left out)"
            )
        return low, high
