"""The real parts that tests of every room share. Each is started once, when the first test asks for it."""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.real.kafka import KafkaBroker
from tests.real.postgres import PostgresServer

# The same examples in every run, and no deadline: the first call of a compiled loop loads or compiles it.
settings.register_profile("reproducible", deadline=None, derandomize=True)
settings.load_profile("reproducible")


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running Kafka broker. Use topics and groups of your own; who stops it starts it again."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL server. Take a new database; who stops it starts it again."""
    with PostgresServer() as server:
        yield server
