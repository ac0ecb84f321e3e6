"""What alarms are about: labels, sentences, documents and change points against streams that are known."""

import re

import msgspec
import numpy as np
import pytest

from monitor.alarms.attribution import Attribution
from monitor.alarms.findings import Explainer
from monitor.arrays import Floats
from monitor.events.model import SeriesKey
from monitor.store.alert import Finding
from monitor.store.closing import Cells, Panes
from tests.alarms.streams import (
    FOR_EVER_MS,
    LINES,
    MINUTE_MS,
    START_MS,
    WIDE_MS,
    Stream,
    Truth,
    as_predicted,
    no_map,
    stream,
)
from tests.long import short_rows

CHANGE = 150
CHANGE_MS = START_MS + CHANGE * MINUTE_MS
ALONE = {"calibration": 1e5}


def moved(offset: float = 0.0, slope: float = 1.0, *, segment: str = "", after: int = CHANGE) -> Truth:
    """True logits that change in one segment."""

    def truth(at: int, of: str, logit: Floats) -> Floats:
        return slope * logit + offset if at >= after and of == segment else logit

    return truth


def zigzag(after: int) -> Truth:
    """True logits that change by turns in one direction and in the other: a shape that has to be learnt."""

    def truth(at: int, of: str, logit: Floats) -> Floats:
        del of
        shift = 0.7 * np.where(np.floor(1.5 * logit) % 2 == 0, 1.0, -1.0)
        return logit + shift if at >= after else logit

    return truth


def calibration(of: Stream) -> Finding:
    return of.explain()[0]["calibration"]


def test_a_prior_that_shifted_is_corrected_by_an_offset() -> None:
    drawn = stream(moved(offset=0.5))
    finding = calibration(drawn)
    assert finding.summary == (
        "Predictions of churn 7 are too low since 2026-09-21 16:43 UTC: 50% predicted, 59% came true. "
        "It has become 1.7 times as likely (in odds) as the model says. Adding 0.52 (0.47 to 0.58) to every logit "
        "repairs it."
    )
    document = msgspec.json.decode(msgspec.json.encode(finding.document))
    assert document["label"] == "prior_shift"
    lower, upper = document["after"]["offset_interval"]
    assert lower <= 0.5 <= upper
    assert finding.from_ms <= CHANGE_MS <= finding.to_ms
    assert document["change_point"] == {
        "at": "2026-09-21T16:43:00.000Z",
        "from": "2026-09-21T16:37:00.000Z",
        "to": "2026-09-21T16:53:00.000Z",
        "open": False,
    }
    assert document["since"] == {"predictions": 9120, "labelled": 9120, "hours": 2.53}
    assert finding.events == sum(one["labelled"] for one in document["after"]["bins"]) == 9120
    assert document["before"]["verdict"] == "calibrated"
    assert (
        document["remedy"]["command"]
        == "monitor recalibrate churn --version 7 --method offset --since 2026-09-21T16:43:00Z --wait"
    )


def test_labels_that_arrive_by_what_they_are_get_no_offset() -> None:
    finding = calibration(stream(moved(), arrival=lambda _, y: np.where(y, 0.5, 0.8)))
    assert finding.document["label"] == "missing_labels"
    assert re.fullmatch(
        r"Predictions of churn 7 are too high since .* UTC: 47% predicted, 38% came true. "
        r"Labels may be missing because of what they are: 7.% of the lowest quarter of the predictions have one, "
        r"5.% of the highest. Look at how they come before anything is added to the logit.",
        finding.summary,
    )
    assert finding.document["remedy"]["command"] is None
    shares = finding.document["labels"]
    assert shares["lowest"] > 0.7 > shares["now"] > 0.6 > shares["highest"]
    assert shares["before"] is None or shares["before"] == pytest.approx(shares["now"], abs=0.1)


def test_a_prior_that_shifted_when_labels_became_rare_gets_no_offset() -> None:
    arrival = lambda at, y: np.full(y.size, 1.0 if at < CHANGE else 0.6)  # noqa: E731
    finding = calibration(stream(moved(offset=0.5), arrival=arrival))
    assert finding.document["label"] == "missing_labels"
    assert re.search(r"(59|60|61)% of the predictions since then have one, 100% of those before", finding.summary)
    assert finding.document["labels"]["before"] > 0.99


