"""A registry in a thread of its own: asked once at a time, its answers kept, its refusals asked again."""

import threading

import pytest

from monitor.errors import SchemaUnavailable
from monitor.events.schemas import Schema, SchemaId
from monitor.sources.schema_registry import BackgroundRegistry
from tests.patience import PATIENCE_SECONDS, eventually

SCHEMA = Schema("AVRO", "{}")


class Slow:
    """Answers each request with the next of its answers, once it may."""

    def __init__(self, *answers: Schema | SchemaUnavailable | None) -> None:
        self.answers = list(answers)
        self.may_answer = threading.Event()
        self.threads: set[int] = set()

    def schema(self, identifier: SchemaId) -> Schema | None:
        self.threads.add(threading.get_ident())
        assert self.may_answer.wait(PATIENCE_SECONDS)
        answer = self.answers.pop(0)
        if isinstance(answer, SchemaUnavailable):
            raise answer
        return answer


def test_an_answer_that_is_there_in_time_is_returned_and_kept() -> None:
    slow = Slow(SCHEMA)
    slow.may_answer.set()
    registry = BackgroundRegistry(slow)
    assert [registry.schema(7) for _ in range(3)] == [SCHEMA] * 3
    assert slow.threads.isdisjoint({threading.get_ident()})


def test_a_slow_answer_is_not_waited_for() -> None:
    slow = Slow(SCHEMA)
    registry = BackgroundRegistry(slow)
    for _ in range(3):
        with pytest.raises(SchemaUnavailable, match="has not answered yet about the schema of id 7"):
            registry.schema(7)
    slow.may_answer.set()

    def answered() -> Schema | None:
        try:
            return registry.schema(7)
        except SchemaUnavailable:
            return None

    assert eventually(answered) is SCHEMA
    assert slow.answers == []


def test_what_fails_or_is_unknown_is_asked_again() -> None:
    slow = Slow(SchemaUnavailable("it is away"), None, SCHEMA)
    slow.may_answer.set()
    registry = BackgroundRegistry(slow)
    with pytest.raises(SchemaUnavailable, match="it is away"):
        registry.schema(7)
    assert registry.schema(7) is None
    assert registry.schema(7) is SCHEMA
