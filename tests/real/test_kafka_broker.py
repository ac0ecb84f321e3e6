"""The broker that other tests rely on: it says why it does not start, and does not outlive whoever started it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.real.kafka import KafkaProcess

pytestmark = pytest.mark.kafka

STARTER = """
import os, sys
from pathlib import Path
from tests.real.kafka import KafkaProcess
broker = KafkaProcess(Path(sys.argv[1]))
broker.start()
print(broker.pid, flush=True)
sys.stdin.read()
"""


def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broker = KafkaProcess(tmp_path, {"num.network.threads": "none"})
    with pytest.raises(RuntimeError, match=r"(?s)its output ends:.*Invalid value none for configuration num\.network"):
        broker.start()
    assert broker.pid is None


def test_topics_and_records_outlive_a_restart_on_the_same_port(tmp_path: Path) -> None:
    with KafkaProcess(tmp_path) as broker:
        address = broker.bootstrap
        broker.create_topic("kept", 3)
        broker.restart()
        assert broker.bootstrap == address
        with broker.admin() as admin:
            assert "kept" in admin.list_topics()
        pid = broker.pid
    assert pid is not None
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_broker_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], cwd=Path.cwd(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        os.kill(pid, 0)  # It runs.
        starter.kill()
    eventually(lambda: not Path(f"/proc/{pid}").exists())
