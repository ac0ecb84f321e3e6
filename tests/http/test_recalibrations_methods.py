"""A refit that must fail, as the model is declared, is refused before anybody waits for it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.http.refits import Refits
from tests.http.service import Client, Service, assert_problem


@pytest.fixture
def refits(tmp_path: Path) -> Iterator[Refits]:
    made = Refits(tmp_path)
    yield made
    made.close()


def client(refits: Refits, **declared: Any) -> Client:
    """Of a service whose model churn is so declared."""
    service = Service(refits=refits)
    service.policies["churn"] = replace(service.policies["churn"], **declared)
    return service.client()


def ask(client: Client, **body: Any) -> Any:
    return client.post("/v1/models/churn/recalibrations", json=body)


def test_a_method_for_classes_is_refused_for_a_model_without(refits: Refits) -> None:
    asked = client(refits)
    problem = assert_problem(
        ask(asked, method="vector_scaling"), 422, "'vector_scaling'", "P(y = 1)", "take one of offset, temperature"
    )
    assert problem["type"].endswith(":invalid-input")
    assert "matrix_scaling" not in problem["detail"].rpartition("take one of")[2]
    assert refits.store.jobs(None, before=None, limit=1) == []
    assert ask(asked, method="temperature").status_code == 202


def test_a_method_without_classes_is_refused_for_a_model_with_them(refits: Refits) -> None:
    asked = client(refits, classes=("green", "yellow", "red"))
    assert_problem(ask(asked, method="platt"), 422, "'platt'", "3 classes", "vector_scaling")
    # That of the settings, where nobody names another.
    assert_problem(ask(asked), 422, "as the settings of the model say: method 'beta'", "3 classes")
    assert refits.store.jobs(None, before=None, limit=1) == []
    assert ask(asked, method="vector_scaling").status_code == 202


def test_segments_that_are_not_declared_are_refused(refits: Refits) -> None:
    assert_problem(
        ask(client(refits, segments=()), method="group_wise_beta"), 422, "'group_wise_beta' needs segments", "declare"
    )
    asked = client(refits, segments=("region", "device"))
    wrong = {"method": "group_wise_beta", "options": {"segment": "tier"}}
    assert_problem(ask(asked, **wrong), 422, "option segment of group_wise_beta", "device, region", "'tier'")
    assert refits.store.jobs(None, before=None, limit=1) == []
    # Whether events really have both, they tell alone.
    assert ask(asked, method="group_wise_beta").status_code == 202


def test_of_a_model_of_which_nothing_is_declared_the_fit_finds_out(refits: Refits) -> None:
    service = Service(refits=refits)
    del service.policies["churn"]
    assert ask(service.client(), method="vector_scaling").status_code == 202
