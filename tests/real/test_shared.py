"""The servers that the processes of a run share: one of a kind, which does not outlive the run."""

import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.patience import eventually
from tests.real.postgres import PostgresServer
from tests.real.shared import keeper, shared

pytestmark = pytest.mark.postgres

RUN = """
import sys
from tests.real.postgres import PostgresServer
from tests.real.shared import keeper, shared
with keeper() as address:
    print(shared(address, PostgresServer).port, flush=True)
    sys.stdin.read()
"""


def answers(server: PostgresServer) -> bool:
    """Whether it accepts a connection."""
    try:
        psycopg.connect(server.url("postgres")).close()
    except psycopg.OperationalError:
        return False
    return True


def test_all_have_the_same_server_with_databases_of_their_own_until_the_run_ends() -> None:
    with keeper() as address:
        first, second = shared(address, PostgresServer), shared(address, PostgresServer)
        assert first.port == second.port
        assert first.new_database() != second.new_database()
        assert answers(first)
    assert not answers(first)
    assert not address.parent.exists()


def test_servers_end_with_a_run_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUN], cwd=Path.cwd(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        server = PostgresServer(int(run.stdout.readline()))
        assert answers(server)
        (kept,) = psutil.Process(run.pid).children()
        run.kill()
    eventually(lambda: not kept.is_running())
    assert not answers(server)
