"""Tables 1 and 2 against an independent test of F, closed forms, and the published numbers."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cesaro.reproduce.assumption import Config
from cesaro.reproduce.assumption import run as assumption_run
from cesaro.reproduce.assumption.run import PUBLISHED, AssumptionResult, TableEntry, norms, projected_norms
from cesaro.reproduce.assumption.show import plot
from cesaro.reproduce.study import run

Array = NDArray[np.float64]
SMALL = Config(sizes=(5, 10), trials=24)


def smallest_eigenvalue(transitions: Array, features: Array, sampling: Array, xi: float) -> float:
    """The smallest eigenvalue of F as it is printed, in the features' own coordinates."""
    gram = features.T @ np.diag(sampling) @ features
    cross = features.T @ np.diag(sampling) @ transitions @ features
    return float(np.linalg.eigvalsh(np.block([[gram, cross], [cross.T, xi**2 * gram]]))[0])


@pytest.mark.parametrize("pairs", [2, 3, 6])
def test_the_norm_decides_like_the_eigenvalues_of_f(pairs: int) -> None:
    random = np.random.default_rng(0)
    decided = set()
    for _ in range(100):
        transitions = random.dirichlet(np.full(pairs, 0.3), size=pairs)
        features = random.standard_normal((pairs, random.integers(1, pairs)))
        sampling = random.dirichlet(np.ones(pairs))
        norm = float(projected_norms(transitions, features, sampling))
        for xi in (norm * 0.999, norm * 1.001, 0.9):
            holds = norm <= xi
            assert (smallest_eigenvalue(transitions, features, sampling, xi) >= -1e-13) == holds
            decided.add(holds)
    assert decided == {True, False}


def test_norms_are_invariant_to_a_change_of_basis() -> None:
    random = np.random.default_rng(1)
    transitions, sampling = random.dirichlet(np.ones(8), size=8), random.dirichlet(np.ones(8))
    features, basis = random.standard_normal((8, 4)), random.standard_normal((4, 4))
    expected = projected_norms(transitions, features, sampling)
    np.testing.assert_allclose(projected_norms(transitions, features @ basis, sampling), expected, rtol=1e-10)


def test_all_features_on_policy_have_norm_one() -> None:
    transitions = np.random.default_rng(2).dirichlet(np.ones(7), size=(3, 7))
    stationary = assumption_run._stationary_distributions(transitions)
    np.testing.assert_allclose(np.einsum("ti,tij->tj", stationary, transitions), stationary, atol=1e-14)
    np.testing.assert_allclose(projected_norms(transitions, np.eye(7), stationary), 1, rtol=1e-12)


def test_a_pair_without_weight_is_left_out_unless_the_features_need_it() -> None:
    random = np.random.default_rng(3)
    transitions = random.dirichlet(np.ones(4), size=4)
    sampling = np.array([0.5, 0.3, 0.2, 0.0])
    narrow, wide = random.standard_normal((4, 2)), np.eye(4)
    nearly = np.array([0.5, 0.3, 0.2, 1e-13])
    np.testing.assert_allclose(
        projected_norms(transitions, narrow, sampling), projected_norms(transitions, narrow, nearly), rtol=1e-6
    )
    assert projected_norms(transitions, wide, sampling) == np.inf


def test_sampling_distributions_normalize_and_fall_back_to_the_softmax() -> None:
    stationary = np.array([[0.5, 0.3, 0.2]])
    noise = np.array([[[9.0, 9.0, 9.0], [0.1, 0.0, 0.0], [0.0, 0.0, -0.4], [0.0, 0.0, -1.0 + 1e-9]]])
    found = assumption_run._sampling_distributions(stationary, noise, np.array([0.0, 1.0, 1.0, 1.0]))[0]
    np.testing.assert_allclose(found[0], [0.5, 0.3, 0.2])
    np.testing.assert_allclose(found[1], np.array([0.6, 0.3, 0.2]) / 1.1)
    exponentials = np.exp(np.array([0.5, 0.3, -0.2]) / 0.6)
    np.testing.assert_allclose(found[2], exponentials / exponentials.sum())
    np.testing.assert_array_equal(found[3], [1, 0, 0])  # a sum near zero makes entries huge; nothing overflows


@pytest.mark.parametrize("simplex", ["stick-breaking", "uniform"])
def test_rows_are_distributions_with_exchangeable_entries(simplex: str) -> None:
    random = np.random.default_rng(4)
    rows = np.concatenate([assumption_run._SIMPLEX[simplex](random, 4) for _ in range(2_000)])
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
    assert (rows > 0).all()
    # 8,000 independent rows with standard deviation below 0.3: 5 standard errors, error rate 2e-6.
    np.testing.assert_allclose(rows.mean(axis=0), 0.25, atol=5 * 0.3 / math.sqrt(8_000))
    # The largest stick: 1/4 (1 + 1/2 + 1/3 + 1/4) = 0.52 for uniform rows; broken sticks are far less even.
    largest = rows.max(axis=1).mean()
    assert (largest == pytest.approx(25 / 48, abs=0.01)) == (simplex == "uniform")


def test_every_width_below_the_number_of_pairs_occurs() -> None:
    widths = {assumption_run._draw(SMALL, 5, trial).features.shape[1] for trial in range(100)}
    assert widths == {1, 2, 3, 4}


def test_a_trial_depends_on_seed_size_and_number_only() -> None:
    together = norms(SMALL, 10, range(20))
    apart = np.concatenate([norms(SMALL, 10, range(start, start + 4)) for start in range(0, 20, 4)])
    np.testing.assert_allclose(apart, together, rtol=1e-9)
    other = norms(Config(seed=1), 10, range(20))
    assert not np.isclose(other, together).any()


