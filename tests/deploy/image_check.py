"""What the Dockerfile says, done without Docker: its RUN, COPY and ENV lines in a root directory of their own, then its
entry point as its user, on a root that is read-only. For machines without a Docker engine; it does not replace one.

``python -m tests.deploy.image_check`` needs Linux, root, util-linux and the network; takes some three minutes. The base
image is made of this machine's /usr and of the Python that runs this (or of another: ``--python PREFIX``).
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

CHECKOUT: Final = Path(__file__).parents[2]
DOCKERFILE: Final = CHECKOUT / "deploy" / "Dockerfile"
_SHARED: Final = ("bin", "sbin", "lib", "lib64", "usr")
_OWN: Final = ("etc", "opt", "proc", "dev", "root", "run", "src", "tmp", "usr-local", "var/lib", "var/log", "wheels")
_OF_THE_MACHINE: Final = ("etc", "proc", "dev", "run", "tmp", "usr-local")
_NETWORK: Final = re.compile(r"PIP_\w+|SSL_\w+|\w+_proxy|\w+_PROXY")
_UNFIT: Final = ("PIP_FIND_LINKS",)


class Instruction(NamedTuple):
    """One of a Dockerfile."""

    name: str
    rest: str


@dataclass
class Stage:
    """A stage, and what its lines have left."""

    name: str
    base: str
    instructions: list[Instruction] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"

    def last(self, name: str) -> str:
        """The rest of the last instruction of that name; KeyError if there is none."""
        found = [each.rest for each in self.instructions if each.name == name]
        if not found:
            raise KeyError(f"{self.name} has no {name}")
        return found[-1]


def read_instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def read_stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, in order."""
    stages: list[Stage] = []
    for instruction in read_instructions(text):
        if instruction.name == "FROM":
            base, _, name = instruction.rest.partition(" AS ")
            stages.append(Stage(name.strip(), base.strip()))
        elif stages:
            stages[-1].instructions.append(instruction)
    return stages


def ignored(path: str, patterns: Sequence[str]) -> bool:
    """Whether .dockerignore keeps a file of the checkout out of the build: the last pattern that fits decides."""
    out = False
    parts = path.split("/")
    prefixes = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for pattern in patterns:
        plain = pattern.lstrip("!")
        anywhere = plain.removeprefix("**/")
        fits = any(
            fnmatch(prefix, plain) and prefix.count("/") == plain.count("/")
            if anywhere == plain
            else fnmatch(prefix.rsplit("/", 1)[-1], anywhere)
            for prefix in prefixes
        )
        if fits:
            out = not pattern.startswith("!")
    return out


