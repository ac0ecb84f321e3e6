"""Every setting with its default, its unit and what it means. monitor.yaml and docs/settings.md are made from this."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
    model_validator,
)

from monitor.access.settings import AccessSettings
from monitor.alarms.settings import AlertsSettings
from monitor.app.settings.models import ModelsSettings, RecalibrationSettings
from monitor.durations import format_duration
from monitor.events.mapping import FieldMapping
from monitor.events.strata import Caps
from monitor.http.settings import ApiSettings
from monitor.measures import choose_measures
from monitor.section import (
    TOPIC,
    Duration,
    FilePath,
    Names,
    NonNegative,
    Positive,
    Section,
    Span,
    StoreAddress,
    Text,
    Topic,
    reported,
    split_names,
)
from monitor.sources.schema_registry import RegistrySettings
from monitor.stream.pipeline import DeadLetterSettings, PipelineSettings
from monitor.urls import is_loopback


class ExpositionSettings(Section):
    """What GET /metrics exports of windows."""

    level: Literal["values", "intervals", "all"] = "values"
    """How much is exported of each window. `values`: counts, the values of the measures, the verdict and the diagnosis,
    and everything that alerts read; `intervals`: also the intervals, levels under calibration, p-values and error
    bounds of all measures; `all`: also reliability diagrams, as counts of ten bins. Some 30, 66 and 96 time series a
    window. docs/series.md says from which level on a series is exported."""
    max_series: Positive = 600_000
    """Time series about windows in one answer: 63 MB, and a second of a processor. Beyond them windows are left out
    whole: those of models that are not declared first, and of these those of segments; the log and `monitor check`
    say so."""


Name = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9._-]{1,64}$")]


class ReadTopic(Section):
    """A topic and how its messages are written, for each key of source.topics. A name alone is a topic of JSON."""

    model_config = ConfigDict(json_schema_extra={"type": ["object", "string"], "pattern": TOPIC})

    name: Topic
    """The topic's name."""
    format: Literal["json", "avro", "protobuf", "json_schema", "messagepack"] = "json"
    """How its messages are written. `json`: JSON or CloudEvents. `avro`, `protobuf`: with the schema that each message
    names, from source.registry, or with that of schema_file; they need the extra of the same name. `json_schema`: JSON
    behind the prefix of a schema registry. `messagepack`: maps with the keys of JSON."""
    schema_file: FilePath | None = None
    """File with the one schema of all messages, which then have no prefix: of avro an .avsc, of protobuf a .proto."""
    message: Text | None = None
    """Full name of the messages' type, where a schema_file of protobuf has several."""
    mapping: FieldMapping | None = None
    """Where the keys of events are, in messages that name them otherwise."""
    tombstones: Literal["dead_letter", "ignore"] = "dead_letter"
    """What becomes of messages without a value, as producers write them to compacted topics to delete a key:
    `dead_letter`, or `ignore`, which counts them and changes nothing else. An event that was read is not taken back."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _fits(self) -> "ReadTopic":
        if self.schema_file is not None and not self.has_schemas:
            raise ValueError(f"schema_file must be left out where format is {self.format}")
        if self.message is not None and (self.format != "protobuf" or self.schema_file is None):
            raise ValueError("message must be left out where there is no schema_file of format protobuf")
        return self

    @property
    def is_ours(self) -> bool:
        """Whether its messages are events of JSON as we write them."""
        return self.format == "json" and self.mapping is None

    @property
    def has_schemas(self) -> bool:
        """Whether its messages cannot be read without their schemas."""
        return self.format in {"avro", "protobuf"}

    @model_serializer(mode="wrap")
    def _shortest(self, dump: SerializerFunctionWrapHandler) -> Any:
        return self.name if self == ReadTopic(name=self.name) else dump(self)


class TopicSettings(Section):
    """Topics that are read, on a broker and in the embedded log alike. All must have the same number of partitions.

    Each is a topic's name, or a section that also says how its messages are written. Key predictions and outcomes by
    the prediction's id, so that both stand in the partition of the same number.
    """

    predictions: ReadTopic | None = None
    """Topic of predictions; events there need no type. For example: {name: scores, format: avro}"""
    outcomes: ReadTopic | None = None
    """Topic of outcomes; events there need no type."""
    labelled: ReadTopic | None = None
    """Topic of predictions that carry their outcome; events there need no type."""
    events: ReadTopic | None = None
    """Topic of events of any type. Where no topic is named at all, this one is calibration-events."""

    @model_validator(mode="after")
    def _distinct(self) -> "TopicSettings":
        named = [topic.name for topic in self.read.values()]
        if len(set(named)) < len(named):
            raise ValueError(f"must name a different topic for each type of event, or one topic as events: {named}")
        return self

    @property
    def read(self) -> dict[str, ReadTopic]:
        """The topics in force by key."""
        topics = {
            "predictions": self.predictions,
            "outcomes": self.outcomes,
            "labelled": self.labelled,
            "events": self.events,
        }
        named = {key: topic for key, topic in topics.items() if topic is not None}
        return named or {"events": ReadTopic(name="calibration-events")}


class EmbeddedSettings(Section):
    """The embedded log: topics as append-only files, with Kafka's partitions and offsets. It needs no service."""

    directory: FilePath = "monitor-data/log"
    """Where the log is kept. Made when it is not there."""
    partitions: Annotated[int, Field(ge=1, le=1024)] = 4
    """Partitions of each topic, for a log that is new; one that exists keeps its own."""
    retention_bytes: Positive | None = None
    """Size of a topic partition, in bytes, beyond which its oldest records go; null keeps all of them."""
    retention: Span | None = None
    """Age beyond which records go, a file of them at a time; null keeps all of them."""


