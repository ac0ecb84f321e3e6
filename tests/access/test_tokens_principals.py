"""Tokens: whose one is, what it allows, and what is remembered of it."""

import hashlib
from typing import Any

import pytest

from monitor.access.model import Principal
from monitor.access.tokens import MAX_REMEMBERED, REMEMBERED_SECONDS
from tests.access.tokens import MISSING, RSA, STRANGER, Access, claims

# What they allow.


def grants(**options: Any) -> list[str]:
    told = options.pop("claims")
    return list(map(str, Access(**options)(RSA.sign(claims(**told))).grants))


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (["read", "promote:churn"], ["promote:churn", "read"]),
        ("openid read  promote:churn profile", ["promote:churn", "read"]),
        (["write", "write", "admin", 7, None, ["read"], "read:", "READ", "read\n"], ["write"]),
        (["read:a\x1b[31m"], []),
        ({"read": True}, []),
        (True, []),
        ("", []),
        ([], []),
    ],
)
def test_values_of_the_claim_are_roles_of_ours(value: object, allowed: list[str]) -> None:
    assert grants(claims={"roles": value}) == allowed


def test_values_of_the_claim_are_looked_up_where_that_is_said() -> None:
    roles = {"ml-oncall": ("read", "promote:churn"), "ml-admins": ("write",)}
    assert grants(roles=roles, claims={"roles": ["ml-oncall", "other"]}) == ["promote:churn", "read"]
    assert grants(roles=roles, claims={"roles": "ml-admins ml-oncall"}) == ["promote:churn", "read", "write"]
    # Then the provider's own words mean nothing, be they ours.
    assert grants(roles=roles, claims={"roles": ["read", "promote"]}) == []


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["read"]}}),
        (
            "resource_access.calibration.monitor.roles",
            {"resource_access": {"calibration.monitor": {"roles": ["read"]}}},
        ),
        ("https://example.org/roles", {"https://example.org/roles": ["read"]}),
        ("https://example.org/roles.list", {"https://example.org/roles": {"list": "read"}}),
        ("a.b", {"a.b": ["read"], "a": {"b": ["promote"]}}),
    ],
)
def test_the_claim_may_lie_within_others(path: str, told: dict[str, Any]) -> None:
    assert grants(roles_claim=path, claims={"roles": MISSING, **told}) == ["read"]


@pytest.mark.parametrize("told", [{"realm_access": ["roles"]}, {"realm_access": "roles"}, {"realm_access": None}, {}])
def test_a_claim_that_is_not_there_allows_nothing_and_that_is_said(told: dict[str, Any]) -> None:
    principal = Access(roles_claim="realm_access.roles")(RSA.sign(claims(**told)))
    assert principal == Principal("oidc:ada", ())
    assert principal.note == "the token has no claim realm_access.roles that names a role"


def test_who_holds_nothing_is_told_where_it_was_looked_for() -> None:
    token = RSA.sign(claims(roles=["admin"]))
    assert Access()(token).note == (
        "the token's claim roles names nothing that is a role: read, write, promote, or one as in read:churn"
    )
    mapped = Access(roles={"ml": ("read",)})
    assert mapped(token).note == "the token's claim roles names nothing that access.oidc.roles lists"


# Who it is.


def test_the_name_is_that_of_the_claim_that_is_said() -> None:
    token = RSA.sign(claims(email="ada@example.org"))
    assert Access(name_claim="email")(token).name == "oidc:ada@example.org"
    assert Access()(RSA.sign(claims(sub="\u00fcber"))).name == "oidc:\u00fcber"


@pytest.mark.parametrize("name", [MISSING, "", None, 7, ["ada"]])
def test_a_token_that_does_not_say_who_it_is(name: object) -> None:
    access = Access(name_claim="email")
    access.refuses(RSA.sign(claims(email=name)), "does not say who it is: its claim email is missing, or no text")


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1b[31mb", "a\u202eb", "\0", "x" * 121, "x" * 5000, "\ud800"], ids=lambda name: repr(name[:9])
)
def test_a_name_is_fit_for_a_log(name: str) -> None:
    found = Access()(RSA.sign(claims(sub=name))).name
    assert found.isprintable()
    assert found.startswith("oidc:")
    assert len(found) <= 5 + 120 + 13


def test_two_names_are_never_the_same() -> None:
    access = Access()
    names = ["a?b", "a\nb", "a\tb", "a\0b", "x" * 120, "x" * 121, "x" * 122]
    assert len({access(RSA.sign(claims(sub=name))).name for name in names}) == len(names)


# What is remembered.


def test_a_token_is_verified_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access()
    verified: list[str] = []
    verify = access.tokens._verify

    def counting(token: str) -> tuple[int, dict[str, Any]]:
        verified.append(token)
        return verify(token)

    monkeypatch.setattr(access.tokens, "_verify", counting)
    token = RSA.sign(claims())
    for _ in range(1000):
        access(token)
    assert len(verified) == 1
    access.clock.advance(REMEMBERED_SECONDS)
    access(token)
    assert len(verified) == 2


def test_of_tokens_only_digests_are_kept_and_of_wrong_ones_nothing() -> None:
    access = Access()
    token = RSA.sign(claims())
    access(token)
    for _ in range(5):
        access.refuses(STRANGER.sign(claims()), "not signed")
    assert list(access.tokens._verified) == [hashlib.sha256(token.encode()).digest()]
    _, payload, signature = token.split(".")
    assert not any(part in repr(access.tokens._verified) for part in (payload, signature))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access()
    monkeypatch.setattr(access.tokens, "_verify", lambda token: (1, claims(sub=token)))
    access("0")
    for number in range(1, MAX_REMEMBERED + 50):
        assert access(str(number)).name == f"oidc:{number}"
        access("0")
    assert len(access.tokens._verified) == MAX_REMEMBERED
    # The one in use stays.
    assert hashlib.sha256(b"0").digest() in access.tokens._verified
