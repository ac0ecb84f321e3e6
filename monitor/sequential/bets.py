"""Bets against calibration, tabulated for each cell."""

import numpy as np

from monitor.arrays import Floats
from monitor.scores import grid
from monitor.sequential.alternatives import middle_logits

_SAFETY = 1e-3


def tabulate(shift: Floats, tolerance: float) -> Floats:
    """float64, shape (cells, 4, alternatives)"""
    lower, upper = grid.edges().copy(), grid.upper_edges().copy()
    lower[-1] = 1.0
    anchor = grid.anchors() / grid.UNITS
    z = middle_logits()
    side = np.where(np.abs(shift) > tolerance, np.sign(shift), 0.0)
    odds = np.exp(side * tolerance)           # of the edge of the band, relative to p
    bound = 1 / (1 + np.exp(-(z + side * tolerance)))
    q = 1 / (1 + np.exp(-(z + shift)))
    lam = np.where(side != 0, (q - bound) / (bound * (1 - bound)), 0.0)
    # of y = 1: log(1 + lam (1 - b(p))) = log(1 + lam + (odds - 1 - lam) p) - log(1 + (odds - 1) p)
    lo = np.where(side > 0, 0.0, 0.0)
    # factors must stay positive over the cell
    at_l = odds * lower / (1 + (odds - 1) * lower)
    at_u = odds * upper / (1 + (odds - 1) * upper)
    lam = np.clip(lam, -(1 - _SAFETY) / np.maximum(1 - at_l, 1e-300), (1 - _SAFETY) / np.maximum(at_u, 1e-300))
    lam[:, [0, -1]] = 0.0
    side = np.where(lam == 0.0, 0.0, side)
    odds = np.exp(side * tolerance)
    out = []
    for const, slope in ((1 + lam, odds - 1 - lam), (np.ones_like(lam), odds - 1 - lam * odds)):
        f_l, f_u = np.log(const + slope * lower), np.log(const + slope * upper)
        width = np.where(upper > lower, upper - lower, 1.0)
        beta = np.where(upper > lower, (f_u - f_l) / width, 0.0)
        m = (lower + upper) / 2
        t = (odds - 1) / (1 + (odds - 1) * m)
        alpha = f_l + beta * (anchor - lower) - np.log(1 + (odds - 1) * m) - t * (anchor - m)
        out += [alpha, (beta - t) / grid.UNITS]
    return np.ascontiguousarray(np.array(out).transpose(2, 0, 1))
