"""Servers that other tests rely on: a broker says why it does not start; none outlives the process that started it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.real.kafka import KafkaProcess

pytestmark = pytest.mark.kafka

STARTER = """
import sys
from pathlib import Path
from tests.real.child import start_child
with open(sys.argv[1], "wb") as output:
    print(start_child(["sleep", "600"], Path.cwd(), output).pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.long
def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broker = KafkaProcess(tmp_path, {"num.network.threads": "none"})
    with pytest.raises(RuntimeError, match=r"(?s)its output ends:.*Invalid value none for configuration num\.network"):
        broker.start()
    assert broker.pid is None


@pytest.mark.long
def test_topics_and_records_outlive_a_restart_on_the_same_port(own_broker: KafkaProcess) -> None:
    address, pid = own_broker.bootstrap, own_broker.pid
    own_broker.create_topic("kept", 3)
    own_broker.restart()
    assert own_broker.bootstrap == address
    with own_broker.admin() as admin:
        assert "kept" in admin.list_topics()
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "output.txt")],
        cwd=Path.cwd(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        os.kill(pid, 0)  # It runs.
        starter.kill()
    eventually(lambda: not Path(f"/proc/{pid}").exists())
