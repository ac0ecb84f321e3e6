"""The files of the page: as the service serves them, and in one file that needs no server.

Scripts are ES modules that name each other ``page/NAME``. In the service an import map says where those are: below a
path that holds the hash of all files, so that browsers keep them for good. A file of its own holds the modules that it
needs as one script, because a content security policy can name that by its hash.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final

_TYPES: Final = {".js": "text/javascript", ".css": "text/css"}
_UPLOT: Final = "vendor/uplot.js"
"""The one script that is no module."""
_UPLOT_STYLE: Final = "vendor/uplot.css"


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
    modules = _modules([page])
    return _document(
        root,
        body=f"{content}\n",
        head="".join(f'<link rel="stylesheet" href="{base}{name}">\n' for name in _styles(modules))
        + f'<script type="importmap">{json.dumps({"imports": {"page/": base}})}</script>\n'
        + (f'<script src="{base}{_UPLOT}" defer></script>\n' if _need_uplot(modules) else "")
        + f'<script type="module" src="{base}{page}.js"></script>\n'
        + "".join(f'<link rel="modulepreload" href="{base}{name}">\n' for name in modules),
    )


def single_file(modules: Iterable[str], title: str, document: Mapping[str, Any]) -> str:
    """One HTML file that shows a document. Its content security policy allows its own parts, and no network.

    Parameters
    ----------
    modules
        The modules to run, without ``.js``, in this order. What they import is included, and nothing else.
    title
        Of the document.
    document
        JSON, for the element with the id ``document``.
    """
    names = _modules(modules)
    scripts = [assets()[_UPLOT].decode()] if _need_uplot(names) else []
    scripts.append('"use strict";\nconst modules = {};\n' + "".join(map(_as_function, names)))
    style = "".join(assets()[name].decode() for name in _styles(names))
    # Within a script element "<" begins nothing once these are gone, and JSON reads them as they were.
    data = json.dumps(document, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    hashes = " ".join(map(content_hash, scripts))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src {content_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return _document(
        "",
        title=title,
        head=f'<meta http-equiv="content-security-policy" content="{policy}">\n<style>{style}</style>\n',
        body="<noscript>This page needs JavaScript; --json gives the same numbers.</noscript>\n"
        f'<script type="application/json" id="document">{data}</script>\n'
        + "".join(f"<script>{script}</script>\n" for script in scripts),
    )


def content_hash(text: str) -> str:
    """The source of a content security policy that allows a script or style with this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_IMPORT: Final = re.compile(r'^(?:import|(export)) (?:\{([^}]*)\} from )?"page/([^"]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) (\w+))", re.MULTILINE)
_EXPORT_LIST: Final = re.compile(r"export ?\{([^}]*)\};?\s*$")


def _modules(pages: Iterable[str]) -> list[str]:
    """The files of the modules that pages need, each behind those that it imports."""
    ordered: list[str] = []

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ValueError(f"page modules import each other: {' -> '.join([*importers, name])}")
        if name not in ordered:
            for _, _, imported in _IMPORT.findall(assets()[name].decode()):
                add(imported, (*importers, name))
            ordered.append(name)

    for page in pages:
        add(f"{page}.js", ())
    return ordered


def _need_uplot(modules: Iterable[str]) -> bool:
    return any(b"uPlot" in assets()[name] for name in modules)


def _as_function(name: str) -> str:
    """A module as a function that is called and returns what it exports."""
    exported: dict[str, str] = {}
    source = assets()[name].decode()

    def declare(match: re.Match[str]) -> str:
        names = _names(match[2] or "")
        if match[1]:
            exported.update({new: f"modules[{json.dumps(match[3])}].{old}" for old, new in names})
            return ""
        listed = ", ".join(old if old == new else f"{old}: {new}" for old, new in names)
        return f"const {{ {listed} }} = modules[{json.dumps(match[3])}];" if names else ""

    def export(match: re.Match[str]) -> str:
        exported[match[1]] = match[1]
        return ""

    source = _EXPORT.sub(export, _IMPORT.sub(declare, source))
    if (last := _EXPORT_LIST.search(source)) is not None:
        exported.update({new: old for old, new in _names(last[1])})
        source = source[: last.start()]
    if re.search(r"^(?:import|export)\b", source, re.MULTILINE) or "</script" in source or "<!--" in source:
        raise ValueError(f"page module {name}: write imports and exports of names, each a statement of its own")
    values = ", ".join(f"{new}: {old}" for new, old in exported.items())
    return f"modules[{json.dumps(name)}] = (() => {{\n{source}\nreturn {{ {values} }};\n}})();\n"


def _names(listed: str) -> list[tuple[str, str]]:
    """Pairs of the names before and after ``as``."""
    pairs = [part.split(" as ") for part in map(str.strip, listed.split(",")) if part]
    return [(pair[0].strip(), pair[-1].strip()) for pair in pairs]


def _document(root: str, *, head: str, body: str, title: str = "Calibration monitor") -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{html.escape(title)}</title>\n<link rel="icon" href="data:,">\n{head}'
        f'</head>\n<body data-root="{html.escape(root)}">\n{body}</body>\n</html>\n'
    )


def _styles(modules: Iterable[str]) -> list[str]:
    return [*([_UPLOT_STYLE] if _need_uplot(modules) else []), "style.css"]


def _read(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            found += _read(entry, f"{name}/")
        elif media_type(name) is not None:
            found.append((name, entry.read_bytes()))
    return found
