"""No type is read for the first time by two threads at once, which would crash the process."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from monitor.http.recalibration_schemas import RefitBody
from tests.long import longer

PACKAGE: Final = Path(__file__).parents[1] / "monitor"
READERS: Final = {"msgspec.convert", "msgspec.json.decode", "msgspec.msgpack.decode"}
LEARNT: Final = {"cls", "Alert", "Row", "type(self)"}
"""Types that are read without a decoder: modules learn them, and all kinds of `JsonObject` that are read."""

READ_AT_ONCE: Final = """
import sys, threading
import msgspec
from monitor.recalibration.comparison import Comparison
sys.setswitchinterval(1e-6)
data, start = sys.stdin.buffer.read(), threading.Barrier(8)

def read():
    start.wait()
    msgspec.json.decode(data, type=Comparison)

threads = [threading.Thread(target=read) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def read_without_a_decoder(path: Path) -> Iterator[str]:
    """The types that a module gives to msgspec at a call: ``msgspec.convert(_, T)`` and ``decode(_, type=T)``."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        called = [call.func, *call.args[:1]] if ast.unparse(call.func) == "partial" else [call.func]
        if any(
            ast.unparse(one) in {"msgspec.convert", "msgspec.json.decode", "msgspec.msgpack.decode"} for one in called
        ):
            named = [keyword.value for keyword in call.keywords if keyword.arg == "type"]
            yield from map(ast.unparse, named or call.args[1:2])


def test_what_is_read_without_a_decoder_is_learnt_or_built_in() -> None:
    unknown = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in read_without_a_decoder(path)
        if name not in LEARNT | {"Key", "msgspec.Raw"} and not name.startswith(("dict[", "list[", "tuple["))
    }
    assert unknown == set()


def test_a_call_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "msgspec.convert(a, A)\nmsgspec.json.decode(b, type=B)\npartial(msgspec.convert, type=C)\n", "utf-8"
    )
    assert [*read_without_a_decoder(path)] == ["A", "B", "C"]


@pytest.mark.longer
def test_threads_read_a_comparison_at_once() -> None:
    """Without its being learnt, one process in four crashed here."""
    data = json.dumps(RefitBody.example()["comparison"]).encode()
    for _ in range(longer(3, 20)):
        done = subprocess.run([sys.executable, "-c", READ_AT_ONCE], input=data, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")
