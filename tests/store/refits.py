"""Refits to store, by number."""

import hashlib
from dataclasses import replace
from typing import Any

from monitor.store.recalibration_store import RecalibrationStore
from monitor.store.recalibrations import Job, JobState, StoredMap
from monitor.store.sql import SqlStore

LEASE_MS = 30_000


def queued(number: int = 1, *, at_ms: int = 0, model: str = "churn", version: str = "7", **more: Any) -> Job:
    return Job(
        model,
        version,
        "beta",
        {"variant": "abm"},
        id=f"rc_{number}",
        state=JobState.QUEUED,
        requested_ms=at_ms,
        actor="ada",
        **more,
    )


def stored_map(job_id: str, artifact: bytes = b"ARROW1\x00map") -> StoredMap:
    return StoredMap(job_id, artifact, hashlib.sha256(artifact).hexdigest())


def recalibrations(store: SqlStore, keep: int = 20) -> RecalibrationStore:
    return RecalibrationStore(store.database, keep)


def run(
    store: RecalibrationStore,
    number: int,
    *,
    state: JobState = JobState.CANDIDATE,
    baseline: str | None = None,
    promote: bool = False,
    **told: Any,
) -> Job:
    """Add a refit and bring it to its end."""
    store.add_job(queued(number, **told))
    claimed = store.claim_job("w", lease_ms=LEASE_MS)
    assert claimed is not None
    assert claimed.id == f"rc_{number}"
    reason = None if state is JobState.CANDIDATE else "because"
    ended = replace(claimed, state=state, reason=reason, comparison={"fit": {"n": number}}, baseline=baseline)
    failed = state is JobState.FAILED
    return store.finish_job(
        ended,
        "w",
        None if failed else stored_map(claimed.id, f"map {number}".encode()),
        {} if failed else {"reliability": f"<svg>{number}</svg>".encode(), "segments": b"<svg/>"},
        promote=promote,
    )


def told(store: RecalibrationStore) -> list[tuple[str, str]]:
    """What the audit trail says was done with which refit."""
    return [(entry.action, entry.subject) for entry in store.audit(limit=1000)]
