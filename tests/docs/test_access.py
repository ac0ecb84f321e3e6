"""docs/access.md agrees with the service: its table of routes, and what it promises in numbers."""

from monitor.access import keys, provider, tokens
from monitor.http import authorization
from tests.docs.routes import PAGE, table, with_table

PAGE_TEXT = PAGE.read_text(encoding="utf-8")
WORDS = " ".join(PAGE_TEXT.split())


def test_the_table_of_routes_is_up_to_date() -> None:
    assert with_table(PAGE_TEXT) == PAGE_TEXT, "run: python -m tests.docs.routes"


def test_every_route_is_in_it() -> None:
    assert table().count("\n") >= 25
    assert "| `POST /v1/models/{model}/rollback` | `promote`, of the model |" in table()
    assert "| `GET /healthz` | nothing: it holds no data |" in table()


def test_times_and_sizes_are_those_of_the_code() -> None:
    said = (
        f"within {keys.REVOKED_WITHIN_SECONDS:g} seconds",
        f"hold for {keys.OUTAGE_SECONDS / 60:g} minutes",
        f"at most every {provider.RETRY_SECONDS:g} seconds",
        f"`access.oidc.refresh` and {provider.OUTAGE_SECONDS / 60:g} minutes",
        f"within {provider.READ_SECONDS:g} seconds",
        f"{provider.MAX_BYTES // 1024} KiB",
        f"{authorization.MAX_CHARACTERS // 1024} KiB",
        f"for {tokens.REMEMBERED_SECONDS:g} seconds",
    )
    assert [each for each in said if each not in WORDS] == []
