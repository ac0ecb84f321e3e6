"""Whatever two processes that compile at once leave behind, nothing is loaded as what it is not."""

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
import pytest
from numba.core import caching

from monitor.compiled import cache_file, load_numba
from monitor.local import neighbour_loops
from tests.patience import PATIENCE_SECONDS

load_numba()  # replaces the methods of numba's cache file

ROOT = Path(__file__).parents[2]
STAMP: Final = (1_700_000_000.25, 4321)
PROGRAM = textwrap.dedent(
    """
    from monitor.compiled import load_numba
    import numpy as np
    njit = load_numba().njit

    @njit(cache=True)
    def total(values):
        sum = values[0]
        for value in values[1:]:
            sum += value
        return sum

    if __name__ == "__main__":
        import sys
        print("result", total(np.arange(4, dtype=sys.argv[1])))
    """
)


def kept(folder: Path, stamp: tuple[float, int] = STAMP) -> Any:
    """What one process knows of the compiled forms of one function."""
    made: Any = caching.IndexDataCacheFile
    return made(cache_path=str(folder), filename_base="module.function-1.py311", source_stamp=stamp)


def looked_before(file: Any) -> Any:
    """The same process, which looked at the index when it was empty."""
    file._load_index = dict
    return file


def around(write: Callable[..., Any], meanwhile: Callable[[], None], *, after: bool) -> Callable[..., Any]:
    """Let another process do something right before or right after a file is written."""

    @contextlib.contextmanager
    def both(path: str) -> Iterator[Any]:
        if not after:
            meanwhile()
        with write(path) as stream:
            yield stream
        if after:
            meanwhile()

    return both


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("written", [".nbi", ".nbc"])
def test_two_processes_that_chose_the_same_number_do_not_take_each_others_code(
    tmp_path: Path, written: str, after: bool
) -> None:
    one, other = kept(tmp_path), looked_before(kept(tmp_path))
    code = {"int64": "adds integers", "float64": "adds floats"}
    write = one._open_for_write
    interrupted = around(write, lambda: other.save("float64", code["float64"]), after=after)
    one._open_for_write = lambda path: (interrupted if path.endswith(written) else write)(path)
    one.save("int64", code["int64"])
    found = {key: kept(tmp_path).load(key) for key in code}
    assert all(found[key] in (None, code[key]) for key in code), found
    # What was lost is compiled and kept once more, and for good.
    for key, expected in code.items():
        if found[key] is None:
            kept(tmp_path).save(key, expected)
    assert {key: kept(tmp_path).load(key) for key in code} == code


def test_a_full_disk_leaves_nothing_of_an_earlier_source_to_be_loaded(tmp_path: Path) -> None:
    kept(tmp_path, (1.0, 1)).save("float64", "of the source before")
    file = kept(tmp_path)
    dump = file._dump

    def full(content: Any) -> bytes:
        if content == "of the source now":
            raise OSError("No space left on device")
        return bytes(dump(content))

    file._dump = full
    with pytest.raises(OSError, match="No space"):
        file.save("int64", "of the source now")
    assert kept(tmp_path).load("int64") is None


def test_what_another_source_left_under_the_same_number_is_not_loaded(tmp_path: Path) -> None:
    old = kept(tmp_path, (1.0, 1))
    old.save("int64", "of the source before")
    # Named, and not written yet; or its writer was killed there.
    kept(tmp_path)._save_index({"int64": old._data_name(1)})
    assert kept(tmp_path).load("int64") is None
    kept(tmp_path).save("int64", "of the source now")
    assert kept(tmp_path).load("int64") == "of the source now"


def test_each_type_has_a_file_which_numba_alone_can_read(tmp_path: Path) -> None:
    kept(tmp_path).save("int64", "adds integers")
    kept(tmp_path).save("float64", "adds floats")
    kept(tmp_path).save("int64", "adds integers, again")
    file = kept(tmp_path)
    names = file._load_index()
    assert names == {"int64": "module.function-1.py311.1.nbc", "float64": "module.function-1.py311.2.nbc"}
    assert {path.name for path in tmp_path.iterdir()} == {"module.function-1.py311.nbi", *names.values()}
    assert file._load_data(names["int64"]) == "adds integers, again"
    assert file.load("float64") == "adds floats"
    (tmp_path / names["float64"]).unlink()
    assert file.load("float64") is None
    # What numba alone wrote says nothing of itself.
    file._save_data(names["int64"], "adds something")
    assert file.load("int64") is None


def test_code_under_the_name_of_other_code_is_compiled_anew(tmp_path: Path) -> None:
    """Real code, of real processes: what a race of two leaves behind."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")

    def run(kind: str, cache: str) -> str:
        done = subprocess.run(
            [sys.executable, str(program), kind],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "NUMBA_CACHE_DIR": str(tmp_path / cache),
                "NUMBA_DEBUG_CACHE": "1",
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("int64", "one").endswith("result 6\n")
    assert run("float64", "other").endswith("result 6.0\n")
    (code,) = (tmp_path / "one").rglob("*.nbc")
    (other,) = (tmp_path / "other").rglob("*.nbc")
    assert code.name == other.name
    shutil.copy(other, code)
    told = run("int64", "one")
    assert told.endswith("result 6\n")
    assert "data saved to" in told
    told = run("int64", "one")
    assert told.endswith("result 6\n")
    assert "data loaded from" in told
    assert "saved" not in told


def test_the_kernels_are_kept_so() -> None:
    file: Any = caching.IndexDataCacheFile
    assert (file.save, file.load) == (cache_file.save, cache_file.load)
    neighbour_loops.city_block(np.zeros((1, 1)), np.zeros((1, 1)))
    loops = [value for value in vars(neighbour_loops).values() if hasattr(value, "_cache")]
    assert loops
    assert {type(loop._cache._cache_file) for loop in loops} == {file}


def module_of(kept: type | None = None, **changed: object) -> ModuleType:
    """A module whose cache file differs."""
    made = ModuleType("caching")
    if kept is not None:
        made.IndexDataCacheFile = type("IndexDataCacheFile", (kept,), changed)  # type: ignore[attr-defined]
    return made


def no_class() -> ModuleType:
    return module_of()


def other_parameters() -> ModuleType:
    return module_of(caching.IndexDataCacheFile, _load_index=lambda self, checked: self)


def without_a_method() -> ModuleType:
    return module_of(caching.IndexDataCacheFile, _data_path=None)


def otherwise_stamped() -> ModuleType:
    return module_of(caching.IndexDataCacheFile, __init__=lambda self, stamp: setattr(self, "stamp", stamp))


@pytest.mark.parametrize("changed", [no_class, other_parameters, without_a_method, otherwise_stamped])
def test_a_numba_that_keeps_it_in_another_way_is_left_alone_and_it_is_said(
    changed: Callable[[], ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    module = changed()
    before = dict(vars(getattr(module, "IndexDataCacheFile", object)))
    with caplog.at_level(logging.WARNING, logger="monitor.compiled.cache_file"):
        assert not cache_file.install(module)
    assert "does not keep compiled code as it did before" in caplog.text
    assert dict(vars(getattr(module, "IndexDataCacheFile", object))) == before


def test_what_is_as_expected_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    module = module_of(caching.IndexDataCacheFile, save=lambda self, key, data: None)
    for _ in range(2):
        assert cache_file.install(module)
        assert module.IndexDataCacheFile.save is cache_file.save
    assert [record for record in caplog.records if record.name == "monitor.compiled.cache_file"] == []
