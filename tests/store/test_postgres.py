"""What only happens with a server at the other end of a line."""

import signal
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import psycopg
import pytest
import structlog

from monitor.clock import SystemClock
from monitor.errors import StoreError, StoreUnavailable
from monitor.store import postgresql
from monitor.store.base import Bucket
from monitor.store.sql import SqlStore
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.postgres import PostgresProcess, PostgresServer, suspended
from tests.store.samples import batch, checkpoint, closings_in, load, pane_closing, rows

pytestmark = pytest.mark.postgres

BUCKET = Bucket("churn", 0)


class Line:
    """A TCP line to a server that can be told to break around the next COMMIT."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.breaks: str | None = None
        """``before`` the COMMIT reaches the server, or ``after`` it was carried out and before it is answered."""
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        lost = threading.Event()
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            back = threading.Thread(target=_answer, args=(server, client, lost))
            back.start()
            while data := client.recv(65536):
                if b"COMMIT\0" in data and self.breaks is not None:
                    how, self.breaks = self.breaks, None
                    if how == "before":
                        client.shutdown(socket.SHUT_RDWR)
                        break
                    lost.set()
                server.sendall(data)
            # No more from here: the server ends the session.
            server.shutdown(socket.SHUT_WR)
            back.join()


def _answer(server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
    """Carry the server's answers to the client, until one is to be lost: then the line breaks in its place."""
    while data := server.recv(65536):
        if lost.is_set():
            client.shutdown(socket.SHUT_RDWR)
            return
        client.sendall(data)


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    return postgres_server.new_database()


@pytest.fixture
def line(postgres_server: PostgresServer) -> Iterator[Line]:
    with Line(postgres_server.port) as line:
        yield line


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_a_save_whose_answer_was_lost_may_be_repeated(
    postgres_server: PostgresServer, database: str, line: Line, breaks: str
) -> None:
    with (
        SqlStore.open(postgres_server.url(database, port=line.port), clock=SystemClock()) as store,
        SqlStore.open(postgres_server.url(database), clock=SystemClock()) as observer,
    ):
        epochs = [store.claim(0), store.claim(1)]
        saved = [
            checkpoint(
                epoch, 1, partition=partition, journal=[batch(BUCKET, seed=partition)], closings=[pane_closing(300_000)]
            )
            for partition, epoch in enumerate(epochs)
        ]
        line.breaks = breaks
        with pytest.raises(StoreUnavailable, match="does not answer"):
            store.save(saved)
        took_place = breaks == "after"
        assert [bool(load(observer, i).journal) for i in range(2)] == [took_place, took_place]

        store.save(saved)
        store.save([checkpoint(epochs[0], 2, closings=[pane_closing(600_000)])])
        assert [load(observer, i).rows() for i in range(2)] == [{BUCKET: rows(3, 0)}, {BUCKET: rows(3, 1)}]
        assert [len(closings_in(observer, i)) for i in range(2)] == [2, 1]


def test_another_checkpoint_in_place_of_one_that_was_stored_is_refused_until_the_state_is_loaded_anew(
    postgres_server: PostgresServer, database: str, line: Line
) -> None:
    with SqlStore.open(postgres_server.url(database, port=line.port), clock=SystemClock()) as store:
        epoch = store.claim(0)
        line.breaks = "after"
        with pytest.raises(StoreUnavailable):
            store.save([checkpoint(epoch, 1, journal=[batch(BUCKET)])])
        for _ in range(2):
            with pytest.raises(StoreError, match="claim and load the partition again"):
                store.save([checkpoint(epoch, 2, journal=[batch(BUCKET), batch(BUCKET, seed=2)])])
        epoch = store.claim(0)
        assert load(store).rows() == {BUCKET: rows(3)}
        store.save([checkpoint(epoch, 2, journal=[batch(BUCKET, seed=2)])])
        assert load(store).rows() == {BUCKET: rows(3) + rows(3, 2)}


def test_the_store_goes_on_when_the_server_comes_back(own_postgres: PostgresProcess) -> None:
    with SqlStore.open(own_postgres.url(own_postgres.new_database()), clock=SystemClock()) as store:
        epoch = store.claim(0)
        store.save([checkpoint(epoch, 1, journal=[batch(BUCKET, seed=i) for i in range(40)])])
        state = store.load(0)
        next(state.journal)
        own_postgres.stop(signal.SIGQUIT)
        try:
            with pytest.raises(StoreUnavailable, match="does not answer"):
                list(state.journal)
            with pytest.raises(StoreUnavailable, match="does not answer"):
                store.save([checkpoint(epoch, 2)])
            with pytest.raises(StoreUnavailable, match="does not answer"):
                store.load(0)
            with pytest.raises(StoreUnavailable, match="does not answer"):
                store.count_dead_letters()
        finally:
            own_postgres.start()
        store.save([checkpoint(epoch, 2)])
        assert load(store).offsets == {"predictions": 2}
        assert len(load(store).journal) == 40


