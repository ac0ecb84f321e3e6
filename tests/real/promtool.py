"""Prometheus' own checker, fetched where it is not installed. Nothing is installed into the system.

The ways are tried in this order: what stands on the path; what an earlier run fetched into .cache; the Debian package,
unpacked into .cache (needs no root); a build from source where Go is installed.
"""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache" / "promtool"
SOURCE = "github.com/prometheus/prometheus/cmd/promtool"
SOURCE_VERSION = "v0.305.0"


class PromtoolMissingError(Exception):
    """No way led to a promtool. Says which were tried and what each answered."""


def check_metrics(text: bytes) -> subprocess.CompletedProcess[str]:
    """What ``promtool check metrics`` says of a text exposition."""
    return _checked([str(promtool()), "check", "metrics"], text)


def check_rules(path: Path) -> subprocess.CompletedProcess[str]:
    """What ``promtool check rules`` says of a file of rules."""
    return _checked([str(promtool()), "check", "rules", str(path)])


def run_rule_tests(path: Path) -> subprocess.CompletedProcess[str]:
    """What ``promtool test rules`` says of a file of test cases."""
    return _checked([str(promtool()), "test", "rules", str(path)])


@cache
def promtool() -> Path:
    """Where promtool stands, after fetching it if need be."""
    installed = shutil.which("promtool")
    if installed:
        return Path(installed)
    fetched = CACHE / "promtool"
    if fetched.exists():
        return fetched
    CACHE.mkdir(parents=True, exist_ok=True)
    tried = []
    for way in (_from_debian, _from_debian_after_update, _from_source):
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            try:
                # Moved into place whole, so that a second run beside this one never sees half a file.
                way(Path(scratch)).replace(fetched)
            except (OSError, subprocess.SubprocessError) as error:
                said = (getattr(error, "stderr", None) or str(error)).strip()
                tried.append(f"{way.__name__.strip('_')}: {said.splitlines()[-1] if said else error}")
            else:
                return fetched
    raise PromtoolMissingError(
        "promtool is needed to check the metrics: install Prometheus (on Debian: apt-get install prometheus) so that "
        f"promtool is on the path, or install Go. Tried {'; '.join(tried)}"
    )


def _from_debian(scratch: Path) -> Path:
    """apt-get download needs no root; dpkg -x only unpacks."""
    _run(["apt-get", "download", "prometheus"], cwd=scratch)
    (package,) = scratch.glob("prometheus_*.deb")
    _run(["dpkg", "-x", str(package), str(scratch / "unpacked")])
    return scratch / "unpacked" / "usr" / "bin" / "promtool"


def _from_debian_after_update(scratch: Path) -> Path:
    """A fresh container knows no packages yet. Only root may change that."""
    _run(["apt-get", "update"])
    return _from_debian(scratch)


def _from_source(scratch: Path) -> Path:
    """Built by Go's own tool, from a pinned version. Takes minutes.

    Within a module of its own: `go install` of a version refuses a module with replace directives, as Prometheus' is.
    """
    environment = {**os.environ, "GOBIN": str(scratch), "CGO_ENABLED": "0"}
    for command in (
        ["go", "mod", "init", "promtool"],
        ["go", "get", f"{SOURCE}@{SOURCE_VERSION}"],
        ["go", "install", SOURCE],
    ):
        _run(command, scratch, environment)
    return scratch / "promtool"


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True, timeout=1500)


def _checked(command: list[str], text: bytes = b"") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, input=text, capture_output=True, check=False, timeout=60)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())
