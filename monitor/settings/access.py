"""Who may ask the service: the settings of access control."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from monitor.settings.section import Positive, Section, Text
from monitor.settings.values import Duration, Names

_SECOND = timedelta(seconds=1)


def _off(value: Any) -> Any:
    # To YAML, the word without quotes is false.
    return "off" if value is False else value


class OidcSettings(Section):
    """Tokens (JWT) of an OpenID Connect provider. They are accepted beside API keys once an issuer is named."""

    issuer: Text | None = None
    """The provider: the token's `iss`, as https://login.example.org/realms/ml; null accepts no tokens."""
    audience: Text | None = None
    """What the token's `aud` must name: this service, as the provider calls it."""
    jwks_url: Text | None = None
    """Where the provider's public keys are; null: where its discovery document says."""
    algorithms: Names = ("RS256", "ES256")
    """Signatures that are accepted, all of public keys."""
    roles_claim: Text = "roles"
    """The claim that names roles, a list or words in one text; dots lead into objects, as in realm_access.roles."""
    roles: dict[Text, Names] = Field(default_factory=dict)
    """What each value of that claim allows, such as {ml-oncall: [read, promote:churn]}; empty: values are roles of ours
    themselves, and others are ignored."""
    name_claim: Text = "sub"
    """The claim under which the audit trail keeps who it was."""
    leeway: Duration = timedelta(seconds=30)
    """By how much the clocks of provider and service may differ."""
    refresh: Annotated[Duration, Field(ge=_SECOND)] = timedelta(minutes=10)
    """How long the provider's keys are kept before they are asked for again."""

    @model_validator(mode="after")
    def _complete(self) -> "OidcSettings":
        if self.issuer is not None and self.audience is None:
            raise ValueError("audience must be set where an issuer is: a token for another service must not do here")
        if not self.algorithms:
            raise ValueError("algorithms must name at least one, such as RS256")
        return self


class AccessSettings(Section):
    """Who may ask. Everything but /healthz and /readyz needs an API key or a token; `monitor keys` makes keys."""

    mode: Annotated[Literal["required", "off"], BeforeValidator(_off)] = "required"
    """Whether a key or token is asked for. Off lets everybody on this machine do everything, and needs api.host to be a
    loopback address."""
    keys_file: Text | None = None
    """File of hashed API keys (YAML), beside those in the store; read again when it changes."""
    oidc: OidcSettings = OidcSettings()
    failures_per_minute: Positive = 30
    """Wrong keys and tokens of one address, beyond which its next ones are refused unread for a minute."""
    requests_per_second: Positive = 500
    """Requests of one key or token's owner; further ones are answered 429."""
