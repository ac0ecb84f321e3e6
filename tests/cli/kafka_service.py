"""`monitor serve` against a real broker: its settings, its process, and the log that it reads."""

import copy
import http.client
import json
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.command import inside, start
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.kafka import KafkaBroker
from tests.real.mixed_log import OUTCOMES, POLICY, PREDICTIONS, LogLine, MixedLog
from tests.real.produce import produce

Found = TypeVar("Found")

REPORTS: Final = "/v1/reports?limit=1000"
_BASE: Final[dict[str, Any]] = {
    "source": {"kind": "kafka", "kafka": {"session_timeout": "20s", "connect_timeout": "60s"}},
    "store": {"url": "sqlite:///state.db"},
    "models": {
        "defaults": {
            "horizon": POLICY.horizon_ms / 1000,
            "allowed_lateness": POLICY.lateness_ms / 1000,
            "segments": list(POLICY.segments),
        }
    },
    "windows": [{"length": "1h"}, {"length": "30m"}, {"last": 2000}],
    # Without intervals, which would be renewed one after the other for seconds.
    "evaluation": {"interval": "300ms", "draws": 0},
    "pipeline": {"checkpoint_interval": "200ms"},
    "api": {"port": 0},
    "access": {"mode": "off"},
    "log": {"format": "json"},
}


def topics(suffix: str) -> tuple[str, str]:
    """The topics of predictions and of outcomes."""
    return f"{PREDICTIONS}-{suffix}", f"{OUTCOMES}-{suffix}"


def write_settings(
    folder: Path, broker: KafkaBroker, suffix: str, roles: Sequence[str] = (), /, **changes: Any
) -> None:
    """Write a monitor.yaml for the topics of a suffix, with a group of that name; ``changes`` go into it."""
    predictions, outcomes = topics(suffix)
    tree = copy.deepcopy(_BASE)
    tree["source"]["kafka"] |= {"bootstrap_servers": broker.bootstrap, "group_id": suffix}
    tree["source"]["topics"] = {"predictions": predictions, "outcomes": outcomes}
    if roles:
        tree["roles"] = list(roles)
    merge(tree, changes)
    folder.mkdir(exist_ok=True)
    (folder / "monitor.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")


def merge(tree: dict[str, Any], change: Mapping[str, Any]) -> None:
    """Write a change into a tree of settings, key by key."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(tree.get(key), dict):
            merge(tree[key], value)
        else:
            tree[key] = value


class Log:
    """A log of mixed events, its file, and what `monitor report` says of that."""

    def __init__(self, folder: Path, size: int, partitions: int = 4, seed: int = 1) -> None:
        self._folder = folder
        self.mixed = MixedLog(size, partitions, seed, settled=True)
        self.lines = self.mixed.lines

    def write(self, broker: KafkaBroker, suffix: str, until: int | None = None) -> None:
        """Write it, or its first lines, into new topics."""
        for topic in topics(suffix):
            broker.create_topic(topic, self.mixed.partitions)
        produce(broker.bootstrap, self.lines[:until], suffix)

    def write_rest(self, broker: KafkaBroker, suffix: str, after: int, until: int | None = None) -> None:
        """Write all but its first lines, or those of them that stand before others."""
        produce(broker.bootstrap, self.lines[after:until], suffix)

    @cached_property
    def reports(self) -> list[dict[str, Any]]:
        """The reports of `monitor report FILE` on the same events, under the same settings."""
        return reports_of(self._folder, self.lines)


def reports_of(folder: Path, lines: Sequence[LogLine]) -> list[dict[str, Any]]:
    """What `monitor report` says of these lines, as they stand in the topics, with the settings of the folder."""
    (folder / "events.jsonl").write_bytes(ndjson(line.value for line in lines))
    done = inside("report", "events.jsonl", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    tree = json.loads(done.stdout)
    assert not tree["failures"]
    assert any(report["measures"] for report in tree["reports"])
    return list(tree["reports"])


def without_evidence(report: dict[str, Any]) -> dict[str, Any]:
    """A window's report as that of a file is."""
    return {key: value for key, value in report.items() if key != "evidence"}


