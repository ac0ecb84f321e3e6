"""Tokens over REST, from the settings to the audit trail: who gets in, who does not, and what is told of either."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
import trustme

from monitor.access.provider import Provider
from monitor.app.access import Credentials, make_tokens
from monitor.app.settings import Settings
from monitor.clock import SystemClock
from monitor.errors import ProviderUnavailable
from tests.access.provider import AUDIENCE, Pair, Running, ec_pair, rsa_pair, running
from tests.access.tokens import MISSING
from tests.http.keys import Keys
from tests.http.refits import Refits, of_this_process
from tests.http.service import Client, Service, assert_problem
from tests.snapshots import report, snapshot

RSA, EC, STRANGER = rsa_pair(), ec_pair(), rsa_pair()
NOW = SystemClock().now_ms() // 1000


@dataclass
class Site:
    """A service, and the provider whose tokens it takes."""

    provider: Running
    client: Client
    keys: Keys
    service: Service
    refits: Refits

    def claims(self, **changed: Any) -> dict[str, Any]:
        found = {
            "iss": self.provider.issuer,
            "aud": AUDIENCE,
            "sub": "subject-0b1f",
            "preferred_username": "grace",
            "iat": NOW,
            "exp": NOW + 3600,
            "realm_access": {"roles": ["ml-oncall", "offline_access"]},
        } | changed
        return {name: value for name, value in found.items() if value is not MISSING}

    def token(self, pair: Pair = RSA, *, header: dict[str, Any] | None = None, **changed: Any) -> str:
        return pair.sign(self.claims(**changed), **(header or {}))

    def get(self, path: str, token: str) -> httpx.Response:
        return self.client.get(path, key=token)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with running(RSA, EC) as provider:
        oidc = {
            "issuer": provider.issuer,
            "audience": AUDIENCE,
            "roles_claim": "realm_access.roles",
            "roles": {"ml-oncall": ["read", "promote:churn"], "ml-fraud": ["read:fraud"]},
            "name_claim": "preferred_username",
        }
        tokens = make_tokens(Settings.model_validate({"access": {"oidc": oidc}}), SystemClock())
        keys = Keys()
        keys("read")
        keys("write", "read")
        refits = of_this_process()
        service = Service(refits=refits)
        service.authenticator = Credentials(keys.authenticator(), tokens)
        service.show(snapshot([report("churn"), report("fraud")]))
        yield Site(provider, service.client(), keys, service, refits)


def test_a_token_lets_in_whom_its_claims_allow(site: Site) -> None:
    for pair in (RSA, EC):
        token = site.token(pair)
        session = site.get("/v1/session", token).json()
        assert session == {
            "name": "oidc:grace",
            "roles": ["promote:churn", "read"],
            "simulated_now": None,
            "simulation": None,
        }
        assert site.get("/metrics", token).status_code == 200
        refused = site.client.post("/v1/events", key=token, json={})
        assert_problem(refused, 403, "role write", "oidc:grace holds promote:churn, read")


def test_a_token_for_one_model_finds_the_others_not(site: Site) -> None:
    token = site.token(realm_access={"roles": ["ml-fraud"]})
    assert [each["model"] for each in site.get("/v1/models", token).json()["models"]] == ["fraud"]
    assert_problem(site.get("/v1/models/churn/report", token), 404)
    assert_problem(site.get("/metrics", token), 403, "all models")


def test_keys_go_on_beside_tokens(site: Site) -> None:
    assert site.get("/v1/models", site.keys("read")).status_code == 200


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/churn/report", "/metrics", "/v1/session"])
def test_a_token_that_names_no_role_is_forbidden_everything_and_told_why(site: Site, path: str) -> None:
    token = site.token(realm_access={"roles": ["offline_access"]})
    assert_problem(
        site.get(path, token),
        403,
        "oidc:grace holds nothing: the token's claim realm_access.roles names nothing that access.oidc.roles lists",
    )


WRONG: dict[str, Any] = {
    "audience": lambda site: site.token(aud="billing"),
    "no audience": lambda site: site.token(aud=MISSING),
    "issuer": lambda site: site.token(iss="https://evil.example.org"),
    "expired": lambda site: site.token(exp=NOW - 60),
    "early": lambda site: site.token(nbf=NOW + 3600),
    "forged": lambda site: site.token(STRANGER),
    "unknown key": lambda site: site.token(Pair("other", STRANGER.private, "RS256")),
    "none": lambda site: "eyJhbGciOiJub25lIn0." + site.token().split(".")[1] + ".",
    "no signature": lambda site: site.token().rpartition(".")[0] + ".",
    "nameless": lambda site: site.token(preferred_username=MISSING),
    "garbage": lambda _: "eyJhbGciOiJSUzI1NiJ9.garbage.garbage",
    "word": lambda _: "password",
    "long": lambda site: site.token(pad="x" * 20_000),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_token_is_refused_and_is_nowhere_to_be_found(site: Site, what: str) -> None:
    token = WRONG[what](site)
    # Each from an address of its own: too many of one are not looked at.
    client = Client(site.service.app(), address=f"198.51.100.{1 + list(WRONG).index(what)}")
    with structlog.testing.capture_logs() as logs:
        answer = client.get("/v1/models", key=token)
        log_in = client.post("/v1/session", json={"key": token})
    problem = assert_problem(answer, 401)
    assert problem["type"].endswith(":unauthenticated")
    assert answer.headers["www-authenticate"] == 'Bearer realm="calibration-monitor"'
    assert log_in.status_code in (401, 413, 422)
    assert "set-cookie" not in log_in.headers
    told = answer.text + log_in.text + str(answer.headers) + str(log_in.headers) + repr(logs)
    for part in (token, *(each for each in token.split(".") if len(each) > 8)):
        assert part not in told
    assert "grace" not in told


def test_what_is_right_is_nowhere_to_be_found_either(site: Site) -> None:
    token = site.token()
    with structlog.testing.capture_logs() as logs:
        asked = site.client.post(
            "/v1/models/churn/recalibrations", key=site.keys("write", "read"), json={"promote": False}
        )
        refit = site.refits.end(asked.json()["id"]).id
        promoted = site.client.post(f"/v1/recalibrations/{refit}/promotion", key=token, json={"note": "later"})
        assert promoted.status_code == 200, promoted.text
        forbidden = site.client.post("/v1/models/fraud/rollback", key=token)
        assert_problem(forbidden, 403, "role promote")
        audit = site.get("/v1/audit", token)
        metrics = site.get("/metrics", token)
    made = [each["actor"] for each in audit.json()["entries"] if each["subject"] == refit]
    # Who promoted is named as the token names them, who asked by the name of their key.
    assert "oidc:grace" in made
    assert any(each.startswith("key:") for each in made)
    told = promoted.text + forbidden.text + audit.text + metrics.text + repr(logs)
    for part in (token, *token.split("."), "subject-0b1f", site.keys("write", "read")):
        assert part not in told


def test_a_browser_may_log_in_with_a_token(site: Site) -> None:
    token = site.token(EC)
    answer = site.client.post("/v1/session", json={"key": token})
    assert answer.status_code == 204, answer.text
    name, _, value = answer.headers["set-cookie"].partition(";")[0].partition("=")
    assert site.client.get("/v1/session", headers={"cookie": f"{name}={value}"}).json()["name"] == "oidc:grace"


def test_a_provider_that_is_away_is_no_fault_of_the_token() -> None:
    with running(RSA) as provider:
        oidc = {"issuer": provider.issuer, "audience": AUDIENCE, "jwks_url": provider.jwks_url}
        service = Service()
        service.authenticator = make_tokens(Settings.model_validate({"access": {"oidc": oidc}}), SystemClock())
        provider.overrides["/realms/ml/keys"] = (502, {}, b"")
        client = service.client()
        token = RSA.sign({"iss": provider.issuer, "aud": AUDIENCE, "sub": "ada", "iat": NOW, "exp": NOW + 60})
        problem = assert_problem(client.get("/v1/models", key=token), 503, "cannot be checked at present: try again")
        assert problem["type"].endswith(":provider-unavailable")
        # Whoever is not to blame is not counted among those who try.
        assert service.refused.counts["wrong"] == 0
        assert provider.issuer not in problem["detail"]


def test_a_provider_over_https_is_trusted_by_its_authority_alone(tmp_path: Path) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    for file, issuer in (("own.pem", authority), ("other.pem", trustme.CA())):
        issuer.cert_pem.write_to_path(str(tmp_path / file))
    with running(EC, tls=tls) as provider:
        assert provider.issuer.startswith("https://")
        assert [each.kid for each in Provider(provider.issuer, cafile=str(tmp_path / "own.pem")).read().keys] == ["ec"]
        for cafile in (str(tmp_path / "other.pem"), None):
            with pytest.raises(ProviderUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
                Provider(provider.issuer, cafile=cafile).read()
