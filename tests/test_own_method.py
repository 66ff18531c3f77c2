"""A method from outside of the package goes wherever the name of one does; names of methods stand in their own files alone."""

import ast
import json
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import cesaro as cs
from cesaro.algorithms import REGISTRY, Objective
from cesaro.cli import app
from cesaro.errors import EvaluationWarning
from cesaro.estimators.learned import Learned
from cesaro.learning.affine import StepForm
from cesaro.linear import EmpiricalProblem
from cesaro.linear.methods import CLOSED_FORM, FORMS

ROOT = Path(cs.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "add_an_algorithm.md"
# Others are slow ones.
QUICK = ("diff-gq1", "gradient-dice")
Build = Callable[[Any, int], Objective]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The method that docs/add_an_algorithm.md builds: Diff-GQ1 with a ridge on the dual too."""
    (code,) = re.findall(r"```python\n(# dual_ridge.py\n.*?)```", PAGE.read_text("utf-8"), re.S)
    path = tmp_path / "dual_ridge.py"
    path.write_text(code, encoding="utf-8")
    return path


@pytest.fixture
def dual_ridge(file: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    module = ModuleType("dual_ridge")
    module.__file__ = str(file)
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "dual_ridge", module)
    return module.dual_ridge


def rows(count: int = 300) -> cs.FeatureTransitions:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, count, 2))
    return cs.FeatureTransitions(x, 1 + x[:, 0], 0.5 * x + noise)


def learner(method: Any, **settings: Any) -> Learned:
    given = {"steps": 4_000, "seeds": 2, "standard_errors": "independent", "quiet": True, "ridge": 0.05, **settings}
    return Learned(method, **given)


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in FORMS]
)
def test_evaluating_the_step_gives_the_affine_form(method: str) -> None:
    problem, own = cs.problems.random_problem(7, 3, 2, 2), StepForm(method)
    exact, found = problem.stability(method, ridge=0.1), problem.stability(own, ridge=0.1)
    assert (found.method, found.converges, own.learns_ratio) == (method, exact.converges, FORMS[method].learns_ratio)
    assert found.max_step_expected == pytest.approx(exact.max_step_expected, rel=1e-9)
    assert np.isnan(found.min_ridge)
    one, other = problem.limit(method, ridge=0.1), problem.limit(own, ridge=0.1)
    assert other.reward_rate == pytest.approx(one.reward_rate, rel=1e-9)
    assert (one.weights is None) == (other.weights is None)
    if method != "diff-gq2":  # where the second row of a sample is drawn
        assert found.max_step_sampled == pytest.approx(exact.max_step_sampled, rel=1e-9)


def test_stability_and_limit_of_a_method_of_ones_own(dual_ridge: Build) -> None:
    problem, zeta, eta = cs.problems.random_problem(1), 0.3, 0.05
    own = pickle.loads(pickle.dumps(cs.learning.affine_form(dual_ridge, dual_ridge=zeta)))
    inverse = np.linalg.inv(problem.C + zeta * np.eye(len(problem.C)))
    only_w = np.diag([0.0] + [1.0] * problem.num_features)
    expected = -np.linalg.solve(eta * only_w + problem.A.T @ inverse @ problem.A, problem.A.T @ inverse @ problem.b)
    found = problem.limit(own, ridge=eta)
    assert found.reward_rate == pytest.approx(expected[0], rel=1e-9)
    assert found.weights is not None
    np.testing.assert_allclose(found.weights, np.asarray(expected[1:]), rtol=1e-7)
    assert problem.stability(own, ridge=eta).max_step_sampled is not None
    with pytest.raises(
        cs.InputError, match=r"method must be one of .*; of a method of your own: cesaro.learning.affine_form"
    ):
        problem.stability(dual_ridge)  # type: ignore[arg-type]


@pytest.mark.slow
def test_runs_of_a_method_of_ones_own(dual_ridge: Build, file: Path, tmp_path: Path) -> None:
    data = rows()
    found = learner(dual_ridge).fit(data)
    problem = EmpiricalProblem(data.x, data.rewards, data.x_next)
    assert found.limit_ == pytest.approx(
        problem.limit(cs.learning.affine_form(dual_ridge), ridge=0.05).reward_rate, rel=1e-9
    )
    assert found.reward_rate_ == pytest.approx(found.limit_, abs=0.2)
    assert np.isnan(found.standard_error_)
    own = {entry.name: entry for entry in found.diagnostics_}
    assert own["interval"].sentence.startswith(
        "There is no interval, because the influence of rows on where dual_ridge ends is not"
    )
    assert found.summary_()["method"] == "dual_ridge (learned, linear)"
    assert clone(found).get_params() == found.get_params()
    with pytest.raises(cs.InputError, match=r"cannot be saved: it holds a function.*as 'file.py:name'"):
        found.save(tmp_path / "own.npz")
    named = learner(f"{file}:dual_ridge", checkpoint=tmp_path / "runs.npz").fit(data)
    assert named.seed_rates_.tolist() == found.seed_rates_.tolist()
    named.save(tmp_path / "own.npz")
    again = Learned.load(tmp_path / "own.npz")
    np.testing.assert_array_equal(again.predict(data.x), named.predict(data.x))
    file.write_text(file.read_text(encoding="utf-8").replace("0.5 * weight", "0.6 * weight"), encoding="utf-8")
    with pytest.raises(cs.InputError, match=r"checkpoint .*(another|other)"):
        clone(named).fit(data)


def test_a_name_of_the_registry_needs_no_affine_form(dual_ridge: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REGISTRY, "dual-ridge", dual_ridge)
    data = rows()
    swept = cs.sweep("dual-ridge", data, settings=cs.grid(step_size=0.05, dual_ridge=[0.0, 0.1]), seeds=2, budget=1_000)
    assert swept.reward_rate.shape == (2, 2, 10)
    assert np.isfinite(learner("dual-ridge").fit(data).limit_)


def test_a_method_of_ones_own_on_the_command_line(file: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state = rng.integers(0, 3, 200)
    lines = [f"{s},{a},{s == 2:d}" for s, a in zip(state, rng.integers(0, 2, 200))]
    (tmp_path / "log.csv").write_text("\n".join(["state,action,reward", *lines]), encoding="utf-8")
    words = [
        str(tmp_path / "log.csv"),
        "--policy",
        "a=uniform",
        "--policy",
        "b=constant:1",
        "--method",
        f"{file}:dual_ridge",
    ]
    words += ["--ridge", "0.05", "--set", "steps=2000", "--set", "seeds=2", "--quiet", "--json"]
    result = CliRunner().invoke(app, ["compare", *words])
    assert result.exit_code == 0, result.output
    for answer in json.loads(result.stdout)["evaluations"]:
        assert answer["settings"]["method"] == "dual_ridge (learned, linear)"
        assert answer["reward_rate"]["standard_error"] is None


def curved(approximator: Any, num_inputs: int) -> Objective:
    """Diff-GQ1 with a penalty on the fourth power of the rate: no matrix describes it."""
    base = REGISTRY["diff-gq1"](approximator, num_inputs)

    def lagrangian(primal: Any, *others: Any) -> Any:
        return base.lagrangian(primal, *others) + 1e-3 * primal["rate"] ** 4

    return base._replace(lagrangian=lagrangian)


def test_a_method_that_no_matrix_describes_runs_without_a_limit() -> None:
    with pytest.warns(EvaluationWarning, match="not affine in its variables, so that no matrix describes it: neither"):
        found = learner(curved).fit(rows())
    assert np.isnan(found.limit_)
    assert found.reward_rate_ == pytest.approx(1.0, abs=0.3)


def elsewhere(approximator: Any, num_inputs: int) -> Objective:
    return REGISTRY["diff-gq1"](approximator, num_inputs)._replace(function="q")


def without_step(approximator: Any, num_inputs: int) -> Objective:
    return REGISTRY["diff-gq1"](approximator, num_inputs)._replace(defaults={"ridge": 0.0})


def without_ridge(approximator: Any, num_inputs: int) -> Objective:
    base = REGISTRY["diff-gq1"](approximator, num_inputs)
    return base._replace(
        lagrangian=lambda p, d, t, batch, hyper: base.lagrangian(p, d, t, batch, {**hyper, "ridge": 0.0}),
        defaults={"step_size": 0.01},
    )


@pytest.mark.parametrize(
    ("method", "settings", "message"),
    [
        (
            elsewhere,
            {},
            "elsewhere must keep its rate in the entry 'rate' of primal, and a weight per feature in the entry 'q'",
        ),
        (
            elsewhere,
            {"approximator": "mlp", "ridge": "auto"},
            "must keep a network of the approximator in the entry 'q'",
        ),
        (without_step, {}, "without_step must have 'step_size' among its defaults"),
        (without_ridge, {}, "ridge must be 'auto' or 0 with without_ridge, which has none. Got 0.05"),
        (len, {}, "len failed with TypeError"),
        (3, {}, "method must be one of diff-sgq, .*, file.py:name, or an Objective. Got 3"),
    ],
)
def test_an_objective_that_breaks_a_rule_is_refused(method: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(cs.InputError, match=message):
        learner(method, **settings).fit(rows())


def test_run_stands_for_its_parameters(tmp_path: Path) -> None:
    data = rows()
    run = cs.Run(checkpoint=tmp_path / "passes.npz", quiet=True)
    for one in (cs.DiffLSTD(run=run), Learned(run=run)):
        assert clone(one).get_params()["run"] == run
        with pytest.raises(cs.InputError, match="engine must be given once, in run or beside it"):
            clone(one).set_params(engine="ray").fit(data)
        with pytest.raises(cs.InputError, match=r"run must be a cesaro.Run, .* Got 'local'"):
            clone(one).set_params(run="local").fit(data)
    closed = cs.DiffLSTD(run=cs.Run(quiet=True), standard_errors="independent").fit(data)
    closed.save(tmp_path / "closed.npz")
    assert cs.DiffLSTD.load(tmp_path / "closed.npz").run == cs.Run(quiet=True)


# Homes of methods; studies are about the methods they name.
HOMES = ("algorithms/", "linear/methods/", "reproduce/", "suite/methods.py")
NAMES = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, (*REGISTRY, CLOSED_FORM)))})(?![\w-])")


def test_a_method_is_named_in_its_own_files_alone() -> None:
    """Docstrings may name one as an example, and so may the help of an option."""
    found = []
    for path in ROOT.rglob("*.py"):
        place, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if place.startswith(HOMES) or not NAMES.search(text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        calls = [node for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        examples = {id(part) for call in calls if call.func.id == "_option" for part in call.args}  # type: ignore[attr-defined]
        examples |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        constants = (node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found += [
            f"{place}:{one.lineno}" for one in constants if id(one) not in examples and NAMES.search(str(one.value))
        ]
    assert found == []


def test_no_type_is_recognized_by_an_attribute_of_an_estimator() -> None:
    pattern = re.compile(r"hasattr\((?:est|estimator|fitted|features)\b")
    assert [path.name for path in ROOT.rglob("*.py") if pattern.search(path.read_text(encoding="utf-8"))] == []
