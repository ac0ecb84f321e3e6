"""Events that name no type, in a file that holds what stood in several topics."""

import pytest

from monitor.events.codec import Decoded, Decoder
from monitor.events.formats.base import Rules
from monitor.events.model import Kind, ModelPolicy, Reason, RecordBatch
from monitor.events.strata import Caps, Strata
from tests.stream.support import LogRecord

HEAD = b'{"model":"m","id":"1","ts":1760000000000'


def decoded(*values: bytes, kind_by_keys: bool = True) -> Decoded:
    records = [LogRecord(at, -1, value) for at, value in enumerate(values)]
    strata = Strata(lambda _: ModelPolicy(horizon_ms=1, lateness_ms=1), Caps())
    return Decoder(Rules(kind_by_keys=kind_by_keys)).decode(RecordBatch("f", 0, records, len(records)), strata, None)


@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        (b',"p":0.5}', Kind.PREDICTION),
        (b',"y":1}', Kind.OUTCOME),
        (b',"y":0.0}', Kind.OUTCOME),
        (b',"p":0.5,"y":1}', Kind.LABELLED),
        (b',"p":0.5,"y":null}', Kind.PREDICTION),
        (b',"p":[0.5,0.5]}', Kind.PREDICTION),
        (b',"p":[0.2,0.3,0.5]}', None),
        (b',"type":null,"p":1}', Kind.PREDICTION),
        (b',"type":"outcome","p":0.5,"y":1}', Kind.OUTCOME),
        (b"}", None),
    ],
)
def test_what_it_holds_tells_what_it_is(rest: bytes, kind: Kind | None) -> None:
    alone = decoded(HEAD + rest)
    among = decoded(HEAD + b',"y":1}', HEAD + rest)
    expected = [] if kind is None else [kind]
    assert alone.columns.kind.tolist() == expected
    assert among.columns.kind.tolist() == [Kind.OUTCOME, *expected]


def test_elsewhere_each_names_its_own() -> None:
    strict = decoded(HEAD + b',"p":0.5}', kind_by_keys=False)
    assert [letter.reason for letter in strict.dead_letters] == [Reason.MISSING_KEY]
