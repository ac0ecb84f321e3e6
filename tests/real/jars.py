"""Fetches Apache Kafka from Maven Central, once a checkout, each file checked against its pinned SHA-256."""

import hashlib
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.real.lock import one_at_a_time

REPOSITORY = os.environ.get("MAVEN_REPOSITORY_URL", "https://repo1.maven.org/maven2").rstrip("/")
"""Set the variable to use a mirror."""

_CHECKOUT = Path(__file__).resolve().parents[2]
_CACHE = Path(os.environ.get("KAFKA_JARS_DIRECTORY", _CHECKOUT / ".cache" / "kafka-jars"))
_PINNED = Path(__file__).with_name("kafka_jars.txt")
_ATTEMPTS = 5
_TIMEOUT_SECONDS = 60


def kafka_jars() -> list[Path]:
    """Paths of Kafka's jars, fetching those that are not here yet (44 MB)."""
    pinned = dict(_read_pinned())
    jars = [_CACHE / path.rsplit("/", 1)[-1] for path in pinned]
    if all(jar.exists() for jar in jars):
        return jars
    _CACHE.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(_CACHE / ".lock"), ThreadPoolExecutor(8) as pool:
        # list() brings the first failure to the caller.
        list(pool.map(_fetch, pinned.keys(), pinned.values(), jars))
    return jars


def _read_pinned() -> Iterator[tuple[str, str]]:
    for line in _PINNED.read_text().splitlines():
        if line and not line.startswith("#"):
            sha256, path = line.split()
            yield path, sha256


def _fetch(path: str, sha256: str, jar: Path) -> None:
    if jar.exists():
        return
    url = f"{REPOSITORY}/{path}"
    partial = jar.with_suffix(".partial")
    failures: list[str] = []
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(2 ** (attempt - 1))
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response, partial.open("wb") as file:
                shutil.copyfileobj(response, file)
        except (OSError, urllib.error.URLError) as error:
            failures.append(str(error))
            continue
        got = hashlib.sha256(partial.read_bytes()).hexdigest()
        if got == sha256:
            partial.replace(jar)
            return
        failures.append(f"SHA-256 is {got}, expected {sha256}")
    raise RuntimeError(
        f"cannot fetch {url} after {_ATTEMPTS} attempts ({'; '.join(failures)}); the tests run against a real Kafka "
        "broker and need Maven Central, or a mirror of it named by MAVEN_REPOSITORY_URL"
    )
