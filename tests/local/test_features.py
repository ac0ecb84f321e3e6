import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from monitor.errors import InputError, NotEnoughData
from monitor.local import PrincipalComponents, Standardised


def drawn(n: int = 300, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)) @ rng.normal(size=(6, 6)) * [1, 10, 1e5, 1e-4, 1, 3] + [0, 5, -1e6, 2, 0, 1]


def test_standardised_features_are_sklearns() -> None:
    x, new = drawn(), drawn(40, seed=2)
    fitted = Standardised.fit(x)
    np.testing.assert_allclose(fitted.apply(new), StandardScaler().fit(x).transform(new), rtol=1e-9)
    assert fitted.dimensions == 6


@pytest.mark.parametrize("dimensions", [1, 3, 6])
def test_principal_components_are_sklearns_but_for_their_sign(dimensions: int) -> None:
    x, new = drawn(), drawn(40, seed=2)
    fitted = PrincipalComponents.fit(x, dimensions)
    scaler = StandardScaler().fit(x)
    peer = PCA(dimensions, svd_solver="full").fit(scaler.transform(x)).transform(scaler.transform(new))
    np.testing.assert_allclose(np.abs(fitted.apply(new)), np.abs(peer), rtol=1e-6, atol=1e-8)
    assert fitted.dimensions == dimensions


def test_there_are_no_more_components_than_features() -> None:
    fitted = PrincipalComponents.fit(drawn())
    assert fitted.dimensions == 6
    assert fitted.apply(drawn()).shape == (300, 6)


def test_the_unit_of_a_feature_does_not_matter() -> None:
    x = drawn()
    for kind in (Standardised, PrincipalComponents):
        there: PrincipalComponents | Standardised = kind.fit(x)
        here: PrincipalComponents | Standardised = kind.fit(x * 1000.0 + 7.0)
        np.testing.assert_allclose(np.abs(here.apply(x * 1000.0 + 7.0)), np.abs(there.apply(x)), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9])
def test_a_feature_that_does_not_vary_says_nothing(constant: float) -> None:
    x = np.column_stack([drawn()[:, 0], np.full(300, constant)])
    np.testing.assert_allclose(Standardised.fit(x).apply(x)[:, 1], 0.0, atol=1e-6)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([1.0, 2.0], r"features must have the shape \(events, features\), got \(2,\)"),
        (np.empty((3, 0)), r"got \(3, 0\)"),
        ([["a"]], "features must be numbers"),
        (
            [[1.0, 2.0], [3.0, float("nan")]],
            "features must be finite and up to 1e.150 in size, got nan in row 1, column 1",
        ),
        ([[1.0, float("inf")]], "got inf in row 0, column 1"),
        ([[np.finfo(np.float64).max]], r"got 1\.7976931348623157e\+308 in row 0, column 0"),
    ],
)
def test_features_that_are_no_table_of_numbers_are_refused(features: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Standardised.fit(features)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Standardised, PrincipalComponents])
def test_the_largest_features_are_mapped_without_overflow(kind: type[Standardised | PrincipalComponents]) -> None:
    x = np.sign(drawn() - np.median(drawn(), axis=0)) * 1e150
    mapped = kind.fit(x).apply(x)
    np.testing.assert_allclose(np.abs(mapped), np.abs(kind.fit(x / 1e150).apply(x / 1e150)), rtol=1e-6, atol=1e-8)


def test_wrong_use_is_named() -> None:
    with pytest.raises(NotEnoughData, match="at least 1 event"):
        Standardised.fit(np.empty((0, 2)))
    with pytest.raises(InputError, match="dimensions must be a whole number of at least 1, got 0"):
        PrincipalComponents.fit(drawn(), 0)
    with pytest.raises(InputError, match="the feature map is of 6 features, got 2"):
        PrincipalComponents.fit(drawn()).apply([[1.0, 2.0]])


def test_a_weight_counts_as_so_many_events() -> None:
    x = drawn()
    times = np.random.default_rng(9).integers(1, 4, x.shape[0])
    repeated = np.repeat(x, times, axis=0)
    for weight in (times, 0.01 * times):
        np.testing.assert_allclose(Standardised.fit(x, weight).mean, Standardised.fit(repeated).mean)
        np.testing.assert_allclose(Standardised.fit(x, weight).scale, Standardised.fit(repeated).scale)
        found = PrincipalComponents.fit(x, 2, weight).apply(x)
        np.testing.assert_allclose(np.abs(found), np.abs(PrincipalComponents.fit(repeated, 2).apply(x)), atol=1e-9)
    with pytest.raises(InputError, match="weight must be finite and above 0"):
        Standardised.fit(x, np.zeros(x.shape[0]))
    with pytest.raises(InputError, match="weight must be numbers"):
        PrincipalComponents.fit(x, 2, ["a"] * x.shape[0])
