"""Standard errors of a mean against their textbook formulas."""

import numpy as np
import pytest
from scipy import stats

import cesaro as cs
from cesaro.checks import Array
from cesaro.passes.standard_errors import (
    Estimate,
    Projection,
    Spans,
    autocorrelation_time,
    clustered,
    differences,
    independent,
    long_run,
    project,
    within,
)


def projected(deviations: Array, lengths: list[int] | None = None) -> Projection:
    """Trajectories of these lengths; by default one."""
    return project(Spans.of(np.array(lengths or [len(deviations)])), 0, deviations)


def test_independent_rows() -> None:
    values = np.random.default_rng(0).normal(size=50)
    result = independent(values.mean(), projected(values - values.mean()))
    assert result.standard_error == pytest.approx(stats.sem(values))
    low, high = result.interval(0.9)
    expected = stats.t.interval(0.9, 49, values.mean(), stats.sem(values))
    assert (low, high) == pytest.approx(expected)
    assert result.p_value() == pytest.approx(stats.ttest_1samp(values, 0, alternative="greater").pvalue)


def test_the_difference_of_independent_rows_in_any_order() -> None:
    """Sorted rows are far from white noise in their order; the mean of 200 ratios has a standard error of 0.02."""
    rng, ratios = np.random.default_rng(0), []
    for rows in range(300, 500):
        layout = Spans.of(np.array([rows]), in_order=False)
        one, other = rng.normal(size=(2, rows))
        order = np.roll(np.argsort(one - other), rng.integers(rows))
        one, other = one[order] - one.mean(), other[order] - other.mean()
        whole = project(layout, 0, one).minus(project(layout, 0, other))
        blocks = Projection.zero(layout)
        for start in range(0, rows, 128):
            blocks.add(project(layout, start, (one - other)[start : start + 128]))
        assert blocks.signs == pytest.approx(whole.signs)
        found = independent(0.0, whole)
        assert found.degrees_of_freedom == 24
        ratios.append(found.standard_error**2 * rows / (one - other).var(ddof=1))
    assert np.mean(ratios) == pytest.approx(1, abs=0.08)
    assert np.std(ratios) == pytest.approx(np.sqrt(2 / 24), rel=0.25)


def test_clusters_of_one_row_are_independent_rows() -> None:
    values = np.random.default_rng(1).normal(size=40)
    deviations = values - values.mean()
    alone = clustered(0.0, projected(deviations, [1] * 40))
    assert alone.standard_error == pytest.approx(independent(0.0, projected(deviations)).standard_error)
    assert alone.degrees_of_freedom == 39


def test_clusters_of_equal_size_are_their_means() -> None:
    values = np.random.default_rng(2).normal(size=(30, 7)) + np.random.default_rng(3).normal(size=(30, 1))
    deviations = (values - values.mean()).ravel()
    result = clustered(0.0, projected(deviations, [7] * 30))
    assert result.standard_error == pytest.approx(stats.sem(values.mean(axis=1)))


def test_one_cluster_has_no_standard_error() -> None:
    with pytest.raises(cs.InputError, match="at least two trajectories"):
        clustered(0.0, projected(np.zeros(5)))


@pytest.mark.parametrize("lengths", [[1] * 12, [3] * 5, [1, 2], [2, 1, 3, 1]])
def test_the_long_run_variance_of_short_trajectories_is_that_of_clusters(lengths: list[int]) -> None:
    """None is long enough for cosines of its own, so that their sums say all there is, with the factor `J/(J − 1)`."""
    values = np.random.default_rng(7).normal(size=sum(lengths))
    projection = projected(values - values.mean(), lengths)
    assert not projection.cosines
    assert long_run(0.0, projection).standard_error == pytest.approx(clustered(0.0, projection).standard_error)


def test_the_long_run_variance_of_two_long_trajectories() -> None:
    """By hand: of each, twice the square of its sum (`J/(J − 1) = 2`) beside its cosines, all with equal weight."""
    lengths, values = [90, 60], np.random.default_rng(8).normal(size=150)
    projection = projected(values - values.mean(), lengths)
    expected = 0.0
    for part, length in zip(np.split(values - values.mean(), [90]), lengths):
        count = round(18 * length / 150)  # one in eight rows, shared by length
        rows = np.arange(length) + 0.5
        cosines = [np.sqrt(2) * part @ np.cos(np.pi * k * rows / length) for k in range(1, count + 1)]
        expected += (2 * part.sum() ** 2 + np.sum(np.square(cosines))) / (count + 1)
    assert within(0.0, projection).standard_error == pytest.approx(np.sqrt(expected) / 150)


