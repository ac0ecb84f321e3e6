"""The settings of access control."""

from pathlib import Path

import pytest

from monitor.access.settings import ALGORITHMS
from monitor.app.settings import Settings, load_settings
from monitor.errors import SettingsError

ISSUER = "https://login.example.org/realms/ml"


@pytest.mark.parametrize("word", ["off", "'off'", "false"])
def test_off_needs_no_quotes(tmp_path: Path, word: str) -> None:
    # To YAML, off is false.
    file = tmp_path / "monitor.yaml"
    file.write_text(f"access: {{mode: {word}}}", encoding="utf-8")
    assert load_settings(file, {}).access.mode == "off"


@pytest.mark.parametrize("word", ["on", "true", "none", "null", "0"])
def test_nothing_else_switches_it_off(tmp_path: Path, word: str) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text(f"access: {{mode: {word}}}", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"access\.mode must be required or off, got"):
        load_settings(file, {})


def test_it_is_required_unless_it_is_switched_off_on_a_loopback_address(tmp_path: Path) -> None:
    assert load_settings(None, {}).access.mode == "required"
    assert load_settings(None, {"MONITOR__ACCESS__MODE": "off"}).access.mode == "off"
    with pytest.raises(SettingsError, match=r"access.mode must be required where api.host is 0.0.0.0: off is for a"):
        load_settings(None, {"MONITOR__ACCESS__MODE": "off", "MONITOR__API__HOST": "0.0.0.0"})


def refused(**oidc: object) -> str:
    with pytest.raises(ValueError, match="oidc") as error:
        Settings.model_validate({"access": {"oidc": {"issuer": ISSUER, "audience": "calibration-monitor", **oidc}}})
    return str(error.value)


@pytest.mark.parametrize("name", ["HS256", "HS384", "HS512", "none", "None", "ES256K", "RS1", "rs256"])
def test_only_signatures_of_public_keys_may_be_configured(name: str) -> None:
    assert "must be signatures of public keys (RS256, RS384" in refused(algorithms=["RS256", name])
    assert f"{name!r} is none" in refused(algorithms=name)


def test_every_signature_of_a_public_key_may_be() -> None:
    Settings.model_validate(
        {"access": {"oidc": {"issuer": ISSUER, "audience": "a", "algorithms": list(ALGORITHMS), "leeway": "10m"}}}
    )


@pytest.mark.parametrize("key", ["issuer", "jwks_url"])
def test_keys_come_over_https_or_from_this_machine(key: str) -> None:
    assert "must begin with https://" in refused(**{key: "http://login.example.org"})
    assert "must be a URL" in refused(**{key: "login.example.org"})
    assert "must hold no user or password" in refused(**{key: "https://a:hunter2@login.example.org"})
    for url in ("http://127.0.0.1:8080/realms/ml", "http://localhost/realms/ml", "https://login.example.org/"):
        Settings.model_validate({"access": {"oidc": {"issuer": ISSUER, "audience": "a", key: url}}})


def test_an_address_that_is_refused_does_not_show_its_password(tmp_path: Path) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text("access:\n  oidc: {issuer: 'https://a:hunter2@login.example.org', audience: a}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"monitor\.yaml:2: access\.oidc\.issuer must hold no user") as error:
        load_settings(file, {})
    assert "hunter2" not in str(error.value)


def test_an_issuer_is_no_query_and_has_an_audience() -> None:
    assert "must have no query" in refused(issuer=f"{ISSUER}?a=b")
    assert "audience must be set where an issuer is" in refused(audience=None)
    assert "algorithms must name at least one" in refused(algorithms=[])


def test_what_a_claim_allows_are_roles(tmp_path: Path) -> None:
    file = tmp_path / "monitor.yaml"
    file.write_text(
        f"access:\n  oidc:\n    issuer: {ISSUER}\n    audience: a\n    roles: {{ml: [read, admin]}}\n", encoding="utf-8"
    )
    with pytest.raises(SettingsError, match=r"monitor\.yaml:5: access\.oidc\.roles must list roles for 'ml': a role"):
        load_settings(file, {})
    assert "must list roles for 'ml': at least one" in refused(roles={"ml": []})
    assert "leeway" in refused(leeway="11m")
