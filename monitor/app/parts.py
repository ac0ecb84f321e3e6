"""Build the parts of the service from its settings. No part reads the settings itself."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

from monitor.alarms.attribution import Attribution
from monitor.alarms.findings import Explainer
from monitor.alarms.serving import ServedMaps
from monitor.alarms.shocks import Shocks
from monitor.alarms.watcher import Watcher, WatchPlan
from monitor.alarms.webhooks import Target
from monitor.app.settings import Settings
from monitor.app.settings.model import ReadTopic
from monitor.app.settings.models import DeclaredModel, ModelDefaults, ModelsSettings
from monitor.bounded_file import read_bounded
from monitor.clock import Clock
from monitor.durations import to_ms
from monitor.errors import NoStore, SettingsError
from monitor.events.codec import Decoder
from monitor.events.formats import load_schema_formats
from monitor.events.formats.base import Format, Rules
from monitor.events.formats.json_schema import make_mapped_json
from monitor.events.log import LogStart, Source, Topics, Writer
from monitor.events.mapping import FieldMapping
from monitor.events.model import DeadLetter, Kind, Message, ModelPolicy, TopicPartition
from monitor.events.schemas import Framed, Registry, Schema, Unframed
from monitor.measures import WINDOW_MEASURES, choose_measures
from monitor.measures.base import Measure
from monitor.reports.evaluation.assess import Minimum
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.sources.schema_registry import BackgroundRegistry, SchemaRegistry
from monitor.store.address import connect_existing, expand_home
from monitor.store.migrate import check_current
from monitor.store.sql import SqlStore
from monitor.stream.partition import PartitionSettings
from monitor.stream.pipeline import Pipeline
from monitor.stream.sampling import SampleSettings
from monitor.windows.evaluator import Evaluator
from monitor.windows.panes import ClosedPanes
from monitor.windows.windows import Window

_KINDS: Final = {"predictions": Kind.PREDICTION, "outcomes": Kind.OUTCOME, "labelled": Kind.LABELLED, "events": None}
_PATIENCE_SECONDS: Final = 10.0
_SPANS: Final = 16
"""Spans of the sample in the longest window."""


def make_topics(settings: Settings) -> Topics:
    """The topics that are read."""
    return Topics({topic.name: _KINDS[key] for key, topic in settings.source.topics.read.items()})


def make_json_topics(settings: Settings) -> Topics:
    """The topics that JSON events can be written to.

    Raises
    ------
    SettingsError
        There are none.
    """
    read = settings.source.topics.read
    kinds = {topic.name: _KINDS[key] for key, topic in read.items() if topic.is_ours}
    if not kinds:
        topics = ", ".join(f"{topic.name} ({topic.format})" for topic in read.values())
        raise SettingsError(
            "events are written as JSON, and none of the topics under source.topics is of format json without a "
            f"mapping, got {topics}; "
            "write with the producer's own serialiser, or read a further topic of JSON"
        )
    return Topics(kinds)


def make_formats(settings: Settings, clock: Clock, *, in_background: bool = False) -> Mapping[str, Format]:
    """Topic -> format of its messages, of those that are not JSON. The registry is not asked yet.

    Parameters
    ----------
    settings, clock
        What they are made by.
    in_background
        Whether the registry is asked in a thread of its own, so that only the partitions wait that need a schema.

    Raises
    ------
    SettingsError
        A schema file cannot be read, or a package is missing.
    """
    topics = [topic for topic in settings.source.topics.read.values() if not topic.is_ours]
    asks = any(topic.has_schemas and topic.schema_file is None for topic in topics)
    registry: Registry | None = SchemaRegistry(settings.source.registry, clock=clock) if asks else None
    if in_background and registry is not None:
        registry = BackgroundRegistry(registry)
    return {topic.name: make_format(topic, topic.mapping, registry) for topic in topics}


def make_format(topic: ReadTopic, mapping: FieldMapping | None, registry: Registry | None) -> Format:
    """The format of a topic that is not JSON, or has a mapping; ``registry`` for schemas that no file holds.

    Raises
    ------
    SettingsError
        The schema file cannot be read, or a package is missing.
    """
    if topic.format == "json" and mapping is not None:
        return make_mapped_json(mapping)
    schemas: Framed | Unframed | None = None
    if topic.schema_file is not None:
        schemas = Unframed(read_schema(topic))
    elif registry is not None:
        schemas = Framed(registry)
    return load_schema_formats()[topic.format](schemas, mapping)


def read_schema(topic: ReadTopic) -> Schema:
    """The schema of a topic's ``schema_file``. Raises SettingsError if it cannot be read."""
    file = topic.schema_file or ""
    try:
        text = read_bounded(Path(file).expanduser()).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"source.topics: cannot read the schema_file {file}: {error}") from error
    return Schema(topic.format.upper(), text, message=topic.message)


