"""Make closed samples of predictions that leave the join."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from monitor.events.strata import Strata
from monitor.store.bottom_sample_loops import keep_fewest
from monitor.store.closed_samples import SCHEMA, ClosedSample
from monitor.stream.journal_loops import NO_OUTCOME, VECTOR, read_blocks, read_vectors
from monitor.stream.sample_candidates import Candidates


def labelled_outcomes(rows: NDArray[np.void], strata: Strata) -> NDArray[np.int16]:
    """Return the outcome of each prediction: 0 or 1, or the class that came true, or NO_OUTCOME.

    If the model's policy says so, a binary prediction without an outcome is a negative.

    Parameters
    ----------
    rows
        Rows of the journal, of predictions that can no longer change.

    Returns
    -------
    int16, shape (rows,); undefined for VECTOR rows.
    """
    outcome = rows["outcome"].astype(np.int16)
    is_block = rows["entry"] == VECTOR
    implied = np.array([policy.implied_negative for policy in strata.policies], np.bool_)
    if implied.any():
        is_implied = implied[strata.models_of_strata()]
        outcome[(outcome == NO_OUTCOME) & ~is_block & is_implied[rows["stratum"]]] = 0
    main, first, blocks = read_vectors(rows)
    outcome[main] = blocks.label[first]
    return outcome


class Departed(NamedTuple):
    """Predictions that have left the join, in rows of the journal, with further columns for each row."""

    rows: NDArray[np.void]
    confidence: NDArray[np.int32]
    """Stratum of confidence, shape (rows,)."""
    outcome: NDArray[np.int16]
    """From :func:`labelled_outcomes`, shape (rows,)."""
    candidates: Candidates
    candidate_of: NDArray[np.int64]
    """Place among the candidates, or -1, shape (rows,)."""


def closed_sample(
    departed: Departed, in_span: NDArray[np.int64], strata: Strata, capacity: int, labelled: Mapping[int, int]
) -> ClosedSample:
    """The sample of one version and span.

    Parameters
    ----------
    in_span
        Places of the rows that are labelled candidates of the version and span.
    capacity
        Number of events that it keeps.
    labelled
        Stratum of confidence -> its labelled predictions, candidates or not.
    """
    taken = departed.rows[in_span]
    # In the order of the hashes, and no more than its capacity, as a closed sample has to be.
    kept = keep_fewest(departed.confidence[in_span], capacity, taken["id_high"], taken["id_low"], taken["time_ms"])
    return ClosedSample(capacity, labelled, _table(departed, in_span[kept], strata))


def _table(departed: Departed, sampled: NDArray[np.int64], strata: Strata) -> Any:
    taken = departed.rows[sampled]
    names = strata.strata
    used, place = np.unique(taken["stratum"], return_inverse=True)
    segments = pa.array([json.dumps(names[at].segments) for at in used.tolist()], pa.string())
    columns = {
        "id_high": np.ascontiguousarray(taken["id_high"]),
        "id_low": np.ascontiguousarray(taken["id_low"]),
        "time_ms": np.ascontiguousarray(taken["time_ms"]),
        "confidence": departed.confidence[sampled],
        "outcome": departed.outcome[sampled],
    }
    arrays = [pa.array(column, SCHEMA.field(name).type) for name, column in columns.items()]
    features = departed.candidates.take(departed.candidate_of[sampled]).feature_lists()
    predictions = _predictions(departed.rows, sampled)
    return pa.Table.from_arrays(
        [*arrays[:4], predictions, arrays[4], segments.take(pa.array(place, pa.int64())), features], schema=SCHEMA
    )


def _predictions(rows: NDArray[np.void], sampled: NDArray[np.int64]) -> Any:
    """[P(y = 1)], or the probabilities of all classes, of each of these rows: a pyarrow.ListArray."""
    is_block = rows["entry"] == VECTOR
    if not is_block.any():
        single = np.ascontiguousarray(rows["prediction"][sampled])
        return pa.ListArray.from_arrays(pa.array(np.arange(single.size + 1), pa.int32()), pa.array(single))
    blocks = read_blocks(rows)
    first = np.cumsum(is_block)[sampled]
    has_vector = np.append(is_block[1:], False)[sampled]
    flat = blocks.values.reshape(-1)
    per_block = blocks.values.shape[1]
    length = np.ones(sampled.size, np.int64)
    length[has_vector] = blocks.classes[first[has_vector]]
    ends = np.cumsum(length)
    values = np.empty(int(length.sum()))
    values[(ends - length)[~has_vector]] = rows["prediction"][sampled[~has_vector]]
    # The place of each probability: where the first block of its row begins, plus its distance from there.
    from_block = np.repeat(has_vector, length)
    shift = np.repeat(first * per_block - (ends - length), length)[from_block]
    values[from_block] = flat[shift + np.flatnonzero(from_block)]
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), pa.array(values))
