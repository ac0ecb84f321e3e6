"""The documentation agrees with the code: what it names is there, and what is there is named."""

import doctest
import json
import re
from pathlib import Path
from typing import Final

import jsonschema
import pytest
import typer
import yaml

from docs.generators.series import catalogue
from monitor.app.parts import make_decoder, make_formats, make_policy, make_topics
from monitor.app.settings import Settings, load_settings
from monitor.app.settings.fields import leaves
from monitor.classes import CLASS_MEASURES
from monitor.cli.main import COMMANDS, OLD_NAMES, app
from monitor.clock import SystemClock
from monitor.events.formats.plain_json import event_schema
from monitor.events.model import Kind, Reason, RecordBatch
from monitor.events.strata import Strata
from monitor.http.services import MAX_STREAMS
from monitor.measures import MAIN_MEASURES, MEASURES
from tests.events.messages import Message
from tests.http.service import Service

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])

_FENCE: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_CODE: Final = re.compile(r"`([^`\n]+)`")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return [body for of, body in _FENCE.findall(text_of(page)) if of == language]


def prose(page: Path) -> str:
    return _FENCE.sub("", text_of(page))


def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub and most renderers make them."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(page)))
    return {heading.replace(" ", "-") for heading in plain}


def links(page: Path) -> list[str]:
    return [link for link in _LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link)]


def named(pattern: str) -> set[str]:
    """Everything in backticks, on any page, that is of this form as a whole."""
    return {code for page in PAGES for code in _CODE.findall(prose(page)) if re.fullmatch(pattern, code)}


def options_of(name: str) -> set[str]:
    """Options of a command and of those below it."""
    command = typer.main.get_command(app).get_command(None, name)  # type: ignore[attr-defined]
    return {
        option
        for each in [command, *getattr(command, "commands", {}).values()]
        for parameter in each.params
        for option in parameter.opts
        if option.startswith("--")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_found_from_the_readme() -> None:
    found, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in found:
            continue
        found.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page))
        left += [target for target in targets if target.suffix == ".md"]
    assert found >= set(PAGES)


def test_no_page_is_listed_twice() -> None:
    """Neither in the index nor in a table of another page, whatever is said of it."""
    for page in PAGES:
        listed = re.findall(r"^\| \[[^\]]*\]\(([^)]*)\) \|", text_of(page), re.MULTILINE)
        assert sorted(listed) == sorted(set(listed)), page


_LOOKED_UP: Final = {
    "answers",
    "cli",
    "measures",
    "rest",
    "series",
    "settings",
    "lore",
    "alarms-benchmark",
    "CHANGELOG",
}
"""References, whose entries are read one at a time, research, and the history."""


def test_pages_that_are_read_from_the_start_are_short() -> None:
    lines = {page.stem: len(text_of(page).splitlines()) for page in PAGES}
    assert {name for name, number in lines.items() if number > 300} <= _LOOKED_UP
    assert lines["README"] < 250
    assert set(lines) > _LOOKED_UP


def test_every_decision_is_in_the_index() -> None:
    shown = [DOCS / link for link in links(DOCS / "index.md") if link.startswith("decisions/")]
    assert shown == sorted((DOCS / "decisions").glob("*.md"))


_OF_PYTHON: Final = ["measures.md", "which-measure.md", "classes.md", "python.md", "alarms.md", "concepts.md"]


@pytest.mark.parametrize("name", _OF_PYTHON)
def test_the_examples_of_the_measures_print_what_they_say(name: str) -> None:
    page = DOCS / name
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks(page, "pycon")), {}, page.name, str(page), 0)
    assert len(examples.examples) > 10
    said: list[str] = []
    failures = doctest.DocTestRunner().run(examples, out=said.append).failed
    assert failures == 0, "".join(said)


def test_concepts_are_short_and_in_pictures() -> None:
    """Each concept has at most eight lines, a picture, an example that is run, and a link to the details."""
    page = text_of(DOCS / "concepts.md")
    assert len(page.splitlines()) <= 250
    sections = page.split("\n## ")[1:]
    assert len(sections) == 6
    for section in sections:
        _title, paragraph, picture, *_ = section.split("\n\n")
        assert len(paragraph.splitlines()) <= 8
        assert re.fullmatch(r"!\[[^\]]{30,}\]\(figures/[\w-]+\.svg\)", picture)
        assert "```pycon" in section
        assert re.search(r"\bMore: \[", section)


def test_every_measure_is_explained() -> None:
    headings = {heading.split(",")[0].lower() for heading in _HEADING.findall(prose(DOCS / "measures.md"))}
    assert {measure.title.lower() for measure in MEASURES.values()} <= headings


def test_the_readme_explains_the_measures_that_it_shows() -> None:
    page = text_of(ROOT / "README.md")
    explained = set(re.findall(r"^\| \*\*([\w ]+)\*\* ", page, re.MULTILINE))
    (of_the_demo,) = re.findall(r"^ model +window +n +(.+?) +evidence$", page, re.MULTILINE)
    assert explained == {MEASURES[name].title for name in MAIN_MEASURES} | set(of_the_demo.split())


def test_every_measure_of_many_classes_is_explained() -> None:
    page = text_of(DOCS / "classes.md")
    for measure in CLASS_MEASURES.values():
        assert re.search(rf"^(## |\| ){re.escape(measure.title)}\b", page, re.MULTILINE | re.IGNORECASE), measure.title


