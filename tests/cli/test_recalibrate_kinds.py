"""`monitor recalibrate` takes a file or a model, says which it took, and refuses options of the other."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from scipy.special import expit

from tests.cli.command import inside, one_error_line

NOWHERE = ("--url", "127.0.0.1:1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a model that is too sure of itself: not enough rows to repair it, and enough of them."""
    path = tmp_path_factory.mktemp("kinds")
    rng = np.random.default_rng(3)
    for name, n in (("few", 900), ("churn", 900)):
        z = rng.normal(size=n)
        table = pa.table({"p": expit(1.9 * z), "y": (rng.random(n) < expit(z)).astype(int)})
        pa.csv.write_csv(table, path / f"{name}.csv")
    (path / "churn.csv").rename(path / "churn")
    return path


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        # By its ending it is a file, though it is not there.
        (
            ["gone.csv"],
            2,
            "gone.csv: no such file; name a CSV, Parquet or JSON lines file that is there (the ending is that of ",
        ),
        (["gone.csv.gz", "--wait"], 2, "--wait is for a model of a service, and gone.csv.gz is read as a file"),
        (["few.csv", *NOWHERE], 2, "--url is for a model of a service, and few.csv is read as a file"),
        (["few.csv", "--window", "7d"], 2, "--window is for a model of a service, and few.csv is read as a file"),
        # A file is one whatever its name.
        (["churn", "--promote"], 2, "--promote is for a model of a service, and churn is read as a file"),
        (["churn"], 2, "churn: files ending in .csv"),
        (
            ["fraud", "--feature", "age"],
            2,
            "--feature is for a file, and fraud is read as a model of a service, because there is no such file",
        ),
        (["fraud", "-o", "map.arrow"], 2, "--output is for a file, and fraud is read as a model of a service"),
        (
            ["fraud", "--method", "beta", "--method", "lore"],
            2,
            "--method goes once with a model, and fraud is read as",
        ),
        (["fraud", *NOWHERE], 1, "the service at http://127.0.0.1:1 does not answer"),
    ],
)
def test_what_it_took_the_name_for_is_said(folder: Path, arguments: list[str], status: int, line: str) -> None:
    done = inside("recalibrate", *arguments, cwd=folder)
    assert done.returncode == status
    assert one_error_line(done).startswith(line)
    if status == 1:
        assert "fraud is read as a model, because there is no such file" in done.stderr


def test_the_old_name_works_and_says_the_new_one(folder: Path) -> None:
    arguments = ("few.csv", "--method", "beta", "--draws", "0", "--json")
    old, new = (inside(name, *arguments, cwd=folder) for name in ("refit", "recalibrate"))
    assert (old.returncode, old.stdout) == (new.returncode, new.stdout)
    assert (old.stderr, new.stderr) == (
        "`monitor refit` is now `monitor recalibrate`; the old name will be removed in the next release\n",
        "",
    )
    assert "│ refit" not in inside("--help", cwd=folder).stdout


def test_miscalibrated_rows_that_no_map_is_proven_to_repair_say_why_and_how_many_are_enough(folder: Path) -> None:
    done = inside("recalibrate", "few.csv", "--method", "beta", "--draws", "99", cwd=folder)
    text = " ".join(done.stdout.split())
    assert done.returncode == 3
    assert "with no map, later rows show: Predictions are too sure of themselves" in text
    assert "although the later rows are miscalibrated" in text
    assert (
        "Leave predictions as they are for now. At the rate of these 270 later rows, beta is expected to reach" in text
    )
    assert "rows in all." in text
