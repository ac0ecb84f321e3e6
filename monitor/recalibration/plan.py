"""What the settings say about a model's refits: the plan, its schedule, and whether a method fits the model."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cronsim import CronSim, CronSimError

from monitor.errors import InputError, SettingsError
from monitor.maps import METHODS
from monitor.maps.identity import Identity

_FIELDS: Final = 5


@dataclass(frozen=True, slots=True)
class RefitPlan:
    """How a model is refitted unless a request says otherwise.

    Attributes
    ----------
    method, options
        See :data:`monitor.maps.METHODS`.
    window_ms
        How far back events are used; None: since the last change of calibration, or all events.
    schedule
        Cron expression of five fields, UTC; None: no schedule.
    on_verdict
        Whether a verdict of shape miscalibration triggers a refit.
    automatic
        Whether a map that passes the guard is promoted at once.
    """

    method: str = "beta"
    options: Mapping[str, Any] = field(default_factory=dict)
    window_ms: int | None = None
    schedule: str | None = None
    on_verdict: bool = False
    automatic: bool = False


def check_schedule(expression: str) -> None:
    """Raise SettingsError unless this is a cron expression of five fields that some time matches."""
    if len(expression.split()) != _FIELDS:
        raise SettingsError(
            "must be a cron expression of five fields (minute, hour, day of month, month, day of week; UTC), such as"
            f" '0 3 * * *', got {expression!r}"
        )
    try:
        next_slot_ms(expression, 0)
    except CronSimError as error:
        raise SettingsError(f"must be a cron expression such as '0 3 * * *' ({error}), got {expression!r}") from error
    except StopIteration as error:
        raise SettingsError(f"must be a cron expression that some time fits, got {expression!r}") from error


def next_slot_ms(expression: str, after_ms: int) -> int:
    """Return the first slot after a time, milliseconds since the epoch."""
    return _ms(next(CronSim(expression, _utc(after_ms))))


def last_slot_ms(expression: str, until_ms: int) -> int:
    """Return the last slot at or before a time, milliseconds since the epoch."""
    # The library returns strictly earlier times only.
    return _ms(next(CronSim(expression, _utc(until_ms) + timedelta(microseconds=1), reverse=True)))


def _utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def check_suits(method: str, options: Mapping[str, Any], *, classes: int, segments: Collection[str]) -> None:
    """Check that a method fits the declaration of a model, before anything is fitted.

    Features and the number of events are known only to the refit.

    Parameters
    ----------
    method, options
        A method of :data:`monitor.maps.METHODS`, and its options.
    classes
        Declared number of classes; 0 for one probability, P(y = 1).
    segments
        Declared segment keys: only these are stored with the events that maps are fitted on.

    Raises
    ------
    InputError
        Names the method or the option, and those that fit.
    """
    suitable = {
        name: candidate
        for name, candidate in METHODS.items()
        if (candidate.many_classes if classes else candidate.binary)
    }
    others = ", ".join(
        name
        for name, candidate in suitable.items()
        if name != Identity.method and (segments or not candidate.needs_segments)
    )
    if method not in suitable:
        these = f"over {classes} classes" if classes else "P(y = 1)"
        declared = "these" if classes else "no classes"
        raise InputError(
            f"method {method!r} is not for predictions {these}, and the model is declared to have {declared}: take one "
            f"of {others}"
        )
    if not METHODS[method].needs_segments:
        return
    if not segments:
        raise InputError(
            f"method {method!r} needs segments, and the model is declared to have none: declare them, or take one of "
            f"{others}"
        )
    segment = options.get("segment")
    if segment is not None and segment not in segments:
        raise InputError(
            f"option segment of {method} must be one of {', '.join(sorted(segments))}, as declared, got {segment!r}"
        )
