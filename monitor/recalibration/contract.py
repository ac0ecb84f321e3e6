"""What others need of recalibration: the API, the exposition and the command line."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import ArrayLike

from monitor.store.recalibrations import AuditEntry, Champion, Job, Order, StoredMap


@dataclass(frozen=True, slots=True)
class Applied:
    """Recalibrated predictions.

    Attributes
    ----------
    prediction
        Shape (n,) or (n, K), as a list of numbers or of lists.
    map_id
        Which map made them; None: none serves, they are as they were.
    """

    prediction: list[Any]
    map_id: str | None


class Recalibrations(Protocol):
    """All that can be asked of recalibration. Any thread. Raises what RecalibrationStore raises."""

    def request(
        self,
        order: Order,
        *,
        actor: str,
        idempotency_key: str | None = None,
        asked: Mapping[str, Any] | None = None,
    ) -> tuple[Job, bool]:
        """Queue a refit; False beside it if the same request was made before.

        Parameters
        ----------
        asked
            What tells the requests under one key apart, as JSON has it; the order, if left out.

        Raises
        ------
        InputError
            The method or an option is wrong.
        UnknownSeries
            No model, or no version of it, is called that.
        Conflict
            Another refit of the model is under way, or the key was used for another request.
        """
        ...

    def order(
        self,
        model: str,
        version: str | None = None,
        *,
        method: str | None = None,
        options: Mapping[str, Any] | None = None,
        window_ms: int | None = None,
        promote: bool | None = None,
    ) -> Order:
        """What is asked for; what is None is as the model's settings say.

        Options that the settings name are those of the method that they name: they do not go with another one.

        Raises
        ------
        InputError
            The method or an option is wrong.
        UnknownSeries
            No model, or no version of it, is called that.
        """
        ...

    def version_of(self, model: str, version: str | None) -> str:
        """The version meant: the one named, or the current one. Raises UnknownSeries."""
        ...

    def job(self, job_id: str) -> Job:
        """One refit."""
        ...

    def jobs(self, models: str | Collection[str] | None, *, before: str | None, limit: int) -> Sequence[Job]:
        """Refits of a model, of several, or of all, the newest first; without their comparisons."""
        ...

    def promotable(self, jobs: Collection[Job]) -> set[str]:
        """Ids of those refits that :meth:`promote` would let serve as things stand."""
        ...

    def with_map(self, jobs: Collection[Job]) -> set[str]:
        """Ids of those refits whose map :meth:`artifact` has."""
        ...

    def artifact(self, map_id: str) -> StoredMap:
        """One map."""
        ...

    def figure(self, job_id: str, name: str) -> bytes:
        """One picture, SVG."""
        ...

    def champion(self, model: str, version: str) -> Champion:
        """What serves; ``map_id`` is None, and ``revision`` 0, where nothing ever did."""
        ...

    def promote(self, job_id: str, *, actor: str, note: str) -> Champion:
        """Let a candidate's map serve."""
        ...

    def roll_back(self, model: str, version: str, *, actor: str, note: str) -> Champion:
        """Let serve what served before."""
        ...

    def apply(
        self,
        model: str,
        version: str,
        prediction: ArrayLike,
        *,
        features: ArrayLike | None = None,
        segments: Mapping[str, ArrayLike] | None = None,
    ) -> Applied:
        """Recalibrate by the map that serves."""
        ...

    def live(self, model: str, version: str) -> Mapping[str, Any] | None:
        """Measures of raw and recalibrated scores, side by side, on events that no refit saw; None if there are none.

        See docs/recalibration.md ("live").
        """
        ...

    def schedules(self) -> Mapping[str, Mapping[str, Any]]:
        """Model -> what its settings say of refits, with ``next`` (milliseconds since the epoch, or None)."""
        ...

    def audit(self, *, after: int, limit: int, model: str | None) -> Sequence[AuditEntry]:
        """Who did what."""
        ...
