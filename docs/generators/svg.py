"""Figures as SVG, for the documentation: the same bytes for the same figure."""

import hashlib
import io
import re
from typing import Final

from matplotlib.figure import Figure

_ID: Final = re.compile(r'(?<=\bid=")[^"]+')
_USE: Final = re.compile(r'(?<=href="#)[^"]+|(?<=url\(#)[^)]+')


def to_svg(figure: Figure) -> str:
    """Draw the figure as an ``<svg>`` element, to be put into a page or a file.

    Its ids are its own, so that many figures may stand in one page.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return _renamed(text[text.index("<svg") :])


def _renamed(svg: str) -> str:
    """Replace ids by ones that follow from the content.

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
