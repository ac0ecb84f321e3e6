"""The notebook runs, and shows what it showed when it was kept."""

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.docs.notebook import NOTEBOOK, executed


def kinds_of_output(notebook: Any) -> list[list[str]]:
    """Of each cell of code, the kinds of what it shows; not that loops are compiled, which the first run logs."""
    return [
        [
            kind
            for output in cell.outputs
            if output.get("name") != "stderr"
            for kind in sorted(output.get("data", {"stream": ""}))
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.long
def test_the_notebook_runs_and_shows_what_is_kept_of_it(tmp_path: Path) -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    shown = executed(tmp_path)
    assert kinds_of_output(shown) == kinds_of_output(kept)
    assert any("image/png" in kinds for kinds in kinds_of_output(kept))
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "map.arrow").exists()