def make_policy(models: ModelsSettings) -> Callable[[str], ModelPolicy | None]:
    """Return a function: model -> its policy, or None if models must be declared and this one is not."""
    declared = {name: _policy(models.of(name), model, declared=True) for name, model in models.declared.items()}
    default = None if models.only_declared else _policy(models.defaults, DeclaredModel(), declared=False)
    return lambda name: declared.get(name, default)


def _policy(model: ModelDefaults, of_model: DeclaredModel, *, declared: bool) -> ModelPolicy:
    return ModelPolicy(
        horizon_ms=to_ms(model.horizon),
        lateness_ms=to_ms(model.allowed_lateness),
        implied_negative=model.implied_negative,
        segments=model.segments,
        classes=of_model.classes or (),
        sketch_features=of_model.sketch_features or 0,
        declared=declared,
    )


def make_windows(settings: Settings) -> list[Window]:
    """The windows that every series is measured in."""
    return [
        Window(name=window.title, length_ms=to_ms(window.reach), last=window.last, mature=window.mature)
        for window in settings.windows
    ]


def make_partition_settings(settings: Settings, *, sampling: bool = True) -> PartitionSettings:
    """The settings of all partitions; without ``sampling``, nothing is kept for refits."""
    return PartitionSettings(
        policy=make_policy(settings.models),
        kept_ms=make_kept_ms(settings),
        unsettled_cells=not all(window.mature for window in make_windows(settings)),
        caps=settings.caps,
        max_predictions=settings.pipeline.max_pending,
        samples=make_sample_settings(settings) if sampling else SampleSettings(),
    )


