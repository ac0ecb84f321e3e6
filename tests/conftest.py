"""The real parts that tests of every room share. Each is started once, when the first test asks for it."""

import gc
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests.real.kafka import KafkaBroker
from tests.real.postgres import PostgresServer
from tests.real.registry import SchemaRegistryServer

# The same examples in every run, and no deadline: the first call of a compiled loop loads or compiles it.
settings.register_profile("reproducible", deadline=None, derandomize=True)
settings.load_profile("reproducible")

# A service within a test's own process must not write into what the test reads from a command's standard output: its
# lines become records, which pytest shows where a test fails.
structlog.configure(
    processors=[structlog.stdlib.add_log_level, structlog.processors.KeyValueRenderer(key_order=["event"])],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: nobody looks through it for garbage again and again."""
    gc.collect()
    gc.freeze()


def _levels() -> dict[logging.Logger, int]:
    root = logging.getLogger()
    named = (logger for logger in root.manager.loggerDict.values() if isinstance(logger, logging.Logger))
    return {logger: logger.level for logger in (root, *named)}


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """A command that a test runs in its own process says how logs are written; the next test knows nothing of that."""
    root = logging.getLogger()
    handlers, levels = root.handlers[:], _levels()
    yield
    root.handlers = handlers
    for logger, level in _levels().items():
        if level != levels.get(logger, logging.NOTSET):
            logger.setLevel(levels.get(logger, logging.NOTSET))
    # What pytest has put back since, a second capture would not take anew.
    logging.captureWarnings(capture=False)


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A running Kafka broker. Use topics and groups of your own; who stops it starts it again."""
    with KafkaBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryServer]:
    """A running schema registry. Use subjects of your own; who stops it starts it again."""
    with SchemaRegistryServer(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL server. Take a new database; who stops it starts it again."""
    with PostgresServer() as server:
        yield server
