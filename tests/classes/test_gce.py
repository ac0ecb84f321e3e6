"""The general calibration error against loops, other code's numbers and the binary ECE."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.classes.gce import FAMILY, GceMember, GceNorm, gce, gce_family
from monitor.errors import InputError, NotEnoughData
from monitor.measures import ece
from monitor.scores import ClassTable
from tests.long import examples
from tests.reference.naive_classes import gce_by_loops, simulated

members = st.builds(
    GceMember,
    bins=st.sampled_from(["even", "adaptive"]),
    probabilities=st.sampled_from(["top", "all"]),
    class_conditional=st.booleans(),
    threshold=st.sampled_from([0.0, 0.01, 0.3]),
    norm=st.sampled_from([1, 2, "max"]),
)


def tied(seed: int, n: int, classes: int) -> ClassTable:
    """Predictions in steps of 1/8, so that many are equal, 0 or 1."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.integers(0, 9, (n, classes - 1)), axis=1)
    p = np.diff(np.hstack([np.zeros((n, 1)), cuts, np.full((n, 1), 8)]), axis=1) / 8
    return ClassTable.from_events(p, rng.integers(0, classes, n))


@examples(50, 200)
@given(member=members, seed=st.integers(0, 999), ties=st.booleans(), n_bins=st.sampled_from([1, 4, 15]))
def test_the_definition_by_loops(member: GceMember, seed: int, ties: bool, n_bins: int) -> None:
    classes = 2 + seed % 3
    table = tied(seed, 25, classes) if ties else ClassTable.from_events(*simulated(seed, 25, classes, 1.5))
    expected = gce_by_loops(table.prediction, table.outcome, **member._asdict(), size=n_bins)
    assert gce(table, **member._asdict(), n_bins=n_bins) == pytest.approx(expected, abs=1e-12)


