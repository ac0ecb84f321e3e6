"""What an alert is: each of its fields is declared here once, with how it is stored and shown.

A field with :class:`Shown` is a member of the JSON of alerts in the database and over REST, and has its part of the
schema and of the example: nothing else has to be changed. Other fields are not saved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin, get_type_hints

Kind = Literal["calibration", "change", "map"]

SERVICE: Final = "service"
"""Actor of the changes that the service makes by itself."""


class AlertState(StrEnum):
    """State of an alert, in the order in which it passes through them."""

    PENDING = "pending"
    """Within a factor of ten of the line."""
    FIRING = "firing"
    """The line was reached. It stays, wherever the evidence moves."""
    ACKNOWLEDGED = "acknowledged"
    """Firing, and somebody has it."""
    RESOLVED = "resolved"
    """Over; ``reason`` says why. It is not opened again."""


OPEN: Final = (AlertState.FIRING, AlertState.ACKNOWLEDGED)


class Resolution(StrEnum):
    """Why an alert is resolved."""

    OVER = "over"
    """Data speak against what it was raised for."""
    STOPPED = "stopped"
    """The model or the version has stopped."""
    PROMOTED = "promoted"
    """A map was promoted."""
    ROLLED_BACK = "rolled_back"
    """The map was rolled back."""
    SETTINGS = "settings"
    """The detector was switched off, or starts again at 0 with other settings."""


_TIME: Final = "2026-11-21T08:05:13.000Z"


class Shown(NamedTuple):
    """How a field of an alert is shown: beside its type."""

    example: Any
    """Its value in the example of the OpenAPI document."""
    about: str | None = None
    """What it says."""
    name: str = ""
    """Its name in JSON, if that is another; ``a.b`` is the member b of the object a."""
    label: str = ""
    """Its name for people: with one, `monitor alerts show` lists it, and webhooks send it as an annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """A detector that speaks for an alert."""

    detector: str
    kind: Kind
    log10_evidence: float
    """Since it was 0; of one that has raised an alarm the most there was."""
    log10_line: float
    firing: bool
    """Whether it has raised an alarm; else it is within a factor of ten of its line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the evidence about one model, version and kind says now; of an alert, what all of its kinds say.

    Attributes
    ----------
    since_ms, from_ms, to_ms
        The change point, and the set [from, to] that it lies in; event time.
    document
        JSON: attribution, segments, before and after, remedy with its command. Lists of alerts are without it.
    raised_ms
        Event time at which the alarm that fires was raised; None while none does: before, and once data speak against
        what it was raised for. It is not saved, as those that follow.
    first_raised_ms
        The same of the first time: an alarm that fires may be raised again.
    ended_by_settings_ms
        Event time up to which the detector had read when other settings ended an alarm of this kind, the last time;
        None if they never did.
    revision
        Of what serves, as the evidence knows it: 0 if no map ever did.
    """

    model: Annotated[str, Shown("churn")]
    version: Annotated[str, Shown("7")]
    kind: Annotated[
        Kind,
        Shown(
            "calibration",
            "map: the recalibration map that serves does harm; calibration: predictions are wrong; change: calibration "
            "is not that of the reference any more. Where several are the case, the first of these",
        ),
    ]
    summary: Annotated[str, Shown("Predictions of churn 7 are too sure of themselves since 2026-11-20 14:05 UTC.")] = ""
    log10_evidence: Annotated[
        float, Shown(7.2, "decimal logarithm of the evidence; of an alert that fired the most there was")
    ]
    log10_line: Annotated[
        float, Shown(5.1, "that of the line at which an alert fires: the budget of false alarms draws it")
    ]
    since_ms: Annotated[int, Shown("2026-11-20T14:05:00.000Z", "the most likely", name="change_point.at")]
    from_ms: Annotated[
        int, Shown("2026-11-20T13:30:00.000Z", "the earliest that fits the data", name="change_point.from")
    ]
    to_ms: Annotated[int, Shown("2026-11-20T14:40:00.000Z", "the latest", name="change_point.to")]
    events: Annotated[int, Shown(5210, "settled labelled events since the change point")]
    settled_ms: Annotated[
        int,
        Shown(
            "2026-11-21T07:00:00.000Z",
            "time of predictions up to which the evidence looks",
            name="settled_to",
            label="settled to",
        ),
    ]
    witnesses: Annotated[
        list[Witness],
        Shown(
            [
                {
                    "detector": "calibration",
                    "kind": "calibration",
                    "log10_evidence": 7.2,
                    "log10_line": 5.1,
                    "firing": True,
                }
            ],
            "the detectors that speak for it, the one first whose words these are; others may join later",
        ),
    ] = field(default_factory=list)
    document: Mapping[str, Any] = field(default_factory=dict)
    raised_ms: int | None = None
    first_raised_ms: int | None = None
    ended_by_settings_ms: int | None = None
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert. Times are milliseconds since the epoch, by the wall clock; those of the finding are of events.

    Attributes
    ----------
    finding
        The latest; of one that fired with the strongest evidence so far.
    """

    id: Annotated[str, Shown("al_5e2c8f0b7d1a4936")]
    state: Annotated[
        AlertState,
        Shown(
            "firing",
            "pending: within a factor of ten of the line; firing: the line was reached; acknowledged: firing, and "
            "somebody has it; resolved: over",
        ),
    ]
    finding: Finding
    pending_ms: Annotated[int, Shown("2026-11-21T07:55:01.000Z", "RFC 3339, like all times", name="pending_since")]
    firing_ms: Annotated[int | None, Shown(_TIME, "null while it is pending", name="firing_since")] = None
    raised_ms: Annotated[
        int | None,
        Shown(
            "2026-11-21T07:00:00.000Z",
            "time of predictions at which its evidence reached the line: a change that began later is another alert",
            name="raised_at",
        ),
    ] = None
    acknowledged_by: Annotated[str | None, Shown(None, "who acknowledged it last")] = None
    assigned_to: Annotated[
        str | None, Shown(None, "who works on it, as the acknowledgement said", label="assigned to")
    ] = None
    muted_until_ms: Annotated[
        int | None,
        Shown(None, "then it fires again, unless it is over", name="muted_until", label="muted until"),
    ] = None
    resolved_ms: Annotated[int | None, Shown(None, name="resolved_at")] = None
    reason: Annotated[
        Resolution | None,
        Shown(
            None,
            "over: the data speak against it; stopped: the version has no more events; promoted, rolled_back: another "
            "map serves, or none; settings: its detector was switched off, or starts again at 0 with other settings",
            name="resolved_because",
        ),
    ] = None

    @property
    def key(self) -> tuple[str, str]:
        """Model and version."""
        return self.finding.model, self.finding.version

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of findings that it is about."""
        return frozenset({self.finding.kind, *(one.kind for one in self.finding.witnesses if one.firing)})


class ShownField(NamedTuple):
    """A field of an alert as it is shown."""

    attribute: str
    """Attribute of the alert, such as ``finding.events``."""
    place: tuple[str, ...]
    """Its name in JSON, behind those of the objects that it is in."""
    type: Any
    is_time: bool
    """Whether it is in milliseconds, and written as RFC 3339."""
    shown: Shown


def _shown_fields(of: type[Any], path: str = "") -> Iterator[ShownField]:
    for name, hint in get_type_hints(of, include_extras=True).items():
        if get_origin(hint) is Annotated:
            type_, shown = get_args(hint)
            place = tuple((shown.name or name).split("."))
            yield ShownField(f"{path}{name}", place, type_, name.endswith("_ms"), shown)
        elif hint is Finding:
            yield from _shown_fields(Finding, f"{name}.")


SHOWN: Final = tuple(_shown_fields(Alert))
"""The fields of an alert that are shown, in the order of its JSON."""


class AlertChange(NamedTuple):
    """An alert came into a state."""

    number: int
    alert: str
    at_ms: int
    state: AlertState
    actor: str
    note: str
