"""Secrets are hidden however they are written; what is too short to be hidden does not mangle the text."""

import json
from urllib.parse import quote, quote_plus

import pytest

from monitor.redaction import Redactor

SECRET = "pa ss/\"wörd'"
LINE = "connection to server at 127.0.0.1, port 5432 failed: Connection refused (é, %2F)"


@pytest.mark.parametrize(
    "written", [SECRET, quote(SECRET, safe=""), quote_plus(SECRET), repr(SECRET)[1:-1], json.dumps(SECRET)[1:-1]]
)
def test_a_secret_is_hidden_in_each_form(written: str) -> None:
    assert Redactor([SECRET]).hide(f"login with {written} failed") == "login with *** failed"


def test_one_secret_may_be_part_of_another() -> None:
    assert Redactor(["hunter", "hunter2"]).hide("hunter2 hunter") == "*** ***"


@pytest.mark.parametrize("secret", ["", "e", "5", "/", "é", "ef"])
def test_a_short_secret_does_not_mangle_the_text(secret: str) -> None:
    assert Redactor([secret]).hide(LINE) == LINE
    assert Redactor([secret]).hide(json.dumps(LINE)) == json.dumps(LINE)
