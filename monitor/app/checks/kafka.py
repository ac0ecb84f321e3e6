"""Check the Kafka cluster, if it is the source: brokers, topics, retention, and the group."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka import TopicPartition as KafkaTopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from monitor.app.checks.base import MAX_SKEW_SECONDS, CheckResult, Surroundings, fail, ok, warn
from monitor.app.kafka_parts import make_connection
from monitor.app.parts import make_topics
from monitor.app.settings import Settings
from monitor.durations import format_ms, to_ms
from monitor.errors import SourceMisconfigured, SourceUnavailable
from monitor.events.model import Kind
from monitor.events.partitions import partitions_of
from monitor.sources.kafka_connection import KafkaConnection, partition_counts, read_newest, same_partition_count

_FOR_EVER: Final = -1

_NO_GROUP: Final = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.NotCoordinatorError,
    kafka_errors.GroupIdNotFoundError,
)
"""What a broker answers before the first group has formed."""


def check_kafka(around: Surroundings) -> Iterator[CheckResult]:
    """Query the brokers. Nothing is created, joined or committed."""
    if around.settings.source.kind != "kafka":
        return
    try:
        yield from _check_cluster(around)
    except SourceUnavailable as error:
        reason = str(error).removesuffix("; trying again")
        raise SourceUnavailable(
            f"{reason}; see that source.kafka.bootstrap_servers names your brokers, and that they are up"
        ) from error


def _check_cluster(around: Surroundings) -> Iterator[CheckResult]:
    settings = around.settings
    connection = make_connection(settings.source.kafka)
    kinds = make_topics(settings).kinds
    topics = list(kinds)
    counts = partition_counts(connection, topics)
    with connection.translated(), KafkaAdminClient(**connection.options()) as admin:
        yield _brokers(connection, admin)
        yield _partitions(counts)
        present = [topic for topic in topics if counts[topic]]
        if present:
            yield from _retention(settings, admin, {topic: kinds[topic] for topic in present})
        yield _group(settings.source.kafka.group_id, admin)
        if present:
            yield from _newest(around, admin, {topic: counts[topic] for topic in present})
            for topic in present:
                if counts[topic] > 1 and kinds[topic] is not Kind.LABELLED:
                    yield from _keys(topic, counts[topic], connection)
        letters = settings.dead_letters.topic
        if letters is not None:
            yield _dead_letters(letters, connection)


def _brokers(connection: KafkaConnection, admin: KafkaAdminClient) -> CheckResult:
    cluster = admin.describe_cluster()
    brokers = cluster["brokers"]
    version = ".".join(map(str, admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version))
    how = connection.security_protocol + (f", {connection.sasl_mechanism}" if connection.sasl_mechanism else "")
    plural = "broker" if len(brokers) == 1 else "brokers"
    return ok("broker", f"{connection.servers} answers ({how}): {len(brokers)} {plural}, protocol of Kafka {version}")


def _partitions(counts: Mapping[str, int]) -> CheckResult:
    shown = ", ".join(f"{topic} {count}" for topic, count in counts.items())
    try:
        count = same_partition_count(counts)
    except SourceUnavailable as error:
        return fail("topics", str(error).removeprefix("waiting for "))
    except SourceMisconfigured as error:
        return fail("topics", str(error))
    return ok("topics", f"{shown}: {count} partitions, and as many replicas of the service at most")


def _retention(settings: Settings, admin: KafkaAdminClient, kinds: Mapping[str, Kind | None]) -> Iterator[CheckResult]:
    wanted = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in kinds]
    try:
        described = admin.describe_configs(wanted, config_filter="all")["topic"]
    except kafka_errors.KafkaError as error:
        yield warn("retention", f"this user may not see it ({error}): grant DESCRIBE_CONFIGS on the topics, or ask")
        return
    horizon_ms = _longest_horizon_ms(settings)
    kept = []
    for topic, kind in kinds.items():
        configs = described[topic]
        policy = str(_config(configs, "cleanup.policy", "delete"))
        retention_ms = int(_config(configs, "retention.ms", _FOR_EVER))
        if "compact" in policy and kind is None:
            yield fail(
                "retention",
                f"{topic} has cleanup.policy {policy}: of messages with one key only the last stays, so that"
                " outcomes remove their predictions before they are read; set it to delete",
            )
        elif "compact" in policy:
            yield warn(
                "retention",
                f"{topic} has cleanup.policy {policy}: of messages with one key only the last stays; that is well only"
                " if each is keyed by the id of its prediction, and says nothing of corrections if it is read again."
                " If producers write tombstones, set tombstones: ignore for this topic under source.topics",
            )
        if retention_ms != _FOR_EVER and "delete" in policy and retention_ms < horizon_ms:
            yield warn(
                "retention",
                f"{topic} keeps {_text(retention_ms)}, less than the longest horizon and lateness, {_text(horizon_ms)}:"
                " if the store were lost, predictions that still wait for their outcome could not be read again; raise"
                " retention.ms, and back the store up",
            )
        else:
            kept.append(f"{topic} {_text(retention_ms)}")
    if kept:
        yield ok("retention", f"kept: {', '.join(kept)}; longest horizon and lateness {_text(horizon_ms)}")


def _longest_horizon_ms(settings: Settings) -> int:
    models = [settings.models.defaults, *map(settings.models.of, settings.models.declared)]
    return to_ms(max(model.horizon for model in models)) + to_ms(max(model.allowed_lateness for model in models))


def _config(configs: Mapping[str, Any], key: str, usual: object) -> Any:
    value = configs.get(key, {}).get("value")
    return usual if value is None else value


def _text(milliseconds: int) -> str:
    return "for ever" if milliseconds == _FOR_EVER else format_ms(milliseconds)


def _group(group: str, admin: KafkaAdminClient) -> CheckResult:
    try:
        described = admin.describe_groups([group])[group]
    except _NO_GROUP:
        return ok("group", f"{group}: nobody has joined it yet")
    except kafka_errors.GroupAuthorizationFailedError:
        return fail("group", f"{group}: this user may not join it; grant READ and DESCRIBE on the group")
    state = str(described.get("group_state") or described.get("state") or "unknown")
    members = described.get("members") or []
    protocol = described.get("protocol_type") or ""
    if protocol not in {"", "consumer"}:
        return fail("group", f"{group} is used by something else ({protocol}): set another source.kafka.group_id")
    if state in {"Dead", "Empty", "unknown"} and not members:
        return ok("group", f"{group}: nobody is in it")
    return ok("group", f"{group}: {state.lower()}, {len(members)} members; the service would join them")


def _newest(around: Surroundings, admin: KafkaAdminClient, counts: Mapping[str, int]) -> Iterator[CheckResult]:
    """Compare this machine's clock with the newest message: brokers do not report their time."""
    parts = [KafkaTopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    try:
        newest = admin.list_partition_offsets(dict.fromkeys(parts, OffsetSpec.MAX_TIMESTAMP))
    except kafka_errors.UnsupportedVersionError:
        return  # Brokers before 3.0 do not say.
    newest_ms = max((int(offset.timestamp) for offset in newest.values()), default=-1)
    if newest_ms < 0:
        return
    ahead = (newest_ms - around.clock.now_ms()) / 1000
    if ahead > MAX_SKEW_SECONDS:
        yield warn(
            "clock",
            f"the newest message was written {ahead:,.1f} s in this machine's future: its clock, or a producer's, is"
            " wrong; events too far ahead become dead letters (pipeline.max_ahead)",
        )
    else:
        yield ok("clock", "no message was written in this machine's future")


def _keys(topic: str, partitions: int, connection: KafkaConnection) -> Iterator[CheckResult]:
    """See by the newest messages whether a key decides in which partition a message is."""
    records = read_newest(connection, topic, partitions)
    if not records:
        return
    of = f"of the newest {len(records)} messages of {topic}"
    keyed = [record for record in records if record.key is not None]
    if len(keyed) < len(records):
        yield warn(
            "keys",
            f"{of}, {len(records) - len(keyed)} have no key: an outcome is then in any partition, and joined only if it"
            " is in that of its prediction; key all messages by the prediction's id",
        )
    places = partitions_of([record.key for record in keyed], partitions).tolist()
    elsewhere = sum(place != record.partition for place, record in zip(places, keyed, strict=True))
    if elsewhere:
        yield warn(
            "keys",
            f"{of}, {elsewhere} are not in the partition of their key by murmur2, the default of Kafka's own clients:"
            " their producer partitions otherwise, as librdkafka does by default (set its partitioner to"
            " murmur2_random), or partitions were added; outcomes are joined only if all producers do the same",
        )
    if not elsewhere and len(keyed) == len(records):
        yield ok("keys", f"{of}, all are in the partition of their key")


def _dead_letters(topic: str, connection: KafkaConnection) -> CheckResult:
    if partition_counts(connection, [topic])[topic]:
        return ok("topics", f"{topic}, the topic of dead letters, is there")
    return fail("topics", f"{topic}, which dead_letters.topic names, does not exist: create it, with any partitions")
