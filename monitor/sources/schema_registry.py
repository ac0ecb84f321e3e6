"""A schema registry over its Confluent-compatible REST interface, which Apicurio and Karapace have, too.

Schemas never change under their id, so each is requested once, kept in memory, and written to disk for starts while
the registry is away.

Three answers are kept apart:

- *The registry is away*, refuses us, or its address is wrong: :class:`~monitor.errors.SchemaUnavailable`, retried with
  backoff for as long as it takes. No event becomes a dead letter for it.
- *It has no such id* (404 with the error code 40403): a follower of the registry may be behind, so this counts only
  once it has lasted for ``unknown_seconds``. Then nobody can read the message: it becomes a dead letter, to be replayed
  once the schema is there.
- *It has the schema*: decoded.

Source: https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import hashlib
import os
import ssl
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote
from uuid import UUID

import httpx
import msgspec
import structlog
from pydantic import AfterValidator, SecretStr, model_validator

from monitor.clock import Clock
from monitor.errors import SchemaUnavailable, SettingsError
from monitor.events.schemas import Reference, Registry, Schema, SchemaId
from monitor.outage_log import Outage, Retry
from monitor.section import FilePath, Section, Span, Text, check_http_url

_NO_SCHEMA: Final = 40403
_FIRST_PAUSE_SECONDS: Final = 1.0
_LATER_PAUSE_SECONDS: Final = 60.0
"""How long an id that does not exist is not requested again: at first, and once that is certain."""
_MAX_UNKNOWN: Final = 10_000

_log = structlog.get_logger(__name__)

_WAIT_SECONDS: Final = 0.1
"""How long a request is waited for: a registry that is well answers sooner, and no partition has to wait."""


def _check_registry(text: str) -> str:
    if check_http_url(text, "http://registry:8081").userinfo:
        raise ValueError("must have no user in it: set username and password instead")
    return text


class RegistrySettings(Section):
    """The schema registry: Confluent's, or one with the same REST interface."""

    url: Annotated[str, AfterValidator(_check_registry)] | None = None
    """Its address; Apicurio's ends in /apis/ccompat/v7."""
    username: Text | None = None
    """User of basic authentication; of Confluent Cloud, the API key."""
    password: SecretStr | None = None
    """Password of basic authentication; of Confluent Cloud, the API secret."""
    token: SecretStr | None = None
    """Token of bearer authentication."""
    ssl_cafile: FilePath | None = None
    """File with the certificates to trust, PEM; null trusts those of the system."""
    ssl_certfile: FilePath | None = None
    """File with this client's certificate, PEM."""
    ssl_keyfile: FilePath | None = None
    """File with this client's key, PEM."""
    ssl_password: SecretStr | None = None
    """Password of the key file."""
    timeout: Span = timedelta(seconds=5)
    """How long to wait for an answer. Partitions that need the schema wait, and others are read meanwhile."""
    cache: FilePath | None = "monitor-data/schemas"
    """Folder that keeps the schemas that were read, for starts while the registry is away. Null keeps none."""

    @model_validator(mode="after")
    def _one_log_in(self) -> "RegistrySettings":
        if self.token is not None and self.username is not None:
            raise ValueError("must have a token, or a username and password, and not both")
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password must be set together")
        return self

    def client(self) -> httpx.Client:
        """An HTTP client of this registry."""
        headers = {"accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token.get_secret_value()}"
        return httpx.Client(
            base_url=(self.url or "").rstrip("/") + "/",
            auth=None if self.username is None else (self.username, _revealed(self.password)),
            headers=headers,
            verify=self._tls(),
            timeout=self.timeout.total_seconds(),
            follow_redirects=True,
        )

    def _tls(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile)
            if self.ssl_certfile is not None:
                # An empty password instead of none, for which OpenSSL would ask at the terminal.
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile, _revealed(self.ssl_password))
        except OSError as error:
            raise SettingsError(
                f"source.registry: ssl_cafile {self.ssl_cafile}, ssl_certfile {self.ssl_certfile} and ssl_keyfile "
                f"{self.ssl_keyfile} must be readable PEM that fits together: {error}"
            ) from error
        return context


