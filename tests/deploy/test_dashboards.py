"""The dashboards as files: what people would see of them without a Grafana."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from deploy.dashboards.__main__ import DASHBOARDS, to_json
from docs.generators.series import catalogue
from monitor.measures import MEASURES, WINDOW_MEASURES
from monitor.metrics.series import Level
from tests.deploy.boards import FOLDER, board, panels, queries, variables

PANELS: Final = {"timeseries", "stat", "table", "xychart", "barchart", "row"}
"""What Grafana 11.6 and 12 have: no panel that is deprecated, and none that has to be installed."""

OF_VALUES: Final = {each.name for each in catalogue(MEASURES.values()) if each.level is Level.VALUES}


@pytest.fixture(params=sorted(DASHBOARDS))
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


def test_the_files_are_what_the_code_makes(name: str) -> None:
    """If not: python -m deploy.dashboards."""
    assert (FOLDER / f"{name}.json").read_text() == to_json(DASHBOARDS[name]())


def test_there_are_no_other_files() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.json" for name in DASHBOARDS}


def test_grafanas_own_types_read_them_and_lose_nothing(name: str) -> None:
    """An option that a panel does not have would be lost on the way."""
    register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(board(name)), cls=JSONEncoder))
    expected = board(name)
    # Prometheus' options of annotations are beyond the types that all data sources share.
    for note in expected["annotations"]["list"]:
        for option in ("useValueForTime", "titleFormat", "textFormat", "tagKeys", "step"):
            note.pop(option)
    _assert_within(expected, read, name)


def test_addresses_are_those_that_links_hold() -> None:
    assert {name: board(name)["uid"] for name in DASHBOARDS} == {
        "fleet": "calibration-fleet",
        "model": "calibration-model",
        "pipeline": "calibration-pipeline",
    }


def test_panels_lie_side_by_side_within_the_page(name: str) -> None:
    places = [panel["gridPos"] for panel in board(name)["panels"]]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        ), (one, other)


def test_lines_of_panels_leave_no_gap(name: str) -> None:
    """But for the last line of a row."""
    width_at: dict[int, int] = {}
    for panel in board(name)["panels"]:
        place = panel["gridPos"]
        for top in range(place["y"], place["y"] + place["h"]):
            width_at[top] = width_at.get(top, 0) + place["w"]
    assert sorted(width_at) == list(range(len(width_at)))
    headings = {panel["gridPos"]["y"] for panel in board(name)["panels"] if panel["type"] == "row"}
    for top, width in width_at.items():
        following = width_at.get(top + 1, 24)
        assert width == 24 or (width < 24 and (following == width or top + 1 in {*headings, len(width_at)})), width_at


def test_every_panel_says_what_it_is_and_how_to_read_it(name: str) -> None:
    numbers = [panel["id"] for panel in board(name)["panels"]]
    assert len(set(numbers)) == len(numbers)
    titles = [panel["title"] for panel in panels(name)]
    assert all(titles)
    for panel in panels(name):
        assert panel["type"] in PANELS
        assert panel["description"].endswith("."), panel["title"]
        assert len(panel["description"]) > 40, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["pluginVersion"] == "11.6.0"
        assert panel["targets"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_every_query_asks_the_chosen_prometheus(name: str) -> None:
    for query in queries(name):
        assert query.datasource == {"type": "prometheus", "uid": "${datasource}"}, query.title
    assert board(name)["templating"]["list"][0]["type"] == "datasource"


def test_variables_are_quoted_as_grafana_fills_them(name: str) -> None:
    """Several values become a regular expression; one stands for itself."""
    kinds = {each["name"]: each.get("multi", False) for each in variables(name)}
    for query in queries(name):
        for used in re.finditer(r"\$(?!__)\{?(\w+)\}?", query.expr):
            before, after = query.expr[: used.start()], query.expr[used.end() :]
            assert before.endswith('=~"' if kinds[used[1]] else '="'), query.expr
            assert not before.endswith('!="'), query.expr
            assert after.startswith('"'), query.expr
    for variable in variables(name):
        for used in re.finditer(r'(=~?)"\$(\w+)"', variable["query"]["query"]):
            assert (used[1] == "=~") == kinds[used[2]], variable


def test_rates_are_over_the_interval_that_grafana_finds_fit(name: str) -> None:
    for query in queries(name):
        for span in re.findall(r"\[([^\]]*)\]", query.expr):
            assert span.split(":")[0] in {"$__rate_interval", "$__range"}, query.expr


def test_every_series_that_is_asked_for_is_exported(name: str) -> None:
    known = {series.name for series in catalogue(MEASURES.values())} | {"up"}
    asked = {found for query in queries(name) for found in _series(query.expr)}
    assert asked <= known | {"ALERTS"}
    for variable in variables(name):
        assert set(_series(variable["query"]["query"])) <= known


def test_names_that_panels_set_something_for_are_names_of_their_results(name: str) -> None:
    """Else the option would be set for nothing, and nobody would notice."""
    for panel in panels(name):
        legends = {target.get("legendFormat", "") for target in panel["targets"]}
        renamed = {
            title
            for step in panel.get("transformations", ())
            if step["id"] == "organize"
            for title in step["options"]["renameByName"].values()
        }
        from_labels = any("{{" in legend for legend in legends)
        for override in panel["fieldConfig"]["overrides"]:
            wanted = override["matcher"]["options"]
            assert from_labels or wanted in legends | renamed or _label(panel, wanted), (panel["title"], wanted)


def test_columns_that_a_table_renames_or_hides_are_there() -> None:
    for panel in panels("fleet"):
        for step in panel.get("transformations", ()):
            if step["id"] != "organize":
                continue
            for column in [*step["options"]["renameByName"], *step["options"]["excludeByName"]]:
                number = re.fullmatch(r"Value(?: #(\w))?", column)
                if number:
                    references = {target["refId"] for target in panel["targets"]}
                    assert number[1] in references or (number[1] is None and len(references) == 1), column
                else:
                    assert column == "Time" or _label(panel, column), (panel["title"], column)


def test_the_table_of_models_opens_the_model_that_is_clicked_on() -> None:
    (table,) = [panel for panel in panels("fleet") if panel["title"].startswith("Versions, the")]
    (override,) = [each for each in table["fieldConfig"]["overrides"] if each["matcher"]["options"] == "model"]
    (link,) = override["properties"][0]["value"]
    assert link["url"].startswith(f"/d/{board('model')['uid']}?")
    filled = set(re.findall(r"var-(\w+)=", link["url"])) | set(re.findall(r"\$\{(\w+):queryparam\}", link["url"]))
    assert filled == {each["name"] for each in board("model")["templating"]["list"]}
    columns = set(re.findall(r"__data\.fields\.(\w+)", link["url"]))
    assert all(_label(table, column) for column in columns)


def test_every_measure_of_windows_has_a_panel_with_its_interval_and_its_level_under_chance() -> None:
    by_title = {panel["title"]: panel for panel in panels("model")}
    for measure in WINDOW_MEASURES.values():
        asked = " ".join(target["expr"] for target in by_title[measure.title]["targets"])
        assert re.findall(r"calibration_\w+?(_lower|_upper|_null_q95)\{", asked) == ["_upper", "_lower", "_null_q95"]


def _exported_at_values(expr: str) -> bool:
    return set(re.findall(r"calibration_\w+", re.sub(r'"[^"]*"', "", expr))) <= OF_VALUES


@pytest.mark.parametrize("of_fleet", ["fleet", "pipeline"])
def test_the_dashboards_of_all_models_and_of_the_service_are_whole_at_the_level_values(of_fleet: str) -> None:
    assert all(_exported_at_values(query.expr) for query in queries(of_fleet))


def test_each_panel_of_one_model_shows_its_first_line_at_the_level_values_or_names_the_level_it_needs() -> None:
    for panel in panels("model"):
        whole = _exported_at_values(panel["targets"][0]["expr"])
        assert whole != ("exposition.level: all" in panel["description"]), panel["title"]


def test_the_reliability_diagram_maps_every_series_to_a_column() -> None:
    (panel,) = [each for each in panels("model") if each["type"] == "xychart"]
    (columns,) = [step for step in panel["transformations"] if step["id"] == "organize"]
    there = set(columns["options"]["renameByName"].values())
    assert panel["options"]["mapping"] == "manual"
    for series in panel["options"]["series"]:
        for axis in ("x", "y", "size"):
            if axis in series:
                assert series[axis]["matcher"]["options"] in there
    assert len(panel["options"]["series"]) == 4


def _assert_within(expected: Any, read: Any, where: str) -> None:
    """All that was written was read; where it says nothing, what is read may name the default."""
    if isinstance(expected, dict):
        assert expected.keys() <= read.keys(), where
        for key, value in expected.items():
            _assert_within(value, read[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(expected) == len(read), where
        for at, (value, found) in enumerate(zip(expected, read, strict=True)):
            _assert_within(value, found, f"{where}[{at}]")
    else:
        assert expected == read, where


def _series(expression: str) -> Iterator[str]:
    """Names of the series in an expression or a variable's query."""
    without_texts = re.sub(r'"[^"]*"', '""', expression)
    yield from re.findall(r"\b(?:calibration_\w+|process_\w+|up(?=\{)|ALERTS)", without_texts)


def _label(panel: dict[str, Any], name: str) -> bool:
    """Whether a panel's queries keep a label of this name."""
    return any(re.search(rf"by \([^)]*\b{name}\b[^)]*\)", target["expr"]) for target in panel["targets"])
