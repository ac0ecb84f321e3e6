"""The table of budgets that `make bench` prints at its end: what was measured beside what it was and what it may be."""

from typing import Final, NamedTuple


class Budget(NamedTuple):
    """A row of the table."""

    work: str
    before: str
    """Before closings."""
    budget: str


BUDGETS: Final = {
    "measures": Budget("four measures of 1,000,000 raw predictions, exact, sort included", ".30-.53 s", ".3 s"),
    "one series": Budget("Kafka record to joined and durable, one series", "164,000/s", "200,000 per processor second"),
    "one series, processor": Budget(
        "embedded log to joined and durable, one series, 1.8 M events", "145,000 per processor second", "200,000"
    ),
    "1,000 series": Budget(
        "the same, 1,000 series, 1.8 M events over 1.5 days",
        "18,500 per processor second, 1,470 MiB",
        "120,000, 600 MiB",
    ),
    "pending": Budget("a pending prediction, as the whole process holds it", "230 bytes", "80 bytes"),
    "ten million": Budget("10 million pending predictions", "2.3 GB", "1.2 GB, restored in 10 s"),
    "values": Budget("1,000 series x 4 windows: values after every one of them changed", "-", "4 s of one processor"),
    "intervals": Budget("then all intervals, levels, verdicts", "90 ms each", "60 s of one processor"),
    "evidence": Budget("evidence of all alternatives, D1 to D4, for every event", "-", "150 ns an event"),
    "fresh report": Budget("first report of 5,000 rows, processor time: a new installation", "15 s", "5 s"),
    "warm report": Budget("each later one", "2.7 s", "1 s"),
    "import": Budget("of that, imports", "1.1 s", "-"),
    "service": Budget(
        "a service that has read nothing: processor time until ready, memory", "3.3 s, 367 MiB", "2 s, 250 MiB"
    ),
    "Parquet": Budget("`monitor report` of 20 million rows: Parquet", "8.3 s", "5 s, 400 MB"),
    "CSV": Budget("the same, CSV", "-", "5 s, 400 MB"),
    "CSV.gz": Budget("the same, CSV.gz", "27.6 s", "5 s, 400 MB"),
    "DuckDB": Budget("the same, a query to DuckDB", "-", "15 s"),
    "PostgreSQL": Budget("the same, a query to PostgreSQL", "109-115 s", "15 s"),
    "SQLite": Budget("the same, a query to SQLite", "109-115 s", "15 s"),
    "reports": Budget("report request while ingesting at full rate", "p99 13 ms", "p99 10 ms at 200/s"),
}

_measured: dict[str, str] = {}


def note(name: str, measured: str) -> None:
    """Note what was measured for a row, beside what was noted for it."""
    if name not in BUDGETS:
        raise KeyError(f"{name!r} is no row of the budgets: {', '.join(BUDGETS)}")
    _measured[name] = "; ".join([*([_measured[name]] if name in _measured else []), measured])


def table() -> list[str]:
    """The lines of the table: the rows that were measured. None if there are none."""
    if not _measured:
        return []
    rows = [(row.work, row.before, _measured[name], row.budget) for name, row in BUDGETS.items() if name in _measured]
    return ["| work | before | today | budget |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]
