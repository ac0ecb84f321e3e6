"""The settings of models and of their recalibration."""

from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from monitor.app.settings.values import Classes, Duration, Names, NonNegative, Positive, Section, Span, Text, reported
from monitor.errors import SettingsError
from monitor.events.fields import wrong_model
from monitor.events.model import CLASS
from monitor.inference.prevalence import TOLERANCE
from monitor.maps import check_options, choose_method
from monitor.recalibration.plan import check_schedule, check_suits

NEVER: Final = "never"
"""As a schedule: there is none, whatever the defaults say."""


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


def _check_name(name: str) -> str:
    wrong = wrong_model(name)
    if wrong:
        raise ValueError(wrong)
    return name


ModelName = Annotated[str, AfterValidator(_check_name)]
Method = Annotated[str, AfterValidator(_check_method)]
Schedule = Annotated[str, AfterValidator(_check_schedule)]
Options = dict[str, Any]


class RefitSettings(Section):
    """How the recalibration maps of a model are made; a request may ask for something else."""

    method: Method = "beta"
    """Method by which maps are fitted. `GET /v1/recalibration-methods` lists them."""
    options: Options = Field(default_factory=dict)
    """Options of the method, such as {gamma: 0.4}; those left out are at their defaults."""
    window: Span | None = None
    """How far back labelled events are taken; null: since the last change of calibration, or all that are kept."""
    schedule: Schedule | None = None
    """When to refit, as a cron expression in UTC, such as '0 3 * * *'; null, or never: at no time by itself."""
    on_verdict: bool = False
    """Whether to refit on the events since the change when evidence raises an alarm about the shape of what is served;
    where there is no evidence on it, when the longest window finds it miscalibrated."""
    promotion: Literal["manual", "automatic"] = "manual"
    """Whether a map that proved better on later events serves at once, or waits for somebody's word. After a
    rollback, maps of schedules and verdicts wait, too, until somebody promotes. Where it is automatic, a map that does
    harm is rolled back by itself, too."""

    @model_validator(mode="after")
    def _options_fit(self) -> "RefitSettings":
        with reported("options: "):
            check_options(choose_method(self.method), self.options)
        return self

    @property
    def cron(self) -> str | None:
        """The schedule, or None if there is none."""
        return None if self.schedule == NEVER else self.schedule


class DeclaredRefitSettings(Section):
    """How the recalibration maps of one model are made; a key that is left out is as in `models.defaults`."""

    method: Method | None = None
    options: Options | None = None
    window: Span | None = None
    schedule: Schedule | None = None
    on_verdict: bool | None = None
    promotion: Literal["manual", "automatic"] | None = None

    def over(self, defaults: RefitSettings) -> RefitSettings:
        """Complete these settings by the defaults, whose options are used for the same method only."""
        declared: dict[str, Any] = {key: value for key, value in self if value is not None}
        if self.method not in {None, defaults.method}:
            declared.setdefault("options", {})
        return defaults.model_copy(update=declared)


class ModelDefaults(Section):
    """What holds for a model unless `declared` says otherwise."""

    horizon: Span = timedelta(hours=24)
    """How long after a prediction its outcome still counts. A prediction is mature once this has passed."""
    allowed_lateness: Duration = timedelta(hours=1)
    """How far out of order events may stand in their log; older ones are counted as late and dropped."""
    implied_negative: bool = False
    """Whether a mature prediction without an outcome counts as a negative (no click, no fraud)."""
    segments: Names = ()
    """Keys of an event's segments that become series of their own; other keys are ignored."""
    tolerance: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = TOLERANCE
    """Error of the logits up to which a verdict calls nothing a fault, however certain it is: 0.05 changes odds by 5%,
    0.2 by 22%."""
    alert_weight: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] = 1.0
    """Weight of each version of the model in the sharing of `alerts.false_alarms_per_year`: one with three times the
    weight of others gets three times their part, and alerts a little sooner."""
    dependence: Literal["independent", "within_horizon"] = "independent"
    """Whether outcomes of one horizon may share a shock that no prediction could know, such as a fraud ring or a storm.
    within_horizon keeps the budget of false alarms also then, and takes many horizons to see anything."""
    recalibration: RefitSettings = RefitSettings()


