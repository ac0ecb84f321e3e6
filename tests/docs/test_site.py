"""The parts of the documentation's site. `make docs` builds it, and reads what was built."""

from pathlib import Path

import pytest

import monitor
from docs.generators.site import API, DOCS, ROOT, faults, navigation, place, rewrite, settings, stage
from tests.docs.test_docs import PAGES


def test_the_order_is_that_of_the_readers_need() -> None:
    titles = [title for section in navigation() for title in section]
    assert titles == ["Tutorials", "How-to", "Concepts", "Reference", "Research", "Questions", "Changing the code"]


def test_every_page_is_in_the_navigation_once() -> None:
    shown = [page for section in navigation() for pages in section.values() for page in pages]
    assert len(shown) == len(set(shown))
    pages = {place(page).as_posix() for page in PAGES if page not in {DOCS / "index.md", ROOT / "README.md"}}
    assert pages <= set(shown)


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("[a](../README.md#repair-a-model)", "[a](outside/readme.md#repair-a-model)"),
        ("[a](../helm)", "[a](outside/helm/index.md)"),
        ("[a](runbooks)", "[a](runbooks/index.md)"),
        ("[a](notebook.ipynb)", "[a](notebook.md)"),
        ("[a](../LICENSE)", "[a](outside/LICENSE.txt)"),
        ("[a](cli.md#monitor-map) and [b](#here)", "[a](cli.md#monitor-map) and [b](#here)"),
        ("[a](https://example.com/x)", "[a](https://example.com/x)"),
        ("```\n[a](../README.md)\n```", "```\n[a](../README.md)\n```"),
    ],
)
def test_links_are_those_of_the_site(link: str, becomes: str) -> None:
    assert rewrite(link, DOCS / "faq.md")[0] == becomes


def test_a_link_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.md leads nowhere"):
        rewrite("[a](gone.md)", DOCS / "faq.md")


def test_all_that_is_linked_is_written(tmp_path: Path) -> None:
    stage(tmp_path)
    pages = tmp_path / "pages"
    listed = {page for section in navigation() for entry in section.values() for page in entry}
    assert [page for page in listed if not (pages / page).exists()] == []
    assert (pages / "outside" / "readme.md").exists()
    api = (pages / API).read_text("utf-8")
    assert [name for name in monitor.__all__ if f"::: monitor.{name}\n" not in api] == ["__version__"]
    assert "figure that the code above draws" in (pages / "notebook.md").read_text("utf-8")
    assert settings()["theme"]["font"] is False


def test_what_is_wrong_with_a_site_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/f.css"><a href="https://example.com">fine</a>'
        '<a href="b.html#there">fine</a><a href="b.html#gone">x</a><a href="c.html">x</a>'
        '<img src="//cdn.example/i.png">',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<h2 id="there">b</h2>', encoding="utf-8")
    (tmp_path / "s.css").write_text("@import url('https://fonts.example/f.css');", encoding="utf-8")
    assert list(faults(tmp_path)) == [
        "a.html loads https://fonts.example/f.css",
        "a.html loads //cdn.example/i.png",
        "a.html links b.html#gone, and there is no such heading",
        "a.html links c.html, which is not there",
        "s.css loads something of another host",
    ]
