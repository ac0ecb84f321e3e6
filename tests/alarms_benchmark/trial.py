"""One stream, read by all methods of a group until each has raised its alarm."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.alarms_benchmark.methods import Alarm, Method
from tests.alarms_benchmark.scenarios import SCENARIOS
from tests.alarms_benchmark.streams import EVENTS, Panes, parts


@dataclass(frozen=True)
class Result:
    """What a variant of a method did on a stream."""

    scenario: str
    prevalence: str
    seed: int
    variant: str
    events: int
    """Before the change, or of the whole stream if there is none."""
    false_alarms: int
    """Alarms on these events."""
    delay: int | None
    """Events from the change to the first alarm after it; None if there is none."""
    error: int | None
    """Events from the change to where that alarm says it was; None where it says nothing."""
    covered: bool | None
    """Whether its set of possible changes holds the change."""


def run(scenario: str, prevalence: str, seed: int, methods: Iterable[Method], events: int = EVENTS) -> list[Result]:
    """Let methods read a stream.

    Where something changes, each reads until all of its variants have raised an alarm after the change.
    """
    law, panes = SCENARIOS[scenario], Panes()
    change_at = law.change_at or events
    alarms: dict[str, list[Alarm]] = {variant: [] for method in methods for variant in method.variants}
    active = list(methods)
    for part in parts(law, prevalence, seed, events):
        steps = panes.steps(part)
        for method in active:
            for alarm in method.read(part, steps):
                alarms[alarm.variant].append(alarm)
        active = [
            method
            for method in active
            if any(not alarms[variant] or alarms[variant][-1].event <= change_at for variant in method.variants)
        ]
        if not active:
            break
    results = []
    for variant, raised in alarms.items():
        first = next((alarm for alarm in raised if alarm.event > change_at), None)
        change = None if first is None or first.change is None else first.change()
        results.append(
            Result(
                scenario=scenario,
                prevalence=prevalence,
                seed=seed,
                variant=variant,
                events=change_at,
                false_alarms=sum(alarm.event <= change_at for alarm in raised),
                delay=None if first is None else first.event - change_at,
                error=None if change is None else change.since - change_at,
                covered=None
                if change is None
                else bool(((change.possible - change_at) * [-1, 1] >= 0).all(axis=1).any()),
            )
        )
    return results
