"""What only the embedded log does: crashes, damage, retention, several processes, one reader."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from monitor.clock import ManualClock, SystemClock
from monitor.errors import OffsetPurged, SettingsError, SourceError, SourceMisconfigured, SourceUnavailable
from monitor.events.log import LogStart, Topics
from monitor.events.model import Message, TopicPartition
from monitor.sources.embedded import EmbeddedSource
from monitor.sources.embedded_log import EmbeddedLog
from monitor.sources.log_format import LogRecord, decode, encode, read_body, walk
from tests.long import examples
from tests.patience import PATIENCE_SECONDS
from tests.sources.logs import EmbeddedUnderTest, Reading, count, read, run_all

PART = TopicPartition("t", 0)


def _log(directory: Path, *, segment_bytes: int = 1 << 20, retention_bytes: int | None = None) -> EmbeddedLog:
    return EmbeddedLog(
        directory, partitions=1, segment_bytes=segment_bytes, retention_bytes=retention_bytes, clock=SystemClock()
    )


def _write(log: EmbeddedLog, *values: bytes) -> None:
    log.write([Message("t", value, partition=0) for value in values])


def _read_all(log: EmbeddedLog, offset: int | None = None) -> list[bytes | None]:
    with closing(EmbeddedSource(log, Topics({"t": None}))) as source:
        run_all(source, {} if offset is None else {0: {"t": offset}})
        values: list[bytes | None] = []
        while batches := [batch for batch in source.poll(0, 100).batches if batch.records]:
            values.extend(record.value for batch in batches for record in batch.records)
        return values


def _segment(log: EmbeddedLog) -> Path:
    return log.segments(PART)[-1].path


messages = st.builds(
    Message,
    topic=st.just("t"),
    value=st.none() | st.binary(max_size=50),
    key=st.none() | st.binary(max_size=20),
    headers=st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=3),
    timestamp_ms=st.none() | st.integers(-(2**62), 2**62),
)


@given(st.lists(messages, min_size=1, max_size=20), st.integers(0, 2**62), st.integers(0, 2**62))
def test_a_batch_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, batch: list[Message], base_offset: int, now_ms: int
) -> None:
    path = tmp_path_factory.mktemp("batch") / "segment"
    path.write_bytes(encode(batch, base_offset, now_ms))
    file = os.open(path, os.O_RDONLY)
    (header,) = walk(path, file)
    body = read_body(path, file, header)
    os.close(file)
    assert decode(header, body) == [
        LogRecord(
            base_offset + n,
            now_ms if message.timestamp_ms is None else message.timestamp_ms,
            message.key,
            message.value,
            list(message.headers) or (),
        )
        for n, message in enumerate(batch)
    ]


def test_a_write_that_was_cut_short_anywhere_is_dropped_and_writing_goes_on(tmp_path: Path) -> None:
    log = _log(tmp_path)
    _write(log, b"one", b"two")
    whole = _segment(log).stat().st_size
    _write(log, b"never acknowledged", b"nor this")
    content = _segment(log).read_bytes()
    for cut in range(whole + 1, len(content)):
        _segment(log).write_bytes(content[:cut])
        assert _read_all(log) == [b"one", b"two"]  # A reader leaves the tail alone: it may be a write under way.
        assert _segment(log).stat().st_size == cut
        with capture_logs() as logged:
            _write(_log(tmp_path), b"three")  # Another process, after the crash.
        assert [entry["bytes"] for entry in logged] == [cut - whole]
        assert _read_all(log) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("tail", [b"\0" * 10, b"\0" * 5_000], ids=["few zeros", "many zeros"])
def test_zeros_that_a_power_failure_left_are_dropped(tmp_path: Path, tail: bytes) -> None:
    log = _log(tmp_path)
    _write(log, b"one")
    with _segment(log).open("ab") as file:
        file.write(tail)
    assert _read_all(log) == [b"one"]
    _write(_log(tmp_path), b"two")
    assert _read_all(log) == [b"one", b"two"]


def _flip(path: Path, position: int, bit: int) -> bytes:
    """Flip a bit; return what the file holds then."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)
    return bytes(content)


