"""The settings of recalibration: what refits are made of, how, and when."""

from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from monitor.app.settings.values import Duration, Positive, Section
from monitor.errors import InputError, SettingsError
from monitor.maps import check_options, choose_method
from monitor.recalibration.plan import check_schedule

NEVER: Final = "never"
"""Of a schedule: there is none, whatever the defaults say."""

_SECOND: Final = timedelta(seconds=1)


def _check_method(name: str) -> str:
    try:
        return choose_method(name).name
    except InputError as error:
        raise ValueError(f"must name a recalibration method ({error})") from None


def _check_schedule(expression: str) -> str:
    if expression != NEVER:
        try:
            check_schedule(expression)
        except SettingsError as error:
            # The value is shown by whoever shows the message.
            raise ValueError(str(error).removesuffix(f", got {expression!r}")) from None
    return expression


Method = Annotated[str, AfterValidator(_check_method)]
Schedule = Annotated[str, AfterValidator(_check_schedule)]
Reach = Annotated[Duration, Field(ge=_SECOND)]
Options = dict[str, Any]


class RefitSettings(Section):
    """How the recalibration maps of a model are made; a request may ask for something else."""

    method: Method = "beta"
    """Method by which maps are fitted. `GET /v1/recalibration-methods` lists them."""
    options: Options = Field(default_factory=dict)
    """Options of the method, such as {gamma: 0.4}; those left out are at their defaults."""
    window: Reach | None = None
    """How far back labelled events are taken; null: since the last change of calibration, or all that are kept."""
    schedule: Schedule | None = None
    """When to refit, as a cron expression in UTC, such as '0 3 * * *'; null, or never: at no time by itself."""
    on_verdict: bool = False
    """Whether to refit when the longest window finds the shape of the model's predictions miscalibrated."""
    promotion: Literal["manual", "automatic"] = "manual"
    """Whether a map that proved better on later events serves at once, or waits for somebody's word. After a
    rollback, maps of schedules and verdicts wait, too, until somebody promotes."""

    @model_validator(mode="after")
    def _options_fit(self) -> "RefitSettings":
        try:
            self.check()
        except InputError as error:
            raise ValueError(f"options: {error}") from None
        return self

    def check(self) -> None:
        """Check that the options are the method's. Raises InputError."""
        check_options(choose_method(self.method), self.options)

    @property
    def cron(self) -> str | None:
        """The schedule, or None if there is none."""
        return None if self.schedule == NEVER else self.schedule


class DeclaredRefitSettings(Section):
    """How the recalibration maps of one model are made; a key that is left out is as in `models.defaults`."""

    method: Method | None = None
    options: Options | None = None
    window: Reach | None = None
    schedule: Schedule | None = None
    on_verdict: bool | None = None
    promotion: Literal["manual", "automatic"] | None = None

    def over(self, defaults: RefitSettings) -> RefitSettings:
        """These settings, completed by the defaults. Options of another method are not taken from there."""
        told: dict[str, Any] = {key: value for key, value in self if value is not None}
        if self.method is not None and self.method != defaults.method:
            told.setdefault("options", {})
        return defaults.model_copy(update=told)


class RecalibrationSettings(Section):
    """Recalibration: what refits are made of, and how they run."""

    sample: Annotated[int, Field(ge=0)] = 100_000
    """Labelled events with their features that are kept for refits, of each model version and partition, spread over
    the longest window: a sixteenth of it keeps a sixteenth of them. 0 keeps none, and refits have nothing to be made
    of."""
    jobs: Annotated[int, Field(ge=0)] = 1
    """Refits that this replica runs at one time, each in a process of its own; 0 leaves them to other replicas."""
    timeout: Annotated[Duration, Field(ge=_SECOND)] = timedelta(minutes=15)
    """How long a refit may take before it is given up."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the events, the latest ones, that a fit never sees: maps are compared on them."""
    keep: Positive = 20
    """Newest maps of a model that are kept with their pictures, beyond those that serve or served last."""
