"""One broker, one registry and one PostgreSQL for a whole test run, each started when the first test asks for it.

A keeper, a process beside those that test, starts them. It ends them when its standard input ends, which the run holds
open: so also where the run is killed.
"""

import pickle
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from tests.patience import PATIENCE_SECONDS
from tests.real.kafka import KafkaBroker, KafkaProcess
from tests.real.lock import passing_folder
from tests.real.postgres import PostgresProcess, PostgresServer
from tests.real.registry import RegistryProcess, SchemaRegistryServer

Server = TypeVar("Server", KafkaBroker, PostgresServer, SchemaRegistryServer)

_ROOT: Final = Path(__file__).parents[2]


@contextmanager
def keeper() -> Iterator[Path]:
    """Keep servers within the block; yields the address by which processes of the run reach them."""
    with passing_folder("servers-") as folder, socket.socket(socket.AF_UNIX) as door:
        address = folder / "door"
        door.bind(str(address))
        door.listen()
        with subprocess.Popen(
            [sys.executable, "-m", "tests.real.shared", folder, str(door.fileno())],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            pass_fds=[door.fileno()],
            # Ctrl-C ends the run, and the run ends the servers.
            start_new_session=True,
        ) as process:
            door.close()
            yield address
            process.communicate(timeout=PATIENCE_SECONDS)


def shared(address: Path, kind: type[Server]) -> Server:
    """The run's server of a kind, running."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rwb") as stream:
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect(str(address))
        pickle.dump(kind, stream)
        stream.flush()
        answer = pickle.load(stream)
    if isinstance(answer, Exception):
        raise answer
    assert isinstance(answer, kind)
    return answer


def _keep(folder: Path, door: socket.socket) -> None:
    """Answer each connection with the server that it asks for, until standard input ends."""
    with ExitStack() as running:

        def kafka() -> KafkaBroker:
            broker = running.enter_context(KafkaProcess(folder / "kafka"))
            return KafkaBroker(broker.directory, broker.ports)

        def registry() -> SchemaRegistryServer:
            (folder / "registry").mkdir()
            return SchemaRegistryServer(running.enter_context(RegistryProcess(folder / "registry")).port)

        def postgres() -> PostgresServer:
            return PostgresServer(running.enter_context(PostgresProcess()).port)

        starts: dict[type, Callable[[], object]] = {
            KafkaBroker: kafka,
            SchemaRegistryServer: registry,
            PostgresServer: postgres,
        }
        answers: dict[type, object] = {}
        while sys.stdin not in select.select([door, sys.stdin], [], [])[0]:
            connection, _ = door.accept()
            with connection, connection.makefile("rwb") as stream:
                kind = pickle.load(stream)
                if kind not in answers:
                    try:
                        answers[kind] = starts[kind]()
                    except Exception as error:  # noqa: BLE001 - the test says it
                        answers[kind] = error
                pickle.dump(answers[kind], stream)


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), socket.socket(fileno=int(sys.argv[2])))