@examples(25, 100)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), running=st.booleans())
def test_a_flipped_bit_is_damage_also_in_the_last_batch_and_never_cut(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int, running: bool
) -> None:
    log = _log(tmp_path_factory.mktemp("log"))
    _write(log, b"one", b"two")
    first = _segment(log).stat().st_size
    _write(log, b"three")
    position = int(place * _segment(log).stat().st_size)
    content = _flip(_segment(log), position, bit)
    damage = rf"00000000000000000000\.log is damaged at byte {first if position >= first else 0}: .*put back a copy"
    if not running:
        log = _log(log.directory)
    for _ in range(2):
        with pytest.raises(SourceError, match=damage):
            _read_all(log)
        with pytest.raises(SourceError, match=damage):
            _write(log, b"never acknowledged")
    with pytest.raises(SourceError, match=damage):
        _write(_log(log.directory), b"never acknowledged")  # by a process that has not read it
    assert _segment(log).read_bytes() == content


@examples(10, 40)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_record_is_lost_or_skipped_behind_damage_that_was_read_before(
    tmp_path_factory: pytest.TempPathFactory, place: float, bit: int
) -> None:
    log = _log(tmp_path_factory.mktemp("log"))
    _write(log, b"one", b"two", b"three")
    log.commit({PART: 3})
    size = _segment(log).stat().st_size
    _flip(_segment(log), position := int(place * size), bit)
    again = _log(log.directory)
    if position < size - len(b"onetwothree") - 3 * 20:
        with pytest.raises(SourceError, match="is damaged at byte 0"):  # its end is not known
            _write(again, b"four")
    else:
        _write(again, b"four")
        assert _read_all(again, 3) == [b"four"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_log_that_is_cut_back_to_before_what_was_read_is_reported_and_not_written(
    tmp_path: Path, restarted: bool
) -> None:
    log = _log(tmp_path)
    _write(log, b"one")
    first = _segment(log).stat().st_size
    _write(log, b"two", b"three")
    content = _segment(log).read_bytes()
    for cut in (0, *range(first, len(content))):
        _segment(log).write_bytes(content)
        with closing(EmbeddedSource(log, Topics({"t": None}))) as source:
            run_all(source)
            read(source, count(3))
            source.commit({PART: 3})
            _segment(log).write_bytes(content[:cut])
            end = 0 if cut == 0 else 1
            if not restarted:
                with pytest.raises(OffsetPurged, match=rf"offset 3 was never written to this log, which ends at {end}"):
                    source.poll(0, 100)
        if restarted:
            log = _log(tmp_path)
            with pytest.raises(OffsetPurged, match=rf"offset 3 was never written to this log, which ends at {end}"):
                _read_all(log, 3)
        with pytest.raises(
            SourceError, match=rf"0\.log ends at offset {end}, and records up to offset 3 were .*read: "
        ):
            _write(log, b"never acknowledged")
        assert _segment(log).read_bytes() == content[:cut]


def test_the_policy_for_purged_offsets_goes_on_with_a_log_that_was_cut_back(tmp_path: Path) -> None:
    log = _log(tmp_path)
    _write(log, b"one", b"two")
    log.commit({PART: 2})
    _segment(log).unlink()
    again = _log(tmp_path)
    with pytest.raises(SourceError, match=r"t/0 ends at offset 0, and records up to offset 2 were written"):
        _write(again, b"three")
    with closing(EmbeddedSource(again, Topics({"t": None}), log_start=LogStart(when_purged="earliest"))) as source:
        run_all(source, {0: {"t": 2}})
        source.poll(0, 1)
        _write(again, b"three")
        assert read(source, count(1)).values("t", 0) == [b"three"]


def test_committed_offsets_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    log = _log(tmp_path)
    (tmp_path / "committed.json").write_text("{")
    with pytest.raises(
        SourceError, match=r"committed\.json must hold the offsets up to which the log is read: .*remove"
    ):
        _write(log, b"one")


def test_damage_names_the_offsets_and_what_came_before_is_read(tmp_path: Path) -> None:
    log = _log(tmp_path)
    for value in (b"one", b"two", b"three"):
        _write(log, value)
    content = _segment(log).read_bytes()
    _segment(log).write_bytes(content.replace(b"two", b"tvo"))
    source = EmbeddedSource(log, Topics({"t": None}))
    run_all(source)
    read(source, count(1), max_records=1)
    with pytest.raises(SourceError, match=rf"damaged at byte {len(content) // 3}: .*offsets 1 to 1"):
        read(source, count(1))
    source.close()


def test_segments_begin_anew_at_their_size_and_are_read_through(tmp_path: Path) -> None:
    log = _log(tmp_path, segment_bytes=1_000)
    values = [b"%0200d" % n for n in range(40)]
    for value in values:
        _write(log, value)
    segments = log.segments(PART)
    assert 5 < len(segments) < 20
    assert all(segment.path.stat().st_size < 1_500 for segment in segments)
    assert _read_all(log) == values
    for offset in (0, 1, 7, 20, 39, 40):
        assert _read_all(log, offset) == values[offset:]


def test_a_long_write_is_cut_into_batches(tmp_path: Path) -> None:
    log = _log(tmp_path, segment_bytes=64 << 20)
    values = [b"%d" % n for n in range(40_000)]
    _write(log, *values, bytes(9_000_000), b"last")
    file = os.open(_segment(log), os.O_RDONLY)
    batches = list(walk(_segment(log), file))
    os.close(file)
    assert [batch.records for batch in batches] == [16_384, 16_384, 7_232, 1, 1]
    assert _read_all(log) == [*values, bytes(9_000_000), b"last"]


def test_retention_by_size_keeps_about_that_much(tmp_path: Path) -> None:
    log = _log(tmp_path, retention_bytes=20_000)
    for n in range(200):
        _write(log, b"%01000d" % n)
    kept = sum(segment.path.stat().st_size for segment in log.segments(PART))
    assert 20_000 <= kept < 28_000
    values = _read_all(log)
    assert values == [b"%01000d" % n for n in range(200 - len(values), 200)]
    source = EmbeddedSource(log, Topics({"t": None}))
    run_all(source, {0: {"t": 3}})
    with pytest.raises(OffsetPurged, match=rf"stored offset 3 was purged: the log begins at {200 - len(values)}"):
        read(source, count(1))
    source.close()


def test_retention_by_age_goes_by_the_newest_record_of_a_segment(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    log = EmbeddedLog(tmp_path, partitions=1, segment_bytes=1, retention_ms=60_000, clock=clock)
    for value in (b"a", b"b", b"c"):
        _write(log, value)
        clock.advance(30)
    _write(log, b"d")  # 90 s after the first, 60 s after the second.
    assert _read_all(log) == [b"b", b"c", b"d"]


def test_a_reader_that_retention_overtakes_follows_the_policy(tmp_path: Path) -> None:
    log = _log(tmp_path, segment_bytes=1)
    for n in range(6):
        _write(log, b"%d" % n)
    source = EmbeddedSource(log, Topics({"t": None}), log_start=LogStart(when_purged="earliest"))
    run_all(source)
    reading = read(source, count(2), max_records=2)
    for segment in log.segments(PART)[:4]:
        segment.path.unlink()
    read(source, lambda reading: reading.next_offsets[PART] == 6, reading=reading)
    offsets = [record.offset for record in reading.records[PART]]
    assert offsets[:2] == [0, 1]
    assert offsets[-2:] == [4, 5]
    assert source.purged_offsets_skipped == 6 - len(offsets) > 0
    source.close()


WRITER = """
import sys
from pathlib import Path
from monitor.clock import SystemClock
from monitor.events.log import Message
from monitor.sources.embedded_log import EmbeddedLog
name, writes = sys.argv[2], int(sys.argv[3])
writer = EmbeddedLog(Path(sys.argv[1]), segment_bytes=20_000, clock=SystemClock())
for number in range(writes):
    writer.write([Message("t", f"{name}-{number}-{n}".encode(), key=b"%d" % n) for n in range(20)])
"""


def test_processes_write_while_another_reads(embedded: EmbeddedUnderTest) -> None:
    source = embedded.source("t")
    run_all(source)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(embedded.directory), name, "20"], cwd=Path.cwd())
        for name in ("a", "b")
    ]
    reading = read(source, count(2 * 20 * 20))
    assert [writer.wait(PATIENCE_SECONDS) for writer in writers] == [0, 0]
    values = [value for partition in range(3) for value in reading.values("t", partition)]
    assert sorted(map(str, values)) == sorted(
        str(f"{w}-{m}-{n}".encode()) for w in "ab" for m in range(20) for n in range(20)
    )
    for partition in range(3):
        records = reading.records["t", partition]
        assert [record.offset for record in records] == list(range(len(records)))


