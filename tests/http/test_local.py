"""Where access control is off: which names of this machine are answered."""

from collections.abc import Sequence

import httpx
import pytest
from fastapi import FastAPI

from monitor.access.settings import AccessSettings
from tests.http.service import Client, Service, assert_problem


def ask(app: FastAPI, hosts: Sequence[str], method: str = "GET", path: str = "/v1/models") -> httpx.Response:
    return Client(app).request(method, path, headers=[("host", host) for host in hosts])


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "127.8.9.1", "[::1]:8000", "[::1]"])
def test_this_machine_is_answered(host: str) -> None:
    assert ask(Service().app(access=AccessSettings(mode="off")), [host]).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "attacker.example.org",
        "attacker.example.org:8000",
        "127.0.0.1.example.org",
        "localhost.example.org",
        "192.0.2.1",
        "localhost@attacker.example.org",
        "[::1",
        "",
    ],
)
def test_a_page_whose_name_came_to_mean_this_machine_is_not(host: str) -> None:
    app = Service().app(access=AccessSettings(mode="off"))
    for method, path in (("GET", "/v1/models"), ("POST", "/v1/events"), ("GET", "/metrics"), ("GET", "/")):
        refused = ask(app, [host], method, path)
        assert_problem(refused, 421, "access control is off")


def test_of_two_names_both_must_be_this_machine() -> None:
    app = Service().app(access=AccessSettings(mode="off"))
    for hosts in (["localhost", "attacker.example.org"], ["attacker.example.org", "localhost"]):
        assert_problem(ask(app, hosts), 421, "access control is off")
