"""The API as its own OpenAPI document describes it: whatever is asked, the answer is as described, and no 5xx."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from monitor.access.settings import AccessSettings
from tests.http.keys import Keys
from tests.http.refits import of_this_process
from tests.http.service import Client, Service
from tests.patience import PATIENCE_SECONDS
from tests.snapshots import report, snapshot

KEYS = Keys()
KEY = KEYS("read", "write", "promote")
SERVICE = Service(refits=of_this_process(), access=AccessSettings(failures_per_minute=10**6, requests_per_second=10**6))
SERVICE.authenticator = KEYS.authenticator(SERVICE.clock)
SERVICE.show(snapshot([report("churn", window="24h")]))
APP = SERVICE.app()


@schemathesis.serializer("application/x-ndjson")
def lines(_: object, value: object) -> bytes:
    """One event a line, or whatever else was made up."""
    return str(value).encode("utf-8", "replace")


SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP, timeout=PATIENCE_SECONDS)
# Its own patience is ten seconds, in which kernels may have to be compiled.
SCHEMA.config.update(request_timeout=PATIENCE_SECONDS)

KNOWN = {"model": "churn", "name": "reliability"}


@pytest.fixture(scope="module", autouse=True)
def refit() -> None:
    """Make a refit to ask for. Not at import: every process of a test run collects all tests."""
    answer = Client(APP).post("/v1/models/churn/recalibrations", key=KEY, json={"promote": False})
    KNOWN["id"] = answer.json()["id"]


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

BOUNDED = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@SCHEMA.parametrize()
@BOUNDED
def test_with_a_key(case: Any) -> None:
    # Half of them are about what there is: a random name is found nowhere.
    if len(str(case.path_parameters)) % 2:
        case.path_parameters = {name: KNOWN[name] for name in case.path_parameters}
    case.call_and_validate(checks=CHECKS, headers={"Authorization": f"Bearer {KEY}"})


@SCHEMA.parametrize()
@settings(BOUNDED, max_examples=2, phases=[Phase.generate])
def test_without_a_key(case: Any) -> None:
    answer = case.call_and_validate(checks=CHECKS)
    if case.operation.definition.raw["security"]:
        # 403: it invents sessions.
        assert answer.status_code in (401, 403)