def test_a_writer_that_is_killed_loses_nothing_that_it_acknowledged(embedded: EmbeddedUnderTest) -> None:
    script = WRITER + "    print(number, flush=True)\n"
    source = embedded.source("t")
    run_all(source)
    reading = Reading()
    for life in range(2):
        command = [sys.executable, "-c", script, str(embedded.directory), str(life), "100000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path.cwd()) as writer:
            assert writer.stdout is not None
            acknowledged = [writer.stdout.readline() for _ in range(20)]
            writer.kill()
            acknowledged += writer.stdout.readlines()
        # The next writer drops what was cut short, and then everything that is left can be read.
        embedded.writer().write([Message("t", b"end", partition=n) for n in range(3)])
        read(source, lambda reading: reading.next_offsets == source.end_offsets(), reading=reading)
        values = {value for partition in range(3) for value in reading.values("t", partition)}
        for number in (line.strip().decode() for line in acknowledged if line.endswith(b"\n")):
            assert {f"{life}-{number}-{n}".encode() for n in range(20)} <= values


def test_there_is_one_reader_and_the_next_waits_for_its_end(embedded: EmbeddedUnderTest) -> None:
    first, second = embedded.source("t"), embedded.source("t")
    run_all(first)
    with pytest.raises(SourceUnavailable, match=r"another process reads the embedded log in .*waiting for it to end"):
        second.poll(0, 1)
    first.close()
    assert run_all(second) == {0, 1, 2}


def test_a_log_that_exists_keeps_its_partitions(tmp_path: Path) -> None:
    assert EmbeddedLog(tmp_path, partitions=2, clock=SystemClock()).partitions == 2
    assert EmbeddedLog(tmp_path, partitions=5, clock=SystemClock()).partitions == 2


def test_a_log_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_text('{"format": 2, "partitions": 4}')
    with pytest.raises(SourceError, match=r"log\.json: this version reads format 1, got 2"):
        EmbeddedLog(tmp_path, clock=SystemClock())
    (tmp_path / "log.json").write_text("nonsense")
    with pytest.raises(SourceError, match=r"log\.json must describe an embedded log"):
        EmbeddedLog(tmp_path, clock=SystemClock())


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SourceUnavailable, match=r"cannot write the embedded log in .*file"):
        EmbeddedLog(tmp_path / "file" / "log", clock=SystemClock())


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", "ü", "x" * 250])
def test_names_that_kafka_would_refuse_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="topic must be 1 to 249"):
        EmbeddedLog(tmp_path, clock=SystemClock()).write([Message(name, b"x")])


