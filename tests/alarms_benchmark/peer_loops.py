"""Loops of the peers."""

import numpy as np

from monitor.arrays import Floats, Ints
from monitor.loops import njit

CELLS = 4096


@njit()
def cusum(gain: Floats, score: Floats, threshold: float) -> Ints:
    """Return after which events the largest of several cumulative sums reaches a threshold.

    Parameters
    ----------
    gain
        float64, shape (events, sums).
    score
        float64, shape (sums,): before the first event; on return, after the last one. All are 0 after an alarm.
    threshold
        Of the largest one.
    """
    result = []
    for event in range(gain.shape[0]):
        largest = 0.0
        for k in range(score.shape[0]):
            score[k] = max(0.0, score[k] + gain[event, k])
            largest = max(largest, score[k])
        if largest >= threshold:
            result.append(event + 1)
            score[:] = 0.0
    return np.array(result, np.int64)


@njit()
def first_alarm(ratio: Floats, evidence: Floats, threshold: float) -> int:
    """Return the event after which evidence in the form of Shiryaev and Roberts reaches a threshold, or -1.

    Parameters
    ----------
    ratio
        float64, shape (events,): likelihood ratios.
    evidence
        float64, shape (1,); changed in place.
    """
    for event in range(ratio.shape[0]):
        evidence[0] = (evidence[0] + 1.0) * ratio[event]
        if evidence[0] >= threshold:
            return event
    return -1


@njit()
def kolmogorov_smirnov(first: Floats, second: Floats) -> float:
    """Return the largest distance of the distributions of two samples, each of shape (n,)."""
    first, second = np.sort(first), np.sort(second)
    size, i, j, most = first.size, 0, 0, 0
    while i < size and j < size:
        value = min(first[i], second[j])
        while i < size and first[i] <= value:
            i += 1
        while j < size and second[j] <= value:
            j += 1
        most = max(most, abs(i - j))
    return most / size


@njit()
def rank_transforms(  # noqa: PLR0917 - a kernel takes its columns one by one
    transform: Floats, share: Floats, seen: Ints, bins: Ints, evidence: Floats, threshold: float, once: bool
) -> Ints:
    """Return after which events a conformal test martingale on transforms reaches a threshold.

    The rank of each transform among all so far, ties broken at random, is uniform if they are exchangeable. The bet on
    its bin is the bin's share of earlier ranks, relative to a uniform one.

    Parameters
    ----------
    transform, share
        float64, shape (events,): in [0, 1), and the draws that break ties of its 4,096 cells.
    seen
        int64, shape (4097,): a Fenwick tree of the cells of earlier transforms; changed in place, like the next two.
    bins
        int64: number of earlier ranks in each bin.
    evidence
        float64, shape (2,): the mixture of all beginnings, and the number of events.
    threshold
        Of the evidence.
    once
        Weight beginnings by 1 / (t (t + 1)), so that a false alarm is ever raised with probability 1 / threshold at
        most. By 1 otherwise (Shiryaev and Roberts).
    """
    result = []
    for event in range(transform.shape[0]):
        cell = int(transform[event] * CELLS)
        total, below, equal = int(evidence[1]), 0, 0
        at = cell
        while at > 0:
            below += seen[at]
            at -= at & -at
        at, up_to = cell + 1, 0
        while at > 0:
            up_to += seen[at]
            at -= at & -at
        equal = up_to - below
        at = cell + 1
        while at <= CELLS:
            seen[at] += 1
            at += at & -at
        rank = (below + share[event] * (equal + 1)) / (total + 1.0)
        place = min(int(rank * bins.shape[0]), bins.shape[0] - 1)
        bet = bins.shape[0] * (bins[place] + 1.0) / (total + bins.shape[0])
        bins[place] += 1
        t = total + 1.0
        evidence[0] = (evidence[0] + (1.0 / (t * (t + 1.0)) if once else 1.0)) * bet
        evidence[1] = t
        if evidence[0] >= threshold:
            result.append(event + 1)
            seen[:], bins[:], evidence[:] = 0, 0, 0.0
    return np.array(result, np.int64)
