"""The settings, spread over the parts."""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from monitor.app.kafka_parts import make_connection
from monitor.app.parts import (
    dead_letter_sender,
    make_decoder,
    make_kept_ms,
    make_measures,
    make_partition_settings,
    make_policy,
    make_topics,
    make_windows,
)
from monitor.app.settings import Settings
from monitor.clock import ManualClock
from monitor.events.encode import encode_outcome
from monitor.events.model import DeadLetter, Kind, Message, ModelPolicy, Reason, RecordBatch
from monitor.events.strata import Strata
from monitor.measures import WINDOW_MEASURES
from monitor.sources.log_format import LogRecord
from monitor.windows.windows import Moment, Window

HOUR_MS = 3_600_000


def settings(**tree: Any) -> Settings:
    return Settings.model_validate(tree)


def test_topics_have_the_kind_of_their_key() -> None:
    named = settings(source={"topics": {"predictions": "p", "outcomes": "o", "labelled": "l", "events": "e"}})
    assert make_topics(named).kinds == {"p": Kind.PREDICTION, "o": Kind.OUTCOME, "l": Kind.LABELLED, "e": None}
    assert make_topics(settings()).kinds == {"calibration-events": None}


def test_a_declared_model_differs_in_what_it_names_alone() -> None:
    models = {
        "defaults": {"horizon": "2h", "allowed_lateness": "5m", "implied_negative": True, "segments": ["region"]},
        "declared": {"churn": {"horizon": "30d"}, "fraud": {"implied_negative": False, "segments": []}},
    }
    policy = make_policy(settings(models=models).models)
    assert policy("churn") == ModelPolicy(
        720 * HOUR_MS, 300_000, implied_negative=True, segments=("region",), declared=True
    )
    assert policy("fraud") == ModelPolicy(2 * HOUR_MS, 300_000, implied_negative=False, segments=(), declared=True)
    assert policy("another") == ModelPolicy(2 * HOUR_MS, 300_000, implied_negative=True, segments=("region",))


def test_each_model_has_its_tolerance() -> None:
    models = {"defaults": {"tolerance": 0.1}, "declared": {"churn": {"tolerance": 0.3}, "fraud": {"horizon": "2h"}}}
    tolerance = settings(models=models).models.tolerance
    assert (tolerance("churn"), tolerance("fraud"), tolerance("another")) == (0.3, 0.1, 0.1)
    assert settings().models.tolerance("churn") == 0.05
    for wrong in (-0.1, math.nan, math.inf):
        with pytest.raises(ValidationError, match="tolerance"):
            settings(models={"declared": {"churn": {"tolerance": wrong}}})


def test_tombstones_are_ignored_where_a_topic_says_so() -> None:
    topics = {"predictions": "p", "outcomes": {"name": "o", "tombstones": "ignore"}}
    decoder = make_decoder(settings(source={"topics": topics}), ManualClock(0))
    counts = {}
    for topic in ("p", "o"):
        batch = RecordBatch(topic, 0, [LogRecord(0, 1_790_000_000_000, b"7", None, ())], 1)
        decoded = decoder.decode(batch, Strata(make_policy(settings().models)), None)
        counts[topic] = (len(decoded.dead_letters), decoded.tombstones)
    assert counts == {"p": (1, 0), "o": (0, 1)}
    with pytest.raises(ValidationError, match="'dead_letter' or 'ignore'"):
        settings(source={"topics": {"outcomes": {"name": "o", "tombstones": "retract"}}})


def test_a_model_of_classes_is_declared_by_their_names_or_their_number() -> None:
    models = {"declared": {"digits": {"classes": 3}, "pets": {"classes": ["cat", "dog"], "segments": ["region"]}}}
    policy = make_policy(settings(models=models).models)
    assert policy("digits") == ModelPolicy(24 * HOUR_MS, HOUR_MS, classes=("0", "1", "2"), declared=True)
    assert policy("pets") == ModelPolicy(
        24 * HOUR_MS, HOUR_MS, segments=("region",), classes=("cat", "dog"), declared=True
    )
    assert policy("another") == ModelPolicy(24 * HOUR_MS, HOUR_MS)
    sketched = settings(models={"declared": {"digits": {"classes": 3, "sketch_features": 8}}}).models
    assert make_policy(sketched)("digits") == ModelPolicy(
        24 * HOUR_MS, HOUR_MS, classes=("0", "1", "2"), sketch_features=8, declared=True
    )
    decoder = make_decoder(settings(models=models), ManualClock(1_790_000_000_000))
    values = [encode_outcome(model, "1", 1_790_000_000_000, 2) for model in ("digits", "pets", "another")]
    records = [LogRecord(at, 1_790_000_000_000, None, value, ()) for at, value in enumerate(values)]
    decoded = decoder.decode(RecordBatch("events", 0, records, 3), Strata(policy), None)
    assert [letter.offset for letter in decoded.dead_letters] == [1, 2]


