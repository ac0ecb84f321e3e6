"""What the notes say is not set up, or worth a look; and how large the embedded log becomes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.app.settings import load_settings
from monitor.clock import SystemClock
from monitor.events.model import Message, TopicPartition
from monitor.sources.embedded_log import EmbeddedLog
from tests.deploy.chart import of_values, only, settings_of
from tests.deploy.test_chart_docs import notes

GIB = 1 << 30
LOG = "The embedded log"
NOBODY = "networkPolicy.ingress.from names nobody"
RUNBOOKS = "Alerts link to runbooks by a relative path"
SCRAPED: dict[str, Any] = {"serviceMonitor": {"enabled": True, "existingSecret": "key"}}
OUTSIDE: dict[str, Any] = {"ingress": {"enabled": True, "hosts": [{"host": "a.example.org"}]}}
CLOSED: dict[str, Any] = {"networkPolicy": {"enabled": True}}


def embedded(**keys: Any) -> dict[str, Any]:
    """Values with these keys of source.embedded."""
    return {"config": {"source": {"embedded": keys}}}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rules": {"enabled": True}}, RUNBOOKS),
        (CLOSED, f"{NOBODY}, so that only the release's own jobs reach it: name who may,"),
        ({**CLOSED, **SCRAPED}, "jobs reach it, and not Prometheus (serviceMonitor.enabled): name who may,"),
        ({**CLOSED, **OUTSIDE}, "jobs reach it, and not the ingress controller (ingress.enabled): name who may,"),
        (
            {**CLOSED, **SCRAPED, **OUTSIDE},
            "and not Prometheus (serviceMonitor.enabled), nor the ingress controller (ingress.enabled): name",
        ),
        (embedded(retention_bytes=None), f"{LOG} keeps every event, until the volume of 10Gi is full"),
        ({"config": {"source": {"embedded": None}}}, f"{LOG} keeps every event, until the volume of 10Gi is full"),
        # Of four partitions, and of 64 MiB that are written beyond.
        (embedded(retention_bytes=2 * GIB), f"{LOG} may take 8.2 GiB of the volume of 10Gi, where the state has to be"),
        (embedded(partitions=9), f"{LOG} may take 9.6 GiB of the volume of 10Gi"),
        (
            {"config": {"source": {"topics": {"predictions": "a", "outcomes": "b"}}, "dead_letters": {"topic": "c"}}},
            f"{LOG} may take 12.8 GiB of the volume of 10Gi",
        ),
        ({"persistence": {"size": "5000M"}}, f"{LOG} may take 4.2 GiB of the volume of 5000M"),
    ],
)
def test_notes_say_what_is_worth_a_look(values: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in _notes(tmp_path, values)


@pytest.mark.parametrize(
    ("values", "unsaid"),
    [
        ({}, RUNBOOKS),
        ({"rules": {"enabled": True, "runbookBase": "https://git.example.org/main/"}}, RUNBOOKS),
        (SCRAPED, NOBODY),
        ({"networkPolicy": {"enabled": True, "ingress": {"from": [{"podSelector": {}}]}}, **SCRAPED}, NOBODY),
        ({}, LOG),
        (embedded(retention_bytes=None, retention="7d"), LOG),
        ({"persistence": {"size": "0.1Ti"}, **embedded(retention_bytes=12 * GIB)}, LOG),
        ({"config": {"source": {"kind": "kafka", "kafka": {"bootstrap_servers": "a:1"}}}}, LOG),
        ({"persistence": {"enabled": False}}, LOG),
    ],
)
def test_notes_say_nothing_of_what_is_as_it_should_be(values: dict[str, Any], unsaid: str, tmp_path: Path) -> None:
    assert unsaid not in _notes(tmp_path, values)


def test_the_log_leaves_the_state_half_of_the_volume(tmp_path: Path) -> None:
    """Of the default values, as the service reads them: of what fills up, the log is the part that is bounded."""
    objects = of_values({})
    (claim,) = only(objects, "StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    (tmp_path / "monitor.yaml").write_text(settings_of(objects), encoding="utf-8")
    source = load_settings(tmp_path / "monitor.yaml", {}).source
    assert source.embedded.retention_bytes is not None
    # A segment of 64 MiB beyond the bound.
    most = (source.embedded.retention_bytes + 64 * 1024**2) * source.embedded.partitions * len(source.topics.read)
    assert 2 * most < 10 * GIB


def test_a_log_takes_what_the_notes_reckon_with(tmp_path: Path) -> None:
    """The bound, a quarter of it, and what was written at once."""
    kept, written = 40_000, 1_000
    log = EmbeddedLog(tmp_path, partitions=1, retention_bytes=kept, clock=SystemClock())
    part = TopicPartition("events", 0)
    largest = 0
    for _ in range(200):
        log.write([Message("events", b"x" * written)])
        largest = max(largest, sum(segment.path.stat().st_size for segment in log.segments(part)))
    assert kept <= largest <= kept * 1.25 + 2 * written


def _notes(folder: Path, values: dict[str, Any]) -> str:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return notes(folder, file)