def make_sample_settings(settings: Settings) -> SampleSettings:
    """How many labelled events are kept for refits, and how long: for the longest window or refit."""
    longest_ms = max(window.length_ms for window in make_windows(settings))
    models = [settings.models.defaults, *map(settings.models.of, settings.models.declared)]
    refit_windows = [model.recalibration.window for model in models if model.recalibration.window is not None]
    reach_ms = max([longest_ms, *map(to_ms, refit_windows)])
    return SampleSettings(
        size=lambda _: settings.recalibration.sample,
        span_ms=max(1, longest_ms // _SPANS),
        kept_ms=reach_ms + to_ms(settings.evaluation.look_back),
    )


def make_kept_ms(settings: Settings) -> Mapping[int, int]:
    """Width of panes -> how long they are kept behind the settled edge: as long as a window may ask for them."""
    kept: dict[int, int] = {}
    for window in make_windows(settings):
        # A window ends at the start of a pane, so it may reach back one pane further than it is long.
        reach_ms = window.length_ms + 2 * window.slide_ms + to_ms(settings.evaluation.look_back)
        kept[window.slide_ms] = max(kept.get(window.slide_ms, 0), reach_ms)
    return kept


def make_panes(settings: Settings) -> ClosedPanes:
    """The panes of all partitions, empty."""
    return ClosedPanes(make_kept_ms(settings), make_policy(settings.models))


def make_decoder(
    settings: Settings, clock: Clock, *, kind_by_keys: bool = False, formats: Mapping[str, Format] | None = None
) -> Decoder:
    """A decoder with the limits of the settings; ``kind_by_keys`` for files that hold several topics."""
    ignored = {topic.name for topic in settings.source.topics.read.values() if topic.tombstones == "ignore"}
    return Decoder(make_rules(settings, clock, kind_by_keys=kind_by_keys), formats, ignored)


def make_rules(settings: Settings, clock: Clock, *, kind_by_keys: bool = False) -> Rules:
    """The limits of an event."""
    pipeline = settings.pipeline
    return Rules(
        max_bytes=pipeline.max_message_bytes,
        max_ahead_ms=to_ms(pipeline.max_ahead),
        clock=clock,
        kind_by_keys=kind_by_keys,
        classes={name: len(model.classes) for name, model in settings.models.declared.items() if model.classes},
    )


def make_webhooks(settings: Settings) -> list[Target]:
    """The receivers of alerts."""
    alerts, labels = settings.alerts, settings.models.labels
    return [Target(name, webhook, alerts, labels) for name, webhook in sorted(alerts.webhooks.items())]


def make_evaluator(settings: Settings, panes: ClosedPanes, clock: Clock) -> Evaluator:
    """The evaluator of all windows."""
    evaluation = settings.evaluation
    return Evaluator(
        panes,
        make_windows(settings),
        interval_seconds=evaluation.interval.total_seconds(),
        minimum=Minimum(
            events=evaluation.minimum_events,
            positives=evaluation.minimum_positives,
            negatives=evaluation.minimum_negatives,
        ),
        draws=evaluation.draws,
        measures=make_measures(settings),
        tolerance=settings.models.tolerance,
        max_series=evaluation.max_series,
        clock=clock,
    )


def make_watcher(settings: Settings, panes: ClosedPanes, store: SqlStore, clock: Clock) -> Watcher:
    """The evidence on all versions, and what it amounts to."""
    tolerance = settings.models.tolerance
    widths_ms = sorted(make_kept_ms(settings))
    maps = ServedMaps(panes, store)
    return Watcher(
        panes,
        store,
        per_year=settings.alerts.false_alarms_per_year,
        plan=lambda model: watch_plan(settings.models.of(model)),
        maps=maps,
        shocks=Shocks(panes, widths_ms, tolerance, clock=clock),
        explainer=Explainer(Attribution(panes, maps.serve), tolerance, maps.explain),
        detectors=settings.alerts.detectors.model_dump(),
    )


def watch_plan(model: ModelDefaults) -> WatchPlan:
    """How a model is watched."""
    return WatchPlan(model.tolerance, model.alert_weight, model.dependence == "within_horizon")


def make_measures(settings: Settings) -> Mapping[str, Measure]:
    """The measures of every window."""
    named = settings.evaluation.measures
    return WINDOW_MEASURES if named is None else choose_measures(named)


_HEADER: Final = "calibration-dead-letter-"
"""Prefix of the headers that are added to a dead letter."""


class Log(NamedTuple):
    """Both ends of the log of events."""

    source: Source
    writer: Writer


def make_log(settings: Settings, clock: Clock) -> Log:
    """Both ends of the log. Does not connect to Kafka yet.

    Raises
    ------
    SettingsError
        Something that the settings name does not exist, or is wrong.
    SourceError
        The embedded log cannot be opened.
    """
    topics = make_topics(settings)
    start = LogStart(when_new=settings.source.start, when_purged=settings.source.when_purged)
    if settings.source.kind == "embedded":
        log = make_embedded_log(settings, clock)
        return Log(EmbeddedSource(log, topics, log_start=start), log)
    from monitor.app.kafka_parts import make_kafka_source, make_kafka_writer  # noqa: PLC0415 - not without Kafka

    kafka = settings.source.kafka
    return Log(make_kafka_source(kafka, topics, start, clock), make_kafka_writer(kafka))


def make_writer(settings: Settings, clock: Clock) -> Writer:
    """Only the writing end of the log. Raises as :func:`make_log` does."""
    if settings.source.kind == "embedded":
        return make_embedded_log(settings, clock)
    from monitor.app.kafka_parts import make_kafka_writer  # noqa: PLC0415 - not without Kafka

    return make_kafka_writer(settings.source.kafka)


def log_directory(settings: Settings) -> Path:
    """The directory of the embedded log. Raises SettingsError if it begins with an unknown home directory."""
    return expand_home(settings.source.embedded.directory, "source.embedded.directory")


def make_embedded_log(settings: Settings, clock: Clock) -> EmbeddedLog:
    """The embedded log."""
    embedded = settings.source.embedded
    return EmbeddedLog(
        log_directory(settings),
        partitions=embedded.partitions,
        retention_bytes=embedded.retention_bytes,
        retention_ms=None if embedded.retention is None else to_ms(embedded.retention),
        clock=clock,
    )


def open_store(settings: Settings, clock: Clock) -> SqlStore:
    """Open the store for the service, which creates and migrates it.

    Raises
    ------
    SettingsError, StoreError
        As of :meth:`SqlStore.open`.
    """
    return SqlStore.open(settings.store.url, dead_letter_limit=settings.dead_letters.keep, clock=clock)


def open_current_store(settings: Settings, clock: Clock, *, create: bool = False) -> SqlStore:
    """Open the store for a command, which must not migrate it under a running service of another version.

    Parameters
    ----------
    settings
        They name the store.
    clock
        As of :meth:`SqlStore.open`.
    create
        Whether a missing store is created.

    Raises
    ------
    NoStore
        It is missing.
    IncompatibleStore
        It has another schema revision.
    SettingsError, StoreError
        As of :meth:`SqlStore.open`.
    """
    try:
        with closing(connect_existing(settings.store.url, _PATIENCE_SECONDS, clock)) as database:
            check_current(database)
    except NoStore:
        if not create:
            raise
    return open_store(settings, clock)


def make_pipeline(settings: Settings, log: Log, store: SqlStore, clock: Clock) -> Pipeline:
    """The pipeline between a log and a store.

    Raises
    ------
    SettingsError
        A schema file cannot be read.
    StoreUnavailable
        The database does not answer.
    SourceError
        The embedded log cannot be read or written.
    """
    if isinstance(log.writer, EmbeddedLog):
        # Before the first event is accepted: an older copy of the log may end before what the store has read.
        saved = store.saved_offsets()
        parts = [TopicPartition(*part) for part in product(make_topics(settings).kinds, range(log.writer.partitions))]
        log.writer.commit({part: saved.get(part, 0) for part in parts})
    letters = settings.dead_letters.topic
    return Pipeline(
        log.source,
        store,
        make_decoder(settings, clock, formats=make_formats(settings, clock, in_background=True)),
        partitions=make_partition_settings(settings),
        settings=settings.pipeline,
        dead_letters=settings.dead_letters,
        kinds=make_topics(settings).kinds,
        clock=clock,
        send_dead_letters=None if letters is None else dead_letter_sender(letters, log.writer),
    )


def dead_letter_sender(topic: str, writer: Writer) -> Callable[[Sequence[DeadLetter]], None]:
    """A function that writes dead letters to a topic: the original message, with origin and reason as headers."""

    def send(letters: Sequence[DeadLetter]) -> None:
        writer.write([_as_message(topic, letter) for letter in letters])

    return send


def _as_message(topic: str, letter: DeadLetter) -> Message:
    origin = {
        "reason": letter.reason.value,
        "detail": letter.detail,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
    headers = [(f"{_HEADER}{name}", str(value).encode()) for name, value in origin.items()]
    return Message(
        topic,
        letter.value,
        key=letter.key,
        headers=(*letter.headers, *headers),
        timestamp_ms=letter.timestamp_ms if letter.timestamp_ms >= 0 else None,
    )
