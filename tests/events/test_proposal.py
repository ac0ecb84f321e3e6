"""A mapping is proposed from names, types and values; what fits as well, and what is missing, is said."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.events.mapping import compile_source
from monitor.events.model import Kind
from monitor.events.observations import observe
from monitor.events.proposal import Proposal, propose
from tests.events.messages import NOW_MS, Message
from tests.events.naive_mapping import read_source
from tests.events.test_mapping import JSON

NOW = "2026-11-20T10:00:00Z"


def proposed(*documents: dict[str, Any], declared: dict[str, str] | None = None, **message: Any) -> Proposal:
    records = [Message(b"", **message)] * len(documents)
    return propose(observe(documents, records, declared), len(documents), "churn")


def sources(proposal: Proposal) -> dict[str, Any]:
    return {key: choice.source for key, choice in proposal.choices.items()}


def many(count: int = 40) -> list[dict[str, Any]]:
    """Predictions with much beside them that could be mistaken."""
    drawn = random.Random(3)
    return [
        {
            "requestId": f"r-{number}",
            "customer": {"id": f"c-{number % 7}", "country": "de" if number % 3 else "fr", "vip": number % 5 == 0},
            "model": {"name": "churn", "version": 7},
            "schemaVersion": "2",
            "threshold": 0.5,
            "probability": drawn.random(),
            "predicted_label": number % 2,
            "createdAt": 1_795_168_800 + number,
            "updatedAt": 1_795_168_900 + number,
            "amount": drawn.uniform(0, 500),
            "text": f"free text {number}",
        }
        for number in range(count)
    ]


def test_words_of_two_kinds_are_offered_as_an_outcome_where_nothing_is_named_so() -> None:
    closed = [{"case": f"c-{at}", "closed": NOW, "finding": "genuine" if at % 3 else "abuse"} for at in range(40)]
    proposal = proposed(*closed)
    assert (proposal.kind, sources(proposal)["y"]) == (Kind.OUTCOME, "finding")
    assert any("which values of finding mean 1 cannot be known" in note for note in proposal.notes)
    # Not what is a segment by its name, nor beside a probability.
    assert proposed(*[one | {"finding": one["case"], "plan": one["finding"]} for one in closed]).kind is None
    assert "y" not in sources(proposed(*[one | {"probability": 0.3} for one in closed]))


def test_short_names_of_a_model_and_of_vectors_are_known() -> None:
    drawn = random.Random(5)
    scored = [
        {
            "id": f"r-{at}",
            "ts": NOW,
            "score": drawn.random(),
            "ctx": {"model": {"nm": "churn"}},
            "vec": [drawn.gauss(0, 1) for _ in range(3)],
        }
        for at in range(40)
    ]
    found = sources(proposed(*scored))
    assert (found["model"], found["features"]) == ("ctx.model.nm", "vec")


def test_names_and_values_decide_together() -> None:
    proposal = proposed(*many())
    assert proposal.kind is Kind.PREDICTION
    assert sources(proposal) == {
        "model": "model.name",
        "version": "model.version",
        "id": "requestId",
        "ts": "createdAt",
        "p": "probability",
    }
    assert proposal.ts_unit == "seconds"
    assert {name: choice.source for name, choice in proposal.segments.items()} == {
        "country": "customer.country",
        "vip": "customer.vip",
    }
    assert proposal.choices["ts"].others == ["updatedAt"]
    assert proposal.choices["id"].why.startswith("all different; in 100% of the messages, such as r-0, r-1, r-2")
    assert proposal.notes == []


@pytest.mark.parametrize(
    ("key", "value", "source"),
    [
        ("p", {"p_churn": 0.4}, "p_churn"),
        ("p", {"proba_0": 0.6, "proba_1": 0.4}, "proba_1"),
        ("p", {"scores": {"negative": 0.6, "positive": 0.4}}, "scores.positive"),
        ("p", {"scores": [0.6, 0.4]}, "scores"),
        ("p", {"scores": [0.2, 0.3, 0.5]}, "scores"),
        ("p", {"scores": [0.4]}, "scores"),
        ("p", {"predictions": [0.2, 0.3, 0.9]}, "predictions[]"),
        ("p", {"predictions": [[0.6, 0.4], [0.7, 0.3]]}, "predictions[]"),
        ("p", {"rows": [{"score": 0.4}, {"score": 0.9}]}, "rows[].score"),
        ("p", {"un.named": 0.4}, "[un.named]"),
        ("ts", {"at": "2026-11-20 10:00:00+01:00"}, "at"),
        ("ts", {"event_time": NOW_MS * 1000}, "event_time"),
        ("ts", {"nothing": True}, "$timestamp"),
        ("id", {"uuid": "12345678-1234-1234-1234-123456789abc", "customer_id": "c"}, "uuid"),
        ("id", {"transaction": {"id": 17}, "id": 3}, "transaction.id"),
        ("model", {"nothing": True}, "=churn"),
        ("version", {"model_version": "3", "api_version": "9"}, "model_version"),
        ("features", {"x": [1, 2.5]}, "x"),
        ("features", {"embedding": b"\0\0\0\0"}, "embedding"),
        ("features", {"inputs": {"b": 1, "a": 2.5}}, ["inputs.b", "inputs.a"]),
        ("type", {"type": "scored"}, "=prediction"),
    ],
)
def test_where_a_key_is(key: str, value: dict[str, Any], source: Any) -> None:
    base = {} if key == "p" else {"score": 0.25}
    assert sources(proposed(base | value))[key] == source


def test_types_of_ours_are_no_mapping_and_unset_keys_are_left_out() -> None:
    assert sources(proposed({"id": "a", "type": "prediction", "score": 0.25})).keys() == {"id", "p", "ts", "model"}


@pytest.mark.parametrize(
    ("values", "positive", "negative"),
    [
        ([True, False], (), ()),
        ([1, 0, 1], (), ()),
        (["fraud", "genuine", "unsure"], ["fraud"], ["genuine", "unsure"]),
        (["Yes", "No"], ["Yes"], ["No"]),
        (["1", "0"], ["1"], ["0"]),
    ],
)
def test_outcomes(values: list[Any], positive: Any, negative: Any) -> None:
    documents = [{"case": number, "decided": NOW, "label": value} for number, value in enumerate(values)]
    proposal = proposed(*documents)
    assert proposal.kind is Kind.OUTCOME
    assert sources(proposal) == {"id": "case", "ts": "decided", "y": "label", "model": "=churn"}
    assert (proposal.positive, proposal.negative) == (positive, negative)


def test_words_that_nobody_knows_are_listed_with_their_counts() -> None:
    proposal = proposed(*({"id": number, "label": value} for number, value in enumerate("aab")))
    assert proposal.positive == ()
    (note,) = proposal.notes
    assert "which values of label mean 1 cannot be known, got a (2), b (1)" in note


def test_predictions_that_carry_their_outcome() -> None:
    assert proposed({"id": 1, "score": 0.3, "churned": False}).kind is Kind.LABELLED
    assert proposed({"id": 1, "score": 0.3, "decision": "approve"}).kind is Kind.PREDICTION
    assert proposed({"id": 1, "decision": "yes"}).kind is Kind.OUTCOME


def test_rows_have_ids_and_features_of_their_own() -> None:
    documents = [
        {
            "batch": {"id": f"b{number}"},
            "rows": [{"id": f"{number}-{row}", "risk": 0.1 * row} for row in range(3)],
            "inputs": [[1.0, 2.0]] * 3,
            "others": [1, 2],
        }
        for number in range(4)
    ]
    assert sources(proposed(*documents)) == {
        "id": "rows[].id",
        "p": "rows[].risk",
        "features": "inputs[]",
        "model": "=churn",
        "ts": "$timestamp",
    }


def test_the_key_and_headers() -> None:
    found = proposed({"score": 0.25}, key=b"4711", headers=[("model-version", b"3"), ("ce_time", NOW.encode())])
    assert sources(found) == {
        "p": "score",
        "version": "$header.model-version",
        "ts": "$header.ce_time",
        "model": "=churn",
        "id": "$key",
    }


@pytest.mark.parametrize(
    ("document", "note"),
    [
        ({"score": 83.5}, "score is from 83.5 to 83.5, no probability in [0, 1]: a percentage or a logit"),
        ({"score": "0.8"}, "score is text, such as 0.8: p must be a number"),
        ({"amount": 7}, "neither p, a number in [0, 1], nor y, an outcome of 0 or 1, was found"),
        ({"p": 0.5}, "no id was found"),
        ({"id": 1, "p": 0.5, "time": "10:15"}, "time is no time in RFC 3339, got 10:15"),
        ({"id": 1, "p": 0.5, "time": "2026-11-20T10:00:00"}, "with Z or an offset"),
    ],
)
def test_what_is_missing_is_said(document: dict[str, Any], note: str) -> None:
    assert any(note in each for each in proposed(document).notes)


def test_predictions_and_outcomes_in_one_topic_need_a_type() -> None:
    notes = proposed({"id": 1, "score": 0.5}, {"id": 2, "score": 0.5}, {"id": 1, "label": 1}).notes
    assert any("score is in 67% of the messages and label in 33%" in note for note in notes)


def test_the_schema_says_what_no_message_has() -> None:
    declared = {"score": "double", "plan": "enum of free, pro", "label": "boolean"}
    proposal = proposed({"id": 1, "score": 0.5, "plan": "free"}, declared=declared)
    assert "double in the schema, in 100% of the messages" in proposal.choices["p"].why
    assert proposal.segments["plan"].source == "plan"
    assert "in the schema, but in none of these messages: label (boolean)" in proposal.notes


@given(st.lists(st.dictionaries(st.text(max_size=8), JSON, max_size=6), min_size=1, max_size=6))
def test_anything_gets_a_proposal_whose_sources_can_be_read(documents: list[dict[str, Any]]) -> None:
    proposal = proposed(*documents)
    for choice in (*proposal.choices.values(), *proposal.segments.values()):
        for source in [choice.source] if isinstance(choice.source, str) else choice.source:
            read = compile_source(source)
            assert source[0] in "=$" or any(
                read_source(read, document, Message(b"")) is not None for document in documents
            )
    assert proposed(*documents) == proposal
