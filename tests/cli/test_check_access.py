"""What `monitor check` says of access: keys, the file of keys, and the provider of tokens."""

import json
from pathlib import Path

from monitor.app.checks import CheckStatus
from tests.access.provider import ec_pair
from tests.cli.command import inside
from tests.cli.test_check import FAIL, OK, WARN, answering, look, settings, worst


def test_access_without_a_key_is_warned_of_with_the_command(tmp_path: Path) -> None:
    chosen = settings(tmp_path, {"access": {"mode": "required"}})
    verdict, detail = worst(look(chosen, "access"), "access")
    assert verdict is WARN
    assert "monitor keys create" in detail
    assert inside("keys", "create", "ada", "--role", "read", cwd=tmp_path).returncode == 0
    assert worst(look(chosen, "access"), "access") == (OK, "1 API key in force in the store")
    assert inside("keys", "revoke", "ada", cwd=tmp_path).returncode == 0
    verdict, detail = worst(look(chosen, "access"), "access")
    assert verdict is WARN
    assert detail.startswith("no API key is in force (1 revoked), so every request is refused: `monitor keys create")
    old = "- {id: '0123456789ab', name: old, sha256: " + 64 * "a" + ", roles: [read], expires: 2020-01-01T00:00:00Z}\n"
    file = tmp_path / "keys.yaml"
    filed = settings(tmp_path, {"access": {"mode": "required", "keys_file": str(file)}})
    file.write_text(old, encoding="utf-8")
    assert "no API key is in force (1 expired, 1 revoked), so" in worst(look(filed, "access"), "access")[1]
    for name in ("bob", "eve"):
        assert inside("keys", "create", name, "--role", "read", cwd=tmp_path).returncode == 0
    assert worst(look(filed, "access"), "access") == (
        OK,
        f"2 API keys in force in the store (1 revoked); 0 in {file} (1 expired)",
    )
    file.write_text("- {id: 1}", encoding="utf-8")
    assert worst(look(filed, "access"), "access") == (
        FAIL,
        f"access.keys_file: {file}:1: keys[0].name must be given",
    )
    missing = settings(tmp_path, {"access": {"mode": "required", "keys_file": str(tmp_path / "none.yaml")}})
    verdict, detail = worst(look(missing, "access"), "access")
    assert verdict is FAIL
    assert "none.yaml" in detail


def test_a_provider_of_tokens_is_asked(tmp_path: Path) -> None:
    pair = ec_pair()
    bodies: dict[str, bytes] = {"/jwks": json.dumps({"keys": [pair.jwk()]}).encode()}
    with answering(bodies) as port:
        issuer = f"http://127.0.0.1:{port}"

        def told(**oidc: str) -> tuple[CheckStatus, str]:
            tree = {"access": {"mode": "required", "oidc": {"issuer": issuer, "audience": "monitor", **oidc}}}
            provider, keys = look(settings(tmp_path, tree), "access")
            assert keys == ("access", OK, "0 API keys in force in the store")
            return provider.verdict, provider.detail

        assert told()[0] is FAIL  # There is no discovery document.
        discovery = {"issuer": f"{issuer}/", "jwks_uri": f"{issuer}/jwks"}
        bodies["/.well-known/openid-configuration"] = json.dumps(discovery).encode()
        assert "must be equal, to the last slash" in told()[1]
        bodies["/.well-known/openid-configuration"] = json.dumps(discovery | {"issuer": issuer}).encode()
        assert told() == (OK, f"tokens of {issuer}: 1 key for signatures")
        assert told(jwks_url=f"{issuer}/jwks")[0] is OK
        # A file of keys that is not there hides nothing of the provider.
        oidc = {"issuer": issuer, "audience": "monitor"}
        tree = {"access": {"mode": "required", "oidc": oidc, "keys_file": str(tmp_path / "none.yaml")}}
        provider, keys = look(settings(tmp_path, tree), "access")
        assert provider == ("access", OK, f"tokens of {issuer}: 1 key for signatures")
        assert keys.verdict is FAIL
        assert "none.yaml" in keys.detail
        secret = {"kty": "oct", "k": "c2VjcmV0"}
        bodies["/jwks"] = json.dumps({"keys": [pair.jwk(), secret]}).encode()
        assert told()[0] is WARN
        assert "keys[1] is secret and was published: replace it" in told()[1]
        bodies["/jwks"] = b'{"keys": []}'
        assert "holds no keys" in told()[1]
