"""The keys of a provider: read from a real one on this machine, kept, renewed, and gone on with while it is away."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from monitor.access import provider as module
from monitor.access.provider import (
    MAX_BYTES,
    MAX_KEYS,
    OUTAGE_SECONDS,
    RETRY_SECONDS,
    Provider,
    ProviderKeys,
    parse_keys,
)
from monitor.access.settings import OidcSettings, check_url
from monitor.access.tokens import REMEMBERED_SECONDS, TokenAuthenticator
from monitor.clock import ManualClock
from monitor.errors import InputError, ProviderUnavailable, SettingsError, Unauthenticated
from tests.access.provider import AUDIENCE, Pair, Running, ec_pair, ed_pair, rsa_pair, running
from tests.access.tokens import EC, ED, NOW, NOW_MS, RSA
from tests.patience import PATIENCE_SECONDS, joined

REFRESH = 600.0
DISCOVERY = "/realms/ml/.well-known/openid-configuration"
KEYS = "/realms/ml/keys"


@pytest.fixture
def provider() -> Iterator[Running]:
    with running(RSA, EC) as provider:
        yield provider


class Access:
    """An authenticator of tokens of a provider that is asked over HTTP."""

    def __init__(self, provider: Running, **where: Any) -> None:
        self.provider = provider
        self.clock = ManualClock(NOW_MS)
        self.keys = ProviderKeys(Provider(provider.issuer, **where).read, REFRESH, self.clock)
        self.tokens = TokenAuthenticator(OidcSettings(issuer=provider.issuer, audience=AUDIENCE), self.keys, self.clock)

    def token(self, pair: Pair, **header: Any) -> str:
        claims = {"iss": self.provider.issuer, "aud": AUDIENCE, "sub": "ada", "iat": NOW, "exp": NOW + 10**6}
        return pair.sign(claims, **header)

    def __call__(self, token: str) -> str:
        name = self.tokens.authenticate(token).name
        self.settle()
        return name

    def settle(self) -> None:
        """Wait until a reading that was begun has ended."""
        reading = self.keys._cache._last_read
        if reading is not None:
            assert reading.ended.wait(PATIENCE_SECONDS)

    @property
    def reads(self) -> int:
        return self.provider.asked.count(KEYS)


# What a provider is asked.


def test_the_discovery_document_says_where_the_keys_are(provider: Running) -> None:
    access = Access(provider)
    assert access(access.token(RSA)) == "oidc:ada"
    assert access(access.token(EC)) == "oidc:ada"
    assert provider.asked == [DISCOVERY, KEYS]


def test_where_the_keys_are_may_be_said_in_the_settings(provider: Running) -> None:
    access = Access(provider, jwks_url=provider.jwks_url)
    assert access(access.token(RSA)) == "oidc:ada"
    assert provider.asked == [KEYS]


def test_a_token_that_names_another_place_sends_nobody_there(provider: Running) -> None:
    stranger = rsa_pair("rsa")
    with running(stranger) as other:
        access = Access(provider)
        for header in ({"jku": other.jwks_url}, {"x5u": other.jwks_url}, {"jwk": stranger.jwk()}):
            with pytest.raises(Unauthenticated, match="not signed with a key"):
                access(access.token(stranger, **header))
        with pytest.raises(Unauthenticated, match="not signed with a key"):
            access(access.token(Pair(other.jwks_url, stranger.private, "RS256")))
        assert other.asked == []


def test_a_new_key_holds_without_a_restart_and_an_old_one_no_more(provider: Running) -> None:
    access = Access(provider)
    old = access.token(RSA)
    assert access(old) == "oidc:ada"
    new = rsa_pair("new")
    provider.keys = [new.jwk()]
    access.clock.advance(RETRY_SECONDS)
    with structlog.testing.capture_logs() as logs:
        assert access(access.token(new)) == "oidc:ada"
    assert logs == [{"event": "the provider's keys have changed", "kids": ["new"], "unusable": [], "log_level": "info"}]
    # Though it was remembered.
    with pytest.raises(Unauthenticated, match="not signed with a key that its provider has now"):
        access(old)
    assert access.reads == 2


def test_a_key_that_was_withdrawn_holds_no_longer_than_said(provider: Running) -> None:
    access = Access(provider)
    token = access.token(RSA)
    assert access(token) == "oidc:ada"
    provider.keys = [EC.jwk()]
    access.clock.advance(0.8 * REFRESH - 0.001)
    assert access(token) == "oidc:ada"
    assert access.reads == 1
    # Asked for beside a request, which does not wait, and is answered with the keys that there are, or just came.
    access.clock.advance(0.001)
    access.tokens.authenticate(access.token(EC))
    access.settle()
    assert access.reads == 2
    with pytest.raises(Unauthenticated, match="not signed with a key"):
        access(token)


def test_memory_tells_of_a_token_without_a_wait(provider: Running) -> None:
    access = Access(provider)
    token = access.token(RSA)
    assert access.tokens.recall(token) is None
    assert access(token) == "oidc:ada"
    assert access.tokens.recall(token) == access.tokens.authenticate(token)
    assert access.tokens.recall(access.token(EC)) is None
    assert access.tokens.recall("a" * 20_000) is None
    assert access.tokens.recall("\u00e9") is None
    assert access.reads == 1
    # Its owner asks all the time: the provider's keys are renewed beside it, and what they do not sign is forgotten.
    provider.keys = [EC.jwk()]
    access.clock.advance(0.8 * REFRESH - REMEMBERED_SECONDS / 2)
    assert access(token) == "oidc:ada"
    access.clock.advance(REMEMBERED_SECONDS / 2)
    assert access.tokens.recall(token) is not None
    access.settle()
    assert access.reads == 2
    assert access.tokens.recall(token) is None
    # Those that are too old are waited for, and that is not for this one to do.
    other = access.token(EC)
    assert access(other) == "oidc:ada"
    access.clock.advance(REFRESH)
    assert access.tokens.recall(other) is None


def test_where_nobody_asked_for_long_the_next_waits_for_the_keys(provider: Running) -> None:
    access = Access(provider)
    token = access.token(RSA)
    assert access(token) == "oidc:ada"
    provider.keys = [EC.jwk()]
    access.clock.advance(REFRESH)
    with pytest.raises(Unauthenticated, match="not signed with a key"):
        access.tokens.authenticate(token)


def test_names_of_keys_made_up_by_strangers_do_not_make_the_service_ask(provider: Running) -> None:
    access = Access(provider)
    assert access(access.token(RSA)) == "oidc:ada"
    stranger = ec_pair()
    for number in range(1000):
        with pytest.raises(Unauthenticated):
            access(access.token(Pair(f"k{number}", stranger.private, "ES256")))
        access.clock.advance(0.02)
    # 20 s.
    assert access.reads <= 1 + 20 / RETRY_SECONDS


def test_many_that_ask_at_once_are_one_question(provider: Running) -> None:
    access = Access(provider)
    provider.open.clear()
    found: list[str] = []
    token = access.token(RSA)
    threads = [threading.Thread(target=lambda: found.append(access(token))) for _ in range(8)]
    for thread in threads:
        thread.start()
    provider.open.set()
    joined(*threads)
    assert found == ["oidc:ada"] * 8
    assert access.reads == 1


# A provider that does not answer.


def away(provider: Running) -> None:
    provider.overrides[KEYS] = (500, {}, b"")


def test_known_keys_go_on_while_the_provider_is_away_and_then_it_is_said(provider: Running) -> None:
    access = Access(provider)
    token = access.token(RSA)
    assert access(token) == "oidc:ada"
    away(provider)
    with structlog.testing.capture_logs() as logs:
        access.clock.advance(REFRESH)
        assert access(token) == "oidc:ada"
        # What is not known may be right. It is no fault of who sends it.
        with pytest.raises(ProviderUnavailable, match="cannot be checked at present: try again"):
            access(access.token(rsa_pair("new")))
        access.clock.advance(OUTAGE_SECONDS - 1)
        assert access(token) == "oidc:ada"
        access.clock.advance(1)
        with pytest.raises(ProviderUnavailable):
            access(token)
    assert [each["event"] for each in logs][:1] == ["the provider's keys cannot be read; the last ones stay in use"]
    assert f"{provider.jwks_url} answers 500" in logs[0]["detail"]
    assert len(logs) < 6
    provider.overrides.clear()
    access.clock.advance(RETRY_SECONDS)
    with structlog.testing.capture_logs() as logs:
        # It is asked beside the first, which does not wait: the one before failed.
        with pytest.raises(ProviderUnavailable):
            access.tokens.authenticate(token)
        access.settle()
        assert access(token) == "oidc:ada"
    assert [each["event"] for each in logs] == ["the provider's keys are read"]


def test_a_provider_that_is_away_is_not_asked_for_each_request(provider: Running) -> None:
    away(provider)
    access = Access(provider)
    for _ in range(500):
        with pytest.raises(ProviderUnavailable):
            access(access.token(RSA))
        access.clock.advance(0.02)
    # 10 s.
    assert access.reads <= 2


def test_nobody_listens_there(provider: Running) -> None:
    with running() as gone:
        issuer = gone.issuer
    with pytest.raises(ProviderUnavailable, match=f"{issuer}/.well-known/openid-configuration does not answer"):
        Provider(issuer).read()


def test_a_fault_of_ours_is_logged_and_lets_nobody_in(provider: Running) -> None:
    def broken() -> Any:
        raise ZeroDivisionError

    keys = ProviderKeys(broken, REFRESH, ManualClock(NOW_MS))
    with structlog.testing.capture_logs() as logs, pytest.raises(ProviderUnavailable):
        keys.find("rsa", "RS256")
    assert [(each["event"], each["exc_info"]) for each in logs] == [("the provider's keys cannot be read", True)]


# Answers that are none.


def no_answer(provider: Running, path: str, status: int, headers: dict[str, str], body: bytes) -> str:
    provider.overrides[path] = (status, headers, body)
    with pytest.raises(ProviderUnavailable) as refused:
        Provider(provider.issuer).read()
    return str(refused.value)


@pytest.mark.parametrize("path", [DISCOVERY, KEYS])
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((404, {}, b""), "answers 404 Not Found"),
        (
            (302, {"location": "http://127.0.0.1:1/"}, b""),
            "redirects (302), which is not followed",
        ),
        ((200, {}, b"<html>"), "does not answer with JSON"),
        ((200, {}, b"[" * 100_000), "does not answer with JSON"),
        ((200, {}, b" " * (MAX_BYTES + 1)), "answers with more than 256 KiB"),
        ((200, {"content-encoding": "gzip"}, b"{}"), "answers compressed, which was not requested"),
    ],
    ids=["missing", "redirect", "page", "deep", "huge", "compressed"],
)
def test_what_is_no_answer_is_said_with_its_address(
    provider: Running, path: str, answer: tuple[int, dict[str, str], bytes], said: str
) -> None:
    told = no_answer(provider, path, *answer)
    assert f"http://127.0.0.1:{provider.port}{path} {said}" in told


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (b'{"issuer": "https://evil.example.org"}', "they must be equal, to the last slash"),
        (b"[]", "says that its issuer is 'NoneType'"),
        (b'{"issuer": "ISSUER"}', r"does not say where the keys are (jwks_uri): set access.oidc.jwks_url"),
        (b'{"issuer": "ISSUER", "jwks_uri": "http://192.0.2.1/keys"}', "must begin with https://"),
        (b'{"issuer": "ISSUER", "jwks_uri": "file:///etc/passwd"}', "must be a URL such as"),
    ],
)
def test_a_discovery_document_that_is_not_to_be_trusted(provider: Running, document: bytes, said: str) -> None:
    body = document.replace(b"ISSUER", provider.issuer.encode())
    assert said in no_answer(provider, DISCOVERY, 200, {}, body)
    assert KEYS not in provider.asked


@pytest.mark.parametrize("how", ["silent", "dripping"])
def test_an_answer_that_does_not_end(provider: Running, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_SECONDS", 0.2)
    if how == "silent":
        provider.open.clear()
    provider.drips = how == "dripping"
    with pytest.raises(ProviderUnavailable, match=r"did not answer within 0\.2 s"):
        Provider(provider.issuer, provider.jwks_url).read()


# Keys.


@pytest.mark.parametrize(
    ("jwk", "why"),
    [
        (RSA.jwk(use="enc"), "is not for signatures"),
        (RSA.jwk(key_ops=["encrypt"]), "is not for signatures"),
        (RSA.jwk(d="AQAB"), "is secret and was published: replace it"),
        ({"kty": "oct", "k": "c2VjcmV0", "kid": "rsa"}, "is secret and was published: replace it"),
        (RSA.jwk(alg="RSA-OAEP"), "is of a kind that is not accepted ('RSA-OAEP')"),
        (RSA.jwk(alg="HS256"), "is of a kind that is not accepted ('HS256')"),
        (RSA.jwk(alg=7), "is of a kind that is not accepted ('7')"),
        (EC.jwk(crv="secp256k1"), "is of a kind that is not accepted ('secp256k1')"),
        (EC.jwk(crv=["P-256"]), "is of a kind that is not accepted"),
        (EC.jwk(x="AQAB"), "is broken"),
        (RSA.jwk(n=7), "is broken"),
        (RSA.jwk(kid=7), "has a kid that is no text"),
        (rsa_pair(bits=1024).jwk(), "has 1024 bits, and at least 2048 are needed"),
        ({}, "is of a kind that is not accepted"),
        ("rsa", "is no object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_that_are_of_no_use_are_left_out(jwk: object, why: str) -> None:
    found = parse_keys({"keys": [jwk, ED.jwk()]})
    assert [each.kid for each in found.keys] == ["ed"]
    assert len(found.unusable) == 1
    assert found.unusable[0].startswith("keys[0] ")
    assert why in found.unusable[0]
    with pytest.raises(InputError, match=r"holds no keys for signatures \(keys\[0\] "):
        parse_keys({"keys": [jwk]})


def test_so_many_keys_and_no_more() -> None:
    found = parse_keys({"keys": [EC.jwk()] * (MAX_KEYS + 7)})
    assert len(found.keys) == MAX_KEYS
    assert found.unusable == ("7 keys beyond the first 100",)


@pytest.mark.parametrize("document", [{}, [], None, "keys", {"keys": {}}, {"keys": None}])
def test_what_is_no_set_of_keys(document: object) -> None:
    with pytest.raises(InputError, match="is no JSON Web Key Set"):
        parse_keys(document)


def test_a_key_of_each_kind_makes_its_own_signatures() -> None:
    found = parse_keys({"keys": [RSA.jwk(), EC.jwk(), ed_pair().jwk(), RSA.jwk(alg="PS512")]})
    assert [sorted(each.algorithms) for each in found.keys] == [
        ["PS256", "PS384", "PS512", "RS256", "RS384", "RS512"],
        ["ES256"],
        ["EdDSA"],
        ["PS512"],
    ]


# Addresses, and trust.


@pytest.mark.parametrize(
    "url", ["https://login.example.org", "https://login.example.org:8443/a?b", "http://127.0.0.1:1/", "http://[::1]/a"]
)
def test_addresses_that_may_be_trusted(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://login.example.org", "must begin with https://"),
        ("http://127.0.0.1.example.org/", "must begin with https://"),
        ("http://localhost.example.org/", "must begin with https://"),
        ("https://a:hunter2@example.org", "must hold no user or password"),
        ("http://127.0.0.1@evil.example.org/", "must begin with https://"),
        ("https://example.org/#a", "must have no fragment"),
        ("ftp://example.org", "must be a URL such as"),
        ("file:///etc/passwd", "must be a URL such as"),
        ("example.org", "must be a URL such as"),
        ("https://", "must be a URL such as"),
        ("https://exa mple.org", "must be a URL such as"),
        ("https://example.org/\n", "must be a URL such as"),
        ("https://example.org:port", "must be a URL such as"),
        ("https://[::1", "must be a URL such as"),
    ],
)
def test_addresses_that_may_not(url: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        check_url(url)
    assert "hunter2" not in str(refused.value)


def test_certificates_that_cannot_be_read(tmp_path: Any) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("garbage", encoding="utf-8")
    for file in (str(tmp_path / "none.pem"), str(garbage)):
        provider = Provider("https://login.example.org", cafile=file)
        with pytest.raises(SettingsError, match=r"access\.oidc\.cafile: cannot read certificates \(PEM\) from"):
            provider.trust()
        with pytest.raises(ProviderUnavailable, match=r"access\.oidc\.cafile"):
            provider.read()
