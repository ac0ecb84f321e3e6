"""The files of the page: as the service serves them, and in one file that needs no server.

Scripts are ES modules that name each other ``page/NAME``. An import map says where those are: in the service below a
path that holds the hash of all files, so that browsers keep them for good; in a file of its own as data: URLs.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

_TYPES: Final = {".js": "text/javascript", ".css": "text/css"}
_UPLOT: Final = "vendor/uplot.js"
"""The one script that is no module."""
_UPLOT_STYLE: Final = "vendor/uplot.css"
_IMPORT: Final = re.compile(rb'from "page/([^"]+)"')


@cache
def assets() -> Mapping[str, bytes]:
    """The files by name, such as ``plots/time.js``."""
    return dict(sorted(_read(files("monitor.page") / "static", "")))


@cache
def version() -> str:
    """The hash of all files: it changes with any of them."""
    digest = hashlib.sha256()
    for name, content in assets().items():
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:16]


def media_type(name: str) -> str | None:
    """The media type of a file that pages load; None of any other."""
    return next((media for ending, media in _TYPES.items() if name.endswith(ending)), None)


_SCRIPTS_NEEDED: Final = "<noscript>This page needs JavaScript; the numbers are in the REST interface.</noscript>"


def service_page(page: str, root: str, content: str = _SCRIPTS_NEEDED) -> str:
    """The document of a page of the service.

    Parameters
    ----------
    page
        Its module, without ``.js``.
    root
        The relative path to the root of the service, which ends with ``/``.
    content
        HTML of the body, until the module shows something else.
    """
    base = f"{root}assets/{version()}/"
    modules = _modules(f"{page}.js")
    plots = any(b"uPlot" in assets()[name] for name in modules)
    styles = [name for name in _styles() if plots or name != _UPLOT_STYLE]
    return _document(
        root,
        {"page/": base},
        content=content,
        styles="".join(f'<link rel="stylesheet" href="{base}{name}">\n' for name in styles),
        scripts=(f'<script src="{base}{_UPLOT}" defer></script>\n' if plots else "")
        + f'<script type="module" src="{base}{page}.js"></script>\n'
        + "".join(f'<link rel="modulepreload" href="{base}{name}">\n' for name in modules),
    )


def single_file(page: str, title: str, document: Mapping[str, Any]) -> str:
    """One HTML file that shows a document, and loads nothing."""
    modules = {
        f"page/{name}": f"data:text/javascript;base64,{base64.b64encode(content).decode()}"
        for name, content in assets().items()
        if name.endswith(".js") and name != _UPLOT
    }
    data = json.dumps(document, allow_nan=False).replace("</", "<\\/").replace("<!--", "<\\u0021--")
    return _document(
        "",
        modules,
        title=title,
        styles=f"<style>{''.join(assets()[name].decode() for name in _styles())}</style>\n",
        scripts=f"<script>{assets()[_UPLOT].decode()}</script>\n"
        f'<script type="module">import "page/{page}.js";</script>\n'
        f'<script type="application/json" id="document">{data}</script>\n',
    )


def _document(
    root: str,
    imports: Mapping[str, str],
    *,
    styles: str,
    scripts: str,
    title: str = "Calibration monitor",
    content: str = _SCRIPTS_NEEDED,
) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{html.escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"{styles}"
        f'<script type="importmap">{json.dumps({"imports": imports})}</script>\n{scripts}'
        f'</head>\n<body data-root="{html.escape(root)}">\n{content}\n</body>\n</html>\n'
    )


def _modules(name: str) -> list[str]:
    """The modules that one needs, itself included."""
    found: dict[str, None] = {}
    new = [name]
    while new:
        module = new.pop(0)
        if module not in found:
            found[module] = None
            new += [imported.decode() for imported in _IMPORT.findall(assets()[module])]
    return list(found)


def _styles() -> list[str]:
    return [name for name in sorted(assets(), reverse=True) if name.endswith(".css")]


def _read(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _read(entry, f"{name}/")
        elif media_type(name) is not None:
            found.append((name, entry.read_bytes()))
    return found