def test_a_partition_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path, partitions=2, clock=SystemClock())
    with pytest.raises(SourceMisconfigured, match=r"partition of a message for t must be 0 to 1.*got 2"):
        log.write([Message("t", b"x", partition=0), Message("t", b"x", partition=2)])
    log.create_topic("t")
    assert log.segments(PART) == []


@pytest.mark.parametrize("options", [{"partitions": 0}, {"segment_bytes": 0}])
def test_numbers_out_of_range_are_refused(tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match="must be at least 1, got 0"):
        EmbeddedLog(tmp_path, clock=ManualClock(), **options)


def test_a_poll_waits_on_the_clock_it_was_given(tmp_path: Path) -> None:
    clock = ManualClock()
    source = EmbeddedSource(EmbeddedLog(tmp_path, clock=clock), Topics({"t": None}))
    source.poll(0, 1)
    assert source.poll(7.5, 1).batches == []
    assert clock.monotonic() == pytest.approx(7.5, abs=0.06)
    source.close()


def test_topics_share_a_poll_fairly(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path, partitions=2, clock=SystemClock())
    for topic in ("predictions", "outcomes"):
        log.write([Message(topic, b"x", partition=n % 2) for n in range(1_000)])
    source = EmbeddedSource(log, Topics({"predictions": None, "outcomes": None}))
    run_all(source)
    polled = source.poll(0, 100)
    assert [len(batch.records) for batch in polled.batches] == [25, 25, 25, 25]
    source.close()
