"""Spreads the settings over the parts. No part reads them itself."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from monitor.app.settings import Settings
from monitor.app.settings.models import ModelsSettings
from monitor.app.settings.values import to_ms
from monitor.clock import Clock
from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy
from monitor.events.strata import Caps
from monitor.measures import WINDOW_MEASURES, choose_measures
from monitor.measures.base import Measure
from monitor.reports.evaluation.assess import Minimum
from monitor.sources.base import Topics
from monitor.stream.partition import PartitionSettings
from monitor.stream.sampling import SampleSettings
from monitor.windows.evaluator import Evaluator
from monitor.windows.windows import PaneReader, Window

_KINDS: Final = {"predictions": Kind.PREDICTION, "outcomes": Kind.OUTCOME, "labelled": Kind.LABELLED, "events": None}
_SPANS: Final = 16
"""Of the sample, in the longest window."""


def make_topics(settings: Settings) -> Topics:
    """The topics that are read."""
    named = settings.source.topics.named
    return Topics({topic: _KINDS[kind] for kind, topic in named.items() if topic is not None})


def make_policy(models: ModelsSettings) -> Callable[[str], ModelPolicy | None]:
    """The policy of a model by name, or None where the model has to be declared and is not."""
    defaults = models.defaults
    usual = ModelPolicy(
        horizon_ms=to_ms(defaults.horizon),
        lateness_ms=to_ms(defaults.allowed_lateness),
        implied_negative=defaults.implied_negative,
        segments=defaults.segments,
    )
    declared = {}
    for name, model in models.declared.items():
        # Each key of a declaration is called as in the defaults, and None where it is left out.
        other = ("classes", "sketch_features", "recalibration")
        told = {key: value for key, value in model if value is not None and key not in other}
        own = defaults.model_copy(update=told)
        declared[name] = ModelPolicy(
            horizon_ms=to_ms(own.horizon),
            lateness_ms=to_ms(own.allowed_lateness),
            implied_negative=own.implied_negative,
            segments=own.segments,
            classes=model.classes or (),
            sketch_features=model.sketch_features or 0,
        )
    fallback = None if models.only_declared else usual
    return lambda name: declared.get(name, fallback)


def make_windows(settings: Settings) -> list[Window]:
    """The windows that every series is measured in."""
    return [
        Window(name=window.title, length_ms=to_ms(window.reach), last=window.last, mature=window.mature)
        for window in settings.windows
    ]


def make_partition_settings(settings: Settings, *, sampling: bool = True) -> PartitionSettings:
    """What all partitions have in common; without ``sampling``, nothing is kept for refits."""
    caps = settings.caps
    return PartitionSettings(
        policy=make_policy(settings.models),
        pane_retention_ms=pane_retention_ms(make_windows(settings), to_ms(settings.evaluation.look_back)),
        caps=Caps(models=caps.models, versions=caps.versions, segment_values=caps.segment_values, strata=caps.strata),
        max_predictions=settings.pipeline.max_pending,
        samples=make_sample_settings(settings) if sampling else SampleSettings(),
    )


def make_sample_settings(settings: Settings) -> SampleSettings:
    """How many labelled events are kept for refits, and how long: as long as any window or refit reaches back."""
    longest_ms = max(window.length_ms for window in make_windows(settings))
    models = settings.models
    refits = [models.defaults.recalibration, *(models.refits(name) for name in models.declared)]
    reach_ms = max([longest_ms, *(to_ms(each.window) for each in refits if each.window is not None)])
    return SampleSettings(
        size=lambda _: settings.recalibration.sample,
        span_ms=max(1, longest_ms // _SPANS),
        kept_ms=reach_ms + to_ms(settings.evaluation.look_back),
    )


def pane_retention_ms(windows: Sequence[Window], look_back_ms: int) -> Mapping[int, int]:
    """Width of panes -> how long they are kept beyond horizon and lateness: as long as a window may ask for them."""
    kept: dict[int, int] = {}
    for window in windows:
        # A window ends at the start of a pane, so it may reach back one pane further than it is long.
        kept[window.slide_ms] = max(kept.get(window.slide_ms, 0), window.length_ms + 2 * window.slide_ms + look_back_ms)
    return kept


def make_decoder(settings: Settings, clock: Clock, *, told_by_keys: bool = False) -> Decoder:
    """A decoder with the limits of the settings; ``told_by_keys`` for what stood in several topics."""
    pipeline = settings.pipeline
    return Decoder(
        max_bytes=pipeline.max_message_bytes,
        max_ahead_ms=to_ms(pipeline.max_ahead),
        clock=clock,
        told_by_keys=told_by_keys,
        classes={name: len(model.classes) for name, model in settings.models.declared.items() if model.classes},
    )


def make_evaluator(settings: Settings, panes: PaneReader, clock: Clock) -> Evaluator:
    """The evaluator of what was counted."""
    evaluation = settings.evaluation
    return Evaluator(
        panes,
        make_windows(settings),
        interval_seconds=evaluation.interval.total_seconds(),
        minimum=make_minimum(settings),
        draws=evaluation.draws,
        measures=make_measures(settings),
        tolerance=settings.models.tolerance,
        max_series=evaluation.max_series,
        clock=clock,
    )


def make_measures(settings: Settings) -> Mapping[str, Measure]:
    """The measures of every window."""
    named = settings.evaluation.measures
    return WINDOW_MEASURES if named is None else choose_measures(named)


def make_minimum(settings: Settings) -> Minimum:
    """How much must be known before a window is measured."""
    evaluation = settings.evaluation
    return Minimum(
        events=evaluation.minimum_events,
        positives=evaluation.minimum_positives,
        negatives=evaluation.minimum_negatives,
    )
