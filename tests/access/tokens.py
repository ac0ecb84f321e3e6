"""An authenticator of tokens whose provider is a list, and claims that are in order."""

from typing import Any

import pytest

from monitor.access.model import Principal
from monitor.access.provider import KeySet, ProviderKeys, parse_keys
from monitor.access.settings import OidcSettings
from monitor.access.tokens import TokenAuthenticator
from monitor.clock import ManualClock
from monitor.errors import Unauthenticated
from tests.access.provider import AUDIENCE, Pair, ec_pair, ed_pair, rsa_pair

NOW_MS = 1_790_000_000_000
NOW = NOW_MS // 1000
ISSUER = "https://login.example.org/realms/ml"
RSA, EC, ED = rsa_pair(), ec_pair(), ed_pair()
STRANGER = rsa_pair()

MISSING = object()


class Access:
    """An authenticator of tokens, whose provider is a list."""

    def __init__(self, *pairs: Pair, clock: ManualClock | None = None, **rules: Any) -> None:
        self.jwks = [each.jwk() for each in pairs or (RSA, EC)]
        self.clock = clock or ManualClock(NOW_MS)
        self.reads = 0
        self.keys = ProviderKeys(self.read, 600, self.clock)
        self.tokens = TokenAuthenticator(OidcSettings(issuer=ISSUER, audience=AUDIENCE, **rules), self.keys, self.clock)

    def read(self) -> KeySet:
        self.reads += 1
        return parse_keys({"keys": self.jwks})

    def __call__(self, token: str) -> Principal:
        return self.tokens.authenticate(token)

    def refuses(self, token: str, message: str) -> str:
        with pytest.raises(Unauthenticated, match=message) as refused:
            self.tokens.authenticate(token)
        said = str(refused.value)
        # Neither the token, nor what it says, nor what it should have said.
        for secret in (*(each for each in token.split(".") if len(each) > 20), "ada", AUDIENCE, "login.example.org"):
            assert secret not in said
        return said


def claims(**changed: Any) -> dict[str, Any]:
    found = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": NOW, "exp": NOW + 300, "roles": ["read"]} | changed
    return {name: value for name, value in found.items() if value is not MISSING}
