"""Tokens: which are accepted, which are refused, and what is not to be learnt from a refusal."""

import hashlib
import hmac
import json
import math
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from monitor.access.model import Grant, Principal, Role
from monitor.access.settings import ALGORITHMS
from monitor.errors import Unauthenticated
from tests.access.provider import AUDIENCE, Pair, ec_pair, rsa_pair, segment
from tests.access.tokens import EC, ED, ISSUER, MISSING, NOW, RSA, STRANGER, Access, claims

CURVES = {"ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


def signed(body: str) -> str:
    """Header and payload, whatever they are, with the provider's signature."""
    assert isinstance(RSA.private, rsa.RSAPrivateKey)
    return f"{body}.{segment(RSA.private.sign(body.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


# Which are accepted.


@pytest.mark.parametrize("pair", [RSA, EC], ids=["RS256", "ES256"])
def test_a_token_of_the_provider_is_its_owners(pair: Pair) -> None:
    assert Access()(pair.sign(claims())) == Principal("oidc:ada", (Grant(Role.READ),))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_signature_is_accepted_where_it_is_configured_and_nowhere_else(algorithm: str) -> None:
    pairs = {"R": RSA, "P": RSA, "E": EC}
    pair = ED if algorithm == "EdDSA" else pairs[algorithm[0]]
    if algorithm in CURVES:
        pair = Pair("ec", ec.generate_private_key(CURVES[algorithm]), algorithm)
    token = pair.sign(claims(), algorithm=algorithm)
    assert Access(pair, algorithms=(algorithm,))(token).name == "oidc:ada"
    others = tuple(each for each in ALGORITHMS if each != algorithm)
    Access(pair, algorithms=others).refuses(token, r"signed in a way that is not accepted \(alg\)")


@pytest.mark.parametrize("audience", [AUDIENCE, ["other", AUDIENCE]])
def test_one_audience_among_several_is_enough(audience: object) -> None:
    assert Access()(RSA.sign(claims(aud=audience))).name == "oidc:ada"


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "application/at+jwt"])
def test_kinds_of_token_that_show_who_asks(kind: str) -> None:
    assert Access()(RSA.sign(claims(), typ=kind)).name == "oidc:ada"


def test_a_token_without_the_name_of_its_key_is_tried_with_those_that_fit() -> None:
    nameless = Pair(None, RSA.private, "RS256")
    assert Access()(nameless.sign(claims())).name == "oidc:ada"
    assert Access(Pair(None, RSA.private, "RS256"))(nameless.sign(claims())).name == "oidc:ada"


@pytest.mark.parametrize("order", [(RSA, STRANGER), (STRANGER, RSA)], ids=["first", "second"])
def test_of_two_keys_with_one_name_each_is_tried(order: tuple[Pair, ...]) -> None:
    access = Access(*order)
    assert access(RSA.sign(claims())).name == "oidc:ada"
    assert access(STRANGER.sign(claims())).name == "oidc:ada"
    access.refuses(rsa_pair().sign(claims()), "not signed with a key that its provider has now")


