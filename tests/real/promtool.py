"""Prometheus' own checker of metrics, rules and tests of rules."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.patience import PATIENCE_SECONDS
from tests.real.debian import PROMTOOL, program


def check_metrics(text: bytes) -> subprocess.CompletedProcess[str]:
    """What ``promtool check metrics`` says of a text exposition."""
    return _checked([str(promtool()), "check", "metrics"], text)


def check_rules(*paths: Path) -> subprocess.CompletedProcess[str]:
    """What ``promtool check rules`` says of files of rules."""
    return _checked([str(promtool()), "check", "rules", *map(str, paths)])


def run_rule_tests(*paths: Path) -> subprocess.CompletedProcess[str]:
    """What ``promtool test rules`` says of files of test cases."""
    return _checked([str(promtool()), "test", "rules", *map(str, paths)])


def check_config(path: Path) -> subprocess.CompletedProcess[str]:
    """What ``promtool check config`` says of Prometheus' own settings."""
    return _checked([str(promtool()), "check", "config", str(path)])


@cache
def promtool() -> Path:
    """Where promtool stands, after fetching it if need be."""
    return program(PROMTOOL)


def _checked(command: Sequence[str], text: bytes = b"") -> subprocess.CompletedProcess[str]:
    # Short runs need no thrift with memory.
    env = os.environ | {"GOGC": "400"}
    done = subprocess.run(command, input=text, env=env, capture_output=True, check=False, timeout=PATIENCE_SECONDS)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())
