"""The notebook of the documentation: ``python -m tests.docs.notebook`` runs it and keeps what it shows."""

import base64
import io
import tempfile
from pathlib import Path
from typing import Any, Final

import nbclient
import nbformat
from PIL import Image

NOTEBOOK: Final = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def executed(folder: Path) -> Any:
    """Run all cells in a folder, where they may write files.

    Raises
    ------
    CellExecutionError
        A cell fails.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        # When it ran is of no interest, and would make every run another file.
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not _is_empty(output)]
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    output.data["image/png"] = _smaller(output.data["image/png"])
    notebook.metadata.pop("language_info", None)
    return notebook


def _is_empty(output: Any) -> bool:
    """Tell whether an output shows nothing: what is left of the progress of long work."""
    return "data" in output and not any(output["data"].values())


def _smaller(png: str) -> str:
    """The picture in 32 colours, which are enough for it."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").quantize(32)
    buffer = io.BytesIO()
    picture.save(buffer, format="png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        nbformat.write(executed(Path(folder)), NOTEBOOK)
