"""The table of docs/access.md that says who may use which route: ``python -m tests.docs.routes`` writes it anew."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.http.service import Service

PAGE: Final = Path(__file__).parents[2] / "docs" / "access.md"
BEGIN: Final = "<!-- routes: made by `python -m tests.docs.routes` -->"
END: Final = "<!-- end of routes -->"

_METHODS: Final = ("get", "post", "delete")


def table() -> str:
    """Every operation of the OpenAPI document, those for everybody first, with the role that it takes."""
    rows = sorted(_rows(Service().app().openapi()))
    lines = [f"| `{method} {path}` | {takes} |" for _, path, method, takes in rows]
    return "\n".join(["| route | takes |", "|---|---|", *lines])


def _rows(document: Mapping[str, Any]) -> Iterator[tuple[int, str, str, str]]:
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                order, takes = _takes(operations[method])
                yield order, path, method.upper(), takes


def _takes(operation: Mapping[str, Any]) -> tuple[int, str]:
    if not operation["security"]:
        return 0, "nothing: it holds no data"
    role = operation["x-required-role"]
    return ("read", "write", "promote").index(role) + 1, f"`{role}`, of {operation['x-required-of']}"


def with_table(page: str) -> str:
    """A page with the table as it is now."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
