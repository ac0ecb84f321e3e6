"""When an alarm is raised, raised again, and over: evidence and recovery of one detector on one model and version."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from monitor.sequential.detector import Bets, State
from monitor.sequential.evidence import Alarm, Evidence, after, until
from monitor.sequential.recovery import MARGIN, Recovery

SOON_MS: Final = 7 * 86_400_000
"""An alarm that is raised within this time after one was over needs twice its margin to be over."""


class AlarmEvent(NamedTuple):
    """What happened to an alarm at the end of a step."""

    kind: Literal["raised", "raised again", "over"]
    end_ms: int
    alarm: Alarm | None
    """None when it is over."""


class Watch:
    """Raises alarms at evidence and ends them at recovery.

    At most one alarm fires. While it does, evidence goes on from 0; when it reaches the threshold again, the alarm is
    raised again, and what must recover is what the later alarm speaks for. Once it is over, evidence starts at 0 again.

    Parameters
    ----------
    start_ms
        When the first step begins.
    """

    def __init__(self, start_ms: int) -> None:
        self.evidence = Evidence(start_ms)
        self._recovery: Recovery | None = None
        self._margin = MARGIN
        self._over_ms: int | None = None

    @property
    def firing(self) -> bool:
        """Whether an alarm fires."""
        return self._recovery is not None

    def update(self, bets: Mapping[str, Mapping[str, Bets]], threshold: float) -> list[AlarmEvent]:
        """Add bets: see :meth:`monitor.sequential.evidence.Evidence.update`. Return what happened, in order."""
        events = []
        while (event := self.update_until_event(bets, threshold)) is not None:
            events.append(event)
            bets = after(bets, event.end_ms)
        return events

    def update_until_event(self, bets: Mapping[str, Mapping[str, Bets]], threshold: float) -> AlarmEvent | None:
        """Add bets as :meth:`update` does, up to the first event: those on later steps are left out."""
        over_ms = None
        if self._recovery is not None and (own := bets.get(self._recovery.group, {}).get(self._recovery.series)):
            over_ms = self._recovery.update(own)
        alarm = self.evidence.update_until_alarm(bets if over_ms is None else until(bets, over_ms), threshold)
        if alarm is not None:
            kind: Literal["raised", "raised again"] = "raised again" if self.firing else "raised"
            self._raise(alarm)
            return AlarmEvent(kind, alarm.end_ms, alarm)
        if over_ms is None:
            return None
        self.evidence.restart(threshold)
        self._recovery, self._over_ms = None, over_ms
        return AlarmEvent("over", over_ms, None)

    def _raise(self, alarm: Alarm) -> None:
        if not self.firing:
            soon = self._over_ms is not None and alarm.end_ms - self._over_ms <= SOON_MS
            self._margin = 2.0 * self._margin if soon else MARGIN
        self._recovery = Recovery.of(alarm, self._margin)

    def state(self) -> State:
        """Return what :meth:`from_state` continues from."""
        own = {f"evidence.{name}": value for name, value in self.evidence.state().items()}
        if self._recovery is not None:
            own |= {f"recovery.{name}": value for name, value in self._recovery.state().items()}
        if self._over_ms is not None:
            own["over_ms"] = self._over_ms
        return {**own, "margin": self._margin}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Watch":
        """Continue from a state."""
        parts: dict[str, dict[str, Any]] = {"evidence": {}, "recovery": {}}
        for name, value in state.items():
            part, dot, field = name.partition(".")
            if dot:
                parts[part][field] = value
        result = cls(0)
        result.evidence = Evidence.from_state(parts["evidence"])
        result._recovery = Recovery.from_state(parts["recovery"]) if parts["recovery"] else None
        result._margin, result._over_ms = float(state["margin"]), state.get("over_ms")
        return result
