import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InputError
from monitor.urls import path_of, wrong_path

PARTS = st.sampled_from(["", ".", "..", "a", "...", "%2e%2e", "..%2F", "\\..\\", "a b", "?", "#", ";", "é"])


@given(st.lists(PARTS, min_size=1, max_size=4).map("/".join))
def test_a_name_that_is_allowed_is_sent_as_it_is_and_others_would_not_be(name: str) -> None:
    if wrong_path(name) is None:
        assert httpx.URL(f"http://a/v1/{path_of('model', name)}/map").path == f"/v1/{name}/map"
    else:
        with pytest.raises(InputError, match="model must not"):
            path_of("model", name)