def test_labels_that_are_always_as_rare_leave_the_offset() -> None:
    finding = calibration(stream(moved(offset=0.5), arrival=lambda _, y: np.full(y.size, 0.6)))
    assert finding.document["label"] == "prior_shift"
    assert "as likely (in odds) as the model says. Adding 0." in finding.summary


def test_a_refit_of_a_wrong_shape_says_what_is_to_be_known_of_its_labels() -> None:
    arrival = lambda at, y: np.full(y.size, 1.0 if at < CHANGE else 0.6)  # noqa: E731
    finding = calibration(stream(moved(slope=0.6), arrival=arrival))
    assert finding.document["label"] == "shape"
    assert re.search(
        r"Refit on the events since then, unless labels are missing because of what they are: "
        r"(59|60|61)% of the predictions since then have one, 100% of those before\.$",
        finding.summary,
    )


def test_a_shape_is_told_from_a_prior_with_its_slope_and_the_range_that_misses_most() -> None:
    finding = calibration(stream(moved(slope=0.6)))
    assert finding.summary == (
        "Predictions of churn 7 are too sure of themselves since 2026-09-21 16:45 UTC: slope 0.59 (0.55 to 0.63), "
        "where 1 is right; from 0.1% to 44%: too low (23% predicted, 33% came true). Refit on the events since then."
    )
    assert finding.document["label"] == "shape"
    assert finding.document["region"]["came_true"] > finding.document["region"]["predicted"]
    assert "--method" not in finding.document["remedy"]["command"]


def test_both_are_named_where_both_are_wrong() -> None:
    finding = calibration(stream(moved(offset=-0.5, slope=0.6)))
    assert finding.document["label"] == "both"
    assert "are too high and too sure of themselves since" in finding.summary


def test_of_segments_those_are_named_that_carry_it() -> None:
    finding = calibration(
        stream(
            moved(offset=0.8, segment="region=eu"), of={"region=eu": 20, "region=jp": 30, "region=us": 60}, lines=ALONE
        )
    )
    assert finding.document["segment"] == "region=eu"
    assert "churn 7 for region=eu are too low" in finding.summary
    (segment,) = finding.document["segments"]
    assert segment["segment"] == "region=eu"
    assert segment["labelled"] == 20 * 150
    assert segment["log10_evidence"] > 5.0
    lower, upper = segment["offset_interval"]
    assert lower <= 0.8 <= upper


def test_a_change_for_the_better_asks_for_nothing() -> None:
    miscalibrated_at_first: Truth = lambda at, _, logit: logit + (0.5 if at < 600 else 0.0)  # noqa: E731
    findings, evidence = stream(miscalibrated_at_first, minutes=900, lines={"change": 1e5}).explain()
    finding = findings["change"]
    assert finding.document["label"] == "not_worse"
    assert finding.document["remedy"] == {"text": "Nothing has to be done.", "command": None}
    assert finding.summary.startswith("Outcomes of churn 7 have changed since 2026-09-22 00:")
    assert evidence.explanations["change"].label == "not_worse"


def test_what_is_not_worse_stays_so_though_panes_from_before_the_change_are_gone() -> None:
    less_wrong: Truth = lambda at, _, logit: logit + (1.0 if at < 600 else 0.5)  # noqa: E731
    kept = {MINUTE_MS: 260 * MINUTE_MS, WIDE_MS: 300 * MINUTE_MS}
    drawn = stream(less_wrong, minutes=760, lines={"change": 1e5}, kept_ms=kept)
    later = stream(less_wrong, minutes=1000, lines={"change": 1e5}, kept_ms=kept)
    explainer = Explainer(Attribution(drawn.panes, as_predicted), lambda _: 0.05, no_map)
    first = drawn.explain(explainer)[0]["change"]
    assert first.document["label"] == "not_worse"
    assert later.explain()[0]["change"].document["label"] == "prior_shift"  # of one that knows of no time before
    explainer._attribution = Attribution(later.panes, as_predicted)
    restarted = Explainer(explainer._attribution, lambda _: 0.05, no_map)
    restarted.remember("churn", [first])
    for one in (explainer, restarted):
        second = later.explain(one)[0]["change"]
        assert second.since_ms == first.since_ms
        assert second.document["label"] == "not_worse"
        assert second.document["before"] == first.document["before"]
        assert second.document["after"] != first.document["after"]