@pytest.mark.parametrize("pieces", [1, 5])
def test_the_long_run_variance_of_an_autoregression(pieces: int) -> None:
    """`x_t = φ x_{t−1} + ε` has long-run variance `1/(1 − φ)²`.

    The mean of 200 estimates with 24 or more degrees of freedom has a standard error of 2 %; the band is ± 8 %, four of them.
    """
    phi, n, runs = 0.7, 4000, 200
    noise = np.random.default_rng(4).normal(size=(runs, n))
    series = np.empty_like(noise)
    series[:, 0] = noise[:, 0] / np.sqrt(1 - phi**2)
    for t in range(1, n):
        series[:, t] = phi * series[:, t - 1] + noise[:, t]
    lengths = [n // pieces] * pieces
    results = [within(0.0, projected(row - row.mean(), lengths)) for row in series]
    variances = [result.standard_error**2 * n for result in results]
    assert np.mean(variances) == pytest.approx(1 / (1 - phi) ** 2, rel=0.08)
    freedoms = [result.degrees_of_freedom for result in results]
    assert max(freedoms) <= 29
    assert np.mean(freedoms) >= 24 if pieces == 1 else np.mean(freedoms) > 12
    times = [autocorrelation_time(projected(row, lengths)) for row in series]
    assert np.mean(times) == pytest.approx((1 + phi) / (1 - phi), rel=0.1)


@pytest.mark.parametrize("lengths", [[3000] + [20] * 28, [1500] * 2 + [40] * 20, [10] * 29])
def test_short_trajectories_beside_long_ones(lengths: list[int]) -> None:
    """An autoregression with a memory of 19 rows in pieces of all lengths: 95 % intervals must hold zero.

    Of 400 the number that do is within 368 and 396 with probability 0.99 if 95.5 % do; below 92 % it would hardly ever be.
    """
    phi, runs = 0.9, 400
    groups = np.repeat(np.arange(len(lengths)), lengths)
    noise = np.random.default_rng(6).normal(size=(runs, len(groups)))
    series = np.empty_like(noise)
    for t in range(len(groups)):
        starts = t == 0 or groups[t] != groups[t - 1]
        series[:, t] = noise[:, t] / np.sqrt(1 - phi**2) if starts else phi * series[:, t - 1] + noise[:, t]
    held = 0
    for row in series:
        low, high = within(row.mean(), projected(row - row.mean(), lengths)).interval(0.95)
        held += low <= 0 <= high
    assert 368 <= held <= 396


def unlike(lengths: list[int], spread: float, runs: int, seed: int) -> list[Array]:
    """White noise in trajectories, each with a level of its own, which is normal with this standard deviation."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(lengths)), lengths)
    return [rng.normal(size=len(groups)) + spread * rng.normal(size=len(lengths))[groups] for _ in range(runs)]


@pytest.mark.parametrize(
    "lengths", [[300] * 3, [300] * 4, [50, 300, 3000], [250] * 6, [150] * 10, [600] * 4 + [60] * 20]
)
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0])
def test_differences_between_trajectories_enter_the_error(lengths: list[int], spread: float) -> None:
    """At least 91 % of 300 intervals hold zero; if 95 % should, fewer do once in 800 tries. Without the term it is 25 to 80 %."""
    held = 0
    for row in unlike(lengths, spread, 300, 11):
        low, high = long_run(row.mean(), projected(row - row.mean(), lengths)).interval(0.95)
        held += low <= 0 <= high
    assert held >= 273


def test_the_variance_between_trajectories_is_that_of_their_population() -> None:
    """Six equal ones with levels of variance 1: a mean over them has 1/6; the band is four standard errors of 400 estimates."""
    lengths = [200] * 6
    found = [differences(projected(row - row.mean(), lengths)) for row in unlike(lengths, 1.0, 400, 12)]
    between = [entry.variance for entry in found if entry is not None]
    assert np.mean(between) == pytest.approx(1 / 6, rel=4 * np.sqrt(2 / 5 / 400))


def test_alike_trajectories_are_seldom_called_unlike() -> None:
    """Of 1,000 p values, 20 are expected below 0.02; above 38 there would be less than once in 10,000 tries."""
    rows = unlike([400, 200, 100], 0.0, 1_000, 13)
    found = [differences(projected(row - row.mean(), [400, 200, 100])) for row in rows]
    assert sum(entry is not None and entry.p_value < 0.02 for entry in found) <= 38


@pytest.mark.parametrize(("lengths", "freedom"), [([500] * 2, 1), ([500] * 4, 3), ([50, 300, 3000], 1)])
def test_few_trajectories_have_few_degrees_of_freedom(lengths: list[int], freedom: int) -> None:
    row = unlike(lengths, 0.0, 1, 14)[0]
    assert long_run(0.0, projected(row - row.mean(), lengths)).degrees_of_freedom == pytest.approx(freedom)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, "0.95", float("nan")])
def test_confidence_lies_between_zero_and_one(confidence: float) -> None:
    with pytest.raises(cs.InputError, match="confidence must be a number"):
        Estimate(0.0, 1.0, 10).interval(confidence)


def test_a_certain_number_has_certain_p_values() -> None:
    assert Estimate(1.0, 0.0, 5).p_value() == 0.0
    assert Estimate(-1.0, 0.0, 5).p_value() == 1.0
    assert Estimate(2.0, 1.0, 5).negative().p_value() == pytest.approx(1 - Estimate(2.0, 1.0, 5).p_value())


def test_an_interval_reaches_to_other_estimates() -> None:
    plain, wide = Estimate(2.0, 0.5, 1e6), Estimate(2.0, 0.5, 1e6, below=1.5, above=0.25)
    low, high = plain.interval()
    assert wide.interval() == pytest.approx((low - 1.5, high + 0.25))
    assert wide.negative().interval() == pytest.approx((-high - 0.25, -low + 1.5))
    assert wide.p_value() == pytest.approx(Estimate(0.5, 0.5, 1e6).p_value())
    assert wide.negative().p_value() == pytest.approx(Estimate(-0.5, 0.5, 1e6).p_value())
    assert Estimate(1.0, 0.5, 9, below=1.5).p_value() == 0.5
    assert np.isnan(Estimate(np.nan, 0.5, 9, below=1.5).p_value())