class KafkaSettings(Section):
    """A Kafka cluster. The names and values are those of kafka-python, which are those of Kafka."""

    bootstrap_servers: Names = ("localhost:9092",)
    """Brokers to ask first, as host:port; several are separated by commas."""
    group_id: Text = "calibration-monitor"
    """Consumer group. Replicas of the service share it, and the partitions."""
    group_instance_id: Text | None = None
    """Name of this replica in the group, for static membership: a restart within the session moves no partition."""
    client_id: Text = "calibration-monitor"
    """What the broker's logs and quotas call this client."""
    session_timeout: Span = timedelta(seconds=45)
    """How long the group waits for a replica that has fallen silent before its partitions move."""
    max_poll_interval: Span = timedelta(minutes=5)
    """How long a replica may take to work off what it read before its partitions move."""
    connect_timeout: Span = timedelta(seconds=10)
    """How long to look for a broker before saying that there is none, and trying again."""
    request_timeout: Span = timedelta(seconds=30)
    """How long to wait for a broker's answer."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """How to speak to the brokers."""
    ssl_cafile: FilePath | None = None
    """File with the certificates to trust, PEM; null trusts those of the system."""
    ssl_certfile: FilePath | None = None
    """File with this client's certificate, PEM."""
    ssl_keyfile: FilePath | None = None
    """File with this client's key, PEM."""
    ssl_password: SecretStr | None = None
    """Password of the key file."""
    ssl_check_hostname: bool = True
    """Whether a broker's certificate must name its host."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI"] | None = None
    """How to log in; needs a SASL_ security_protocol."""
    sasl_plain_username: Text | None = None
    """User for PLAIN and SCRAM."""
    sasl_plain_password: SecretStr | None = None
    """Password for PLAIN and SCRAM."""
    sasl_kerberos_service_name: Text = "kafka"
    """Service name for GSSAPI."""

    @model_validator(mode="after")
    def _complete(self) -> "KafkaSettings":
        if not self.bootstrap_servers:
            raise ValueError("bootstrap_servers must name at least one broker as host:port")
        sasl = self.security_protocol.startswith("SASL_")
        if sasl and self.sasl_mechanism is None:
            raise ValueError(f"sasl_mechanism must be set when security_protocol is {self.security_protocol}")
        if self.sasl_mechanism is not None and not sasl:
            raise ValueError(
                f"security_protocol must be SASL_SSL or SASL_PLAINTEXT when sasl_mechanism is set, "
                f"got {self.security_protocol}"
            )
        credentials = self.sasl_plain_username is not None and self.sasl_plain_password is not None
        if self.sasl_mechanism not in {None, "GSSAPI"} and not credentials:
            raise ValueError(
                f"sasl_plain_username and sasl_plain_password must be set when sasl_mechanism is {self.sasl_mechanism}"
            )
        return self


class SourceSettings(Section):
    """Where events come from."""

    kind: Literal["embedded", "kafka"] = "embedded"
    """The embedded log, which needs no service, or a Kafka cluster."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where reading begins in a topic of which nothing is stored yet."""
    when_purged: Literal["stop", "earliest"] = "stop"
    """What to do when the log no longer holds the offset at which the stored state ends: stop with an error, or go on
    from the earliest record that is left, knowing that events are missing. The same where a topic was deleted and made
    anew: stop, or read the new one."""
    topics: TopicSettings = TopicSettings()
    registry: RegistrySettings = RegistrySettings()
    embedded: EmbeddedSettings = EmbeddedSettings()
    kafka: KafkaSettings = KafkaSettings()

    @model_validator(mode="after")
    def _have_schemas(self) -> "SourceSettings":
        for key, topic in self.topics.read.items():
            if topic.has_schemas and topic.schema_file is None and self.registry.url is None:
                raise ValueError(
                    f"must have registry.url, or topics.{key}.schema_file: messages of topic {topic.name} "
                    f"({topic.format}) cannot be read without their schemas"
                )
        return self


