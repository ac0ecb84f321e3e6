"""Who may do what: laws of grants."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.access.model import ANONYMOUS, Grant, Principal, Role, parse_grants
from monitor.errors import InputError

MODELS = st.one_of(st.none(), st.sampled_from(["churn", "fraud", "a:b", "read"]), st.text(min_size=1, max_size=8))
ROLES = st.sampled_from(list(Role))
GRANTS = st.builds(Grant, ROLES, MODELS)
SETS = st.lists(GRANTS, max_size=5)


def principal(grants: list[Grant]) -> Principal:
    return Principal("key:x", tuple(grants))


@given(GRANTS)
def test_a_grant_reads_back_as_it_is_written(grant: Grant) -> None:
    assert Grant.parse(str(grant)) == grant


@given(GRANTS, ROLES, MODELS)
def test_a_grant_covers_its_role_and_reading_of_its_model_or_of_all(
    grant: Grant, role: Role, model: str | None
) -> None:
    expected = role in {grant.role, Role.READ} and (grant.model is None or grant.model == model)
    assert grant.covers(role, model) is expected


@given(SETS, GRANTS, ROLES, MODELS)
def test_another_grant_takes_nothing_away(grants: list[Grant], more: Grant, role: Role, model: str | None) -> None:
    if principal(grants).may(role, model):
        assert principal([*grants, more]).may(role, model)


@given(SETS, ROLES, MODELS)
def test_many_grants_allow_what_any_of_them_does_in_any_order(
    grants: list[Grant], role: Role, model: str | None
) -> None:
    expected = any(principal([each]).may(role, model) for each in grants)
    assert principal(grants).may(role, model) is expected
    assert principal(grants[::-1]).may(role, model) is expected


@given(SETS, ROLES, MODELS)
def test_who_may_all_may_each_and_who_may_each_may_somewhere(
    grants: list[Grant], role: Role, model: str | None
) -> None:
    asked = principal(grants)
    if asked.may(role):
        assert asked.may(role, model)
    if asked.may(role, model):
        assert asked.may_somewhere(role)
        assert asked.may(Role.READ, model)


@given(SETS, ROLES)
def test_somewhere_is_where_a_grant_says(grants: list[Grant], role: Role) -> None:
    asked = principal(grants)
    named = {grant.model for grant in grants}
    assert asked.may_somewhere(role) is any(asked.may(role, model) for model in named)


@given(SETS)
def test_write_and_promote_do_not_include_each_other(grants: list[Grant]) -> None:
    without_promote = [grant for grant in grants if grant.role is not Role.PROMOTE]
    without_write = [grant for grant in grants if grant.role is not Role.WRITE]
    assert not principal(without_promote).may_somewhere(Role.PROMOTE)
    assert not principal(without_write).may_somewhere(Role.WRITE)


def test_the_grant_of_one_model_says_nothing_of_another_nor_of_all() -> None:
    asked = principal([Grant(Role.PROMOTE, "churn")])
    assert asked.may(Role.PROMOTE, "churn")
    assert asked.may(Role.READ, "churn")
    assert not asked.may(Role.WRITE, "churn")
    assert not asked.may(Role.READ, "churn2")
    assert not asked.may(Role.READ)


def test_where_access_control_is_off_everybody_may_everything() -> None:
    assert all(ANONYMOUS.may(role) and ANONYMOUS.may(role, "churn") for role in Role)


@given(st.lists(GRANTS, min_size=1, max_size=5))
def test_grants_are_read_in_order_and_once(grants: list[Grant]) -> None:
    texts = [str(grant) for grant in grants]
    read = parse_grants(texts)
    assert set(read) == set(grants)
    assert len(set(read)) == len(read)
    assert parse_grants([*texts[::-1], *texts]) == read


@pytest.mark.parametrize("text", ["", "admin", "READ", "read ", "read:", ":churn", "rea", "read;write"])
def test_what_is_no_role_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(InputError, match=r"a role must be read, write, promote, or one of them for one model.*got"):
        Grant.parse(text)


def test_no_role_at_all_is_refused() -> None:
    with pytest.raises(InputError, match="at least one role must be named: read, write, promote"):
        parse_grants([])
