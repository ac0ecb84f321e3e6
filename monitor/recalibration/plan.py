"""What the settings say about a model's refits: the plan, its schedule, and whether a method fits the model."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, Field, model_validator

from monitor.durations import to_ms
from monitor.errors import InputError, SettingsError
from monitor.maps import METHODS, check_options, choose_method
from monitor.maps.identity import Identity
from monitor.section import Section, Span, reported

_FIELDS: Final = 5

NEVER: Final = "never"
"""As a schedule: there is none, whatever the defaults say."""


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


def _check_method(name: str) -> str:
    with reported("must name a recalibration method (", ")"):
        return choose_method(name).name


def _check_schedule(expression: str) -> str:
    if expression != NEVER:
        try:
            check_schedule(expression)
        except SettingsError as error:
            # The value is appended to every message.
            raise ValueError(str(error).removesuffix(f", got {expression!r}")) from None
    return expression


class RefitPlan(Section):
    """How the recalibration maps of a model are made; a request may ask for something else."""

    method: Annotated[str, AfterValidator(_check_method)] = "beta"
    """Method by which maps are fitted. `GET /v1/recalibration-methods` lists them."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the method, such as {gamma: 0.4}; those left out are at their defaults."""
    window: Span | None = None
    """How far back labelled events are taken; null: since the last change of calibration, or all that are kept."""
    schedule: Annotated[str, AfterValidator(_check_schedule)] | None = None
    """When to refit, as a cron expression in UTC, such as '0 3 * * *'; null, or never: at no time by itself."""
    on_verdict: bool = False
    """Whether to refit on the events since the change when evidence raises an alarm about the shape of what is served;
    where there is no evidence on it, when the longest window finds it miscalibrated."""
    promotion: Literal["manual", "automatic"] = "manual"
    """Whether a map that proved better on later events serves at once, or waits for somebody's word. After a
    rollback, maps of schedules and verdicts wait, too, until somebody promotes. Where it is automatic, a map that does
    harm is rolled back by itself, too."""

    @model_validator(mode="after")
    def _options_fit(self) -> "RefitPlan":
        with reported("options: "):
            check_options(choose_method(self.method), self.options)
        return self

    @property
    def window_ms(self) -> int | None:
        """How far back events are taken."""
        return None if self.window is None else to_ms(self.window)

    @property
    def automatic(self) -> bool:
        """Whether a map that passes the guard is promoted at once."""
        return self.promotion == "automatic"

    @property
    def cron(self) -> str | None:
        """The schedule, or None if there is none."""
        return None if self.schedule == NEVER else self.schedule


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
