"""What the settings say of a model's refits, and when its schedule is due."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cronsim import CronSim, CronSimError

from monitor.errors import SettingsError

_FIELDS: Final = 5


@dataclass(frozen=True, slots=True)
class RefitPlan:
    """How the refits of one model are made unless a request says otherwise.

    Attributes
    ----------
    method, options
        See :data:`monitor.maps.METHODS`.
    window_ms
        How far back events are taken; None: since the last change of calibration, or all there are.
    schedule
        Cron expression of five fields, UTC; None: no schedule.
    on_verdict
        Whether a verdict of shape miscalibration asks for a refit.
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
    """Check a cron expression.

    Raises
    ------
    SettingsError
        It is none of five fields, or no time fits it. Says what is wrong with it.
    """
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
    """The first slot later than a time, milliseconds since the epoch."""
    return _ms(next(CronSim(expression, _utc(after_ms))))


def last_slot_ms(expression: str, until_ms: int) -> int:
    """The last slot that is not later than a time, milliseconds since the epoch."""
    # The library looks for earlier times only, and a slot may fall on this very millisecond.
    return _ms(next(CronSim(expression, _utc(until_ms) + timedelta(microseconds=1), reverse=True)))


def _utc(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
