"""A real Prometheus and a real Alertmanager for tests, on the loopback only, with a webhook that listens to the latter.

``python -m tests.real.prometheus URL`` starts a Prometheus by hand that scrapes what answers at the URL (such as
``http://127.0.0.1:8000``), and says where it listens.
"""

import argparse
import contextlib
import http.server
import json
import math
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import yaml

from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports, start_child, tail
from tests.real.debian import ALERTMANAGER, PROMETHEUS, link_data, program

JOB: Final = "calibration-monitor"
"""The scrape job's name, everywhere."""


class Sample(NamedTuple):
    """One element of the answer to a query."""

    labels: Mapping[str, str]
    value: float


class PrometheusError(Exception):
    """A query that Prometheus refuses: its own words."""


class Prometheus:
    """One Prometheus with its own data directory.

    Parameters
    ----------
    directory
        Where its settings, data and log go.
    targets
        Addresses ``host:port`` that it scrapes as the job ``calibration-monitor``.
    rules
        Files of rules.
    alertmanager
        Address ``host:port`` of the Alertmanager that it tells its alerts.
    interval
        Between two scrapes, and between two evaluations of the rules.
    key
        What it sends as bearer credential, where the service asks for one.
    settings
        Its whole configuration instead of the above; what stands there about targets is left as it is.
    """

    def __init__(
        self,
        directory: Path,
        *,
        targets: Sequence[str] = (),
        rules: Iterable[Path] = (),
        alertmanager: str | None = None,
        interval: str = "1s",
        key: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.directory = directory
        self.log = directory / "prometheus.log"
        directory.mkdir(parents=True, exist_ok=True)
        self.settings: Mapping[str, Any] = settings or _settings(targets, rules, alertmanager, interval, key)
        self._address = f"127.0.0.1:{free_ports(1)[0]}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self._address}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, for the first time or on the data of the time before, and wait until it answers."""
        if self._process is not None:
            raise RuntimeError(f"the Prometheus at {self.url} runs already")
        config = self.directory / "prometheus.yml"
        config.write_text(yaml.safe_dump(dict(self.settings), sort_keys=False))
        command: list[str | Path] = [
            program(PROMETHEUS),
            f"--config.file={config}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={self._address}",
            "--web.enable-lifecycle",
        ]
        self._process = _started(command, self.directory, self.log, f"{self.url}/-/ready")

    def stop(self) -> None:
        """End it in order."""
        process, self._process = self._process, None
        _end(process)

    def reload(self) -> None:
        """Let it read its settings and rules again."""
        _ask(f"{self.url}/-/reload", b"")

    # ------------------------------------------------------------------ what tests ask of it

    def query(self, expression: str) -> list[Sample]:
        """The answer to an instant query; a scalar is one sample without labels.

        Raises
        ------
        PrometheusError
            It does not understand the expression, or cannot compute it.
        """
        data = self._api("query", query=expression)
        result = data["result"]
        if data["resultType"] == "scalar":
            result = [{"metric": {}, "value": result}]
        return [Sample(series["metric"], float(series["value"][1])) for series in result]

    def query_range(self, expression: str, seconds: float = 60.0, step: float = 1.0) -> list[dict[str, Any]]:
        """The answer to a range query that ends now: ``metric`` and ``values`` of each series."""
        now = time.time()
        series: list[dict[str, Any]] = self._api(
            "query_range", query=expression, start=str(now - seconds), end=str(now), step=str(step)
        )["result"]
        return series

    def value(self, expression: str) -> float:
        """The one value of a query that has one; NaN where it has none."""
        samples = self.query(expression)
        if len(samples) > 1:
            raise PrometheusError(f"{expression} has {len(samples)} values: {samples}")
        return samples[0].value if samples else math.nan

    def label_values(self, label: str, *series: str) -> list[str]:
        """The values of a label, of the series that match."""
        query = urllib.parse.urlencode([("match[]", each) for each in series])
        found: list[str] = _answer(f"{self.url}/api/v1/label/{label}/values?{query}")
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """What it holds for pending or firing: ``labels``, ``annotations``, ``state``, ``activeAt``, ``value``."""
        found: list[dict[str, Any]] = self._api("alerts")["alerts"]
        return found

    def rules(self) -> list[dict[str, Any]]:
        """All groups of rules, each with its ``rules`` and their ``health`` and ``lastError``."""
        found: list[dict[str, Any]] = self._api("rules")["groups"]
        return found

    def targets(self) -> list[dict[str, Any]]:
        """What it scrapes, each with its ``health`` and ``lastError``."""
        found: list[dict[str, Any]] = self._api("targets")["activeTargets"]
        return found

    def wait_for(self, expression: str) -> list[Sample]:
        """The answer to an instant query, once it has one."""
        return eventually(lambda: self.query(expression), shown=lambda: f"{expression} to have a value")

    def _api(self, path: str, **query: str) -> Any:
        return _answer(f"{self.url}/api/v1/{path}", urllib.parse.urlencode(query).encode() if query else None)


class Alertmanager:
    """One Alertmanager that tells a webhook of every alert, after hardly any wait, or does as it is told.

    Parameters
    ----------
    directory
        Where its settings, data and log go.
    webhook
        URL that is told of alerts where there are no settings of its own.
    settings
        Its whole configuration instead.
    """

    def __init__(
        self, directory: Path, *, webhook: str | None = None, settings: Mapping[str, Any] | None = None
    ) -> None:
        if (webhook is None) == (settings is None):
            raise ValueError("an Alertmanager needs the URL of a webhook, or settings, and not both")
        self.directory = directory
        self.log = directory / "alertmanager.log"
        directory.mkdir(parents=True, exist_ok=True)
        self.settings: Mapping[str, Any] = settings or {
            "route": {"receiver": "webhook", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"},
            "receivers": [{"name": "webhook", "webhook_configs": [{"url": webhook}]}],
        }
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.address}"

    def __enter__(self) -> Self:
        config = self.directory / "alertmanager.yml"
        config.write_text(yaml.safe_dump(dict(self.settings), sort_keys=False))
        path = program(ALERTMANAGER)
        link_data(ALERTMANAGER, path, self.directory)
        command: list[str | Path] = [
            path,
            f"--config.file={config}",
            f"--storage.path={self.directory / 'data'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",  # alone
        ]
        self._process = _started(command, self.directory, self.log, f"{self.url}/-/ready")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        _end(process)

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that it holds."""
        found: list[dict[str, Any]] = json.loads(_ask(f"{self.url}/api/v2/alerts"))
        return found


class Webhook:
    """A receiver of Alertmanager's notifications, as somebody's pager would be one."""

    def __init__(self) -> None:
        self._notified: list[dict[str, Any]] = []
        notified = self._notified

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                notified.append(json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
                """Nothing: the tests' output is no access log."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def alerts(self, name: str | None = None) -> list[dict[str, Any]]:
        """Every alert of every notification so far, of one name or all: ``status``, ``labels``, ``annotations``."""
        return [
            alert
            for notification in list(self._notified)
            for alert in notification["alerts"]
            if name is None or alert["labels"]["alertname"] == name
        ]


def _settings(
    targets: Sequence[str], rules: Iterable[Path], alertmanager: str | None, interval: str, key: str | None
) -> dict[str, Any]:
    scrape: dict[str, Any] = {"job_name": JOB, "static_configs": [{"targets": list(targets)}]}
    if key is not None:
        scrape["authorization"] = {"credentials": key}
    settings: dict[str, Any] = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(path.resolve()) for path in rules],
        "scrape_configs": [scrape],
    }
    if alertmanager is not None:
        settings["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    return settings


def _started(command: Sequence[str | Path], directory: Path, log: Path, ready: str) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        process = start_child(command, directory, output)

    def answers() -> bool:
        with contextlib.suppress(OSError):
            _ask(ready)
            return True
        if process.poll() is not None:
            raise RuntimeError(f"{Path(command[0]).name} ended with {process.returncode}; its log ends:\n{tail(log)}")
        return False

    try:
        eventually(answers, shown=lambda: tail(log))
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ask(url: str, data: bytes | None = None) -> bytes:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=PATIENCE_SECONDS) as answer:
            said: bytes = answer.read()
            return said
    except urllib.error.HTTPError as error:
        with error:
            if error.code in {400, 422}:
                raise PrometheusError(error.read().decode(errors="replace")) from error
        raise


def _answer(url: str, form: bytes | None = None) -> Any:
    answer = json.loads(_ask(url, form) if "/query" in url else _ask(url))
    if answer["status"] != "success":
        raise PrometheusError(answer.get("error", str(answer)))
    return answer["data"]


def main() -> None:
    """Scrape a service that runs already, with the chart's rules, until interrupted."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("url", help="of the service, such as http://127.0.0.1:8000")
    address = urllib.parse.urlsplit(parser.parse_args().url).netloc
    rules = sorted((Path(__file__).parents[2] / "helm" / "rules").glob("*.yaml"))
    with (
        tempfile.TemporaryDirectory(prefix="prometheus-") as directory,
        Prometheus(Path(directory), targets=[address], rules=rules) as prometheus,
    ):
        print(f"Prometheus: {prometheus.url}, with {len(rules)} files of rules; Ctrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