def test_a_calibrated_model_has_a_finding_without_words() -> None:
    findings, evidence = stream(moved()).explain()
    assert [one.summary for one in findings.values()] == ["", ""]
    assert not evidence.explanations


def test_where_panes_are_gone_the_set_is_open_at_its_beginning() -> None:
    drawn = stream(
        moved(offset=0.5, after=20),
        minutes=200,
        kept_ms={MINUTE_MS: 60 * MINUTE_MS, WIDE_MS: 90 * MINUTE_MS},
        lines=ALONE,
    )
    finding = calibration(drawn)
    assert finding.document["change_point"]["open"]
    assert "since 2026-09-21 14:35 UTC or earlier" in finding.summary
    # Of wider panes that are kept for longer it is closed, though coarser.
    drawn = stream(
        moved(offset=0.5, after=20),
        minutes=200,
        kept_ms={MINUTE_MS: 60 * MINUTE_MS, WIDE_MS: FOR_EVER_MS},
        lines=ALONE,
    )
    # What is not settled is summed up without its predictions, and is no part of it.
    row = Cells(np.zeros(1, np.int64), np.full(1, drawn.watch.to_ms), np.zeros(1, np.int64), np.full((1, 6), 10**6))
    drawn.panes.show_unsettled(0, Panes([SeriesKey("churn", "7", "all")], row))
    finding = calibration(drawn)
    assert finding.document["after"]["slope"] == pytest.approx(1.0, abs=0.1)
    # From the first whole wide pane after the change to the last minute.
    assert finding.events == 60 * (drawn.watch.to_ms - START_MS - 30 * MINUTE_MS) // MINUTE_MS
    assert not finding.document["change_point"]["open"]
    assert finding.from_ms <= START_MS + 20 * MINUTE_MS <= finding.to_ms


def test_a_model_that_never_was_calibrated_is_off_since_its_first_predictions() -> None:
    finding = calibration(stream(moved(offset=0.5, after=0), minutes=60, lines=ALONE))
    assert not finding.document["change_point"]["open"]
    assert finding.from_ms == START_MS


def test_the_set_of_an_alarm_stays_though_its_panes_are_gone() -> None:
    kept = {MINUTE_MS: 60 * MINUTE_MS, WIDE_MS: FOR_EVER_MS}
    drawn = stream(moved(offset=0.5, after=60), minutes=100, kept_ms=kept, lines=ALONE)
    later = stream(moved(offset=0.5, after=60), minutes=400, kept_ms=kept, lines=ALONE)
    panes = Attribution(later.panes, as_predicted)
    explainer = Explainer(Attribution(drawn.panes, as_predicted), lambda _: 0.05, no_map)
    first = drawn.explain(explainer)[0]["calibration"]
    explainer._attribution = panes
    second = later.explain(explainer)[0]["calibration"]
    assert second.settled_ms > first.settled_ms
    assert second.events > first.events
    assert (second.from_ms, second.since_ms, second.to_ms) == (first.from_ms, first.since_ms, first.to_ms)


@pytest.mark.parametrize(
    ("truth", "detector", "least"),
    short_rows(
        [
            (moved(offset=0.5, after=40), "calibration", 22),
            (moved(slope=1.6, after=40), "calibration", 22),
            (moved(slope=0.5, after=40), "prevalence", 20),
            (zigzag(40), "calibration", 22),
        ],
        1,
    ),
)
def test_the_set_holds_the_change(truth: Truth, detector: str, least: int) -> None:
    """Of 24 streams at the minute of their alarm; 95% are 22.8."""
    held, sizes = 0, []
    for seed in range(24):
        drawn = stream(truth, seed=seed, minutes=250, lines={detector: LINES[detector]}, until_raised=detector)
        finding = calibration(drawn)
        assert finding.raised_ms is not None
        held += finding.from_ms <= START_MS + 40 * MINUTE_MS <= finding.to_ms
        sizes.append((finding.to_ms - finding.from_ms) / MINUTE_MS)
    assert held >= least
    assert np.median(sizes) < 60