class StoreSettings(Section):
    """Where the state is kept: pending predictions, closings, offsets and dead letters."""

    url: Annotated[StoreAddress, Field(repr=False)] = "sqlite:///monitor-data/state.db"
    """SQLAlchemy URL of the database: SQLite, or PostgreSQL where several replicas share the work."""


class WindowSettings(Section):
    """A sliding window, keyed by the time of the prediction."""

    name: Name | None = None
    """Its name in reports and in the label `window`; made of its length where it is left out."""
    length: Span | None = None
    """Its length. For a window of the last predictions: how far back it may reach (7d where it is left out)."""
    last: Positive | None = None
    """Makes it a window of the newest predictions with an outcome, at least this many of them."""
    mature: bool = True
    """Whether it ends at the settled edge, horizon and allowed lateness behind the newest event, so that it is final.
    One that does not is biased towards outcomes that come early; a name of its own must have the word immature in it,
    by which alerts and readers know."""

    @model_validator(mode="after")
    def _bounded(self) -> "WindowSettings":
        if self.length is None and self.last is None:
            raise ValueError(
                "must have a length, such as {length: 24h}, or a number of predictions, such as {last: 10000}"
            )
        if self.name and not self.mature and "immature" not in self.name:
            raise ValueError(
                f"name must have the word immature in it where mature is false, such as {self.name}-immature: "
                "alerts pass over windows that are called so"
            )
        return self

    @property
    def reach(self) -> timedelta:
        """How far back it goes at the most."""
        return self.length or timedelta(days=7)

    @property
    def title(self) -> str:
        """Its name, made up where none is given."""
        if self.name:
            return self.name
        text = f"last-{self.last}" if self.last else format_duration(self.reach)
        return text if self.mature else f"{text}-immature"


def _check_measures(names: tuple[str, ...]) -> tuple[str, ...]:
    with reported("must name measures (", ")"):
        return tuple(choose_measures(names))


MeasureNames = Annotated[tuple[str, ...], BeforeValidator(split_names), AfterValidator(_check_measures)]
"""Names of measures, as `Names`; in the order of a report, whatever the order they are given in."""


class EvaluationSettings(Section):
    """How often the windows are measured, and when there is too little to measure."""

    interval: Annotated[Duration, Field(ge=timedelta(milliseconds=100))] = timedelta(seconds=5)
    """Time between two evaluations. One that takes longer than this delays the next, and nothing else."""
    minimum_events: Positive = 100
    """Predictions with an outcome below which a window is `insufficient`."""
    minimum_positives: NonNegative = 5
    """Outcomes of 1 below which a window is `insufficient`."""
    minimum_negatives: NonNegative = 5
    """Outcomes of 0 below which a window is `insufficient`."""
    draws: Annotated[int, Field(ge=0, le=100_000)] = 199
    """Resamples for confidence intervals, for the level of a perfectly calibrated model and for the verdict; 0 leaves
    all three out."""
    measures: MeasureNames | None = None
    """Measures of every window, such as [tce, smce, log_loss]; null: those that are quick enough for thousands of
    windows. `GET /v1/measures` lists all there are, and which these are."""
    look_back: Duration = timedelta(hours=1)
    """How far back reports as of an earlier time reach; what is needed for them stays in memory that long."""
    max_series: Positive = 1000
    """Series (model, version, segment) that are measured; further ones are counted. Declared models come first, and
    whole models before segments."""