class DeclaredModel(Section):
    """What holds for one model; a key that is left out is as in `defaults`."""

    horizon: Span | None = None
    allowed_lateness: Duration | None = None
    implied_negative: bool | None = None
    segments: Names | None = None
    tolerance: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    alert_weight: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    dependence: Literal["independent", "within_horizon"] | None = None
    classes: Classes | None = None
    """Names of the classes that the model tells apart, by class, or their number; null is a model of one probability.
    Names may be added behind the last; in another order they would be other classes."""
    sketch_features: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = None
    """Fourier features by which windows know the whole vectors of a model of classes, for its canonical error skce: 256
    are good. A pane then takes 8 (features + 64) bytes more for each class; null leaves it out."""
    labels: dict[Text, Text] | None = None
    """What pages show and filter models by, such as {team: payments, tier: gold}."""
    recalibration: DeclaredRefitSettings | None = None
    """How its recalibration maps are made, with the keys of `defaults.recalibration`."""


class ModelsSettings(Section):
    """The models that are watched. They appear by themselves, unless only declared ones may."""

    only_declared: bool = False
    """Whether events of models that `declared` does not name are refused (and counted)."""
    defaults: ModelDefaults = ModelDefaults()
    declared: dict[ModelName, DeclaredModel] = Field(default_factory=dict)
    """Models by name, with what is different for each. For example: {churn: {horizon: 30d, segments: [region]}}"""

    _complete: dict[str, ModelDefaults] = PrivateAttr(default_factory=dict)

    def model_post_init(self, _context: object) -> None:
        """Complete what is declared by the defaults."""
        shared = ModelDefaults.model_fields
        for name, declared in self.declared.items():
            own = {key: value for key, value in declared if value is not None and key in shared}
            if declared.recalibration is not None:
                own["recalibration"] = declared.recalibration.over(self.defaults.recalibration)
            self._complete[name] = self.defaults.model_copy(update=own)

    def of(self, name: str) -> ModelDefaults:
        """Return the settings of a model: those that are declared, completed by the defaults."""
        return self._complete.get(name, self.defaults)

    def tolerance(self, name: str) -> float:
        """Return the error of a model's logits up to which a verdict names no fault."""
        return self.of(name).tolerance

    @model_validator(mode="after")
    def _declared_models_fit(self) -> "ModelsSettings":
        for name, declared in self.declared.items():
            model = self.of(name)
            refits = model.recalibration
            _check_classes(f"declared.{name}", declared, model)
            with reported(f"declared.{name}.recalibration.options: "):
                check_options(choose_method(refits.method), refits.options)
            is_named = declared.recalibration is not None and declared.recalibration.method is not None
            # Without a schedule or a verdict, only requests start refits: they may name another method.
            if is_named or refits.cron or refits.on_verdict:
                with reported(f"declared.{name}.recalibration: "):
                    check_suits(
                        refits.method, refits.options, classes=len(declared.classes or ()), segments=model.segments
                    )
        return self


def _check_classes(path: str, declared: DeclaredModel, model: ModelDefaults) -> None:
    if declared.classes is None:
        if declared.sketch_features is not None:
            raise ValueError(f"{path} has sketch_features, which are of classes: name its classes")
        return
    if model.implied_negative:
        raise ValueError(f"{path} has classes, none of which is the negative: set its implied_negative to false")
    if CLASS in model.segments:
        raise ValueError(f"{path} has classes, whose series are called class=...: it can have no segment key class")


class RecalibrationSettings(Section):
    """Recalibration: what refits are made of, and how they run."""

    sample: NonNegative = 100_000
    """Labelled events with their features that are kept for refits, of each model version and partition, spread over
    the longest window: a sixteenth of it keeps a sixteenth of them. 0 keeps none, and refits have nothing to be made
    of."""
    jobs: NonNegative = 1
    """Refits that this replica runs at one time, each in a process of its own; 0 leaves them to other replicas."""
    timeout: Span = timedelta(minutes=15)
    """How long a refit may take before it is given up."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of the events, the latest ones, that a fit never sees: maps are compared on them."""
    keep: Positive = 20
    """Newest maps of a model that are kept with their pictures, beyond those that serve or served last."""
