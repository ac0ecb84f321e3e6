"""Connections to PostgreSQL that notice a server which has stopped answering."""

import time
from collections.abc import Generator, Mapping
from typing import Any, Final, Self

import psycopg

_SILENT_SECONDS: Final = 5.0
"""Silence of the server during a statement after which it is checked whether it answers at all."""

_CHECK_SECONDS: Final = 5
"""How long it may take to accept another connection then."""


class CheckedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server answers neither a statement nor another connection.

    Keep-alives notice that a host is gone. But the kernel of a host answers them also for a server that is suspended,
    on a disk that hangs, or in a virtual machine that is being moved, and libpq would wait for it for ever. A limit on
    every statement would end those that take long for a reason, such as a migration. So a server that has been silent
    for some seconds is sent another connection: as long as it accepts one, the wait goes on.
    """

    options: Mapping[str, Any]
    """Options of another connection, for the check."""

    @classmethod
    def connect(cls, conninfo: str = "", **options: Any) -> Self:  # keywords of libpq only
        """Connect; parameters as of :func:`psycopg.connect`."""
        connection = super().connect(conninfo, **options)
        connection.options = {"conninfo": conninfo, **options, "connect_timeout": _CHECK_SECONDS}
        return connection

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **options: Any) -> Any:
        """Wait until a statement is answered.

        Raises
        ------
        psycopg.OperationalError
            The server does not answer. The connection is closed.
        """
        return super().wait(self._checked(gen), *arguments, **options)

    def _checked(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass on the steps of a statement, each of which waits for the socket, and check the server in between."""
        try:
            wanted = next(steps)
            since = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    since = time.monotonic()
                elif time.monotonic() - since > _SILENT_SECONDS:
                    self._check()
                    since = time.monotonic()
                wanted = steps.send(ready)
        except StopIteration as answered:
            return answered.value

    def _check(self) -> None:
        try:
            psycopg.connect(**self.options).close()
        except psycopg.errors.ConnectionTimeout as error:
            self.close()
            raise psycopg.OperationalError(
                f"the server has not answered a statement for {_SILENT_SECONDS:g} s, and accepts no connection: {error}"
            ) from error
        except psycopg.OperationalError:
            # It answers, if only that it has too many connections.
            return
