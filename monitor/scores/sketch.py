"""Mergeable sums from which the kernel calibration error of many classes follows; panes store them."""

import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtri, ndtri

from monitor.arrays import Floats, Ints
from monitor.errors import IncompatibleTables, InputError
from monitor.scores.class_table import ClassTable
from monitor.scores.sketch_loops import PAIRS, TOTALS, UNIT, add_to_sketch

SKETCH_VERSION: Final = 1
"""Version of the frequencies and of the order of sums. Only sketches of one version add."""

MAX_EVENTS: Final = 1 << 30
"""Events beyond which a sum might overflow 64 bits."""

_HEADER: Final = struct.Struct("<4sHIIdQ")
_MAGIC: Final = b"SKCE"


@dataclass(frozen=True, slots=True)
class SketchPlan:
    """Parameters of a sketch. Only sketches with equal plans add.

    Attributes
    ----------
    classes
        K, at least 2.
    features
        D, an even number of at least 2: a cosine and a sine for each of D / 2 frequencies. A sketch takes
        8 (D + 64) K bytes.
    lengthscale
        Of the kernel exp(-||p - q|| / lengthscale), finite and above 0.
    seed
        For the frequencies.

    Raises
    ------
    InputError
        An option is out of its range.
    """

    classes: int
    features: int = 256
    lengthscale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise InputError(f"classes must be at least 2, got {self.classes}")
        if self.features < 2 or self.features % 2:
            raise InputError(f"features must be an even number of at least 2, got {self.features}")
        if not (math.isfinite(self.lengthscale) and self.lengthscale > 0.0):
            raise InputError(f"lengthscale must be a finite number above 0, got {self.lengthscale}")
        if not 0 <= self.seed < 1 << 64:
            raise InputError(f"seed must be a whole number from 0 to 2^64 - 1, got {self.seed}")

    @property
    def size(self) -> int:
        """Number of int64 sums of a sketch."""
        return (self.features + 2 * PAIRS) * self.classes + TOTALS

    @property
    def tables(self) -> Floats:
        """Frequencies for :func:`~monitor.scores.sketch_loops.add_to_sketch`; read-only."""
        return _tables(self)


