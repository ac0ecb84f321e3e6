"""Kernels of probability vectors."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from monitor.classes.pair_loops import EXPONENTIAL, GAUSSIAN, TV_EXPONENTIAL, pair_distances
from monitor.errors import InputError
from monitor.measures.checks import require_choice, require_positive
from monitor.scores import ClassTable

KernelName = Literal["exponential", "gaussian", "tv_exponential"]
Lengthscale = float | Literal["median"]

_KINDS: Final[dict[str, int]] = {
    "exponential": EXPONENTIAL,
    "gaussian": GAUSSIAN,
    "tv_exponential": TV_EXPONENTIAL,
}

_MEDIAN_OF: Final = 1000
"""Predictions of which the median heuristic looks at all pairs."""


@dataclass(frozen=True, slots=True)
class VectorKernel:
    r"""A kernel of probability vectors; the matrix-valued kernels are this times the identity.

    ``exponential``: exp(-\|p - q\| / l). ``gaussian``: exp(-\|p - q\|^2 / (2 l^2)). ``tv_exponential``:
    exp(-TV(p, q) / l), with the total variation distance TV = sum |p - q| / 2. All are 1 at p = q and no larger
    elsewhere.

    Attributes
    ----------
    name
        Which.
    lengthscale
        l, in units of the distance, finite and above 0.
    """

    name: KernelName = "exponential"
    lengthscale: float = 1.0

    def __post_init__(self) -> None:
        require_choice("kernel", self.name, get_args(KernelName))
        try:
            require_positive("lengthscale", self.lengthscale)
        except TypeError:
            raise InputError(f"lengthscale must be a number or 'median', got {self.lengthscale!r}") from None

    @classmethod
    def of(cls, table: ClassTable, name: KernelName, lengthscale: Lengthscale) -> "VectorKernel":
        """The kernel with the lengthscale asked for; ``median``: the median distance of two of the table's predictions.

        The median looks at no outcome, so it does not spoil a test. Of more than 1,000 predictions it takes 1,000 that
        lie evenly in their order, so it does not depend on the order of the events. It is 1 if most are equal.
        """
        if lengthscale == "median":
            lengthscale = median_distance(table.prediction, total_variation=name == "tv_exponential")
        return cls(name, lengthscale)

    @property
    def kind(self) -> int:
        """What the kernels of ``monitor.classes.pair_loops`` call it."""
        return _KINDS[self.name]


def median_distance(prediction: NDArray[np.float64], *, total_variation: bool = False) -> float:
    """Median distance of two predictions, shape (n, K); 1 if there are no two, or most are equal."""
    if prediction.shape[0] < 2:
        return 1.0
    if prediction.shape[0] > _MEDIAN_OF:
        order = np.lexsort(prediction.T[::-1])
        prediction = prediction[order[np.linspace(0, order.size - 1, _MEDIAN_OF).astype(np.int64)]]
    median = float(np.median(pair_distances(np.ascontiguousarray(prediction), total_variation)))
    return median if median > 0.0 else 1.0