def ignore_patterns() -> list[str]:
    """Those of the checkout."""
    lines = (CHECKOUT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


class Root:
    """A root directory in which commands are run."""

    def __init__(self, path: Path, python: Path) -> None:
        self.path = path
        for name in _OWN:
            (path / name).mkdir(parents=True, exist_ok=True)
        for name in ("passwd", "group", "resolv.conf", "hosts", "nsswitch.conf", "login.defs"):
            shutil.copy(f"/etc/{name}", path / "etc" / name, follow_symlinks=True)
        (path / "tmp").chmod(0o1777)
        # Linked, not copied: nothing writes there.
        subprocess.run(["cp", "-al", f"{python}/.", str(path / "usr-local")], check=True)
        pip = path / "usr-local" / "bin" / "pip"
        pip.unlink(missing_ok=True)
        pip.write_text('#!/bin/sh\nexec /usr/local/bin/python3 -m pip "$@"\n', encoding="utf-8")
        pip.chmod(0o755)

    def begin_with(self, base: "Root") -> None:
        """Take over what the lines of another stage have made. Linked, not copied: later lines only add files."""
        for entry in base.path.iterdir():
            if entry.name not in {*_SHARED, *_OF_THE_MACHINE}:
                subprocess.run(["cp", "-al", str(entry), str(self.path)], check=True)

    def run(
        self, command: str, environment: Mapping[str, str], *, workdir: str = "/", user: str = "", mounts: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it; as a user without any capability, alone in its network, on a read-only root if given."""
        root = shlex.quote(str(self.path))
        lines = ["set -e", f"mount --rbind {root} {root}"]
        for name in _SHARED:
            if Path("/", name).is_symlink():
                lines.append(f"ln -sfn {Path('/', name).readlink()} {root}/{name} 2>/dev/null || true")
            elif Path("/", name).exists():
                lines.append(f"mkdir -p {root}/{name} && mount --rbind /{name} {root}/{name}")
        # Its own folder comes over that of the machine, which is hidden so.
        lines += [f"mount --bind {root}/usr-local {root}/usr/local", f"mount --rbind /dev {root}/dev"]
        lines += [
            f"mount -t proc proc {root}/proc",
            f"mkdir -p {root}/etc/ssl && mount --rbind /etc/ssl {root}/etc/ssl",
        ]
        drop = ""
        if user:
            number, _, group = user.partition(":")
            drop = f"setpriv --reuid {number} --regid {group} --clear-groups --bounding-set=-all --no-new-privs "
            lines += ["ip link set lo up", f"mount -o remount,bind,ro {root}"]
            lines += [line.format(root=root) for line in mounts.splitlines()]
        # A Python that was built for another prefix finds its library by this.
        settings = {**environment, "LD_LIBRARY_PATH": "/usr/local/lib"}
        variables = " ".join(shlex.quote(f"{name}={value}") for name, value in settings.items())
        inner = f"cd {shlex.quote(workdir)} && {command}"
        lines.append(f"exec chroot {root} {drop}env -i {variables} sh -c {shlex.quote(inner)}")
        own = ["unshare", "--mount", "--pid", "--fork", *(["--net"] if user else [])]
        return subprocess.run([*own, "sh", "-c", "\n".join(lines)], capture_output=True, text=True, check=False)


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Variables of a line."""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: environment.get(found.group(1), ""), text)


def build(stage: Stage, stages: Mapping[str, Stage], roots: dict[str, Root], scratch: Path, python: Path) -> None:
    """Carry out the lines of a stage."""
    root = roots[stage.name] = Root(scratch / stage.name, python)
    base = stages.get(stage.base)
    stage.environment = dict(base.environment if base else {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    if base and base.name in roots:
        root.begin_with(roots[base.name])
    network = {name: value for name, value in os.environ.items() if _NETWORK.fullmatch(name) and name not in _UNFIT}
    patterns = ignore_patterns()
    for name, rest in stage.instructions:
        if name == "ENV":
            for pair in shlex.split(rest):
                key, _, value = pair.partition("=")
                stage.environment[key] = expand(value, stage.environment)
        elif name == "WORKDIR":
            stage.workdir = rest
            (root.path / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            _copy(rest, root, roots, stage.workdir, patterns)
        elif name == "RUN":
            print(f"{stage.name}: RUN {rest[:100]}", flush=True)
            done = root.run(rest, {**network, **stage.environment}, workdir=stage.workdir)
            if done.returncode:
                raise SystemExit(f"RUN {rest}\nended with {done.returncode}\n{done.stdout}\n{done.stderr}")


def _copy(rest: str, root: Root, roots: Mapping[str, Root], workdir: str, patterns: Sequence[str]) -> None:
    words = rest.split()
    source = roots[words.pop(0).removeprefix("--from=")].path if words[0].startswith("--from=") else None
    *names, target = words
    to = root.path / os.path.normpath(f"{workdir}/{target}").lstrip("/") if target[0] != "/" else root.path / target[1:]
    for name in names:
        if source is not None:
            shutil.copytree(source / name.lstrip("/"), to, symlinks=True, dirs_exist_ok=True)
            continue
        found = CHECKOUT / name
        files = [found] if found.is_file() else [path for path in found.rglob("*") if path.is_file()]
        for file in files:
            if ignored(file.relative_to(CHECKOUT).as_posix(), patterns):
                continue
            inside = file.relative_to(found) if found.is_dir() else Path(file.name if target.endswith("/") else "")
            place = to / inside
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, place)


def check(stage: Stage, root: Root, seconds: int) -> None:
    """Start the image as its own lines say, on a root that is read-only, and look."""
    user = stage.last("USER")
    entry = shlex.join(json.loads(stage.last("ENTRYPOINT")))
    volume = stage.last("VOLUME")
    mounts = (
        f"mount -t tmpfs -o mode=1777 tmpfs {{root}}/tmp\n"
        f"mount -t tmpfs -o mode=0750,uid={user.partition(':')[0]},gid={user.partition(':')[2]} tmpfs {{root}}{volume}"
    )
    environment = {**stage.environment, "NUMBA_DEBUG_CACHE": "1"}

    def ask(command: str) -> str:
        done = root.run(command, environment, workdir=stage.workdir, user=user, mounts=mounts)
        if done.returncode:
            raise SystemExit(f"{command}\nended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done.stdout

    print(ask(f"{entry} --version && id").strip())
    for place in ("/opt/venv", "/etc", "/usr/local"):
        ask(f"! touch {place}/written 2>/dev/null")
    told = ask(f"{entry} demo --seconds {seconds} --port 0")
    saved, loaded = told.count("data saved to"), told.count("data loaded from")
    print(f"demo: {loaded} kernels loaded, {saved} compiled at run time")
    if saved or not loaded:
        raise SystemExit("kernels were compiled at run time, or none was loaded: the cache of the image does not fit")
    health = shlex.join(json.loads(stage.last("HEALTHCHECK").partition("CMD ")[2]))
    command = shlex.join(json.loads(stage.last("CMD")))
    signal = stage.last("STOPSIGNAL").removeprefix("SIG")
    print(
        ask(
            f"{entry} {command} > /tmp/log 2>&1 & service=$!; tries=0; "
            f"until {health} 2>/dev/null; do tries=$((tries + 1)); [ $tries -lt 120 ] || {{ cat /tmp/log; exit 1; }}; "
            f"sleep 0.5; done; kill -{signal} $service; wait $service; echo serve: healthy, ended with $?; "
            "du -sh /opt/venv"
        ).strip()
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Build and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, default=Path(sys.base_prefix), help="prefix of the base image's Python")
    parser.add_argument("--seconds", type=int, default=5, help="of the demo")
    parser.add_argument("--scratch", type=Path, help="an empty directory; by default one that goes afterwards")
    options = parser.parse_args(arguments)
    stages = {stage.name: stage for stage in read_stages(DOCKERFILE.read_text(encoding="utf-8"))}
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        scratch = (options.scratch or Path(name)).resolve()
        roots: dict[str, Root] = {}
        for stage in stages.values():
            build(stage, stages, roots, scratch, options.python)
        check(stages["final"], roots["final"], options.seconds)
    print("the lines of the Dockerfile do what they should; `docker build` itself was not run")


if __name__ == "__main__":
    main()