@pytest.mark.parametrize(
    ("models", "says"),
    [
        (
            {"declared": {"pets": {"classes": 2, "implied_negative": True}}},
            "pets has classes, none of which is the neg",
        ),
        ({"defaults": {"implied_negative": True}, "declared": {"pets": {"classes": 2}}}, "set its implied_negative to"),
        ({"declared": {"pets": {"classes": 2, "segments": ["class"]}}}, "it can have no segment key class"),
        ({"declared": {"pets": {"sketch_features": 8}}}, "pets has sketch_features, which are of classes: name its"),
        ({"declared": {"pets": {"classes": 2, "sketch_features": 7}}}, "multiple of 2"),
        ({"defaults": {"segments": ["class"]}, "declared": {"pets": {"classes": 2}}}, "no segment key class"),
    ],
)
def test_what_does_not_go_with_classes_is_refused(models: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        settings(models=models)


def test_only_declared_models_may_be_all_there_are() -> None:
    policy = make_policy(settings(models={"only_declared": True, "declared": {"churn": {}}}).models)
    assert policy("churn") == ModelPolicy(24 * HOUR_MS, HOUR_MS, declared=True)
    assert policy("another") is None


def test_windows_keep_their_order_and_names() -> None:
    windows = make_windows(settings(windows=[{"length": "24h"}, {"last": 500}, {"length": "1h", "mature": False}]))
    assert windows == [
        Window("24h", 24 * HOUR_MS),
        Window("last-500", 7 * 24 * HOUR_MS, last=500),
        Window("1h-immature", HOUR_MS, mature=False),
    ]


def test_windows_are_measured_by_the_measures_that_are_named() -> None:
    assert make_measures(settings()) == WINDOW_MEASURES
    named = settings(evaluation={"measures": "log_loss, smce"})
    assert list(make_measures(named)) == list(named.evaluation.measures or ()) == ["smce", "log_loss"]


@given(
    lengths=st.lists(st.integers(1000, 40 * 24 * 3600 * 1000), min_size=1, max_size=4),
    look_back_ms=st.integers(0, 10 * HOUR_MS),
    edge_ms=st.integers(10**12, 2 * 10**12),
)
def test_every_pane_of_every_window_is_kept(lengths: list[int], look_back_ms: int, edge_ms: int) -> None:
    declared = [{"name": str(at), "length": timedelta(milliseconds=length)} for at, length in enumerate(lengths)]
    chosen = settings(windows=declared, evaluation={"look_back": timedelta(milliseconds=look_back_ms)})
    kept_ms = make_kept_ms(chosen)
    for window in make_windows(chosen):
        # As the reader does it: what starts before this, in whole panes, is gone.
        gone_before = edge_ms - kept_ms[window.slide_ms]
        gone_before -= gone_before % window.slide_ms
        begin, _ = window.span(Moment(edge_ms - look_back_ms, edge_ms - look_back_ms))
        assert begin >= gone_before


def test_limits_reach_the_partitions() -> None:
    parts = make_partition_settings(settings(caps={"models": 3, "strata": 9}, pipeline={"max_pending": 77}))
    assert (parts.caps.models, parts.caps.strata, parts.max_predictions) == (3, 9, 77)


def test_secrets_reach_the_connection_and_no_text() -> None:
    kafka = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "monitor",
        "sasl_plain_password": "hunter2",
        "bootstrap_servers": ["a:1", "b:2"],
    }
    connection = make_connection(settings(source={"kafka": kafka}).source.kafka)
    assert connection.sasl_plain_password == "hunter2"
    assert list(connection.bootstrap_servers) == ["a:1", "b:2"]
    assert "hunter2" not in repr(connection)


class Kept:
    def __init__(self) -> None:
        self.messages: list[Message] = []

    def write(self, messages: Sequence[Message]) -> None:
        self.messages.extend(messages)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("timestamp_ms", "written_ms"), [(17, 17), (-1, None)])
def test_a_dead_letter_keeps_its_bytes_and_says_where_it_stood_and_why(
    timestamp_ms: int, written_ms: int | None
) -> None:
    kept = Kept()
    letter = DeadLetter(
        "events", 3, 41, timestamp_ms, Reason.NOT_JSON, "JSON is malformed", b"k", b"\xff{", (("own", b"1"),)
    )
    dead_letter_sender("dead", kept)([letter])
    (message,) = kept.messages
    assert (message.topic, message.key, message.value, message.timestamp_ms) == ("dead", b"k", b"\xff{", written_ms)
    assert list(message.headers) == [
        ("own", b"1"),
        ("calibration-dead-letter-reason", b"not_json"),
        ("calibration-dead-letter-detail", b"JSON is malformed"),
        ("calibration-dead-letter-topic", b"events"),
        ("calibration-dead-letter-partition", b"3"),
        ("calibration-dead-letter-offset", b"41"),
    ]