def test_an_owner_that_hangs_does_not_hold_the_next_one_for_ever(
    postgres_server: PostgresServer, database: str
) -> None:
    url = postgres_server.url(database)
    # How long one waits for a lock, and six times that how long it may keep one while it does nothing.
    hasty = SqlStore.open(url, patience_seconds=0.2, clock=SystemClock())
    patient = SqlStore.open(url, patience_seconds=PATIENCE_SECONDS, clock=SystemClock())
    with hasty, patient:
        patient.claim(0)
        with patient._database.writing() as hanging:
            hanging.exec_driver_sql("UPDATE partitions SET epoch = epoch WHERE partition = 0")
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                hasty.claim(0)
        assert hasty.claim(0) == 2
        with pytest.raises(StoreUnavailable, match=r"terminat|closed"), hasty._database.writing() as hanging:  # noqa: PT012
            hanging.exec_driver_sql("UPDATE partitions SET epoch = epoch WHERE partition = 0")
            # The server puts this session out; the other, who would wait for minutes, has the lock then.
            assert patient.claim(0) == 3
            hanging.exec_driver_sql("SELECT 1")
        assert patient.claim(0) == 4


@pytest.mark.parametrize("state", ["active", "idle in transaction"])
def test_an_owner_that_hangs_in_the_middle_of_a_batch_does_not_either(
    postgres_server: PostgresServer, database: str, state: str
) -> None:
    """The server's limit of idle transactions does not end it: it has had a message since, if not all of them."""
    url = postgres_server.url(database)
    hasty = SqlStore.open(url, patience_seconds=0.2, clock=SystemClock())
    with hasty, psycopg.connect(url, application_name="calibration-monitor") as hanging:
        hasty.claim(0)
        hanging.execute("SELECT set_config('idle_in_transaction_session_timeout', '1200', true)")
        if state == "idle in transaction":
            hanging.execute("UPDATE partitions SET epoch = epoch WHERE partition = 0")
        # psycopg's executemany is such a pipeline; it is paused before it says that this was all.
        with pytest.raises(psycopg.OperationalError), hanging.pipeline() as pipeline:  # noqa: PT012
            if state == "active":
                hanging.execute("UPDATE partitions SET epoch = epoch WHERE partition = 0")
                while pipeline.command_queue:
                    pipeline.command_queue.popleft()()
            else:
                hanging.pgconn.send_flush_request()
            hanging.pgconn.flush()
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                hasty.claim(0)
            with hasty.database.reading() as connection:
                assert connection.exec_driver_sql(_STATES).scalars().all() == [state]
            with structlog.testing.capture_logs() as lines:
                assert eventually(lambda: _claimed(hasty)) == 2
    assert [line["sessions"] for line in lines] == [1]


_STATES = "SELECT state FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL"


def _claimed(store: SqlStore) -> int | None:
    try:
        return store.claim(0)
    except StoreUnavailable:
        return None


def test_a_server_that_hangs_is_given_up_and_a_slow_statement_is_not(
    own_postgres: PostgresProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_SILENT_SECONDS", 0.2)
    with SqlStore.open(own_postgres.url(own_postgres.new_database()), clock=SystemClock()) as store:
        with store.database.reading() as connection:
            # The server accepts other connections meanwhile.
            assert connection.exec_driver_sql("SELECT 1 FROM pg_sleep(1)").scalar_one() == 1
        silent = "does not answer: the server has not answered a statement for 0.2 s, and accepts no connection"
        with (
            pytest.raises(StoreUnavailable, match=silent),
            store.database.writing() as connection,
            suspended(own_postgres),
        ):
            connection.exec_driver_sql("SELECT 1")
        assert store.claim(0) == 1


def test_journal_loops_are_not_compressed_in_vain(postgres_server: PostgresServer, database: str) -> None:
    url = postgres_server.url(database)
    SqlStore.open(url, clock=SystemClock()).close()
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT attstorage FROM pg_attribute WHERE attrelid = 'journal'::regclass AND attname = 'rows'"
        ).fetchone()
    # 'e': out of line and uncompressed; hashes hardly compress.
    assert found in {("e",), (b"e",)}
