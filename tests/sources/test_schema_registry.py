"""The client of a schema registry against a real one: what it reads, and what it says when it cannot."""

import json
import ssl
import uuid
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from monitor.clock import ManualClock
from monitor.errors import SchemaUnavailable, SettingsError
from monitor.events.schemas import Schema
from monitor.sources.schema_registry import RegistrySettings, SchemaRegistry
from tests.real.registry import Demands, SchemaRegistryServer, proxy

PLACE = {"type": "record", "name": "Place", "namespace": "shop", "fields": [{"name": "region", "type": "string"}]}
BASKET = {"type": "record", "name": "Basket", "namespace": "shop", "fields": [{"name": "place", "type": "shop.Place"}]}
ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "basket", "type": "shop.Basket"}]}


@pytest.fixture
def subject() -> str:
    return f"subject-{uuid.uuid4()}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


def registry(url: str, clock: ManualClock, folder: Path | None = None, **options: Any) -> SchemaRegistry:
    cache = None if folder is None else str(folder)
    return SchemaRegistry(RegistrySettings(url=url, cache=cache, **options), clock=clock)


def test_a_schema_is_asked_for_once(schema_registry: SchemaRegistryServer, subject: str, clock: ManualClock) -> None:
    schema_id = schema_registry.register(subject, PLACE)
    demands = Demands()
    with proxy(schema_registry.url, demands) as url:
        client = registry(url, clock)
        schema = client.schema(schema_id)
        assert schema is not None
        assert (schema.kind, json.loads(schema.text), schema.references) == ("AVRO", PLACE, ())
        assert client.schema(schema_id) is schema
        client.close()
    assert demands.requests == [f"/schemas/ids/{schema_id}"]


def test_references_come_with_those_that_they_use_before_them(
    schema_registry: SchemaRegistryServer, subject: str, clock: ManualClock
) -> None:
    for name, schema, used in (("Place", PLACE, None), ("Basket", BASKET, "Place"), ("Order", ORDER, "Basket")):
        references = [{"name": f"shop.{used}", "subject": f"{subject}/{used}", "version": 1}] if used else []
        schema_id = schema_registry.register(f"{subject}%2F{name}", schema, references=references)
    client = registry(schema_registry.url, clock)
    order = client.schema(schema_id)
    client.close()
    assert order is not None
    assert [name for name, _ in order.references] == ["shop.Place", "shop.Basket"]
    assert [json.loads(text) for _, text in order.references] == [PLACE, BASKET]


def test_a_registry_that_is_away_is_asked_again_after_a_pause(subject: str, clock: ManualClock) -> None:
    client = registry("http://127.0.0.1:9", clock)
    with pytest.raises(
        SchemaUnavailable, match=r"no schema of id 1: the schema registry at http://127.0.0.1:9 does not"
    ):
        client.schema(1)
    demands = Demands(answer=(500, b"{}"))
    with proxy("", demands) as url:
        client = registry(url, clock)
        for _ in range(3):
            with pytest.raises(SchemaUnavailable, match="500"):
                client.schema(1)
        assert len(demands.requests) == 1, "the pause is half a second"
        clock.advance(0.5)
        with pytest.raises(SchemaUnavailable, match="500"):
            client.schema(1)
        assert len(demands.requests) == 2
        client.close()


def test_what_was_read_is_kept_for_a_start_without_the_registry(
    schema_registry: SchemaRegistryServer, subject: str, clock: ManualClock, tmp_path: Path
) -> None:
    schema_id = schema_registry.register(subject, PLACE)
    demands = Demands()
    with proxy(schema_registry.url, demands) as url:
        client = registry(url, clock, tmp_path)
        read = client.schema(schema_id)
        client.close()
        demands.answer = (503, b"")
        later = registry(url, clock, tmp_path)
        assert later.schema(schema_id) == read
        with pytest.raises(SchemaUnavailable):
            later.schema(schema_id + 1_000)
        # A file that was cut off counts as none.
        for file in tmp_path.rglob("*.json"):
            file.write_bytes(file.read_bytes()[:-10])
        with pytest.raises(SchemaUnavailable):
            registry(url, clock, tmp_path).schema(schema_id)
        later.close()
    # The ids of another registry name other schemas.
    with proxy(schema_registry.url, Demands(answer=(503, b""))) as other, pytest.raises(SchemaUnavailable):
        registry(other, clock, tmp_path).schema(schema_id)


