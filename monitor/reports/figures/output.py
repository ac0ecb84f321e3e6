"""Figures as PNG: the same bytes for the same figure."""

import io
from typing import Final

from matplotlib.figure import Figure

PNG_DPI: Final = 150
"""Figures are 8 inches wide: 1,200 pixels, sharp also where a page shows them at 800."""


def to_png(figure: Figure, dpi: int = PNG_DPI) -> bytes:
    """Draw the figure as a PNG, of 150 dots per inch unless said otherwise."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
