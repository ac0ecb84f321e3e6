"""Programs of Debian packages, fetched where they are not installed. Nothing is installed into the system.

The ways are tried in this order: what stands on the path; what an earlier run unpacked into .cache; the Debian package,
unpacked into .cache (needs no root); the same with package lists of its own, since a fresh container has none; a build
from source where Go is installed and the program can be built by it.
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.real.lock import one_at_a_time

CACHE = Path(__file__).parents[2] / ".cache" / "debian"
_MOVED = "-moved"
_SECONDS = 1500
"""A build from source takes minutes."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program and where it comes from.

    Attributes
    ----------
    name
        As projects call it, and as it is called on the path.
    package
        Debian's package.
    debian_name
        What Debian calls the program.
    source
        Path and version of the Go package.
    data
        Where Debian's program looks for its data, which is not there unless the package is installed: a copy of the
        program is made that looks in :func:`data_link` of its working directory instead.
    """

    name: str
    package: str
    debian_name: str
    source: tuple[str, str]
    data: str | None = None


PROMTOOL = Program("promtool", "prometheus", "promtool", ("github.com/prometheus/prometheus/cmd/promtool", "v0.305.0"))
PROMETHEUS = Program(
    "prometheus", "prometheus", "prometheus", ("github.com/prometheus/prometheus/cmd/prometheus", "v0.305.0")
)
ALERTMANAGER = Program(
    "alertmanager",
    "prometheus-alertmanager",
    "prometheus-alertmanager",
    ("github.com/prometheus/alertmanager/cmd/alertmanager", "v0.28.1"),
    data="/usr/share/prometheus/alertmanager",
)
AMTOOL = Program(
    "amtool", "prometheus-alertmanager", "amtool", ("github.com/prometheus/alertmanager/cmd/amtool", "v0.28.1")
)


class ProgramMissingError(Exception):
    """No way led to a program. Says which were tried and what each answered."""


@cache
def program(wanted: Program) -> Path:
    """Where a program stands, after fetching it if need be."""
    for name in (wanted.name, wanted.debian_name):
        installed = shutil.which(name)
        if installed:
            return Path(installed)
    fetched = CACHE / wanted.package / "usr" / "bin" / (wanted.debian_name + _MOVED * (wanted.data is not None))
    built = CACHE / "go" / wanted.name
    CACHE.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(CACHE / ".lock"):
        for path in (fetched, built):
            if path.exists():
                return path
        return _fetch(wanted, fetched, built)


def _fetch(wanted: Program, fetched: Path, built: Path) -> Path:
    tried = []
    for way, target in ((_from_debian, fetched), (_from_debian_after_update, fetched), (_from_source, built)):
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            try:
                way(wanted, Path(scratch))
            except (OSError, subprocess.SubprocessError) as error:
                said = (getattr(error, "stderr", None) or str(error)).strip()
                tried.append(f"{way.__name__.strip('_')}: {said.splitlines()[-1] if said else error}")
            else:
                return target
    raise ProgramMissingError(
        f"{wanted.name} is needed by the tests: install it (on Debian: apt-get install {wanted.package}) so that it is "
        f"on the path, or install Go. Tried {'; '.join(tried)}"
    )


def _from_debian(wanted: Program, scratch: Path) -> None:
    """apt-get download needs no root; dpkg -x only unpacks."""
    _unpack(wanted, scratch, [])


def _from_debian_after_update(wanted: Program, scratch: Path) -> None:
    """A fresh container knows no packages yet: lists of our own, which need no root and change nothing."""
    own = own_lists(scratch)
    _run(["apt-get", *own, "update"])
    _unpack(wanted, scratch, own)


def own_lists(folder: Path) -> list[str]:
    """Options by which apt-get keeps its lists of packages in a folder, and needs no lock of the system's own."""
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "archives" / "partial").mkdir(parents=True)
    return [
        f"-oDir::State::lists={folder / 'lists'}",
        f"-oDir::Cache={folder}",
        # Started by root, apt would fetch as a user who may not write here.
        f"-oAPT::Sandbox::User={'root' if os.getuid() == 0 else ''}",
    ]


def _unpack(wanted: Program, scratch: Path, options: list[str]) -> None:
    _run(["apt-get", *options, "download", wanted.package], cwd=scratch)
    (package,) = scratch.glob(f"{wanted.package}_*.deb")
    unpacked = scratch / "unpacked"
    _run(["dpkg", "-x", str(package), str(unpacked)])
    if not (unpacked / "usr" / "bin" / wanted.debian_name).exists():
        raise FileNotFoundError(f"{package.name} holds no usr/bin/{wanted.debian_name}")
    for each in (ALERTMANAGER, AMTOOL, PROMETHEUS, PROMTOOL):
        if each.package == wanted.package and each.data is not None:
            _move_data(unpacked / "usr" / "bin" / each.debian_name, each.data)
    # Moved into place whole, so that nobody ever sees half a package.
    unpacked.replace(CACHE / wanted.package)


def data_link(data: str) -> Path:
    """A path, relative to the working directory, that is as long as that of the data and ends in the same name."""
    name = Path(data).name
    return Path("d" * (len(data) - len(name) - 1)) / name


def link_data(wanted: Program, path: Path, directory: Path) -> None:
    """Let a program that is to be started in a directory find its data there, where it was not installed."""
    if wanted.data is None or not path.name.endswith(_MOVED):
        return
    link = directory / data_link(wanted.data)
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(CACHE / wanted.package / wanted.data.lstrip("/"))


def _move_data(path: Path, data: str) -> None:
    """Write a copy of a program that looks for its data elsewhere.

    The path is a constant of the program, and Debian's build of it knows no option for it. Where there is no right to
    write below /usr, and none to mount, a constant of the same length does.
    """
    content = path.read_bytes()
    if data.encode() not in content:
        raise FileNotFoundError(f"{path.name} does not name {data}")
    moved = path.with_name(path.name + _MOVED)
    moved.write_bytes(content.replace(data.encode(), str(data_link(data)).encode()))
    moved.chmod(0o755)


def _from_source(wanted: Program, scratch: Path) -> None:
    """Built by Go's own tool, from a pinned version. Takes minutes.

    Within a module of its own: `go install` of a version refuses a module with replace directives, as Prometheus' is.
    """
    environment = {**os.environ, "GOBIN": str(scratch), "CGO_ENABLED": "0"}
    path, version = wanted.source
    for command in (["go", "mod", "init", "built"], ["go", "get", f"{path}@{version}"], ["go", "install", path]):
        _run(command, scratch, environment)
    (CACHE / "go").mkdir(exist_ok=True)
    (scratch / wanted.name).replace(CACHE / "go" / wanted.name)


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=cwd, env=env, check=True, capture_output=True, text=True, timeout=_SECONDS)
