"""Ways to read a folder of Parquet on one machine, each in a process of its own: ``python -m ... WAY FOLDER TIMES``.

Prints how long it took and the most memory that the process ever held, as JSON.
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


def peak_mib(pid: int | str = "self") -> float:
    """The most memory that a process ever held, MiB."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise AssertionError("Linux says how much memory a process has held")
    return int(found[1]) / 1024.0


def report(folder: Path) -> Callable[[], object]:
    """What `monitor report` does."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - a process loads what it uses

    from monitor import Columns, evaluate, read  # noqa: PLC0415

    rows = sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))

    def evaluated() -> None:
        assert evaluate(read(folder, Columns("p", "y"))).n == rows

    return evaluated


def duckdb(folder: Path) -> Callable[[], object]:
    """Sums of ten bins."""
    import duckdb as database  # noqa: PLC0415

    query = f"SELECT least(floor(p * 10), 9) b, count(*), sum(p), sum(y) FROM '{folder}/*.parquet' GROUP BY b"
    return lambda: database.execute(query).fetchall()


def pandas(folder: Path) -> Callable[[], object]:
    """The ECE of ten bins, of all rows in memory."""
    import pandas as pd  # noqa: PLC0415

    def ece() -> float:
        rows = pd.read_parquet(folder)
        number = np.minimum((rows.p * 10).astype(int), 9)
        groups = rows.groupby(number).mean()
        counts = np.bincount(number, minlength=10)[groups.index]
        return float((abs(groups.p - groups.y) * counts).sum() / len(rows))

    return ece


WAYS = {way.__name__: way for way in (report, duckdb, pandas)}


def main() -> None:
    """Measure one of the ways."""
    name, folder, repeats = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    work, times = WAYS[name](folder), []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    print(json.dumps([min(times), peak_mib()]))


if __name__ == "__main__":
    main()