class Served:
    """A running `monitor serve` on the settings of a folder. Leaving the block kills what still runs.

    What it keeps in the system's folder for temporary files goes into one that it shares with who runs here before and
    after it, and with no other unless TMPDIR is named.
    """

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.output = folder / f"output-{time.monotonic_ns()}.txt"
        temporary = folder / "temporary"
        temporary.mkdir(exist_ok=True)
        with self.output.open("wb") as output:
            settings = {"TMPDIR": str(temporary)} | environ
            self.process = start("serve", cwd=folder, output=output, constants=None, **settings)
        self._url = ""
        self.key = ""
        """API key of requests; none if empty."""
        self.last_counted: dict[tuple[str, str], int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()

    # ------------------------------------------------------------------ what it says

    @property
    def url(self) -> str:
        """Where it listens; empty until it does."""
        if not self._url:
            self._url = next((line["url"] for line in self.log() if line["event"] == "listening"), "")
        return self._url

    def log(self) -> list[dict[str, Any]]:
        """Its log, so far."""
        whole, _, _ = self.output.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def ask(self, path: str, body: bytes | None = None, media: str = "application/json") -> tuple[int, bytes]:
        """Status and body; 0 while nothing listens."""
        if not self.url:
            return 0, b""
        headers = {"content-type": media} | ({"authorization": f"Bearer {self.key}"} if self.key else {})
        request = urllib.request.Request(f"{self.url}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except (OSError, http.client.HTTPException):
            return 0, b""

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON body; (0, {}) while nothing listens."""
        status, body = self.ask(path)
        return status, json.loads(body) if body else {}

    def readiness(self) -> tuple[int, str]:
        """Status and detail of /readyz."""
        status, body = self.get("/readyz")
        return status, body.get("detail", "")

    def says(self, words: str) -> tuple[int, str]:
        """Status and detail of /readyz, once the detail has these words."""

        def look() -> tuple[int, str] | None:
            told = self.readiness()
            return told if words in told[1] else None

        found = self.eventually(look, shown=self.readiness)
        assert found is not None
        return found

    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """/metrics, by name and labels."""
        _, body = self.ask("/metrics")
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }

    def counted(self) -> dict[tuple[str, str], int]:
        """(type, result) -> events that met this fate; outcomes that wait for their prediction among them."""
        samples = self.samples()
        found = {
            (labels["type"], labels["result"]): int(value)
            for (name, pairs), value in samples.items()
            if name == "calibration_events_total" and (labels := dict(pairs)) and value
        }
        early = samples.get(("calibration_early_outcomes", frozenset()), 0)
        self.last_counted = found | ({("outcome", "early"): int(early)} if early else {})
        return self.last_counted

    def reports(self) -> list[dict[str, Any]]:
        """All reports of the latest evaluation, as a file's are: without what evidence says of their versions."""
        _, body = self.get(REPORTS)
        return list(map(without_evidence, body.get("reports", [])))

    # ------------------------------------------------------------------ waiting, and ending it

    def eventually(self, look: Callable[[], Found], shown: Callable[[], object] = str) -> Found:
        """What a look finds, once that is true of it, while the process lives."""

        def alive() -> Found:
            found = look()
            assert found or self.process.poll() is None, self.output.read_text()
            return found

        # What is asked costs the service and the test more than a look elsewhere.
        return eventually(alive, shown=lambda: (shown(), self.output.read_text()[-4000:]), pause_seconds=0.2)

    def ready(self) -> None:
        """Wait until /readyz says so."""
        self.eventually(lambda: self.readiness()[0] == 200, self.readiness)

    def reports_as(self, expected: list[dict[str, Any]]) -> None:
        """Wait until its reports are these, in every field."""
        self.eventually(
            lambda: self.reports() == expected,
            lambda: [pair for pair in zip(self.reports(), expected, strict=False) if pair[0] != pair[1]][:1],
        )

    def counts(self, events: int) -> None:
        """Wait until so many events have met their fate; an evaluation shows their models a moment later."""
        self.eventually(lambda: sum(self.counted().values()) == events, self.counted)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)

    def stop(self) -> None:
        """End it, all that it runs in order: that is what its exit status tells."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_SECONDS) == 0, self.output.read_text()


def ndjson(values: Iterable[bytes]) -> bytes:
    """One event a line."""
    return b"".join(value + b"\n" for value in values)


def typed(line: LogLine) -> bytes:
    """An event that names its type."""
    assert line.event is not None
    return b'{"type":"%s",' % line.event.kind.name.lower().encode() + line.value.removeprefix(b"{")
