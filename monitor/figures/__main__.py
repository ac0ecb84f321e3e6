"""Draws the figures of the documentation: ``python -m monitor.figures docs/figures``."""

import sys
from pathlib import Path

from monitor.figures.documentation import FIGURES
from monitor.figures.output import save

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/figures")
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        save(draw(), folder / name)