class HistorySettings(Section):
    """What is kept of the reports of the windows, for figures over time."""

    retention: Annotated[Duration, Field(ge=timedelta(days=1))] = timedelta(days=90)
    """Age beyond which the history of a model is removed, in whole days of its predictions' time, behind the newest. Up
    to two days are kept as they were evaluated, two weeks at one point an hour, the rest at one in six hours. Alerts
    are kept for as long after they were resolved."""


class LogSettings(Section):
    """What the service writes to standard error about itself."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is written."""
    format: Literal["auto", "console", "json"] = "auto"
    """For people, or one JSON object a line; auto is console on a terminal and json elsewhere."""
    instance: Text | None = None
    """Name of this replica, in the JSON lines; null: that of the machine, which in Kubernetes is the pod's."""


RoleName = Literal["consume", "evaluate", "serve"]


class Settings(Section):
    """All settings."""

    roles: Annotated[tuple[RoleName, ...], BeforeValidator(split_names)] = ("consume", "evaluate", "serve")
    """What this replica does: `consume` reads and joins events, `evaluate` measures windows, refits, and exports their
    series, `serve` answers REST and pages. Replicas of one store may have different ones; together they need all."""
    source: SourceSettings = SourceSettings()
    store: StoreSettings = StoreSettings()
    models: ModelsSettings = ModelsSettings()
    caps: Caps = Caps()
    windows: tuple[WindowSettings, ...] = (
        WindowSettings(length=timedelta(hours=1)),
        WindowSettings(length=timedelta(hours=24)),
        WindowSettings(length=timedelta(days=7)),
        WindowSettings(last=10_000),
    )
    """The windows that every series is measured in."""
    evaluation: EvaluationSettings = EvaluationSettings()
    history: HistorySettings = HistorySettings()
    alerts: AlertsSettings = AlertsSettings()
    recalibration: RecalibrationSettings = RecalibrationSettings()
    api: ApiSettings = ApiSettings()
    exposition: ExpositionSettings = ExpositionSettings()
    access: AccessSettings = AccessSettings()
    pipeline: PipelineSettings = PipelineSettings()
    dead_letters: DeadLetterSettings = DeadLetterSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _has_a_role(self) -> "Settings":
        if not self.roles:
            raise ValueError("roles must name at least one of consume, evaluate, serve")
        return self

    @model_validator(mode="after")
    def _windows_are_told_apart(self) -> "Settings":
        titles = [window.title for window in self.windows]
        twice = sorted({title for title in titles if titles.count(title) > 1})
        if twice:
            raise ValueError(f"windows must have different names, got {twice[0]} twice")
        if not titles:
            raise ValueError("windows must have at least one window, such as [{length: 24h}]")
        return self

    @model_validator(mode="after")
    def _dependent_outcomes_are_watched(self) -> "Settings":
        models = {"defaults": self.models.defaults} | {
            f"declared.{name}": self.models.of(name) for name in self.models.declared
        }
        dependent = [name for name, model in models.items() if model.dependence == "within_horizon"]
        if dependent and self.alerts.detectors.calibration == 0.0:
            raise ValueError(
                f"alerts.detectors.calibration must be more than 0 where models.{dependent[0]}.dependence is "
                "within_horizon: nothing else watches such a model"
            )
        return self

    @model_validator(mode="after")
    def _open_only_to_this_machine(self) -> "Settings":
        if self.access.mode == "off" and not is_loopback(self.api.host):
            raise ValueError(
                f"access.mode must be required where api.host is {self.api.host}: off is for a loopback address, "
                "such as 127.0.0.1; make a key with `monitor keys create`"
            )
        return self
