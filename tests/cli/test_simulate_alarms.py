"""`monitor simulate-alarms`."""

import json
from pathlib import Path

import numpy as np
import pytest

from monitor.clock import SystemClock
from monitor.events.codec import Decoder
from monitor.events.model import Kind, ModelPolicy
from monitor.store.sql import SqlStore
from monitor.stream.partition import Partition, PartitionSettings
from tests.cli.command import inside, one_error_line
from tests.page.document import document_of
from tests.reference.naive_join import NaiveEvent
from tests.stream.support import START_MS, batch_of, records_of

HOURS = 24
EVENTS = 2_400
FEW = ("--runs", "2", "--days", "1", "--tolerance", "0.05", "--budget", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with settings, and a store that has a day of two versions of a model, whose labels are worthless."""
    folder = tmp_path_factory.mktemp("simulate-alarms")
    policy = ModelPolicy(horizon_ms=60_000, lateness_ms=1_000)
    settings = PartitionSettings(policy=lambda _: policy, kept_ms={60_000: 600_000, 600_000: 10**9})
    rng = np.random.default_rng(0)
    events = [
        NaiveEvent(
            Kind.LABELLED,
            "churn",
            str(at),
            START_MS + at * HOURS * 3_600_000 // EVENTS,
            float(rng.choice([0.2, 0.6])),
            1,
            version="old" if at < EVENTS // 3 else "new",
        )
        for at in range(EVENTS)
    ]
    store = SqlStore.open(f"sqlite:///{folder}/state.db", clock=SystemClock())
    partition = Partition(0, store.claim(0), settings, store.load(0))
    partition.apply(batch_of(records_of(events, garbage_every=0)), Decoder(), None)
    store.save([partition.checkpoint()])
    store.close()
    (folder / "monitor.yaml").write_text(
        f"store: {{url: 'sqlite:///{folder}/state.db'}}\n"
        "alerts: {false_alarms_per_year: 4}\n"
        "models: {defaults: {horizon: 2h, allowed_lateness: 30m}, declared: {churn: {tolerance: 0.2}}}\n",
        encoding="utf-8",
    )
    return folder


def test_results_are_printed_and_written_as_json_and_page(tmp_path: Path) -> None:
    arguments = ("simulate-alarms", "--scenario", "slope=1.6", "--scenario", "none", "--models", "5", *FEW)
    done = inside(*arguments, "--html", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for text in (
        "With a tolerance of 0.05 and 1 false alarm a year for 5 models: slope 1.6 is noticed after",
        "What each tolerance and budget costs",
        "False alarms a year of 5 models",
        "none: nothing happens.",
        "wrote page.html",
    ):
        assert text in done.stdout
    delays, false_alarms = document_of(tmp_path / "page.html")["figures"]
    assert delays["panels"][0]["title"] == "slope 1.6"
    assert [row["cells"][0] for row in false_alarms["rows"]] == ["none"]
    document = json.loads(inside(*arguments, "--json", cwd=tmp_path).stdout)
    assert document == json.loads(inside(*arguments, "--json", cwd=tmp_path).stdout)
    assert document["settled_hours"] == 25.0
    found = {(one["scenario"], one["detector"]): one for one in document["results"]}
    assert found["slope", "any"]["detection"]["share"] == 1.0
    assert found["none", "any"]["false_alarms"]["bound"] == 1.0
    assert document != json.loads(inside(*arguments, "--json", "--seed", "1", cwd=tmp_path).stdout)


def test_the_history_of_a_model_is_resampled_with_its_settings(folder: Path) -> None:
    before = (folder / "state.db").read_bytes()
    arguments = ("simulate-alarms", "--model", "churn", "--scenario", "none", "--runs", "1", "--days", "1", "--json")
    done = inside(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    # Whole hours of the newest version; its labels, all 1, are not used.
    assert document["predictions"].startswith("15 hours of its history with 1,500")
    assert document["predictions_per_hour"] == pytest.approx(100, rel=0.01)
    assert document["settled_hours"] == 2.5
    assert document["tolerances"] == [0.0, 0.05, 0.1, 0.2]
    assert document["budgets"] == [1.0, 4.0, 12.0, 52.0]
    assert all(one["false_alarms"]["alarms"] == 0 for one in document["results"] if one["budget"] < 5)
    old = json.loads(inside(*arguments, "--version", "old", cwd=folder).stdout)
    assert old["predictions"].startswith("7 hours of its history")
    assert (folder / "state.db").read_bytes() == before


def test_the_settings_are_those_that_are_shown(folder: Path) -> None:
    done = inside(
        "simulate-alarms", "--model", "churn", "--scenario", "slope", "--runs", "1", "--days", "1", cwd=folder
    )
    shown = " ".join(done.stdout.split())
    assert "With a tolerance of 0.2 and 4 false alarms a year for 1 model:" in shown
    assert "1 run of each scenario, 1 day after" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scenario", "slop"), "--scenario: there is no 'slop'; there are none, seasonality"),
        (("--scenario", "slope=0"), "--scenario slope: its size must be at least 0.05 and at most 20, got 0"),
        (("--scenario", "none", "--scenario", "none"), "--scenario none is given twice"),
        (("--prevalence", "5"), "--prevalence must be above 0 and below 1, such as 0.05 for 5%, got 5"),
        (("--prevalence", "5%"), "--prevalence must be above 0 and below 1, such as 0.05 for 5%, got '5%'"),
        (("--per-hour", "0"), "--per-hour must be above 0 and at most 10,000,000, got 0"),
        (
            ("--horizon", "soon"),
            "--horizon must be a duration such as 90s, 15m, 24h or 7d, or a number of seconds, got",
        ),
        (("--tolerance", "-1"), "--tolerance must be at least 0 and at most 2 logits, got -1"),
        (("--budget", "0"), "--budget must be above 0 false alarms a year, got 0"),
        (("--models", "0"), "--models must be at least 1, got 0"),
        (("--html", "no/page.html"), "--html: there is no directory no; make it first"),
        (("--version", "2"), "--version is of a model: name it with --model"),
        (("--model", "churn", "--per-hour", "5"), "--per-hour is that of the history of --model churn: leave one"),
        (("--model", "chrun"), "--model: the store has no model 'chrun'; it has churn"),
        (("--model", "churn", "--version", "2"), "--version: churn has no version '2'; it has new, old"),
    ],
)
def test_what_cannot_be_is_refused(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    done = inside("simulate-alarms", *arguments, cwd=folder)
    assert done.returncode == 2
    assert one_error_line(done).startswith(message)


def test_without_a_store_there_is_no_history(tmp_path: Path) -> None:
    done = inside("simulate-alarms", "--model", "churn", cwd=tmp_path)
    assert done.returncode == 1
    assert one_error_line(done).startswith("there is no store at")
    assert not any(tmp_path.iterdir())