def test_a_token_is_tried_with_a_few_keys_only(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [ec_pair("same") for _ in range(50)]
    access = Access(*many)
    tried: list[str] = []
    decode = access.tokens._decode

    def counting(token: str, key: Any, algorithm: str) -> dict[str, Any] | None:
        tried.append(token)
        return decode(token, key, algorithm)

    monkeypatch.setattr(access.tokens, "_decode", counting)
    access.refuses(ec_pair("same").sign(claims()), "not signed with a key")
    assert len(tried) == 4


# Which are refused.


def test_a_forged_signature() -> None:
    token = STRANGER.sign(claims())
    Access().refuses(token, "not signed with a key that its provider has now")


@pytest.mark.parametrize("pair", [RSA, EC], ids=["RS256", "ES256"])
def test_another_payload_under_a_right_signature(pair: Pair) -> None:
    header, _, signature = pair.sign(claims()).split(".")
    Access().refuses(f"{header}.{segment(claims(roles=['promote']))}.{signature}", "not signed with a key")


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE", "", None, 0, ["RS256"], {"RS256": 1}, True])
def test_no_signature_at_all(algorithm: object) -> None:
    header = segment({"alg": algorithm, "typ": "JWT", "kid": "rsa"})
    for signature in ("", segment(b"x" * 256)):
        Access().refuses(f"{header}.{segment(claims())}.{signature}", r"\(alg\)|cannot be read")


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_the_public_key_taken_for_a_secret(algorithm: str) -> None:
    # Whoever knows the public key, which is everybody, could sign so, if the token were to say how it is checked.
    public = RSA.private.public_key()
    forms = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(RSA.jwk()).encode(),
    ]
    signed = f"{segment({'alg': algorithm, 'typ': 'JWT', 'kid': 'rsa'})}.{segment(claims(roles=['promote']))}"
    for secret in forms:
        mac = hmac.new(secret, signed.encode(), getattr(hashlib, f"sha{algorithm[2:]}")).digest()
        Access().refuses(f"{signed}.{segment(mac)}", r"not accepted \(alg\)")


def test_a_signature_of_another_kind_of_key_under_that_name() -> None:
    # The name is that of the RSA key, the signature of somebody's own curve.
    access = Access()
    access.refuses(Pair("rsa", EC.private, "ES256").sign(claims()), "not signed with a key")
    access.refuses(Pair("ec", RSA.private, "RS256").sign(claims()), "not signed with a key")
    wide = Access(algorithms=tuple(ALGORITHMS))
    wide.refuses(Pair("ec", ED.private, "EdDSA").sign(claims()), "not signed with a key")


def test_a_key_holds_for_the_signature_that_its_provider_gave_it() -> None:
    access = Access(algorithms=("RS256", "PS256"))
    access.jwks = [RSA.jwk(alg="RS256")]
    assert access(RSA.sign(claims())).name == "oidc:ada"
    access.refuses(RSA.sign(claims(), algorithm="PS256"), "not signed with a key")


@pytest.mark.parametrize(
    "header",
    [
        {"jku": "https://evil.example.org/keys"},
        {"x5u": "https://evil.example.org/certificate"},
        {"jwk": STRANGER.jwk()},
        {"x5c": ["MIIB"]},
    ],
    ids=["jku", "x5u", "jwk", "x5c"],
)
def test_a_token_cannot_bring_its_own_key(header: dict[str, Any]) -> None:
    access = Access()
    access.refuses(STRANGER.sign(claims(), **header), "not signed with a key")
    # It does not harm one that is right, either: nothing is made of it.
    assert access(RSA.sign(claims(), **header)).name == "oidc:ada"


@pytest.mark.parametrize(
    "kid", ["../../etc/passwd", "rsa' OR '1'='1", "https://evil.example.org/k", "rsa\0", "RSA", "", "x" * 5000]
)
def test_the_name_of_a_key_is_looked_up_and_nothing_else(kid: str) -> None:
    Access().refuses(Pair(kid, STRANGER.private, "RS256").sign(claims()), "not signed with a key")


@pytest.mark.parametrize("kid", [1, ["rsa"], {"rsa": 1}, True])
def test_the_name_of_a_key_is_text(kid: object) -> None:
    _, payload, signature = RSA.sign(claims()).split(".")
    Access().refuses(f"{segment({'alg': 'RS256', 'kid': kid})}.{payload}.{signature}", "cannot be read")


@pytest.mark.parametrize("header", [{"crit": ["exp"]}, {"crit": []}, {"b64": False, "crit": ["b64"]}])
def test_what_a_token_calls_critical_and_is_not_known_here(header: dict[str, Any]) -> None:
    body = f"{segment({'alg': 'RS256', 'kid': 'rsa', **header})}.{segment(claims())}"
    Access().refuses(signed(body), "cannot be read")


@pytest.mark.parametrize("kind", ["logout+jwt", "secevent+jwt", "dpop+jwt", "", 1, None])
def test_kinds_of_token_for_another_purpose(kind: object) -> None:
    header = segment({"alg": "RS256", "kid": "rsa", "typ": kind})
    Access().refuses(f"{header}.{segment(claims())}.{segment(b'x')}", r"not accepted \(typ\)")


