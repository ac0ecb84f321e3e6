from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.kafka import KafkaBroker
from tests.sources.logs import EmbeddedUnderTest, KafkaUnderTest, Log


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[EmbeddedUnderTest]:
    log = EmbeddedUnderTest(tmp_path / "log")
    yield log
    log.close()


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> Iterator[KafkaUnderTest]:
    log = KafkaUnderTest(kafka_broker)
    yield log
    log.close()


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request: pytest.FixtureRequest) -> Log:
    """Each log in turn."""
    under_test: Log = request.getfixturevalue(request.param)
    return under_test
