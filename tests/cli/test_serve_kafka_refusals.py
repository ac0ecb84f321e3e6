"""What `monitor serve` refuses: a line on standard error and an exit status, before anything runs."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import SystemClock
from monitor.scores.grid import GRID_VERSION
from monitor.store.migrate import newest_revision
from monitor.store.sql import SqlStore
from tests.cli.command import forked, inside, one_error_line
from tests.cli.kafka_service import write_settings
from tests.real.kafka import KafkaBroker

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE meta SET value = '99' WHERE key = 'grid_version'",
            (
                f"holds score tables of grid version 99, this version needs {GRID_VERSION}: run the version of the "
                "service that wrote them, or begin a new store and read the log again"
            ),
        ),
        (
            "UPDATE alembic_version SET version_num = '9999'",
            (
                f"has schema revision 9999, this version knows up to {newest_revision()}: run the newer "
                "version of the service, or name another store"
            ),
        ),
    ],
)
def test_a_store_of_another_version(kafka_broker: KafkaBroker, tmp_path: Path, statement: str, said: str) -> None:
    SqlStore.open(f"sqlite:///{tmp_path}/state.db", clock=SystemClock()).close()
    with sqlite3.connect(tmp_path / "state.db") as database:
        assert database.execute(statement).rowcount == 1
    database.close()
    write_settings(tmp_path, kafka_broker, "refused")
    done = forked("serve", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error_line(done).endswith(said)


@pytest.mark.parametrize(
    ("section", "change", "said"),
    [
        (
            "source",
            {"when_purged": "latest"},
            "source.when_purged must be stop or earliest, got 'latest'",
        ),
        (
            "source",
            {"kafka": {"security_protocol": "SASL_SSL"}},
            "sasl_mechanism",
        ),
        ("dead_letters", {"max_ratio": 1.5}, "dead_letters.max_ratio must be at most 1.0, got 1.5"),
        ("pipeline", {"checkpoint_intervall": "2s"}, "checkpoint_interval"),
    ],
)
def test_wrong_settings(
    kafka_broker: KafkaBroker, tmp_path: Path, section: str, change: Mapping[str, Any], said: str
) -> None:
    write_settings(tmp_path, kafka_broker, "refused", **{section: change})
    done = inside("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert said in one_error_line(done)


def test_a_missing_certificate(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    # In a process of its own: this is noticed after logging is set up.
    write_settings(tmp_path, kafka_broker, "refused", source={"kafka": {"ssl_cafile": "no-such.pem"}})
    done = forked("serve", cwd=tmp_path)
    assert done.returncode == 2
    assert "no-such.pem, which is none" in one_error_line(done)
