import bz2
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import zstandard

from monitor.errors import InputError
from monitor.sources.files import EventFile

PACKS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.compress,
}
LINES = [b'{"id": "a"}', b'{"id": "b"}', b'{"id": "c"}']


def _values(path: Path, records: int = 10_000) -> list[bytes | None]:
    return [record.value for batch in EventFile(path).batches(records) for record in batch.records]


def test_lines_come_in_order_in_batches_with_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(LINES) + b"\n")
    batches = list(EventFile(path).batches(2))
    assert [[record.value for record in batch.records] for batch in batches] == [LINES[:2], LINES[2:]]
    assert [[record.offset for record in batch.records] for batch in batches] == [[1, 2], [3]]
    assert [batch.next_offset for batch in batches] == [3, 4]
    assert {(batch.topic, batch.partition) for batch in batches} == {("events.jsonl", 0)}


@pytest.mark.parametrize(
    "content",
    [
        b"\n".join(LINES),
        b"\r\n".join(LINES) + b"\r\n",
        b"\xef\xbb\xbf" + b"\n".join(LINES),
        b"\n\n" + LINES[0] + b"\n \t\r\n" + LINES[1] + b"\n" + LINES[2] + b"\n\n",
    ],
    ids=["no last line end", "CRLF", "byte order mark", "blank lines"],
)
@pytest.mark.parametrize("ending", PACKS)
def test_spellings_of_the_same_lines(tmp_path: Path, content: bytes, ending: str) -> None:
    path = tmp_path / f"events.jsonl{ending}"
    path.write_bytes(PACKS[ending](content))
    assert _values(path) == LINES


def test_blank_lines_count_in_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n" + LINES[0] + b"\n\n" + LINES[1] + b"\n")
    (batch,) = EventFile(path).batches()
    assert [record.offset for record in batch.records] == [2, 4]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_progress_rises_to_the_size_on_disk(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("events.jsonl.gz" if packed else "events.jsonl")
    content = b"".join(b'{"id": "%x"}\n' % (n * 2654435761 % 2**32) for n in range(50_000))
    path.write_bytes(gzip.compress(content) if packed else content)
    file = EventFile(path)
    seen = [file.bytes_read for _ in file.batches(5_000)]
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[5] <= file.size
    assert file.bytes_read == file.size == path.stat().st_size


def test_an_empty_file_holds_no_events(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.touch()
    file = EventFile(path)
    assert list(file.batches()) == []
    assert file.bytes_read == file.size == 0


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.jsonl: no such file"):
        EventFile(tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError, match="is a directory"):
        EventFile(tmp_path)


def test_a_cut_gzip_file_brings_its_lines_and_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    content = b"".join(b'{"id": "%x"}\n' % (n * 2654435761 % 2**32) for n in range(50_000))
    path.write_bytes(gzip.compress(content)[:-20_000])
    batches = EventFile(path).batches(1_000)
    assert len(next(batches).records) == 1_000
    with pytest.raises(InputError, match=r"events\.jsonl\.gz: cannot be read after line \d+: .*is it whole"):
        list(batches)


def test_a_file_that_only_claims_to_be_gzip(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(b"\n".join(LINES))
    with pytest.raises(InputError, match="cannot be read after line 0"):
        _values(path)
