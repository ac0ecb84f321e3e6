"""The settings of models and of their recalibration."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, create_model, model_validator

from monitor.events.fields import MAX_CLASSES, wrong_model, wrong_name
from monitor.events.model import CLASS
from monitor.maps import check_options, choose_method
from monitor.options import TOLERANCE
from monitor.recalibration.plan import RefitPlan, check_suits
from monitor.section import Duration, Names, NonNegative, Positive, Section, Span, Text, reported, split_names


def _check_name(name: str) -> str:
    wrong = wrong_model(name)
    if wrong:
        raise ValueError(wrong)
    return name


ModelName = Annotated[str, AfterValidator(_check_name)]


def _name_classes(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        # A large number is refused later; it need not make as many names.
        value = range(min(value, MAX_CLASSES + 1))
    return list(map(str, split_names(value))) if isinstance(value, range | str | list | tuple) else value


def _check_classes(names: tuple[str, ...]) -> tuple[str, ...]:
    if not 2 <= len(names) <= MAX_CLASSES:
        raise ValueError(f"must be 2 to {MAX_CLASSES} classes, as their names or their number")
    for name in names:
        wrong = wrong_name(name) if name else "must not be empty"
        if wrong:
            raise ValueError(f"the name of a class {wrong}: {name!r}")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"must be different classes, got {twice[0]!r} twice")
    return names


Classes = Annotated[tuple[str, ...], BeforeValidator(_name_classes), AfterValidator(_check_classes)]
"""Names of classes, by class, or how many there are: then their names are 0, 1, 2 and so on."""


def _optional(section: type[Section]) -> Any:
    """A section of the same keys, each of which may be null, and is by default; without the sections in it."""
    keys = {
        name: (field.rebuild_annotation() | None, None)
        for name, field in section.model_fields.items()
        if not (isinstance(field.annotation, type) and issubclass(field.annotation, Section))
    }
    return create_model(section.__name__, __base__=Section, **keys)  # type: ignore[call-overload]


class DeclaredRefits(_optional(RefitPlan)):  # type: ignore[misc]
    """How the recalibration maps of one model are made; a key that is left out is as in `models.defaults`."""

    def over(self, defaults: RefitPlan) -> RefitPlan:
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
    recalibration: RefitPlan = RefitPlan()


class DeclaredModel(_optional(ModelDefaults)):  # type: ignore[misc]
    """What holds for one model; a key that is left out is as in `defaults`."""

    classes: Classes | None = None
    """Names of the classes that the model tells apart, by class, or their number; null is a model of one probability.
    Names may be added behind the last; in another order they would be other classes."""
    sketch_features: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = None
    """Fourier features by which windows know the whole vectors of a model of classes, for its canonical error skce: 256
    are good. A pane then takes 8 (features + 64) bytes more for each class; null leaves it out."""
    labels: dict[Text, Text] | None = None
    """Labels, such as {team: payments, tier: gold}: pages show and filter models by them, and webhooks have them."""
    recalibration: DeclaredRefits | None = None
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

    @property
    def labels(self) -> dict[str, dict[str, str]]:
        """Model -> its labels; of models that have some."""
        return {name: declared.labels for name, declared in self.declared.items() if declared.labels}

    def tolerance(self, name: str) -> float:
        """Return the error of a model's logits up to which a verdict names no fault."""
        return self.of(name).tolerance

    @model_validator(mode="after")
    def _declared_models_fit(self) -> "ModelsSettings":
        for name, declared in self.declared.items():
            model = self.of(name)
            refits = model.recalibration
            _check_declared_classes(f"declared.{name}", declared, model)
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


def _check_declared_classes(path: str, declared: DeclaredModel, model: ModelDefaults) -> None:
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
