"""The settings of the models that are watched: what holds for all, and what for each."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, model_validator

from monitor.app.settings.refits import DeclaredRefitSettings, RefitSettings
from monitor.app.settings.values import Classes, Duration, Names, Section, Text
from monitor.errors import InputError
from monitor.events.model import CLASS
from monitor.inference.prevalence import TOLERANCE
from monitor.recalibration.plan import check_suits

_SECOND = timedelta(seconds=1)


class ModelDefaults(Section):
    """What holds for a model unless `declared` says otherwise."""

    horizon: Annotated[Duration, Field(ge=_SECOND)] = timedelta(hours=24)
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
    recalibration: RefitSettings = RefitSettings()


class DeclaredModel(Section):
    """What holds for one model; a key that is left out is as in `defaults`."""

    horizon: Annotated[Duration, Field(ge=_SECOND)] | None = None
    allowed_lateness: Duration | None = None
    implied_negative: bool | None = None
    segments: Names | None = None
    tolerance: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    classes: Classes | None = None
    """Names of the classes that the model tells apart, by class, or their number; null is a model of one probability.
    Names may be added behind the last; in another order they would be other classes."""
    sketch_features: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = None
    """Fourier features by which windows know the whole vectors of a model of classes, for its canonical error skce: 256
    are good. A pane then takes 8 (features + 64) bytes more for each class; null leaves it out."""
    recalibration: DeclaredRefitSettings | None = None
    """How its recalibration maps are made, with the keys of `defaults.recalibration`."""


class ModelsSettings(Section):
    """The models that are watched. They appear by themselves, unless only declared ones may."""

    only_declared: bool = False
    """Whether events of models that `declared` does not name are refused (and counted)."""
    defaults: ModelDefaults = ModelDefaults()
    declared: dict[Text, DeclaredModel] = Field(default_factory=dict)
    """Models by name, with what is different for each. For example: {churn: {horizon: 30d, segments: [region]}}"""

    @model_validator(mode="after")
    def _classes_fit(self) -> "ModelsSettings":
        for name, model in self.declared.items():
            if model.classes is None:
                if model.sketch_features is not None:
                    raise ValueError(f"declared.{name} has sketch_features, which are of classes: name its classes")
                continue
            implied = self.defaults.implied_negative if model.implied_negative is None else model.implied_negative
            if implied:
                raise ValueError(
                    f"declared.{name} has classes, none of which is the negative: set its implied_negative to false"
                )
            if CLASS in (self.defaults.segments if model.segments is None else model.segments):
                raise ValueError(
                    f"declared.{name} has classes, whose series are called class=...: it can have no segment key class"
                )
        return self

    @model_validator(mode="after")
    def _refits_fit(self) -> "ModelsSettings":
        for name in self.declared:
            try:
                self.refits(name).check()
            except InputError as error:
                raise ValueError(f"declared.{name}.recalibration.options: {error}") from None
        return self

    @model_validator(mode="after")
    def _methods_suit(self) -> "ModelsSettings":
        for name, model in self.declared.items():
            refits = self.refits(name)
            is_named = model.recalibration is not None and model.recalibration.method is not None
            if not (is_named or refits.cron or refits.on_verdict):
                # Nobody asks for one but who is told then, and may name another.
                continue
            segments = self.defaults.segments if model.segments is None else model.segments
            try:
                check_suits(refits.method, refits.options, classes=len(model.classes or ()), segments=segments)
            except InputError as error:
                raise ValueError(f"declared.{name}.recalibration: {error}") from None
        return self

    def tolerance(self, name: str) -> float:
        """Error of a model's logits up to which a verdict calls nothing a fault."""
        declared = self.declared.get(name)
        own = None if declared is None else declared.tolerance
        return self.defaults.tolerance if own is None else own

    def refits(self, name: str) -> RefitSettings:
        """How the recalibration maps of a model are made."""
        declared = self.declared.get(name)
        own = None if declared is None else declared.recalibration
        return self.defaults.recalibration if own is None else own.over(self.defaults.recalibration)