def test_a_folder_that_cannot_be_written_does_not_keep_schemas_from_being_read(
    schema_registry: SchemaRegistryServer, subject: str, clock: ManualClock, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    client = registry(schema_registry.url, clock, tmp_path / "file")
    assert client.schema(schema_registry.register(subject, PLACE)) is not None
    client.close()


def test_an_id_that_does_not_exist_counts_once_that_lasts(
    schema_registry: SchemaRegistryServer, subject: str, clock: ManualClock
) -> None:
    demands = Demands()
    with proxy(schema_registry.url, demands) as url:
        client = registry(url, clock)
        for _ in range(10):
            with pytest.raises(SchemaUnavailable, match="no schema of id 4000000 yet; after 10 s"):
                client.schema(4_000_000)
            clock.advance(1)
        assert client.schema(4_000_000) is None
        assert client.schema(4_000_000) is None
        assert len(demands.requests) == 11
        # It may come to exist.
        clock.advance(60)
        assert client.schema(4_000_000) is None
        assert len(demands.requests) == 12
        # Another id is not held back by it.
        assert client.schema(schema_registry.register(subject, PLACE)) is not None
        client.close()


@pytest.mark.parametrize("answer", [(404, b"<html>"), (404, b'{"error_code": 404}'), (200, b"<html>"), (200, b"{}")])
def test_a_server_that_is_no_registry_makes_no_dead_letters(answer: tuple[int, bytes], clock: ManualClock) -> None:
    with proxy("", Demands(answer=answer)) as url:
        client = registry(url, clock)
        for _ in range(3):
            with pytest.raises(SchemaUnavailable, match=r"is source\.registry\.url that of its Confluent-compatible"):
                client.schema(1)
            clock.advance(60)
        client.close()


def test_a_registry_that_is_slow_is_not_waited_for(clock: ManualClock) -> None:
    with proxy("", Demands(delay_seconds=2.0)) as url:
        # Less than a setting may be: the test need not wait.
        impatient = RegistrySettings(url=url, cache=None).model_copy(update={"timeout": timedelta(seconds=0.1)})
        client = SchemaRegistry(impatient, clock=clock)
        with pytest.raises(SchemaUnavailable, match="did not answer in time"):
            client.schema(1)
        client.close()


@pytest.mark.parametrize(
    ("demands", "right_and_wrong"),
    [
        (
            Demands(username="me", password="s3cret"),
            ({"username": "me", "password": "s3cret"}, {"username": "me", "password": "wrong"}),
        ),
        (Demands(token="t0ken"), ({"token": "t0ken"}, {"token": "wrong"})),
        (Demands(token="t0ken"), ({"token": "t0ken"}, {})),
    ],
)
def test_credentials(
    schema_registry: SchemaRegistryServer,
    clock: ManualClock,
    demands: Demands,
    right_and_wrong: Sequence[dict[str, Any]],
) -> None:
    schema_id = schema_registry.register(f"subject-{uuid.uuid4()}", PLACE)
    right, wrong = right_and_wrong
    with proxy(schema_registry.url, demands) as url:
        client = registry(url, clock, **right)
        assert client.schema(schema_id) is not None
        client.close()
        client = registry(url, clock, **wrong)
        with pytest.raises(SchemaUnavailable, match=r"refuses us \(401\); correct source.registry.username") as raised:
            client.schema(schema_id)
        client.close()
        assert "wrong" not in str(raised.value)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    folder = tmp_path_factory.mktemp("authority")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    mine = authority.issue_cert("me")
    mine.cert_chain_pems[0].write_to_path(str(folder / "me.pem"))
    mine.private_key_pem.write_to_path(str(folder / "me.key"))
    return authority, folder


def test_mutual_tls(
    schema_registry: SchemaRegistryServer, subject: str, clock: ManualClock, authority: tuple[trustme.CA, Path]
) -> None:
    ca, folder = authority
    schema_id = schema_registry.register(subject, PLACE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    trusting: dict[str, Any] = {"ssl_cafile": str(folder / "ca.pem")}
    certificate: dict[str, Any] = {"ssl_certfile": str(folder / "me.pem"), "ssl_keyfile": str(folder / "me.key")}
    with proxy(schema_registry.url, Demands(), context) as url:
        client = registry(url, clock, **trusting, **certificate)
        assert client.schema(schema_id) is not None
        client.close()
        for refused in (trusting, certificate):
            client = registry(url, clock, **refused)
            with pytest.raises(SchemaUnavailable, match="does not answer"):
                client.schema(schema_id)
            client.close()


def test_files_that_do_not_exist_are_named() -> None:
    with pytest.raises(SettingsError, match=r"source.registry: ssl_cafile /none.pem, .* must be readable PEM"):
        RegistrySettings(url="http://registry:8081", ssl_cafile="/none.pem").client()


def test_guids_are_asked_for_by_their_own_path(clock: ManualClock) -> None:
    """Apicurio has no GUIDs: the answer is that of Confluent's registry, as its documentation shows it."""
    guid = uuid.UUID("1ad0a4c5-95f5-4b41-8b8e-42a4ee6f29dc")
    demands = Demands(answer=(200, json.dumps({"schema": json.dumps(PLACE), "guid": str(guid), "id": 7}).encode()))
    with proxy("", demands) as url:
        client = registry(url, clock)
        assert client.schema(guid) == Schema("AVRO", json.dumps(PLACE))
        client.close()
    assert demands.requests == [f"/schemas/guids/{guid}"]