def _revealed(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


@dataclass(slots=True)
class _Unknown:
    """An id that the registry does not have."""

    since: float
    ask_at: float
    certain: bool = False


class _Named(msgspec.Struct):
    """A reference of a schema to a version of another."""

    name: str
    subject: str
    version: int


class _SchemaAnswer(msgspec.Struct):
    """What the registry answers about a schema."""

    schema: str
    schemaType: str = "AVRO"  # noqa: N815 - the registry's name
    references: list[_Named] | None = None


_read_answer: Final = msgspec.json.Decoder(_SchemaAnswer).decode
_read_schema: Final = msgspec.json.Decoder(Schema).decode


class _Failure(Exception):  # noqa: N818 - becomes SchemaUnavailable
    """The registry did not give what was requested; says why."""


class SchemaRegistry:
    """Schemas by id. Used from one thread at a time.

    Parameters
    ----------
    settings
        How the registry is reached, and where schemas are kept for starts without it.
    unknown_seconds
        How long an id must be unknown to the registry before that counts.
    clock
        Measures pauses.
    """

    def __init__(
        self,
        settings: RegistrySettings,
        *,
        unknown_seconds: float = 10.0,
        clock: Clock,
    ) -> None:
        self._url = settings.url or ""
        self._http = settings.client()
        # The ids of another registry name other schemas.
        digest = hashlib.sha256(self._url.encode()).hexdigest()[:16]
        self._folder = None if settings.cache is None else Path(settings.cache) / digest
        self._unknown_seconds = unknown_seconds
        self._clock = clock
        self._retry = Retry(
            self._clock,
            Outage(_log, "the schema registry gives no schemas", "the schema registry gives schemas", self._clock),
        )
        self._schemas: dict[SchemaId, Schema] = {}
        self._unknown: dict[SchemaId, _Unknown] = {}

    def schema(self, identifier: SchemaId) -> Schema | None:
        """The schema of this id; None if the registry has had none for ``unknown_seconds``.

        Raises
        ------
        SchemaUnavailable
            It cannot be had now: ask again later. While a pause lasts, this raises without a request.
        """
        schema = self._schemas.get(identifier)
        if schema is not None:
            return schema
        unknown = self._unknown.get(identifier)
        if unknown is not None and self._clock.monotonic() < unknown.ask_at:
            self._check_certain(identifier, unknown)
            return None
        schema = self._fetch(identifier) or self._load(identifier)
        if schema is None:
            self._check_certain(identifier, self._note_unknown(identifier))
            return None
        self._unknown.pop(identifier, None)
        self._schemas[identifier] = schema
        return schema

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # ------------------------------------------------------------------ what the registry does not have

    def _note_unknown(self, identifier: SchemaId) -> _Unknown:
        now = self._clock.monotonic()
        if len(self._unknown) >= _MAX_UNKNOWN:
            self._unknown.clear()
        unknown = self._unknown.setdefault(identifier, _Unknown(now, now))
        if not unknown.certain and now - unknown.since >= self._unknown_seconds:
            unknown.certain = True
            _log.warning("the schema registry has no schema of this id", id=str(identifier), registry=self._url)
        unknown.ask_at = now + (_LATER_PAUSE_SECONDS if unknown.certain else _FIRST_PAUSE_SECONDS)
        return unknown

    def _check_certain(self, identifier: SchemaId, unknown: _Unknown) -> None:
        if not unknown.certain:
            raise SchemaUnavailable(
                f"the schema registry at {self._url} has no schema of id {identifier} yet; after "
                f"{self._unknown_seconds:g} s its messages become dead letters"
            )

    # ------------------------------------------------------------------ asking

    def _fetch(self, identifier: SchemaId) -> Schema | None:
        """The schema from the registry, or from disk if that is away; None if the registry has none."""
        if not self._retry.due:
            return self._load_or_raise(identifier, self._retry.detail)
        guid = isinstance(identifier, UUID)
        try:
            answer = self._get(f"schemas/{'guids' if guid else 'ids'}/{identifier}", may_be_unknown=True)
            schema = None if answer is None else self._read(answer)
        except _Failure as failure:
            self._retry.failed(failure)
            return self._load_or_raise(identifier, str(failure))
        self._retry.over()
        if schema is not None:
            self._keep(identifier, schema)
        return schema

    def _get(self, path: str, *, may_be_unknown: bool = False) -> _SchemaAnswer | None:
        """The answer at a path; None if the registry has no schema of that id, where that may be."""
        where = f"the schema registry at {self._url}"
        try:
            response = self._http.get(path)
        except httpx.TimeoutException as error:
            raise _Failure(f"{where} did not answer in time (source.registry.timeout)") from error
        except httpx.HTTPError as error:
            raise _Failure(f"{where} does not answer: {error}") from error
        status = response.status_code
        if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            raise _Failure(
                f"{where} refuses us ({status}); correct source.registry.username and password, or token, or grant "
                "read access to its schemas"
            )
        if status == httpx.codes.OK:
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                return _read_answer(response.content)
        elif may_be_unknown and status == httpx.codes.NOT_FOUND and _error_code(response) == _NO_SCHEMA:
            return None
        raise _Failure(
            f"{where} answers {path} with {status} and no schema; is source.registry.url that of its "
            "Confluent-compatible interface, such as http://apicurio:8080/apis/ccompat/v7?"
        )

    def _read(self, answer: _SchemaAnswer) -> Schema:
        references: dict[str, Reference] = {}
        self._read_references(answer, references, set())
        return Schema(answer.schemaType, answer.schema, tuple(references.values()))

    def _read_references(self, answer: _SchemaAnswer, read: dict[str, Reference], requested: set[str]) -> None:
        for reference in answer.references or ():
            if reference.name in requested:
                continue
            requested.add(reference.name)
            inner = self._get(f"subjects/{quote(reference.subject, safe='')}/versions/{reference.version}")
            if inner is not None:
                self._read_references(inner, read, requested)
                read[reference.name] = Reference(reference.name, inner.schema)

    # ------------------------------------------------------------------ on disk

    def _load_or_raise(self, identifier: SchemaId, why: str) -> Schema:
        schema = self._load(identifier)
        if schema is None:
            raise SchemaUnavailable(f"no schema of id {identifier}: {why}")
        return schema

    def _load(self, identifier: SchemaId) -> Schema | None:
        if self._folder is None:
            return None
        try:
            return _read_schema((self._folder / f"{identifier}.json").read_bytes())
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None  # not kept, or cut off: then it has to be fetched

    def _keep(self, identifier: SchemaId, schema: Schema) -> None:
        if self._folder is None:
            return
        file = self._folder / f"{identifier}.json"
        partial = file.with_suffix(f".{os.getpid()}")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(msgspec.json.encode(schema))
            partial.replace(file)
        except OSError as error:
            _log.warning(
                "a schema cannot be kept on disk; a start without the schema registry will not have it",
                file=str(file), error=str(error),
            )  # fmt: skip


def _error_code(response: httpx.Response) -> int | None:
    try:
        code = response.json()["error_code"]
    except (ValueError, LookupError, TypeError):
        return None
    return code if isinstance(code, int) else None


class BackgroundRegistry:
    """Schemas by id, from a registry that only one thread asks.

    Parameters
    ----------
    registry
        The registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schema-registry")
        self._requests: dict[SchemaId, Future[Schema | None]] = {}
        """Requests that are not answered yet, and those that were answered with a schema."""

    def schema(self, identifier: SchemaId) -> Schema | None:
        """The schema of this id; None if the registry says that there is none.

        Raises
        ------
        SchemaUnavailable
            It cannot be had now, or not yet: ask again later.
        """
        request = self._requests.get(identifier)
        if request is None:
            request = self._requests[identifier] = self._thread.submit(self._registry.schema, identifier)
            wait([request], _WAIT_SECONDS)
        if not request.done():
            raise SchemaUnavailable(f"the schema registry has not answered yet about the schema of id {identifier}")
        if request.exception() is not None or request.result() is None:
            del self._requests[identifier]  # it is asked again
        return request.result()
