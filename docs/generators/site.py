"""The site of the documentation: its pages, its order, and what is checked of it.

``python -m docs.generators.site stage FOLDER`` writes pages and settings for Zensical (decision 44);
``python -m docs.generators.site verify FOLDER`` reads what it built. `make docs` does both.

The order is that of ``docs/index.md``: each of its sections is one of the navigation. Files outside ``docs`` that a
page links are copied beside the pages, and the links rewritten.
"""

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import monitor

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
API: Final = "api.md"
OUTSIDE: Final = "outside"
"""Folder of the site for what lies outside ``docs``."""

_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
_FENCE: Final = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_ASSETS: Final = (".png", ".svg", ".csv", ".yaml")
_SLUGS: Final = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
"""Anchors of headings as GitHub makes them, which the links of the pages are written for."""
_FOREIGN: Final = re.compile(r"^(?:https?:)?//", re.IGNORECASE)
_FOREIGN_IN_CSS: Final = re.compile(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", re.IGNORECASE)


def stage(folder: Path) -> None:
    """Write pages and settings into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    written: set[Path] = set()
    left = [path for path in sorted(DOCS.rglob("*")) if path.suffix in {*_ASSETS, ".md", ".ipynb"}]
    while left:
        source = left.pop()
        if source in written:
            continue
        written.add(source)
        target = pages / place(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            text = _listing(source)
        elif source.suffix == ".ipynb":
            text = _notebook(source, target)
        elif source.suffix == ".md":
            text = source.read_text("utf-8")
        else:
            shutil.copyfile(source, target)
            continue
        rewritten, linked = rewrite(text, source)
        target.write_text(rewritten, encoding="utf-8")
        left += linked
    (pages / API).write_text(_api(), encoding="utf-8")
    # JSON is YAML, but for the one value that YAML alone can write.
    written_settings = json.dumps(settings()).replace(f'"{_SLUGS}"', _SLUGS)
    (folder / "zensical.yml").write_text(written_settings, encoding="utf-8")


def place(source: Path) -> Path:
    """Return the path of a file or folder of the repository, within the pages of the site."""
    if source.is_dir():
        return place(source / "index.md")
    if source.suffix == ".ipynb":
        source = source.with_suffix(".md")
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    path = source.relative_to(ROOT)
    if path.suffix == ".md":
        # A README.md would be taken for the index of its folder.
        return Path(OUTSIDE, *path.parent.parts, f"{path.stem.lower()}.md")
    return Path(OUTSIDE, f"{path}.txt")


def rewrite(text: str, source: Path) -> tuple[str, list[Path]]:
    """Return a page with the links that it has on the site, and the files and folders that it links.

    Raises
    ------
    FileNotFoundError
        A link leads nowhere.
    """
    here = place(source).parent
    folder = source if source.is_dir() else source.parent
    linked = []

    def relinked(match: re.Match[str]) -> str:
        target = (folder / match[1]).resolve()
        if not target.exists():
            raise FileNotFoundError(f"{source}: {match[1]} leads nowhere")
        linked.append(target)
        return f"{Path(os.path.relpath(place(target), here)).as_posix()}{match[2] or ''}"

    parts, at = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(relinked, text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, _LINK.sub(relinked, text[at:])]), linked


def navigation() -> list[dict[str, list[str]]]:
    """Return the sections of ``docs/index.md`` with the pages that their lists and tables name, in their order."""
    sections = (DOCS / "index.md").read_text("utf-8").split("\n## ")[1:]
    entries: list[dict[str, list[str]]] = []
    for section in sections:
        title, _, body = section.partition("\n")
        named = re.findall(r"^(?:\||-) \[[^\]]*\]\(([^)#]+)\)", body, re.MULTILINE)
        files = [path for link in named for path in _pages(DOCS / link)]
        entries.append({title: [place(path.resolve()).as_posix() for path in files]})
    return entries


def _pages(path: Path) -> list[Path]:
    return [path, *sorted(path.glob("*.md"))] if path.is_dir() else [path]


def settings() -> Mapping[str, Any]:
    """Settings of the site, as those of MkDocs, which Zensical reads."""
    nav: list[dict[str, Any]] = [{"Documentation": "index.md"}, *navigation()]
    for entry in nav:
        if "Reference" in entry:
            entry["Reference"].insert(0, API)
    options = {"docstring_style": "numpy", "show_source": False, "show_root_heading": True, "heading_level": 2}
    return {
        "site_name": "Calibration monitor",
        "docs_dir": "pages",
        "site_dir": "site",
        # A folder of files, which also opens without a server.
        "use_directory_urls": False,
        "nav": nav,
        # Without fonts and without a link to its makers, nothing is of another host.
        "theme": {
            "name": "material",
            "font": False,
            "features": ["navigation.tabs", "navigation.footer", "toc.follow"],
        },
        "extra": {"generator": False},
        "plugins": [
            "search",
            {"mkdocstrings": {"handlers": {"python": {"paths": [str(ROOT)], "options": options}}}},
        ],
        "markdown_extensions": ["tables", {"toc": {"slugify": _SLUGS}}, "pymdownx.superfences", "pymdownx.highlight"],
    }


def _api() -> str:
    """Return the page of the public functions and classes, which mkdocstrings fills from their docstrings."""
    names = [name for name in monitor.__all__ if not name.startswith("__")]
    head = "# Python API\n\nWhat `import monitor` offers, from the docstrings. Examples: [in Python](python.md).\n"
    return "\n".join([head, *(f"::: monitor.{name}\n" for name in names)])


def _listing(folder: Path) -> str:
    """Return a page that lists the files of a folder, pages of the documentation as links."""
    lines = [f"# {folder.relative_to(ROOT).as_posix()}\n"]
    for path in sorted(folder.iterdir()):
        if path.suffix == ".md" and path.is_relative_to(DOCS):
            lines.append(f"- [{path.read_text('utf-8').partition(chr(10))[0].removeprefix('# ')}]({path.name})")
        elif not path.name.startswith(("_", ".")):
            lines.append(f"- `{path.name}`")
    return "\n".join([*lines, ""])


def _notebook(source: Path, target: Path) -> str:
    """Return a notebook as a page: texts, code, and what it printed; its figures are written beside the page."""
    parts = []
    for number, cell in enumerate(json.loads(source.read_text("utf-8"))["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                picture = target.with_name(f"{source.stem}-{number}.png")
                picture.write_bytes(base64.b64decode(data["image/png"]))
                # Written as HTML, since it is no file of the repository.
                parts.append(f'<img src="{picture.name}" alt="The figure that the code above draws">')
            elif printed := "".join(data.get("text/plain", output.get("text", []))):
                parts.append(f"```\n{printed.rstrip()}\n```")
    return "\n\n".join([*parts, ""])


class _Page(HTMLParser):
    """Links, ids, and what is loaded, of one page of the built site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.ids.add(value)
            elif tag == "a" and name == "href" and value:
                self.links.append(value)
            elif name in {"src", "href", "srcset", "data", "poster"} and value:
                self.loaded.append(value)


def faults(site: Path) -> Iterator[str]:
    """Yield what is wrong with a built site: links that lead nowhere, and what is loaded from another host."""
    pages = {path.resolve(): _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        yield from (f"{name} loads {url}" for url in page.loaded if _FOREIGN.match(url))
        for link in [*page.links, *page.loaded]:
            url = urlsplit(link)
            # The page of what is not found does not know where it will be shown.
            if url.scheme or url.netloc or name == Path("404.html"):
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name} links {link}, which is not there"
            elif url.fragment and target in pages and unquote(url.fragment) not in pages[target].ids:
                yield f"{name} links {link}, and there is no such heading"
    for sheet in sorted(site.rglob("*.css")):
        if _FOREIGN_IN_CSS.search(sheet.read_text("utf-8")):
            yield f"{sheet.relative_to(site)} loads something of another host"


def main(command: str, folder: str) -> int:
    """Run ``stage`` or ``verify``; return the exit status."""
    if command == "stage":
        stage(Path(folder))
        return 0
    wrong = list(faults(Path(folder)))
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
