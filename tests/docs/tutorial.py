"""Runs a tutorial as a reader does: its files are written, its commands go to a shell, its output is compared.

A block ``yaml`` or ``python`` whose first line is a comment with a file name is written to that file; ``pycon`` is a
Python session; of ``console``, lines with ``$`` are commands, and lines below one are what it prints (``...`` for what
is left out). ``# until Ctrl-C`` marks a command that runs in a terminal of its own, ``# repeat until`` one that
a reader repeats. Ports are free ones of this machine, and simulated time runs faster than for a reader.
"""

import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.cli.command import environment
from tests.docs.test_docs import ROOT, text_of
from tests.patience import PATIENCE_SECONDS, eventually
from tests.real.child import free_ports

LONG_RUNNING: Final = "# until Ctrl-C"
REPEATED: Final = "# repeat until"
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE: Final = re.compile(r"# ([\w-]+\.(?:yaml|py))\n")
_ID: Final = re.compile(r"\b(?:al|rc)_[0-9a-f]{16}\b")
_TOKEN: Final = re.compile(
    r"(?P<id>\b(?:al|rc)_[0-9a-f]{16}\b)|(?P<rest>\.\.\.)|(?P<number>\d(?:[\d.,:]*\d)?)|(?P<space>\s+)"
)
_SPEED: Final = 600
"""Simulated seconds in a second of the demo; a reader's are 120."""


@dataclass
class Step:
    """A command, and what it prints."""

    command: str
    printed: list[str] = field(default_factory=list)


def steps(block: str) -> Iterator[Step]:
    """Yield the commands of a block ``console``; lines that begin with ``> `` continue one."""
    step: Step | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if step is not None:
                yield step
            step = Step(line[2:])
        elif step is not None and line.startswith("> "):
            step.command += f"\n{line[2:]}"
        elif step is not None:
            step.printed.append(line)
    if step is not None:
        yield step


