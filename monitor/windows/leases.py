"""The models that this replica evaluates: each model is evaluated by one of the live replicas."""

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import structlog
import xxhash

from monitor.clock import Clock
from monitor.errors import StoreUnavailable
from monitor.outage_log import Outage
from monitor.store.evaluations import EvaluationStore, Replica

EVALUATE: Final = "evaluate"
"""The role of replicas that models are shared out among."""

BEAT_SECONDS: Final = 3.0

_MARGIN_SECONDS: Final = 1.0
"""Time by which a replica ends its leases before the database does: clocks do not run equally fast."""

_log = structlog.get_logger(__name__)


class Lease(NamedTuple):
    """The right to evaluate a model."""

    epoch: int
    deadline: float
    """On this process's monotonic clock. It counts from before the lease was requested, so no other replica has it."""


def owner_of(model: str, replicas: Iterable[str]) -> str:
    """The replica that should evaluate a model (rendezvous hashing): a change of replicas moves few models."""
    return max(replicas, key=lambda replica: (xxhash.xxh3_64_intdigest(f"{replica}\0{model}".encode()), replica))


class Leases:
    """Takes, renews and releases the leases of one replica. Any thread.

    What a replica that was paused believes is checked by two things: it exports a model only before the deadline of its
    lease, on its own clock; and the store refuses what it saves under a lease that it has lost.

    Parameters
    ----------
    store
        Holds the leases.
    replica
        Id of this process; no other process ever has the same.
    roles
        Its roles. It takes leases only where ``evaluate`` is among them.
    clock
        Its monotonic clock.
    """

    def __init__(self, store: EvaluationStore, replica: str, roles: Collection[str], *, clock: Clock) -> None:
        self._store = store
        self.replica = replica
        self._roles = roles
        self._clock = clock
        self._live: Sequence[Replica] = ()
        self._leases: Mapping[str, Lease] = {}
        self._left = False
        self._changing = threading.Lock()
        self._outage = Outage(_log, "leases cannot be renewed", "leases are renewed again", self._clock)

    @property
    def epochs(self) -> Mapping[str, int]:
        """Model -> epoch of its lease, of models that no other replica is known to have taken."""
        return {model: lease.epoch for model, lease in self._leases.items()}

    def held(self) -> Collection[str]:
        """Models that no other replica can have at this moment, whatever happened to this one."""
        now = self._clock.monotonic()
        return {model for model, lease in self._leases.items() if now < lease.deadline}

    def beat(self) -> None:
        """Say that this replica lives, renew its leases, take those that are free, and give up those of others.

        Call it every BEAT_SECONDS. Where the database does not answer, the leases end by themselves.
        """
        with self._changing:
            if self._left:
                return
            try:
                self._beat()
            except StoreUnavailable as error:
                self._outage.failed(error)
            else:
                self._outage.over()

    def acquire(self, models: Collection[str]) -> Mapping[str, int]:
        """Take the free leases of models that this replica should evaluate; returns model -> epoch of all it has."""
        with self._changing:
            try:
                if not self._live and not self._left:
                    self._beat()
                self._take(model for model in models if model not in self._leases)
            except StoreUnavailable as error:
                self._outage.failed(error)
            return {model: lease.epoch for model, lease in self._leases.items() if model in models}

    def drop(self, models: Iterable[str], epochs: Mapping[str, int]) -> None:
        """Forget leases that the store says were lost, unless they were taken anew since these epochs."""
        with self._changing:
            lost = {model for model in models if model in self._leases and self._leases[model].epoch == epochs[model]}
            self._leases = {model: lease for model, lease in self._leases.items() if model not in lost}

    def remove(self, models: Collection[str]) -> None:
        """End the leases of models that have stopped, and remove what is stored of their evaluation."""
        with self._changing:
            self._leases = {model: lease for model, lease in self._leases.items() if model not in models}
            self._store.remove(self.replica, models)

    def leave(self) -> None:
        """Release all leases and take no more: other replicas go on at once."""
        with self._changing:
            self._left, self._leases = True, {}
            try:
                self._store.leave(self.replica)
            except StoreUnavailable as error:
                _log.warning("leases could not be released; they end by themselves", detail=str(error))

    def _beat(self) -> None:
        deadline = self._deadline()
        beat = self._store.beat(self.replica, self._roles)
        self._live = beat.replicas
        before = self._leases
        self._leases = {model: Lease(epoch, deadline) for model, epoch in beat.epochs.items()}
        lost = sorted(before.keys() - self._leases.keys())
        if lost:
            _log.warning("other replicas evaluate models that this one did not renew in time", models=len(lost))
        others = [model for model in self._leases if not self._is_mine(model)]
        if others:
            # Before the lease is released, so that no two replicas export a model.
            self._leases = {model: self._leases[model] for model in self._leases.keys() - set(others)}
            self._store.release(self.replica, others)
            _log.info("models were released to other replicas", models=len(others))
        self._take(beat.expired)

    def _take(self, models: Iterable[str]) -> None:
        wanted = [model for model in models if self._is_mine(model)]
        if self._left or not wanted:
            return
        deadline = self._deadline()
        taken = self._store.acquire(self.replica, wanted)
        self._leases = {**self._leases, **{model: Lease(epoch, deadline) for model, epoch in taken.items()}}
        if taken:
            _log.info("models are evaluated here from now on", models=len(taken))

    def _is_mine(self, model: str) -> bool:
        evaluating = [replica.id for replica in self._live if EVALUATE in replica.roles]
        return bool(evaluating) and owner_of(model, evaluating) == self.replica

    def _deadline(self) -> float:
        return self._clock.monotonic() + self._store.lease_ms / 1000 - _MARGIN_SECONDS