@dataclass(frozen=True, eq=False, slots=True)
class SkceSketch:
    r"""The squared kernel calibration error of probability vectors, as sums that add exactly.

    .. math:: U = \frac{1}{n (n - 1)} \sum_{i \ne j} k(p_i, p_j) \langle r_i, r_j \rangle, \qquad r_i = e_{y_i} - p_i

    A kernel that depends on p - q alone is the mean of cos w'(p - q) over its spectral law (Bochner), so with
    frequencies w_m drawn from that law

    .. math:: \hat k(p, q) = \frac{2}{D} \sum_m \cos w_m'(p - q), \qquad
              n (n - 1) U = \frac{2}{D} \Big\| \sum_i f(p_i) \otimes r_i \Big\|^2 - \sum_i \|r_i\|^2

    with f(p) the cosines and sines of all w_m'p. Only the inner sums are stored.

    ``zero`` is the identity; sketches with equal plans add in any order. The kernel is the exponential one, whose
    frequencies are multivariate Cauchy.

    :mod:`monitor.classes.sketch` measures it.

    Attributes
    ----------
    plan
        Its parameters.
    sums
        int64, shape (plan.size,), see :func:`~monitor.scores.sketch_loops.add_to_sketch`.

    Notes
    -----
    Source: Widmann, Lindsten, Zachariah, "Calibration tests in multi-class classification", 2019, Lemma 2 for the
    estimator; Rahimi, Recht, "Random Features for Large-Scale Kernel Machines", 2007, for the features. Here each
    frequency has a cosine and a sine, where the paper has one cosine with a random phase: k^(p, p) is 1 exactly then.
    """

    plan: SketchPlan
    sums: Ints

    def __post_init__(self) -> None:
        if self.sums.dtype != np.int64 or self.sums.shape != (self.plan.size,):
            raise InputError(
                f"sums must be int64 of shape ({self.plan.size},), got {self.sums.dtype} of shape {self.sums.shape}"
            )
        if not 0 <= self.events <= MAX_EVENTS:
            raise IncompatibleTables(f"a sketch must hold from 0 to {MAX_EVENTS} events, got {self.events}")

    @classmethod
    def zero(cls, plan: SketchPlan) -> Self:
        """Return the sketch of no events."""
        return cls(plan, np.zeros(plan.size, np.int64))

    @classmethod
    def of(cls, table: ClassTable, plan: SketchPlan) -> Self:
        """Sum over a table's events.

        Raises
        ------
        InputError
            The number of classes is not that of the plan, or there are too many events.
        """
        if table.classes != plan.classes:
            raise InputError(f"prediction must have {plan.classes} classes as the plan says, got {table.classes}")
        if table.rows > MAX_EVENTS:
            raise InputError(f"a sketch takes at most {MAX_EVENTS} events, got {table.rows}")
        sums = np.zeros(plan.size, np.int64)
        add_to_sketch(table.prediction, table.outcome, plan.tables, sums)
        return cls(plan, sums)

    def add(self, prediction: ArrayLike, outcome: ArrayLike) -> Self:
        """Add events: prediction of shape (n, K), outcome (n,).

        Raises
        ------
        InputError
            As :meth:`~monitor.scores.ClassTable.from_events` does, or the number of classes is not that of the plan.
        IncompatibleTables
            There are too many events.
        """
        return self + type(self).of(ClassTable.from_events(prediction, outcome), self.plan)

    def __add__(self, other: Self) -> Self:
        """Return the sketch of the events of both."""
        if self.plan != other.plan:
            raise IncompatibleTables(f"only sketches with equal plans add, got {self.plan} and {other.plan}")
        if self.events + other.events > MAX_EVENTS:
            # Checked before adding, which might overflow.
            raise IncompatibleTables(f"two sketches hold more than {MAX_EVENTS} events together; use shorter windows")
        return type(self)(self.plan, self.sums + other.sums)

    @property
    def events(self) -> int:
        """Number n of events."""
        return int(self.sums[-TOTALS])

    @property
    def squared_norm(self) -> float:
        """Sum over all i, j, of k^(p_i, p_j) <r_i, r_j>."""
        features = self.sums[: self.plan.features * self.plan.classes] / UNIT
        return 2.0 * float(features @ features) / self.plan.features

    @property
    def squared(self) -> float:
        r"""Sum over the events of \|r\|^2."""
        return float(self.sums[1 - TOTALS]) / UNIT

    @property
    def expected(self) -> float:
        """Sum over the events of tr S, which is the mean of :attr:`squared` under calibration."""
        return float(self.sums[2 - TOTALS]) / UNIT

    @property
    def null_variance(self) -> float:
        """Variance of n (n - 1) U under calibration."""
        spread = self.sums[self.plan.features * self.plan.classes : -TOTALS] / UNIT
        # Includes each event's term with itself: a share of about 1 / n, which keeps the variance above 0.
        return 2.0 * float(spread @ spread) / PAIRS

    def to_bytes(self) -> bytes:
        """Serialise the sketch, little-endian."""
        plan = self.plan
        header = _HEADER.pack(_MAGIC, SKETCH_VERSION, plan.classes, plan.features, plan.lengthscale, plan.seed)
        return header + self.sums.astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what ``to_bytes`` wrote.

        Raises
        ------
        IncompatibleTables
            The bytes have another version or are not a sketch.
        """
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise IncompatibleTables("these bytes are not an SKCE sketch")
        _, version, classes, features, lengthscale, seed = _HEADER.unpack_from(data)
        if version != SKETCH_VERSION:
            raise IncompatibleTables(f"the sketch has version {version}, this program reads version {SKETCH_VERSION}")
        plan = SketchPlan(classes, features, lengthscale, seed)
        expected = _HEADER.size + 8 * plan.size
        if len(data) != expected:
            raise IncompatibleTables(f"the sketch must have {expected} bytes, got {len(data)}")
        return cls(plan, np.frombuffer(data, "<i8", offset=_HEADER.size).astype(np.int64))


@lru_cache(maxsize=64)
def _tables(plan: SketchPlan) -> Floats:
    """Draw frequencies of the kernel and of its square, and vectors for traces; shape (D/2 + 2 PAIRS, K)."""
    # The raw stream of a bit generator never changes; numpy's distributions may change between versions.
    source = np.random.PCG64([SKETCH_VERSION, plan.seed])

    def uniform(*shape: int) -> Floats:
        raw = np.asarray(source.random_raw(math.prod(shape)), np.uint64)
        return ((raw >> np.uint64(11)).astype(np.float64) + 0.5).reshape(shape) * 2.0**-53

    def cauchy(number: int, lengthscale: float) -> Floats:
        """Frequencies of exp(-||p - q|| / lengthscale): multivariate Cauchy, within the plane of differences p - q."""
        normal = ndtri(uniform(number, plan.classes))
        normal -= normal.mean(axis=1, keepdims=True)
        direction = normal / np.linalg.norm(normal, axis=1, keepdims=True)
        # Lengths are quantiles instead of draws, which makes the mean of few cosines far more accurate.
        dimensions = plan.classes - 1
        length = np.sqrt(dimensions * fdtri(dimensions, 1.0, (np.arange(number) + 0.5) / number))
        # Rounded, so that frequencies do not depend on the last digits of library functions.
        return np.asarray(np.round(length[:, None] * direction / lengthscale * 2.0**20) * 2.0**-20)

    # Equally many signs of both kinds in random order: E[b b'] projects off (1, ..., 1), where S is 0.
    half = plan.classes // 2
    signs = np.concatenate([np.ones(half), -np.ones(half), np.zeros(plan.classes % 2)])
    vectors = signs[np.argsort(uniform(PAIRS, plan.classes), axis=1)]
    if plan.classes % 2 == 0:
        vectors *= math.sqrt((plan.classes - 1) / plan.classes)
    tables = np.ascontiguousarray(
        np.vstack([cauchy(plan.features // 2, plan.lengthscale), cauchy(PAIRS, plan.lengthscale / 2.0), vectors])
    )
    tables.flags.writeable = False
    return tables
