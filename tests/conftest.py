"""The real parts that tests of every room share. Each is started once in a run, when the first test asks for it."""

import gc
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import structlog
from hypothesis import is_hypothesis_test, settings

from tests.long import longer
from tests.real.kafka import KafkaBroker, KafkaProcess
from tests.real.postgres import PostgresProcess, PostgresServer
from tests.real.registry import SchemaRegistryServer
from tests.real.shared import keeper, shared

_KEEPER: Final = pytest.StashKey[str]()
_LONGEST: Final = (
    "test_exactly_once.py",
    "test_tutorials.py",
    "test_dashboard_queries.py",
    "test_claims.py",
    "test_looks.py",
    "test_serve_kafka_failures.py",
    "test_kafka_failures.py",
    "test_rules.py",
    "test_serve_recalibration_replicas.py",
    "test_recalibration.py",
    "test_simulations.py",
    "test_serve_recalibration.py",
    "test_runner.py",
    "test_partition.py",
    "test_lifetimes.py",
    "test_serve_backfill.py",
)
"""As measured with ``--durations=0``; a file of a minute or more belongs here."""

# The same examples in every run, and no deadline: the first call of a compiled loop loads or compiles it.
settings.register_profile("reproducible", deadline=None, derandomize=True, max_examples=longer(30, 100))
settings.load_profile("reproducible")

# A service within a test's own process must not write into what the test reads from a command's standard output: its
# lines become records, which pytest shows where a test fails.
structlog.configure(
    processors=[structlog.stdlib.add_log_level, structlog.processors.KeyValueRenderer(key_order=["event"])],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: else one process would still test when the others have ended.

    Properties have more examples in their long form.
    """
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.longer)
    ranks = {name: rank for rank, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))


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


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Start a keeper of servers beside the first of the processes that test, and give its address to each."""
    stash = node.config.stash
    if _KEEPER not in stash:
        running = ExitStack()
        node.config.add_cleanup(running.close)
        stash[_KEEPER] = str(running.enter_context(keeper()))
    node.workerinput["keeper"] = stash[_KEEPER]


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Iterator[Path]:
    """Address of the keeper of this run's servers."""
    workerinput = getattr(pytestconfig, "workerinput", None)
    if workerinput is None:
        with keeper() as address:
            yield address
    else:
        yield Path(workerinput["keeper"])


@pytest.fixture(scope="session")
def kafka_broker(servers: Path) -> KafkaBroker:
    """The run's Kafka broker. Use topics and groups of your own."""
    return shared(servers, KafkaBroker)


@pytest.fixture(scope="session")
def schema_registry(servers: Path) -> SchemaRegistryServer:
    """The run's schema registry. Use subjects of your own."""
    return shared(servers, SchemaRegistryServer)


@pytest.fixture(scope="session")
def postgres_server(servers: Path) -> PostgresServer:
    """The run's PostgreSQL server. Take a new database."""
    return shared(servers, PostgresServer)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty database is, or a SQLite file may come to be: each test runs on both."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/monitor.db"
    server = request.getfixturevalue("postgres_server")
    return str(server.url(server.new_database()))


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProcess]:
    """A broker of this file: one that lives on takes longer than a start. Stop the broker, and start it again."""
    with KafkaProcess(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[PostgresProcess]:
    """A PostgreSQL server of this process. Take a new database; stop the server, and start it again."""
    with PostgresProcess() as server:
        yield server
