from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from monitor.events.partitions import partitions_of


@given(st.lists(st.binary(max_size=40)), st.integers(1, 1000))
def test_keys_go_where_a_kafka_producer_sends_them(keys: list[bytes], partitions: int) -> None:
    expected = [(murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
    assert partitions_of(keys, partitions).tolist() == expected


def test_hashes_of_the_java_client() -> None:
    # org.apache.kafka.common.utils.UtilsTest.testMurmur2; hashes are signed there.
    known = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    for key, signed in known.items():
        assert partitions_of([key], 2**31 - 1).tolist() == [(signed & 0x7FFFFFFF) % (2**31 - 1)]
