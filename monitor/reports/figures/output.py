"""Figures as files and bytes: the same bytes for the same figure."""

import hashlib
import io
import re
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from monitor.errors import InputError

PNG_DPI: Final = 150
"""Figures are 8 inches wide: 1,200 pixels, sharp also where a page shows them at 800."""

SUFFIXES: Final = (".png", ".svg", ".pdf")

_ID: Final = re.compile(r'(?<=\bid=")[^"]+')
_USE: Final = re.compile(r'(?<=href="#)[^"]+|(?<=url\(#)[^)]+')


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the path's ending names: .png, .svg or .pdf.

    Raises
    ------
    InputError
        The ending is another one.
    OSError
        The file cannot be written.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix == ".svg":
        file.write_text(to_svg(figure), encoding="utf-8")
    elif suffix == ".png":
        file.write_bytes(to_png(figure))
    elif suffix == ".pdf":
        buffer = io.BytesIO()
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
        file.write_bytes(buffer.getvalue())
    else:
        raise InputError(f"a figure is saved as {', '.join(SUFFIXES)}, got {file.name!r}: change its ending")


def to_png(figure: Figure) -> bytes:
    """The figure as a PNG of 150 dots an inch."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def to_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element, to be put into a page or a file.

    Its ids are its own, so that many figures may stand in one page.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return _renamed(text[text.index("<svg") :])


def _renamed(svg: str) -> str:
    """With ids that follow from the content.

    matplotlib draws them at random unless a process-wide setting says otherwise, which is not ours to change.
    """
    used = set(_USE.findall(svg))
    order = {name: number for number, name in enumerate(dict.fromkeys(_ID.findall(svg))) if name in used}

    def numbered(prefix: str) -> str:
        # What nothing refers to needs no id.
        named = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}{order[m[1]]}"' if m[1] in order else "", svg)
        return _USE.sub(lambda match: f"{prefix}{order[match[0]]}", named)

    digest = hashlib.sha256(numbered("").encode()).hexdigest()[:8]
    return numbered(f"f{digest}-")