def test_settings_are_called_by_their_names() -> None:
    paths = {".".join(leaf.path) for leaf in leaves()}
    sections = {".".join(leaf.path[:depth]) for leaf in leaves() for depth in range(1, len(leaf.path))}
    roots = "|".join(Settings.model_fields)
    for name in named(rf"({roots})\.[a-z_.]+"):
        assert name in paths | sections, f"there is no setting {name}"
    page = text_of(DOCS / "settings.md")
    for leaf in leaves():
        assert f"| `{leaf.path[-1]}` |" in page, leaf.path


def test_series_are_called_by_their_names() -> None:
    exported = {series.name for series in catalogue(MEASURES.values())}
    for name in named(r"calibration_[a-z0-9_]+(\{[a-z_, ]*\})?"):
        assert name.partition("{")[0] in exported, f"there is no series {name}"
    page = text_of(DOCS / "series.md")
    for series in exported:
        assert f"`{series}`" in page


def test_every_command_and_option_is_documented() -> None:
    page = text_of(DOCS / "cli.md")
    for command in COMMANDS:
        section = page.partition(f"\n## monitor {command}\n")[2].partition("\n## ")[0]
        assert section, f"docs/cli.md has no section on monitor {command}"
        general = page.partition("\n## ")[0]
        for option in options_of(command) - {"--help"}:
            assert f"`{option}" in section + general or f" {option} " in section, f"monitor {command} {option}"


def test_commands_are_called_by_their_names() -> None:
    words = re.compile(r"(?:^|`|\$ |bin/)monitor +([a-z][a-z-]*)", re.MULTILINE)
    for page in PAGES:
        for line in text_of(page).splitlines():
            for command in words.findall(line):
                assert command in {*COMMANDS, *OLD_NAMES}, line
                tail = line.partition(f"monitor {command}")[2].partition("`")[0].partition(";")[0]
                for option in re.findall(r"(?<!\S)--[a-z-]+", tail):
                    assert option in options_of(command) | {"--help"}, line


def test_every_route_and_problem_is_documented() -> None:
    page = text_of(DOCS / "rest.md")
    document = Service().client().get("/openapi.json").json()
    headings = [heading for heading in _HEADING.findall(page) if heading.startswith(("GET", "POST", "DELETE"))]
    for path, methods in document["paths"].items():
        for method in methods:
            assert any({method.upper(), path} <= set(re.split(r"[ ,]+", heading)) for heading in headings), (
                f"docs/rest.md has no section on {method.upper()} {path}"
            )
            for parameter in methods[method].get("parameters", []):
                assert f"`{parameter['name']}`" in page or f"{{{parameter['name']}}}" in page, parameter["name"]
    source = "".join(text_of(file) for file in (ROOT / "monitor" / "http").rglob("*.py"))
    problems = re.findall(r'(?:Problem\(\s*\d{3},\s*|errors\.\w+, \d{3}, )"([a-z-]+)"', source)
    assert len(problems) > 10
    for problem in problems:
        assert f"`{problem}`" in page, f"docs/rest.md does not name the problem {problem}"


def test_the_number_of_streams_is_that_of_the_service() -> None:
    streams = MAX_STREAMS
    page = text_of(DOCS / "rest.md")
    assert f"\n{streams} streams of events" in page
    assert f"{streams // 2} where it is alone" in page


def test_every_reason_of_a_dead_letter_is_explained() -> None:
    page = text_of(DOCS / "events.md")
    assert re.findall(r"^\| `([a-z0-9_]+)` \| .*\| .*\|$", page.partition("## Dead letters")[2], re.MULTILINE) == [
        *Reason
    ]


def test_the_events_shown_are_valid() -> None:
    shown = [json.loads(block) for block in blocks(DOCS / "events.md", "json")]
    assert shown
    for event in shown:
        bare = event.get("data", event)
        kind = Kind.OUTCOME if "p" not in bare else Kind.LABELLED if "y" in bare else Kind.PREDICTION
        if bare is event:
            jsonschema.validate(event, event_schema(kind))
        else:
            # The envelope gives what the event leaves out.
            jsonschema.validate({**bare, "ts": event["time"]}, event_schema(kind))


def test_the_readmes_settings_read_its_messages(tmp_path: Path) -> None:
    (written,) = blocks(ROOT / "README.md", "yaml")
    file = tmp_path / "monitor.yaml"
    file.write_text(written, encoding="utf-8")
    settings = load_settings(file, {})
    assert settings.source.kind == "kafka"
    assert yaml.safe_load(written)["models"]["defaults"]["horizon"] == "1h"
    clock = SystemClock()
    decoder = make_decoder(settings, clock, formats=make_formats(settings, clock))
    strata = Strata(make_policy(settings.models))
    prediction, outcome = (
        decoder.decode(RecordBatch(topic, 0, [Message(block.encode())], 1), strata, kind).columns
        for (topic, kind), block in zip(
            make_topics(settings).kinds.items(), blocks(ROOT / "README.md", "json"), strict=True
        )
    )
    assert prediction.prediction.tolist() == [0.75]
    assert outcome.outcome.tolist() == [1]
    assert prediction.id_hash.tolist() == outcome.id_hash.tolist()