class Tutorial:
    """A page in ``docs/tutorials``, and what running it has left: files, terminals, ids.

    Parameters
    ----------
    page
        The page.
    folder
        An empty folder, where it is run.
    exact
        Whether numbers are compared, too. Without, any number may take the place of another, and any id that of one
        that was not printed before.
    """

    def __init__(self, page: Path, folder: Path, *, exact: bool) -> None:
        self._page, self._folder, self._exact = page, folder, exact
        http, kafka = free_ports(2)
        self._ports = {"8000": str(http), "9092": str(kafka)}
        self._ids: dict[str, str] = {}
        self._exported: dict[str, str] = {}
        self._terminals = ExitStack()
        self.ran = 0

    def run(self) -> None:
        """Run all blocks, in their order; what runs until Ctrl-C is interrupted at the end, and must end well."""
        globs: dict[str, Any] = {}
        with self._terminals:
            for language, body in _BLOCK.findall(text_of(self._page)):
                self.ran += 1
                if language == "console":
                    for step in steps(body):
                        self._run(step)
                elif language == "pycon":
                    _run_session(self._page, body, globs)
                elif name := _FILE.match(body):
                    (self._folder / name[1]).write_text(self._here(body), encoding="utf-8")
                else:
                    raise AssertionError(f"nothing runs this block of {self._page.name}:\n{body}")

    def _run(self, step: Step) -> None:
        command = self._here(step.command)
        if step.command.endswith(LONG_RUNNING):
            self._start(command.removesuffix(LONG_RUNNING), step.printed)
        elif REPEATED in step.command:
            eventually(lambda: self._matches(self._shell(command)[1], step.printed), shown=lambda: self._shell(command))
        else:
            status, out, err = self._shell(command)
            assert status == 0, (command, out, err)
            assert self._matches(out, step.printed), (command, out, err)

    def _shell(self, command: str) -> tuple[int, str, str]:
        """Run a command; what it exports stays."""
        script = f"set -o pipefail\n{command}\nstatus=$?\nenv -0 > .env\nexit $status\n"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self._folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_SECONDS,
            check=False,
        )
        exported = (line.partition("=") for line in (self._folder / ".env").read_text("utf-8").split("\0"))
        self._exported = {name: value for name, _, value in exported if name.startswith("MONITOR_")}
        return done.returncode, self._there(done.stdout), done.stderr

    def _environment(self) -> Mapping[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        url = f"http://127.0.0.1:{self._ports['8000']}"
        ours = {"PATH": path, "PYTHONPATH": str(ROOT), "MONITOR_URL": url}
        return environment(**ours, MONITOR__API__PORT=self._ports["8000"]) | self._exported

    def _start(self, command: str, printed: list[str]) -> None:
        output = self._folder / f"terminal-{self.ran}.txt"
        process = self._terminals.enter_context(self._terminal(command, output))

        def printed_it() -> bool:
            assert process.poll() is None, output.read_text("utf-8")
            return self._matches(self._there(output.read_text("utf-8")), [*printed, "..."])

        eventually(printed_it, shown=lambda: output.read_text("utf-8"))

    @contextmanager
    def _terminal(self, command: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
        with output.open("wb") as stream:
            process = subprocess.Popen(
                shlex.split(command), cwd=self._folder, env=self._environment(), stdout=stream, stderr=subprocess.STDOUT
            )
        try:
            yield process
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0, output.read_text("utf-8")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _here(self, text: str) -> str:
        """Return the page's text with the ports, the ids and the pace of this run."""
        for port, free in self._ports.items():
            text = re.sub(rf"(?<=:){port}\b", free, text)
        text = _ID.sub(lambda match: self._ids.get(match[0], match[0]), text)
        text = text.replace("monitor demo", f"monitor demo --speed {_SPEED} --port {self._ports['8000']}")
        # `make broker` installs first what tests have installed.
        broker = re.fullmatch(rf"make broker TOPICS='([\w: -]+)'( +{LONG_RUNNING})", text)
        if broker is None:
            return text
        topics = " ".join(f"--topic {topic}" for topic in broker[1].split())
        return f"python -m tests.real.kafka --port {self._ports['9092']} {topics}{broker[2]}"

    def _there(self, text: str) -> str:
        for port, free in self._ports.items():
            text = re.sub(rf"(?<=:){free}\b", port, text)
        return text

    def _matches(self, out: str, printed: list[str]) -> bool:
        """Whether the output is that of the page; ids of the page stand for those of the output from then on."""
        if self._exact:
            pattern = re.escape("\n".join(line.rstrip() for line in printed)).replace(re.escape("..."), ".*")
            return re.fullmatch(pattern, re.sub(r" +$", "", out.rstrip(), flags=re.MULTILINE), re.DOTALL) is not None
        new: list[str] = []
        match = re.fullmatch(self._pattern("\n".join(printed).strip(), new), out.strip(), re.DOTALL)
        if match is not None:
            self._ids.update(zip(new, match.groups(), strict=True))
        return match is not None

    def _pattern(self, printed: str, new: list[str]) -> str:
        """Return a pattern for what is printed. Ids that the page shows for the first time are its groups."""
        parts, at = [], 0
        for token in _TOKEN.finditer(printed):
            parts.append(re.escape(printed[at : token.start()]))
            at = token.end()
            if token["rest"]:
                parts.append(".*?")
            elif token["space"]:
                # Lines break elsewhere where a number is longer.
                parts.append(r"\s*" if parts and parts[-2:-1] == [".*?"] else r"\s+")
            elif token["number"]:
                parts.append(r"\d(?:[\d.,:]*\d)?")
            elif token["id"] in self._ids:
                parts.append(self._ids[token["id"]])
            elif token["id"] in new:
                parts.append(rf"\{new.index(token['id']) + 1}")
            else:
                new.append(token["id"])
                parts.append(rf"({_ID.pattern})")
        return "".join([*parts, re.escape(printed[at:])])


def _run_session(page: Path, body: str, globs: dict[str, Any]) -> None:
    session = doctest.DocTestParser().get_doctest(body, globs, page.name, str(page), 0)
    said: list[str] = []
    # The names of one session are those of the next.
    failed = doctest.DocTestRunner().run(session, out=said.append, clear_globs=False).failed
    globs.update(session.globs)
    assert failed == 0, "".join(said)