@given(member=members, seed=st.integers(0, 99))
def test_neither_the_order_of_events_nor_that_of_classes_matters(member: GceMember, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, y = simulated(seed, 30, 3)
    value = gce(ClassTable.from_events(p, y), **member._asdict())
    order, classes = rng.permutation(30), rng.permutation(3)
    shuffled = ClassTable.from_events(p[order], y[order])
    relabelled = ClassTable.from_events(p[:, classes], np.argsort(classes)[y])
    assert gce(shuffled, **member._asdict()) == pytest.approx(value, abs=1e-12)
    assert gce(relabelled, **member._asdict()) == pytest.approx(value, abs=1e-12)


@given(seed=st.integers(0, 99))
def test_members_order_themselves(seed: int) -> None:
    table = tied(seed, 40, 3)
    for member in FAMILY:
        value = gce(table, **member._asdict())
        assert 0.0 <= value <= 1.0 + 1e-12
        if member.norm == 1:
            # The root mean square is no smaller than the mean, and the largest gap no smaller than either.
            square = gce(table, **member._replace(norm=2)._asdict())
            assert value <= square + 1e-12
            assert square <= gce(table, **member._replace(norm="max")._asdict()) + 1e-12


@given(seed=st.integers(0, 99), norm=st.sampled_from([1, 2, "max"]), adaptive=st.booleans())
def test_the_top_label_alone_is_the_binary_measure(seed: int, norm: GceNorm, adaptive: bool) -> None:
    table = tied(seed, 60, 4)
    found = gce(table, bins="adaptive" if adaptive else "even", norm=norm, n_bins=7)
    expected = ece(table.top_label(), bins="quantile" if adaptive else "equal_width", norm=norm, n_bins=7)
    assert found == pytest.approx(expected, abs=1e-12)


def test_the_family_is_that_of_appendix_c() -> None:
    assert len(FAMILY) == len(set(FAMILY)) == 32
    assert FAMILY[0] == ("even", "top", True, 0.0, 1)
    assert FAMILY[7] == ("even", "top", False, 0.01, 2)
    assert FAMILY[10] == ("even", "all", True, 0.01, 1)
    assert FAMILY[28] == ("adaptive", "all", False, 0.0, 1)
    assert FAMILY[31] == ("adaptive", "all", False, 0.01, 2)
    named = {member.name: FAMILY.index(member) for member in FAMILY if member.name}
    assert named == {"ECE": 4, "SCE": 8, "ACE": 24, "TACE": 26, "RMSCE": 21}
    assert GceMember("even", "top", False, 0.0, "max").name == "MCE"
    assert len({(member.grouping, member.weighing) for member in FAMILY}) == 32
    table = ClassTable.from_events(*simulated(1, 50, 3))
    family = gce_family(table)
    assert tuple(family) == FAMILY
    for member, value in family.items():
        assert value == gce(table, **member._asdict())


def test_the_numbers_of_the_authors_code() -> None:
    """test_consistency, test_binary_1d and test_correctness_* of uncertainty_metrics' GeneralCalibrationErrorTest."""
    p = [
        [0.42610548, 0.41748077, 0.15641374],
        [0.44766216, 0.47721294, 0.0751249],
        [0.1862702, 0.15139402, 0.66233578],
        [0.05753544, 0.8561222, 0.08634236],
        [0.18697925, 0.29836466, 0.51465609],
    ]
    assert gce(ClassTable.from_events(p, [0, 1, 2, 1, 2]), n_bins=30) == pytest.approx(0.412713502, abs=1e-8)

    binary = [[1.0 - p, p] for p in (0.91, 0.32, 0.66, 0.67, 0.57, 0.98, 0.41, 0.19)]
    table = ClassTable.from_events(binary, [1, 0, 1, 1, 0, 1, 0, 0])
    assert gce(table, n_bins=30) == pytest.approx(0.18124999999999997, abs=1e-12)

    # Their first vector adds up to .9, which is no probability vector; it stands here with the rest on its third class.
    p = [[0.31, 0.32, 0.37], [0.37, 0.33, 0.30], [0.30, 0.31, 0.39], [0.61, 0.38, 0.01], [0.10, 0.65, 0.25]]
    table = ClassTable.from_events([*p, [0.91, 0.05, 0.04]], [2, 0, 0, 1, 0, 0])
    assert gce(table, n_bins=10) == pytest.approx((2 - 0.37 - 0.37 - 0.39 + 0.61 + 0.65 + 1 - 0.91) / 6)
    # Adaptive, so every event is on its own, but for the two of equal confidence.
    squares = [2 * (1 - 0.37) ** 2, 0.39**2, 0.61**2, 0.65**2, (1 - 0.91) ** 2]
    assert gce(table, bins="adaptive", norm=2, n_bins=10) == pytest.approx(np.sqrt(sum(squares) / 6))


def test_the_papers_pathology() -> None:
    """Figure 4: 450 predictions of .52, all wrong, and 550 of .58, all right: one bin, and an error near 0."""
    p = np.vstack([np.tile([0.52, 0.48], (450, 1)), np.tile([0.58, 0.42], (550, 1))])
    table = ClassTable.from_events(p, [1] * 450 + [0] * 550)
    assert gce(table, n_bins=10) == pytest.approx(0.003)
    assert gce(table, bins="adaptive", n_bins=10) == pytest.approx(0.465)
    assert gce(table, n_bins=50) == pytest.approx(0.465)


def test_a_certain_prediction_belongs_to_the_last_bin_and_can_be_wrong() -> None:
    table = ClassTable.from_events([[0.95, 0.05], [1.0, 0.0]], [0, 1])
    assert gce(table, n_bins=10) == pytest.approx(0.475)
    assert gce(ClassTable.from_events([[1.0, 0.0]], [1]), probabilities="all") == 1.0


def test_wrong_options_are_named() -> None:
    table = ClassTable.from_events([[0.5, 0.5]], [0])
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"bins": "quantile"}, "bins must be one of 'even', 'adaptive', got 'quantile'"),
        ({"probabilities": "some"}, "probabilities must be one of"),
        ({"norm": 3}, "norm must be one of 1, 2, 'max', got 3"),
        ({"threshold": 1.0}, "threshold must be at least 0 and below 1, got 1"),
        ({"n_bins": 0}, "n_bins must be a whole number of at least 1, got 0"),
        ({"n_bins": 2.5}, "n_bins must be a whole number of at least 1, got 2.5"),
    ]
    for options, message in wrong:
        with pytest.raises(InputError, match=message):
            gce(table, **options)
    with pytest.raises(NotEnoughData, match="GCE needs at least 1 event, got 0"):
        gce(ClassTable.from_events(np.empty((0, 3)), []))
    with pytest.raises(NotEnoughData, match=r"needs a probability above the threshold of 0\.7"):
        gce(table, threshold=0.7)


def test_members_without_a_probability_are_left_out() -> None:
    even = ClassTable.from_events(np.full((3, 200), 1 / 200), [0, 1, 2])
    assert {member.threshold for member in gce_family(even)} == {0.0}
