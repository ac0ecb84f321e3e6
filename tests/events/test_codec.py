"""What becomes of each message: a row of the columns, or a dead letter with its reason."""

import gc
import json
import math
import weakref
from typing import Any

import numpy as np
import pytest

from monitor.clock import ManualClock
from monitor.events import codec
from monitor.events.codec import Decoder
from monitor.events.fields import Rejected
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, Reason, Stratum
from monitor.events.strata import Caps, Strata
from tests.events.messages import LABELLED, NOW_MS, OUTCOME, POLICY, PREDICTION, Message, decode, new_strata
from tests.reference.naive_join import id_digest


def changed(event: bytes, **keys: Any) -> bytes:
    """The event with some of its keys changed; those that are None in `keys` taken out."""
    fields = json.loads(event) | keys
    return json.dumps({key: value for key, value in fields.items() if value is not None}).encode()


def literally(event: bytes, key: str, literal: str) -> bytes:
    """The event with the value of a key written in these very characters."""
    fields = json.loads(event)
    fields[key] = "\0here"
    return json.dumps(fields).replace(json.dumps("\0here"), literal).encode()


class TestColumns:
    def test_each_type_fills_its_columns(self) -> None:
        strata = new_strata()
        columns = decode(PREDICTION, OUTCOME, LABELLED, strata=strata).columns
        assert columns.kind.tolist() == [Kind.PREDICTION, Kind.OUTCOME, Kind.LABELLED]
        assert columns.time_ms.tolist() == [NOW_MS] * 3
        np.testing.assert_array_equal(columns.prediction, [0.83, math.nan, 0.83])
        assert columns.outcome.tolist() == [-1, 1, 0]
        assert columns.model.tolist() == [0, 0, 0]
        assert columns.stratum.tolist() == [0, -1, 0]
        assert strata.strata == [Stratum("churn", "7", ())]

    def test_columns_are_of_the_declared_types_and_can_be_written_to(self) -> None:
        for messages in ((PREDICTION, OUTCOME, LABELLED), (PREDICTION,), (OUTCOME,), ()):
            columns = decode(*messages).columns
            of = {name: getattr(columns, name) for name in columns.__slots__ if name != "vectors"}
            assert {name: column.dtype.name for name, column in of.items()} == {
                "kind": "int8",
                "id_hash": "uint64",
                "time_ms": "int64",
                "prediction": "float64",
                "outcome": "int16",
                "model": "int32",
                "stratum": "int32",
            }
            assert columns.id_hash.shape == (len(messages), 2)
            assert all(column.flags.writeable and len(column) == len(messages) for column in of.values())

    def test_the_hash_is_of_model_and_id(self) -> None:
        hashes = decode(
            PREDICTION, OUTCOME, changed(OUTCOME, model="fraud"), changed(OUTCOME, id="other"), changed(OUTCOME, id="é")
        ).columns.id_hash
        assert hashes[0].tolist() == hashes[1].tolist()
        assert len({tuple(row) for row in hashes.tolist()}) == 4
        assert hashes[4].astype(">u8").tobytes() == id_digest("churn", "é")

    def test_an_integer_is_the_same_id_as_its_text(self) -> None:
        huge = 2**70
        ids = [7, "7", 0, "0", huge, str(huge), -5, "-5"]
        hashes = decode(*(changed(PREDICTION, id=i) for i in ids), literally(OUTCOME, "id", "-0")).columns.id_hash
        assert (hashes[0:8:2] == hashes[1:8:2]).all()
        assert (hashes[8] == hashes[2]).all()

    def test_an_integer_is_the_same_version_as_its_text(self) -> None:
        strata = new_strata()
        versions = [7, "7", 2**70, str(2**70), "", None]
        columns = decode(*(changed(PREDICTION, version=v) for v in versions), strata=strata).columns
        assert columns.stratum.tolist() == [0, 0, 1, 1, 2, 2]
        assert [stratum.version for stratum in strata.strata] == ["7", str(2**70), "unversioned"]

    def test_segments_are_read_as_text_whatever_their_order_and_spacing(self) -> None:
        strata = new_strata()
        columns = decode(
            changed(PREDICTION, segments={"region": "eu", "plan": "1", "other": "x"}),
            changed(PREDICTION, segments={"plan": 1, "region": "eu"}),
            literally(PREDICTION, "segments", '{ "plan" : 1 , "region":"\\u0065u" , "other": null}'),
            changed(PREDICTION, segments={"plan": True}),
            literally(PREDICTION, "segments", "null"),
            strata=strata,
        ).columns
        assert columns.stratum.tolist() == [0, 0, 0, 1, 2]
        assert [stratum.segments for stratum in strata.strata] == [
            (("plan", "1"), ("region", "eu")),
            (("plan", "true"),),
            (),
        ]

    @pytest.mark.parametrize(("literal", "y"), [("0", 0), ("1", 1), ("true", 1), ("false", 0), ("1.0", 1), ("0e3", 0)])
    def test_every_spelling_of_an_outcome(self, literal: str, y: int) -> None:
        assert decode(literally(OUTCOME, "y", literal)).columns.outcome.tolist() == [y]
        assert decode(literally(LABELLED, "y", literal)).columns.outcome.tolist() == [y]

    @pytest.mark.parametrize(("literal", "p"), [("0", 0), ("1", 1), ("1.0", 1), ("-0.0", 0), ("-0", 0), ("5e-1", 0.5)])
    def test_every_spelling_of_a_prediction(self, literal: str, p: float) -> None:
        (prediction,) = decode(literally(PREDICTION, "p", literal)).columns.prediction
        assert prediction == p
        assert not np.signbit(prediction)

    @pytest.mark.parametrize("ts", [NOW_MS, float(NOW_MS), "2026-11-20T10:00:00Z", "2026-11-20 11:00:00.000+01:00"])
    def test_every_spelling_of_a_time(self, ts: float | str) -> None:
        assert decode(changed(PREDICTION, ts=ts)).columns.time_ms.tolist() == [NOW_MS]
        mixed = decode(changed(PREDICTION, ts=NOW_MS + 1), changed(PREDICTION, ts=ts), PREDICTION)
        assert mixed.columns.time_ms.tolist() == [NOW_MS + 1, NOW_MS, NOW_MS]

    def test_nulls_stand_for_absent_keys(self) -> None:
        event = json.dumps(json.loads(OUTCOME) | {"p": None, "version": None, "segments": None, "features": None})
        assert len(decode(event.encode()).columns) == 1
        event = json.dumps(json.loads(PREDICTION) | {"y": None, "segments": None, "features": None})
        assert len(decode(event.encode()).columns) == 1

    def test_unknown_keys_and_keys_of_other_types_are_ignored(self) -> None:
        decoded = decode(
            changed(OUTCOME, p="what", features="what", segments=[1], version=1.5, extra={"deep": [1, 2]}),
            changed(PREDICTION, y="what"),
            literally(PREDICTION, "extra", "1e400"),
        )
        assert not decoded.dead_letters
        assert decoded.columns.outcome.tolist() == [1, -1, -1]

    def test_of_duplicate_keys_the_last_counts(self) -> None:
        later = PREDICTION[:-1] + b',"p":0.25}'
        assert decode(later, PREDICTION[:-1] + b',"p":"no","p":0.25}').columns.prediction.tolist() == [0.25, 0.25]
        (letter,) = decode(PREDICTION[:-1] + b',"p":"no"}').dead_letters
        assert letter.reason is Reason.INVALID_PREDICTION

    @pytest.mark.parametrize("kind", list(Kind))
    def test_the_topic_names_the_type_where_the_event_does_not(self, kind: Kind) -> None:
        event = {Kind.PREDICTION: PREDICTION, Kind.OUTCOME: OUTCOME, Kind.LABELLED: LABELLED}[kind]
        untyped = changed(event, type=None)
        for message in (untyped, literally(event, "type", "null")):
            assert decode(message, default_kind=kind).columns.kind.tolist() == [kind]
            (letter,) = decode(message).dead_letters
            assert letter.reason is Reason.MISSING_KEY
            assert "type" in letter.detail

    def test_the_events_own_type_counts_on_a_topic_of_another(self) -> None:
        assert decode(OUTCOME, default_kind=Kind.PREDICTION).columns.kind.tolist() == [Kind.OUTCOME]

    def test_a_refused_model_stays_in_the_columns_and_is_counted(self) -> None:
        strata = new_strata()
        undeclared = [changed(event, model="undeclared") for event in (PREDICTION, OUTCOME)]
        decoded = decode(*undeclared, PREDICTION, strata=strata)
        assert decoded.columns.model.tolist() == [-1, -1, 0]
        assert decoded.columns.stratum.tolist() == [-1, -1, 0]
        assert decoded.refused == 2
        assert not decoded.dead_letters
        assert strata.models == ["churn"]
        (first,) = decoded.refused_models
        assert (first.offset, first.reason, first.value) == (0, Reason.REFUSED_MODEL, undeclared[0])
        assert "model 'undeclared' is not declared" in first.detail

    def test_names_are_interned_in_log_order_whether_plain_or_not(self) -> None:
        strata = Strata(lambda _: POLICY, Caps(models=3))
        # The second takes the slow path, the third is a dead letter and interns nothing.
        decode(
            changed(PREDICTION, model="a"),
            literally(changed(PREDICTION, model="b"), "ts", f"{NOW_MS}.0"),
            changed(PREDICTION, model="never", segments=["no"]),
            changed(OUTCOME, model="c"),
            changed(OUTCOME, model="d"),
            strata=strata,
        )
        assert strata.models == ["a", "b", "c"]

    def test_one_decoder_serves_many_partitions(self) -> None:
        decoder = Decoder(Rules(clock=ManualClock(NOW_MS)))
        first, second = new_strata(), new_strata()
        decode(changed(PREDICTION, model="a"), decoder=decoder, strata=first)
        assert decode(
            changed(PREDICTION, model="b"), PREDICTION, decoder=decoder, strata=second
        ).columns.model.tolist() == [0, 1]
        assert (first.models, second.models) == (["a"], ["b", "churn"])

    def test_a_decoder_forgets_a_partition_that_is_gone(self) -> None:
        decoder = Decoder(Rules(clock=ManualClock(NOW_MS)))
        strata = new_strata()
        decode(PREDICTION, OUTCOME, decoder=decoder, strata=strata)
        gone = weakref.ref(strata)
        del strata
        gc.collect()
        assert gone() is None
        assert not decoder._names

    def test_a_full_memory_of_names_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(codec, "_MAX_NAMES", 3)
        messages = [changed(PREDICTION, segments={"region": str(n % 7)}) for n in range(40)]
        small = Decoder(Rules(clock=ManualClock(NOW_MS)))
        got, expected = decode(*messages, decoder=small), decode(*messages)
        assert got.columns.stratum.tolist() == expected.columns.stratum.tolist()