@pytest.mark.slow
def test_results_do_not_depend_on_workers_or_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = set()
    for index, (workers, chunk) in enumerate([(1, 250), (2, 7), (3, 1)]):
        monkeypatch.setattr(assumption_run, "_TRIALS_PER_PIECE", chunk)
        run(SMALL, tmp_path / str(index), workers=workers, quiet=True)
        texts.add((tmp_path / str(index) / "assumption.csv").read_text(encoding="utf-8"))
    assert len(texts) == 1


@pytest.mark.slow
def test_the_published_numbers_come_out(tmp_path: Path) -> None:
    # 6 standard errors (of both studies) plus the rounding of the tables: error rate below 1e-7 over the 40 cells.
    result = run(Config(trials=300), tmp_path / "out", quiet=True)
    assert len(result.cells) == 40
    for cell in result.cells:
        assert cell.published is not None
        error = math.sqrt(cell.published * (1 - cell.published) * (1 / 300 + 1 / 10_000))
        assert cell.probability == pytest.approx(cell.published, abs=6 * error + 0.005), cell


def test_uniform_rows_do_not_give_the_published_numbers(tmp_path: Path) -> None:
    result = run(
        Config(sizes=(50,), sigmas=(0.0,), xis=(0.9,), trials=300, simplex="uniform"), tmp_path / "out", quiet=True
    )
    (cell,) = result.cells
    assert cell.difference is not None
    assert cell.difference > 6 * cell.standard_error + 0.005


def test_files_hold_what_was_computed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(SMALL, out, quiet=True)
    with (out / "assumption.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    names = ["pairs", "sigma", "xi", "probability", "standard_error", "published", "difference", "trials"]
    assert list(rows[0]) == names
    for row, cell in zip(rows, result.cells, strict=True):
        assert [float(row[name]) for name in names] == pytest.approx([getattr(cell, name) for name in names], rel=1e-5)
    found = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    assert found["summary"]["promise"] is None


@pytest.mark.slow
def test_killed_runs_resume_to_the_identical_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from cesaro.reproduce.assumption import Config, run as work; "
        "from cesaro.reproduce.study import run; work._TRIALS_PER_PIECE = 10; "
        "run(Config(sizes=(50,), trials=250), sys.argv[1], workers=2, quiet=True)"
    )
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(assumption_run, "_TRIALS_PER_PIECE", 10)
    config = Config(sizes=(50,), trials=250)
    run(config, tmp_path / "whole", workers=2, quiet=True)
    pieces = tmp_path / "killed.partial" / "pieces"
    for wanted in (2, 8):
        process = subprocess.Popen([*command, str(tmp_path / "killed")])
        deadline = time.monotonic() + 30
        while len(list(pieces.glob("*.npz"))) < wanted and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert 8 <= len(list(pieces.glob("*.npz"))) < 25
    run(config, tmp_path / "killed", workers=2, quiet=True)
    whole, killed = (tmp_path / name / "assumption.csv" for name in ("whole", "killed"))
    assert whole.read_bytes() == killed.read_bytes()


def table(difference: float = 0.0, **settings: object) -> AssumptionResult:
    """The published tables, one cell shifted, as if they had come out."""
    config = Config(**settings)  # type: ignore[arg-type]
    cells = [
        TableEntry(size, sigma, xi, value, config.trials)
        for xi, rows in PUBLISHED.items()
        for size, row in rows.items()
        for sigma, value in zip(config.sigmas, row)
    ]
    first = cells[0]
    cells[0] = TableEntry(first.pairs, first.sigma, first.xi, first.probability + difference, first.trials)
    return AssumptionResult(config, tuple(cells))


def test_summary_of_differences() -> None:
    result = table(0.02)
    assert result.max_difference == pytest.approx(0.02)
    assert result.rms_difference == pytest.approx(0.02 / math.sqrt(40))
    assert result.is_within_promise
    assert not table(0.031).is_within_promise
    assert TableEntry(5, 0.0, 0.9, 0.5, 100).standard_error == pytest.approx(0.05)


def test_the_promise_is_for_the_full_study_only() -> None:
    assert table().is_full
    assert table(seed=5, trials=20_000).is_full
    assert not table(trials=9_999).is_full
    assert not table(simplex="uniform").is_full


def test_cells_that_were_not_published_have_no_difference(tmp_path: Path) -> None:
    result = run(Config(sizes=(4,), sigmas=(0.5,), xis=(0.5,), trials=5), tmp_path / "out", quiet=True)
    (cell,) = result.cells
    assert cell.published is None
    assert cell.difference is None
    assert math.isnan(result.max_difference)
    assert math.isnan(result.rms_difference)
    row = (tmp_path / "out" / "assumption.csv").read_text(encoding="utf-8").splitlines()[1]
    assert row.endswith(",,,5")
    found = json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert found["summary"]["max_difference"] is None


def test_the_plot_shows_every_cell_beside_its_published_value() -> None:
    figure = plot(table(0.02))
    panels = figure.axes[:2]
    assert [panel.get_title() for panel in panels] == ["ξ = 0.9", "ξ = 0.99"]
    for panel, rows in zip(panels, PUBLISHED.values()):
        texts = [text.get_text() for text in panel.texts]
        assert len(texts) == 40
        assert [text for text in texts if text.startswith("paper")] == [
            f"paper {value:.2f}" for row in rows.values() for value in row
        ]
    assert panels[0].texts[0].get_text() == "0.720"