@pytest.mark.parametrize(
    "audience", ["other", "", AUDIENCE.upper(), f"{AUDIENCE} ", [], ["other"], [[AUDIENCE]], None, 1]
)
def test_a_token_for_another_service(audience: object) -> None:
    Access().refuses(RSA.sign(claims(aud=audience)), "for another service: its aud|lacks the claim aud")


@pytest.mark.parametrize("issuer", ["https://evil.example.org", f"{ISSUER}/", ISSUER.upper(), "", ISSUER[:-1]])
def test_a_token_of_another_provider(issuer: str) -> None:
    Access().refuses(RSA.sign(claims(iss=issuer)), "iss is not the provider in access.oidc.issuer")


@pytest.mark.parametrize("issuer", [[ISSUER], {ISSUER: 1}, 1, None])
def test_an_issuer_that_is_no_text(issuer: object) -> None:
    body = f"{segment({'alg': 'RS256', 'kid': 'rsa'})}.{segment(claims(iss=issuer))}"
    Access().refuses(signed(body), "iss is not|lacks the claim iss|cannot be read")


@pytest.mark.parametrize("name", ["iss", "aud", "exp", "iat"])
def test_claims_that_must_be_there(name: str) -> None:
    Access().refuses(RSA.sign(claims(**{name: MISSING})), f"lacks the claim {name}")


def test_an_expired_token_to_the_second() -> None:
    access = Access(leeway=timedelta(seconds=30))
    token = RSA.sign(claims(exp=NOW + 10))
    access.clock.advance(39.999)
    assert access(token).name == "oidc:ada"
    access.clock.advance(0.001)
    # It was remembered, and is not for longer than it holds.
    access.refuses(token, "has expired: get a new one")


@pytest.mark.parametrize("name", ["nbf", "iat"])
def test_a_token_that_does_not_hold_yet(name: str) -> None:
    access = Access(leeway=timedelta(seconds=30))
    token = RSA.sign(claims(**{name: NOW + 40}))
    access.refuses(token, rf"is not valid yet \({name} is in the future\)")
    access.clock.advance(10)
    assert access(token).name == "oidc:ada"


@pytest.mark.parametrize("value", ["soon", True, None, [NOW], math.inf, math.nan, -math.inf, 10**400])
@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
def test_times_that_are_none(name: str, value: object) -> None:
    Access().refuses(RSA.sign(claims(**{name: value})), f"claim {name} is no time in seconds|lacks the claim {name}")


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "eyJhbGciOiJSUzI1NiJ9",
        "eyJhbGciOiJSUzI1NiJ9..",
        f"{segment([1])}.{segment({})}.{segment(b'')}",
        f"{segment(b'{')}.{segment({})}.{segment(b'')}",
        f"{segment(b'[' * 9000)}.{segment({})}.{segment(b'')}",
        RSA.sign(claims()) + ".x",
        " " + RSA.sign(claims()),
        RSA.sign(claims()) + "\n",
        "\0",
    ],
    ids=lambda token: f"{len(token)} characters",
)
def test_garbage(token: str) -> None:
    Access().refuses(token, "cannot be read|not accepted|not signed with a key")


@pytest.mark.parametrize("payload", [b"[]", b'"x"', b"1", b"null", b"{", b"", b"\xff", b"[" * 9000])
def test_a_signed_payload_that_is_no_object(payload: bytes) -> None:
    body = f"{segment({'alg': 'RS256', 'kid': 'rsa'})}.{segment(payload)}"
    Access().refuses(signed(body), "cannot be read")


def test_every_character_of_a_token_counts() -> None:
    access = Access(EC)
    token = EC.sign(claims())
    accepted = []
    for at, character in enumerate(token):
        other = "A" if character != "A" else "B"
        try:
            access(f"{token[:at]}{other}{token[at + 1 :]}")
            accepted.append(at)
        except Unauthenticated:
            continue
    assert accepted == []