class TestTombstones:
    def test_they_are_ignored_where_that_is_declared_and_dead_letters_elsewhere(self) -> None:
        messages = (None, PREDICTION, None, b"", OUTCOME)
        for topics, letters, tombstones in (({"events"}, [3], 2), ({"another"}, [0, 2, 3], 0)):
            decoded = decode(*messages, decoder=Decoder(ignore_tombstones=topics))
            assert [letter.offset for letter in decoded.dead_letters] == letters
            assert decoded.tombstones == tombstones
            assert decoded.columns.kind.tolist() == [Kind.PREDICTION, Kind.OUTCOME]

    def test_nothing_but_tombstones(self) -> None:
        decoded = decode(None, None, decoder=Decoder(ignore_tombstones={"events"}))
        assert (len(decoded.columns), decoded.dead_letters, decoded.tombstones) == (0, [], 2)


class TestDeadLetters:
    @pytest.mark.parametrize(
        ("value", "reason", "says"),
        [
            (None, Reason.EMPTY, "tombstone"),
            (b"", Reason.EMPTY, "empty"),
            (b" \n", Reason.EMPTY, "empty"),
            (changed(PREDICTION, id="x" * 600), Reason.INVALID_ID, "512"),
            (PREDICTION[:-1] + b',"note":"' + b"x" * 3000 + b'"}', Reason.OVERSIZED, "2000 bytes"),
            (b"\xff" + PREDICTION, Reason.INVALID_UTF8, "byte 0"),
            (PREDICTION[:-1] + b',"note":"\xc3"}', Reason.INVALID_UTF8, "UTF-8"),
            (PREDICTION[:-1], Reason.NOT_JSON, "truncated"),
            (PREDICTION + PREDICTION, Reason.NOT_JSON, "trailing"),
            (PREDICTION + b"," + PREDICTION, Reason.NOT_JSON, "trailing"),
            (b"\xef\xbb\xbf" + PREDICTION, Reason.NOT_JSON, "byte order mark"),
            (PREDICTION.replace(b"7f3a", b"\\ud800"), Reason.NOT_JSON, "malformed"),
            (PREDICTION.replace(b"churn", b"chu\nrn"), Reason.NOT_JSON, "invalid character"),
            (b'{"a":' * 5000, Reason.NOT_JSON, "nested too deeply"),
            (literally(PREDICTION, "note", "NaN"), Reason.NOT_JSON, "NaN"),
            (b"[NaN", Reason.NOT_JSON, "NaN"),
            (b"[" + PREDICTION + b"]", Reason.NOT_AN_OBJECT, "object"),
            (b'"prediction"', Reason.NOT_AN_OBJECT, "object"),
            (b"7", Reason.NOT_AN_OBJECT, "object"),
            (b"null", Reason.NOT_AN_OBJECT, "object"),
            (b"[1,", Reason.NOT_JSON, "truncated"),
            (changed(PREDICTION, type="Prediction"), Reason.UNKNOWN_TYPE, "prediction, outcome, labelled"),
            (changed(PREDICTION, type="labeled"), Reason.UNKNOWN_TYPE, '"labeled"'),
            (changed(PREDICTION, type=1), Reason.WRONG_TYPE, "string"),
            (b"{}", Reason.MISSING_KEY, "type"),
            (changed(PREDICTION, id=None, ts=None), Reason.MISSING_KEY, "no id, ts"),
            (changed(PREDICTION, p=None), Reason.MISSING_KEY, "no p"),
            (changed(OUTCOME, y=None), Reason.MISSING_KEY, "no y"),
            (changed(LABELLED, y=None), Reason.MISSING_KEY, "no y"),
            (changed(LABELLED, p=None), Reason.MISSING_KEY, "no p"),
            (changed(OUTCOME, model=None), Reason.MISSING_KEY, "no model"),
            (changed(PREDICTION, id=""), Reason.INVALID_ID, "1 to 512"),
            (changed(PREDICTION, id=7.0), Reason.INVALID_ID, "7.0"),
            (changed(PREDICTION, id=True), Reason.INVALID_ID, "true"),
            (changed(PREDICTION, id=["a"]), Reason.INVALID_ID, '["a"]'),
            (literally(PREDICTION, "id", "null"), Reason.INVALID_ID, "null"),
            (literally(PREDICTION, "id", "1" * 600), Reason.INVALID_ID, "600"),
            (literally(PREDICTION, "id", "NaN"), Reason.INVALID_ID, "NaN"),
            (changed(PREDICTION, model=""), Reason.INVALID_MODEL, "empty"),
            (changed(PREDICTION, model="zz/../churn"), Reason.INVALID_MODEL, "'.', '..' or nothing between slashes"),
            (changed(OUTCOME, model="."), Reason.INVALID_MODEL, "'.', '..' or nothing between slashes"),
            (changed(LABELLED, model="a//b"), Reason.INVALID_MODEL, "'.', '..' or nothing between slashes"),
            (changed(PREDICTION, model=5), Reason.INVALID_MODEL, "string"),
            (changed(OUTCOME, model="a\nb"), Reason.INVALID_MODEL, "control"),
            (changed(PREDICTION, model="a\x85b"), Reason.INVALID_MODEL, "control"),
            (changed(PREDICTION, model="m" * 129), Reason.INVALID_MODEL, "128"),
            (changed(PREDICTION, version=1.5), Reason.INVALID_VERSION, "quotes"),
            (changed(PREDICTION, version=[]), Reason.INVALID_VERSION, "[]"),
            (changed(PREDICTION, version="v" * 129), Reason.INVALID_VERSION, "128"),
            (changed(PREDICTION, version="a\tb"), Reason.INVALID_VERSION, "control"),
            (changed(PREDICTION, ts="2026-11-20T10:00:00"), Reason.INVALID_TIME, "offset"),
            (changed(PREDICTION, ts="2026-02-30T10:00:00Z"), Reason.INVALID_TIME, "calendar"),
            (changed(PREDICTION, ts="yesterday"), Reason.INVALID_TIME, "yesterday"),
            (changed(PREDICTION, ts=str(NOW_MS)), Reason.INVALID_TIME, "quotes"),
            (changed(PREDICTION, ts=NOW_MS + 0.5), Reason.INVALID_TIME, "whole"),
            (changed(PREDICTION, ts=True), Reason.INVALID_TIME, "true"),
            (literally(PREDICTION, "ts", "null"), Reason.INVALID_TIME, "null"),
            (literally(PREDICTION, "ts", "1e400"), Reason.INVALID_TIME, "1e400"),
            (changed(PREDICTION, ts=NOW_MS // 1000), Reason.TIME_OUT_OF_RANGE, "looks like seconds"),
            (changed(PREDICTION, ts=NOW_MS * 1000), Reason.TIME_OUT_OF_RANGE, "looks like microseconds"),
            (changed(PREDICTION, ts=NOW_MS * 10**6), Reason.TIME_OUT_OF_RANGE, "looks like nanoseconds"),
            (literally(PREDICTION, "ts", "9" * 1000), Reason.TIME_OUT_OF_RANGE, "2000-01-01"),
            (literally(PREDICTION, "ts", "9" * 9000), Reason.INVALID_TIME, "9999"),
            (literally(PREDICTION, "p", "9" * 9000), Reason.INVALID_PREDICTION, "9999"),
            (literally(OUTCOME, "y", "9" * 1000), Reason.INVALID_OUTCOME, "9999"),
            (changed(PREDICTION, ts=-(10**30)), Reason.TIME_OUT_OF_RANGE, "2000-01-01"),
            (changed(PREDICTION, ts="1999-12-31T23:59:59.999Z"), Reason.TIME_OUT_OF_RANGE, "2000-01-01T00:00:00.000Z"),
            (changed(PREDICTION, ts=NOW_MS + 86_400_001), Reason.TIME_OUT_OF_RANGE, "2026-11-21T10:00:00.000Z"),
            (changed(PREDICTION, p=1.0000001), Reason.INVALID_PREDICTION, "1.0000001"),
            (changed(PREDICTION, p=-1e-9), Reason.INVALID_PREDICTION, "[0, 1]"),
            (changed(PREDICTION, p=2), Reason.INVALID_PREDICTION, "got 2"),
            (changed(PREDICTION, p="0.5"), Reason.INVALID_PREDICTION, '"0.5"'),
            (changed(PREDICTION, p=True), Reason.INVALID_PREDICTION, "true"),
            (literally(PREDICTION, "p", "null"), Reason.INVALID_PREDICTION, "null"),
            (literally(PREDICTION, "p", "NaN"), Reason.INVALID_PREDICTION, "NaN"),
            (literally(PREDICTION, "p", "-Infinity"), Reason.INVALID_PREDICTION, "-Infinity"),
            (literally(PREDICTION, "p", "1e400"), Reason.INVALID_PREDICTION, "1e400"),
            (changed(PREDICTION, p={"a": 1}), Reason.INVALID_PREDICTION, '{"a"'),
            (
                changed(PREDICTION, p=[0.2, 0.3, 0.5]),
                Reason.UNSUPPORTED_MULTICLASS,
                "under models.declared, as classes",
            ),
            (changed(PREDICTION, p=[1.0]), Reason.INVALID_PREDICTION, "2 probabilities, one for each class, got 1"),
            (changed(PREDICTION, p=[0.2, 0.7]), Reason.INVALID_PREDICTION, "add up to 1 over the classes, got 0.9"),
            (changed(PREDICTION, p=[-0.5, 1.5]), Reason.INVALID_PREDICTION, "that of class 0 is -0.5"),
            (changed(OUTCOME, y=2), Reason.INVALID_OUTCOME, "0 or 1, or true or false, got 2; for a class of several"),
            (changed(PREDICTION, model="digits"), Reason.INVALID_PREDICTION, "a list of 3 probabilities"),
            (changed(PREDICTION, model="digits", p=[0.5, 0.5]), Reason.INVALID_PREDICTION, "3 probabilities"),
            (changed(PREDICTION, model="digits", p=[0.5, 0.5, "0"]), Reason.INVALID_PREDICTION, "class 2 is 0"),
            (changed(PREDICTION, model="digits", p=[0.5, 0.5, True]), Reason.INVALID_PREDICTION, "class 2 is True"),
            (changed(PREDICTION, model="digits", p=[0.5, 0.5, 0.0101]), Reason.INVALID_PREDICTION, "got 1.0101"),
            (changed(PREDICTION, model="digits", p=[0.001] * 1001), Reason.INVALID_PREDICTION, "got 1001"),
            (changed(OUTCOME, model="digits", y=3), Reason.INVALID_OUTCOME, "an integer from 0 to 2, got 3"),
            (changed(OUTCOME, model="digits", y=-1), Reason.INVALID_OUTCOME, "from 0 to 2"),
            (changed(OUTCOME, model="digits", y=True), Reason.INVALID_OUTCOME, "from 0 to 2, got true"),
            (changed(OUTCOME, model="digits", y=0.5), Reason.INVALID_OUTCOME, "from 0 to 2"),
            (changed(OUTCOME, model="digits", y="cat"), Reason.INVALID_OUTCOME, "from 0 to 2"),
            (changed(LABELLED, model="digits", p=[0.2, 0.3, 0.5], y=3), Reason.INVALID_OUTCOME, "from 0 to 2"),
            (changed(OUTCOME, y=-1), Reason.INVALID_OUTCOME, "0 or 1"),
            (changed(OUTCOME, y=0.5), Reason.INVALID_OUTCOME, "0.5"),
            (changed(LABELLED, y="1"), Reason.INVALID_OUTCOME, '"1"'),
            (literally(OUTCOME, "y", "null"), Reason.INVALID_OUTCOME, "null"),
            (literally(OUTCOME, "y", "NaN"), Reason.INVALID_OUTCOME, "NaN"),
            (changed(PREDICTION, segments=["eu"]), Reason.INVALID_SEGMENTS, "object"),
            (changed(PREDICTION, segments={"region": ["eu"]}), Reason.INVALID_SEGMENTS, "segments.region"),
            (changed(PREDICTION, segments={"": "eu"}), Reason.INVALID_SEGMENTS, "key"),
            (changed(PREDICTION, segments={"a=b": "eu"}), Reason.INVALID_SEGMENTS, "a=b"),
            (changed(PREDICTION, segments={"region": "x" * 129}), Reason.INVALID_SEGMENTS, "128"),
            (changed(PREDICTION, segments={"region": "a\nb"}), Reason.INVALID_SEGMENTS, "control"),
            (changed(PREDICTION, segments={str(n): "x" for n in range(33)}), Reason.INVALID_SEGMENTS, "32"),
            (changed(PREDICTION, features=[1, "2"]), Reason.INVALID_FEATURES, "list of numbers"),
            (changed(PREDICTION, features=[1, 1e39]), Reason.INVALID_FEATURES, "number 1 is inf"),
            (literally(PREDICTION, "features", "[NaN]"), Reason.INVALID_FEATURES, "NaN"),
            (changed(PREDICTION, features="AAA"), Reason.INVALID_FEATURES, "base64"),
            (changed(PREDICTION, features="AAAA"), Reason.INVALID_FEATURES, "4 bytes"),
            (changed(LABELLED, features=7), Reason.INVALID_FEATURES, "base64"),
        ],
    )
    def test_reason_and_detail(self, value: bytes | None, reason: Reason, says: str) -> None:
        decoder = Decoder(Rules(max_bytes=2000, clock=ManualClock(NOW_MS))) if reason is Reason.OVERSIZED else None
        decoded = decode(PREDICTION, value, OUTCOME, decoder=decoder)
        (letter,) = decoded.dead_letters
        assert (letter.reason, letter.offset, letter.value) == (reason, 1, value)
        assert says in letter.detail
        assert len(letter.detail.splitlines()) == 1
        assert letter.detail.isprintable()
        assert len(letter.detail) < 300
        assert decoded.columns.kind.tolist() == [Kind.PREDICTION, Kind.OUTCOME]

    def test_every_reason_of_json_stands_above(self) -> None:
        (mark,) = [mark for mark in TestDeadLetters.test_reason_and_detail.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
        assert {reason for _, reason, _ in mark.args[1]} == set(Reason) - {
            Reason.INVALID_CLOUDEVENT,
            Reason.INVALID_FRAME,
            Reason.UNKNOWN_SCHEMA,
            Reason.UNDECODABLE,
            Reason.REFUSED_MODEL,
        }

    def test_the_message_is_kept_whole(self) -> None:
        headers = [("trace", b"\x00\xff"), ("empty", b""), ("trace", b"2")]
        (letter,) = decode(PREDICTION, Message(b"\xfe{", headers, timestamp=123, key=b"k")).dead_letters
        assert letter.topic == "events"
        assert letter.partition == 3
        assert letter.offset == 1
        assert letter.timestamp_ms == 123
        assert letter.key == b"k"
        assert letter.value == b"\xfe{"
        assert letter.headers == tuple(headers)

    def test_dead_letters_stand_in_log_order(self) -> None:
        # Found in different passes: by msgspec, by the columns, by the names, by the features.
        bad = [
            changed(PREDICTION, segments=["no"]),
            changed(PREDICTION, features="no"),
            changed(PREDICTION, ts="no"),
            b"{",
            changed(PREDICTION, model="\n"),
            changed(PREDICTION, p=7),
        ]
        mixed = [message for pair in zip(bad, [PREDICTION] * len(bad), strict=True) for message in pair]
        decoded = decode(*mixed)
        assert [letter.offset for letter in decoded.dead_letters] == [0, 2, 4, 6, 8, 10]
        assert len(decoded.columns) == len(bad)

    def test_a_dirty_batch_leaves_no_cycles_that_keep_it_in_memory(self) -> None:
        bad = [b"{", None, changed(PREDICTION, ts="no"), changed(PREDICTION, model="\n"), changed(PREDICTION, p=[1])]
        strata, decoder = new_strata(), Decoder(Rules(clock=ManualClock(NOW_MS)))
        decode(*bad, strata=strata, decoder=decoder)
        gc.collect()
        gc.disable()
        try:
            decode(*bad, strata=strata, decoder=decoder)
            assert not [thing for thing in _unreachable() if isinstance(thing, Message | Rejected)]
        finally:
            gc.enable()

    def test_the_messages_own_timestamp_is_the_reference_for_times_ahead(self) -> None:
        late = changed(PREDICTION, ts=NOW_MS)
        decoder = Decoder(Rules(max_ahead_ms=1000, clock=ManualClock(NOW_MS + 10**9)))
        decoded = decode(
            Message(late, timestamp=NOW_MS - 1000), Message(late, timestamp=NOW_MS - 1001), decoder=decoder
        )
        assert [letter.offset for letter in decoded.dead_letters] == [1]

    def test_the_clock_is_the_reference_where_the_log_has_none(self) -> None:
        clock = ManualClock(NOW_MS - 1001)
        decoder = Decoder(Rules(max_ahead_ms=1000, clock=clock))
        message = Message(changed(PREDICTION, ts=NOW_MS), timestamp=-1)
        timely = Message(changed(PREDICTION, ts=NOW_MS - 1000), timestamp=NOW_MS)
        assert len(decode(message, timely, decoder=decoder).columns) == 1
        clock.advance(0.001)
        assert len(decode(message, timely, decoder=decoder).columns) == 2

    def test_a_timestamp_of_the_future_moves_the_reference_no_further_than_now(self) -> None:
        ahead = changed(PREDICTION, ts=NOW_MS + 1001)
        clock = ManualClock(NOW_MS)
        decoder = Decoder(Rules(max_ahead_ms=1000, clock=clock))
        message = Message(ahead, timestamp=4_102_444_800_000)
        assert [letter.reason for letter in decode(message, decoder=decoder).dead_letters] == [Reason.TIME_OUT_OF_RANGE]
        clock.advance(0.001)
        assert len(decode(message, decoder=decoder).columns) == 1

    def test_absurd_timestamps_of_the_log_are_survived(self) -> None:
        decoded = decode(*(Message(PREDICTION, timestamp=stamp) for stamp in (2**63 - 1, -(2**63), 0, NOW_MS)))
        assert [letter.offset for letter in decoded.dead_letters] == [2]


def _unreachable() -> list[Any]:
    """What only the garbage collector can free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return list(gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


class TestFeatures:
    def test_they_stand_beside_the_columns(self) -> None:
        packed = "AACAPwAAAEA="  # 1.0 and 2.0
        decoded = decode(
            PREDICTION,
            changed(PREDICTION, features=[0.5, -1]),
            b"{",
            changed(LABELLED, features=packed),
            changed(PREDICTION, features=[]),
            changed(PREDICTION, features=[0.25], id="slow", y=7, ts=float(NOW_MS)),
        )
        got = [None if features is None else features.tolist() for features in decoded.features]
        assert got == [None, [0.5, -1.0], [1.0, 2.0], None, [0.25]]
        assert len(decoded.features) == len(decoded.columns)

    def test_a_bad_one_changes_nothing_for_its_neighbours(self) -> None:
        decoded = decode(
            changed(PREDICTION, features=[0.5]), changed(PREDICTION, features=[1e39]), changed(PREDICTION, features=[2])
        )
        assert [features.tolist() for features in decoded.features if features is not None] == [[0.5], [2.0]]
        assert [letter.offset for letter in decoded.dead_letters] == [1]
