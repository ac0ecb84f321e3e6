"""The bandwidth of LoRe, found by leaving each event out."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from monitor.local.neighbour_loops import laplace_sums
from monitor.maps.lore_bins import Bins, shrunk, with_prior

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]

WHOLE_BIN: Final = 1e6
"""A gamma at which all events of a bin are alike: histogram binning."""

GAMMAS: Final = (*np.geomspace(0.0125, 6.4, 19).round(5).tolist(), WHOLE_BIN)
"""What is tried: steps of the square root of 2 about the paper's .2 and .4, and all of a bin alike."""

EVENTS_A_BIN: Final = 10_000
"""At how many of a bin the loss is computed; their neighbours are all events of the bin. With 1,500 gamma depended on
which they were where outcomes are rare, by factors up to 4 (docs/lore.md)."""

_PAIRS_A_THREAD: Final = 5_000_000
"""Fewer pairs than this, some 10 ms of work for each gamma, are not worth another thread."""

_MOST_THREADS: Final = 4

_OUTWEIGHED: Final = 1.0 - 1e-12
"""Share of a bin's squared weights."""


class StoredPoints(NamedTuple):
    """Events that a map keeps, those of a bin together."""

    points: Singles
    """float32, shape (d, m): one coordinate a row."""
    hit: Floats
    """float64, shape (m,): 0 or 1."""
    weight: Floats
    """float64, shape (m,)."""
    first: Ints
    """int64, shape (B + 1,): those of bin b are ``first[b] : first[b + 1]``."""


def neighbour_sums(points: Singles, stored: StoredPoints, own: Ints, rates: Floats, b: int) -> Floats:
    """Sums around points (q, d) over the stored ones of bin b, float64, shape (q, g, 3).

    As :func:`~monitor.local.neighbour_loops.laplace_sums`, with many points shared among threads: where outcomes are
    rare one bin holds nearly all events.
    """
    start, stop = int(stored.first[b]), int(stored.first[b + 1])
    threads = min(_MOST_THREADS, os.cpu_count() or 1, 1 + points.shape[0] * (stop - start) // _PAIRS_A_THREAD)

    def sums(part: Singles, own: Ints) -> Floats:
        return laplace_sums(part, stored.points, stored.weight, stored.hit, own, rates, start, stop)

    if threads == 1:
        return sums(points, own)
    # Each point's sums are its own, so that no number depends on which thread computes it.
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(sums, np.array_split(points, threads), np.array_split(own, threads))))


def leave_one_out_losses(stored: StoredPoints, bins: Bins, shrinkage: float, prior: float, gammas: Floats) -> Floats:
    r"""Mean log loss of each event under the map that all other events make, for each gamma, float64, shape (g,).

    Closed form: of the sums over neighbours, the event's own term is left out, and it is taken out of its bin's sums.
    No map is fitted again. Only the bin's mean confidence, which tells nothing of the outcome, stays.

    Of a bin the first 10,000 events are evaluated, which count for all of it: they must be a random sample of it. Equal
    events are neighbours like any others: another event of the same features is what later ones will be, too.
    """
    rates = 1.0 / (stored.points.shape[0] * gammas)
    loss, counted = np.zeros(gammas.size), 0.0
    for b in range(bins.count):
        start, stop = int(stored.first[b]), int(stored.first[b + 1])
        if stop - start < 2:
            continue  # no event has another beside it
        asked = np.arange(start, min(start + EVENTS_A_BIN, stop))
        # One that outweighs all others of its bin a million times has nobody beside it but rounding.
        asked = asked[stored.weight[asked] ** 2 < bins.squares[b] * _OUTWEIGHED]
        if not asked.size:
            continue
        points = np.ascontiguousarray(stored.points[:, asked].T)
        sums = neighbour_sums(points, stored, asked, rates, b)
        hit, weight = stored.hit[asked], stored.weight[asked]
        events, squares = bins.events[b] - weight, bins.squares[b] - weight**2
        mean = (bins.events[b] * bins.mean[b] - weight * hit) / events
        p = shrunk(sums, mean.clip(0.0, 1.0)[:, None], shrinkage)
        p = with_prior(p, events[:, None], squares[:, None], bins.confidence[b], prior)
        each = -np.log(np.where(hit[:, None] == 1.0, p, 1.0 - p))
        loss += bins.events[b] * np.average(each, axis=0, weights=weight)
        counted += bins.events[b]
    return loss / counted if counted else loss


def choose_gamma(stored: StoredPoints, bins: Bins, shrinkage: float, prior: float) -> float:
    """The gamma of the least leave-one-out log loss; of equal ones the largest, which says the least."""
    gammas = np.array(GAMMAS)
    losses = leave_one_out_losses(stored, bins, shrinkage, prior, gammas)
    return float(gammas[np.flatnonzero(losses <= losses.min() + 1e-12)[-1]])
