"""What a token costs: verified, remembered and forged, beside an API key."""

import time
from collections.abc import Callable

import pytest

from monitor.access.keys import KeyAuthenticator
from monitor.access.provider import KeySet, ProviderKeys, parse_keys
from monitor.access.settings import OidcSettings
from monitor.access.tokens import TokenAuthenticator
from monitor.clock import SystemClock
from monitor.errors import Unauthenticated
from tests.access.provider import AUDIENCE, Pair, ec_pair, rsa_pair
from tests.http.keys import Keys

ISSUER = "https://login.example.org"
ROUNDS = 5
TOKENS = 400


def tokens(pair: Pair) -> list[str]:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 3600, "roles": ["read"]}
    return [pair.sign(claims | {"sub": f"user {number}"}) for number in range(TOKENS)]


def microseconds(authenticate: Callable[[str], object], credentials: list[str]) -> float:
    """CPU time of one."""
    before = time.process_time()
    for each in credentials:
        try:
            authenticate(each)
        except Unauthenticated:
            continue
    return (time.process_time() - before) / len(credentials) * 1e6


@pytest.mark.benchmark
def test_a_token_that_is_remembered_costs_as_much_as_a_key() -> None:
    rsa, ec, stranger = rsa_pair(), ec_pair(), rsa_pair()
    keys = Keys()
    key = keys("read")
    reads = 0

    def read() -> KeySet:
        nonlocal reads
        reads += 1
        return parse_keys({"keys": [rsa.jwk(), ec.jwk()]})

    def fresh() -> TokenAuthenticator:
        settings = OidcSettings(issuer=ISSUER, audience=AUDIENCE)
        access = TokenAuthenticator(settings, ProviderKeys(read, 600, SystemClock()), SystemClock())
        access.authenticate(rsa.sign({**CLAIMS, "iat": int(time.time()), "exp": int(time.time()) + 60}))
        return access

    by_key = keys.authenticator(SystemClock())
    known = fresh()
    of_rsa, of_ec, forged = tokens(rsa), tokens(ec), tokens(stranger)
    microseconds(known.authenticate, of_rsa)
    cases: dict[str, tuple[Callable[[], KeyAuthenticator | TokenAuthenticator], list[str]]] = {
        "an API key": (lambda: by_key, [key] * TOKENS),
        "a token that is remembered": (lambda: known, of_rsa),
        "a new token, RS256": (fresh, of_rsa),
        "a new token, ES256": (fresh, of_ec),
        "a forged token, RS256": (fresh, forged),
    }
    took = {
        name: min(microseconds(make().authenticate, sent) for _ in range(ROUNDS))
        for name, (make, sent) in cases.items()
    }
    print(f"\n{TOKENS} credentials each, CPU of the process; the provider was asked {reads} times")
    for name, each in took.items():
        print(f"{name}: {each:.1f} us, {each / took['an API key']:.1f} times an API key")
    assert took["a token that is remembered"] < took["a new token, RS256"] / 3


CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "roles": ["read"]}
