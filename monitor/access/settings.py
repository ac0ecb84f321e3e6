"""The settings of access control: API keys and tokens."""

from datetime import timedelta
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from monitor.access.model import parse_grants
from monitor.errors import InputError
from monitor.section import Address, Duration, FilePath, Names, Positive, Section, Span, Text, reported
from monitor.urls import is_loopback, wrong_address

ALGORITHMS: Final = {
    "RS256": "RSA",
    "RS384": "RSA",
    "RS512": "RSA",
    "PS256": "RSA",
    "PS384": "RSA",
    "PS512": "RSA",
    "ES256": "P-256",
    "ES384": "P-384",
    "ES512": "P-521",
    "EdDSA": "Ed25519",
}
"""Signatures that may be accepted -> the kind of key, or its curve. All of them use public keys, so that the service
cannot sign. Each belongs to one kind of key: tokens are forged by signatures that fit two."""


def check_url(url: str) -> None:
    """Refuse URLs whose answer others could change: its keys decide which tokens are valid.

    Raises
    ------
    InputError
        It is not https and not of this machine, no URL, or it has a password or a fragment. The URL is not shown.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError as error:
        raise InputError(f"must be a URL such as https://login.example.org/realms/ml ({error})") from error
    if not host or not url.isprintable() or " " in url or parts.scheme not in {"http", "https"}:
        raise InputError("must be a URL such as https://login.example.org/realms/ml")
    wrong = wrong_address(host, parts.port)
    if wrong:
        raise InputError(wrong)
    if parts.scheme == "http" and not is_loopback(host):
        raise InputError("must begin with https://: over http, others on the network could replace its answer")
    if parts.username is not None or parts.password is not None:
        raise InputError("must hold no user or password: what it names is public")
    if parts.fragment:
        raise InputError("must have no fragment (#...)")


def _off_of_yaml(value: Any) -> Any:
    # YAML reads the word off without quotes as false.
    return "off" if value is False else value


class OidcSettings(Section):
    """Tokens (JWT) of an OpenID Connect provider. They are accepted beside API keys once an issuer is named."""

    issuer: Address | None = None
    """The provider: the token's `iss`, as https://login.example.org/realms/ml; null accepts no tokens."""
    audience: Text | None = None
    """What the token's `aud` must name: this service, as the provider calls it."""
    jwks_url: Address | None = None
    """Where the provider's public keys are; null: where its discovery document says."""
    cafile: FilePath | None = None
    """File with the certificates to trust for both, PEM; null trusts those that public providers have."""
    algorithms: Names = ("RS256", "ES256")
    """Signatures that are accepted, all of public keys: RS256, PS256, ES256, each with 384 and 512 too, and EdDSA."""
    roles_claim: Text = "roles"
    """The claim that names roles, a list or words in one text; dots lead into objects, as in realm_access.roles."""
    roles: dict[Text, Names] = Field(default_factory=dict)
    """What each value of that claim allows, such as {ml-oncall: [read, promote:churn]}; empty: values are roles of ours
    themselves, and others are ignored."""
    name_claim: Text = "sub"
    """The claim under which the audit trail keeps who it was."""
    leeway: Annotated[Duration, Field(le=timedelta(minutes=10))] = timedelta(seconds=30)
    """Largest difference of the clocks of provider and service."""
    refresh: Annotated[Span, Field(le=timedelta(days=1))] = timedelta(minutes=10)
    """How long the provider's keys are kept before they are asked for again. While the provider does not answer, they
    go on for an hour more."""

    @field_validator("issuer", "jwks_url")
    @classmethod
    def _trustworthy(cls, url: str | None) -> str | None:
        if url is not None:
            with reported():
                check_url(url)
        return url

    @field_validator("issuer")
    @classmethod
    def _without_query(cls, url: str | None) -> str | None:
        if url is not None and "?" in url:
            raise ValueError("must have no query (?...): see the provider's own issuer in its discovery document")
        return url

    @field_validator("algorithms")
    @classmethod
    def _of_public_keys(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in ALGORITHMS:
                raise ValueError(f"must be signatures of public keys ({', '.join(ALGORITHMS)}); {name!r} is none")
        return names

    @field_validator("roles")
    @classmethod
    def _known_roles(cls, roles: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for value, grants in roles.items():
            with reported(f"must list roles for {value!r}: "):
                parse_grants(grants)
        return roles

    @model_validator(mode="after")
    def _complete(self) -> "OidcSettings":
        if self.issuer is not None and self.audience is None:
            raise ValueError("audience must be set where an issuer is: a token for another service must not do here")
        if not self.algorithms:
            raise ValueError("algorithms must name at least one, such as RS256")
        return self


class AccessSettings(Section):
    """Access: everything but /healthz and /readyz needs an API key or a token; `monitor keys` makes keys."""

    mode: Annotated[Literal["required", "off"], BeforeValidator(_off_of_yaml)] = "required"
    """Whether a key or token is asked for. Off lets everybody on this machine do everything, and needs api.host to be a
    loopback address."""
    keys_file: FilePath | None = None
    """File of hashed API keys (YAML), beside those in the store; read again when it changes."""
    oidc: OidcSettings = OidcSettings()
    failures_per_minute: Positive = 30
    """Wrong keys and tokens of one address, beyond which its next ones are refused unread for a minute."""
    requests_per_second: Positive = 500
    """Requests of one key or token's owner; further ones are answered 429."""
