"""Inputs, draws and the forward pass of networks, and the closed form on their hidden layers.

Nothing is trained here: a stand-in for `sweep` gives networks of random weights, so that nothing compiles.
"""

import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import cesaro as cs
from cesaro.algorithms.saddle_point import CURRENT, tracked
from cesaro.approximators import ACTIVATIONS, MLP, Network
from cesaro.cli import app
from cesaro.data import FeatureTransitions, Transitions
from cesaro.diagnostics import Diagnostic
from cesaro.estimators import DiffLSTD
from cesaro.estimators.learned import Learned, network_run
from cesaro.estimators.learned.base import adam
from cesaro.evaluation import COVERS, COVERS_NOTHING
from cesaro.features import networks as numpy_networks
from cesaro.features.networks import Members
from cesaro.passes.repeats import overlap, row_hashes
from cesaro.report.text import evaluation_text
from cesaro.report.words import common_decimals, headline

Array = NDArray[np.float64]
ROWS, SEEDS = 600, 4


class Sweeps:
    """Networks of random weights in place of trained ones; keeps what it was given."""

    def __init__(self) -> None:
        self.data: list[FeatureTransitions] = []
        self.settings: list[dict[str, Any]] = []
        self.diverged_at = -1

    def __call__(self, method: str, data: FeatureTransitions, **settings: Any) -> Any:
        self.data.append(data)
        self.settings.append(settings)
        network, seeds = settings["approximator"], len(settings["seeds"])
        sizes = (data.x.shape[1] - network.actions, *network.widths, network.actions or 1)
        rng = np.random.default_rng(1)
        layers = [
            SimpleNamespace(
                weight=rng.normal(size=(1, seeds, after, before)).astype(np.float32) / np.sqrt(before),
                bias=rng.uniform(0, 1, size=(1, seeds, after)).astype(np.float32),
            )
            for before, after in pairwise(sizes)
        ]
        records = settings["budget"] // settings["record_every"]
        rates = np.broadcast_to(0.1 * np.arange(seeds)[:, None], (seeds, records))
        return SimpleNamespace(
            reward_rate=rates[None].copy(),
            diverged_at=np.full((1, seeds), self.diverged_at),
            records={"size": np.ones((1, seeds, records))},
            final={"values": SimpleNamespace(layers=layers, activation="relu")},
        )


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    made = Sweeps()
    monkeypatch.setattr(network_run, "sweep", made)
    return made


def learner(widths: tuple[int, ...] = (7, 3), **settings: Any) -> Learned:
    return Learned("diff-gq1", approximator=MLP(widths), seeds=SEEDS, steps=200, quiet=True, **settings)


def finite_log(rows: int = ROWS, seed: int = 0) -> tuple[Transitions, Array]:
    """Five states, two actions, one trajectory."""
    rng = np.random.default_rng(seed)
    action = rng.integers(2, size=rows)
    state = np.zeros(rows + 1, dtype=np.int64)
    for t in range(rows):
        state[t + 1] = (state[t] + 1 + action[t] * rng.integers(3)) % 5
    rewards = np.cos(state[:-1]) + 0.5 * action + 0.1 * rng.normal(size=rows)
    return cs.Transitions(state[:-1], action, rewards, state[1:]), rng.dirichlet([2.0, 2.0], size=5)


def continuous_log() -> Transitions:
    rng = np.random.default_rng(2)
    state, action = rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 1))
    after = 0.5 * state + action + 0.3 * rng.normal(size=(ROWS, 3))
    return cs.Transitions(state, action, state[:, 0] - action[:, 0] ** 2, after)


def noisy(observations: Any, rng: np.random.Generator) -> Any:
    return 0.3 * observations[:, :1] + 0.2 * rng.normal(size=(len(observations), 1))


def steady(observations: Any) -> Any:
    return 0.3 * observations[:, :1]


def by_hand(members: Members, seed: int, log: Transitions, policy: Array) -> FeatureTransitions:
    """`e_a ⊗ h(s)` and its mean over the target's actions, row by row, in double precision."""
    table = []
    for state in range(5):
        h = np.eye(5)[state]
        for weight, bias in zip(members.weights[:-1], members.biases[:-1]):
            h = np.maximum(weight[seed].astype(np.float64) @ h + bias[seed], 0)
        table.append(h)
    here, after = log.observations.joint().codes, log.next_observations.joint().codes
    action = log.actions.joint().codes
    x = np.array([np.kron(np.eye(2)[a], table[s]) for s, a in zip(here, action)])
    x_next = np.array([np.kron(policy[s], table[s]) for s in after])
    return cs.FeatureTransitions(x, log.rewards, x_next)


def test_the_closed_form_is_that_of_features_made_by_hand(sweeps: Sweeps) -> None:
    """Three units per action of five states: every seed has its own answer, and the lower median is the estimator's."""
    log, policy = finite_log()
    networks = learner().fit(log, policy)
    found = DiffLSTD(features=networks, standard_errors="independent", quiet=True).fit(log, policy)
    rates = []
    for seed in range(SEEDS):
        data = by_hand(networks.members_, seed, log, policy)
        ridge = 1e-6 * float(np.mean(data.x**2))
        exact = DiffLSTD(ridge=ridge, standard_errors="independent", quiet=True).fit(data)
        rates.append(exact.reward_rate_)
        if found.seed_rates_[seed] == np.sort(found.seed_rates_)[1]:
            assert found.ridge_ == pytest.approx(ridge, rel=1e-5)
            assert found.reward_rate_ == pytest.approx(exact.reward_rate_, rel=1e-4)
            assert found.standard_error_ == pytest.approx(exact.standard_error_, rel=1e-3)
            states, actions = np.divmod(np.arange(10), 2)
            pairs = np.array([by_pair(data, log, s, a) for s, a in zip(states, actions)])
            np.testing.assert_allclose(found.predict(states, actions), exact.predict(pairs), rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(found.seed_rates_, rates, rtol=1e-4)
    assert np.ptp(rates) > 1e-3
    assert found.spread_ == pytest.approx(np.std(rates, ddof=1), rel=1e-2)
    assert found.reward_rate_ == pytest.approx(np.sort(rates)[1], rel=1e-4)
    words = found.summary_()
    assert words["networks"] == "diff-gq1 on these rows; the answer is that of the median rate of 4 seeds"
    own = {entry.name: entry for entry in found.diagnostics_}
    assert own["learned features"].verdict == "caution"
    assert own["spread over seeds"].value == found.spread_


def by_pair(data: FeatureTransitions, log: Transitions, state: int, action: int) -> Array:
    """The features of a pair, from a row that has it."""
    same = (log.observations.joint().codes == state) & (log.actions.joint().codes == action)
    return np.asarray(data.x[np.flatnonzero(same)[0]])


def test_dead_units_are_no_reason_to_refuse(sweeps: Sweeps) -> None:
    log, policy = finite_log()
    networks = learner((7, 40)).fit(log, policy)
    networks.members_.biases[1][:, 20:] = -100.0
    found = DiffLSTD(features=networks, standard_errors="independent", quiet=True).fit(log, policy)
    exact = DiffLSTD(standard_errors="independent", quiet=True).fit(log, policy)
    assert found.solution_.rank < 1 + found.prepared_.num_features / 2
    networks.members_.biases[1][1] = -100.0
    fewer = DiffLSTD(features=networks, standard_errors="independent", quiet=True).fit(log, policy)
    np.testing.assert_array_equal(fewer.seed_rates_, np.where(np.arange(SEEDS) == 1, np.nan, found.seed_rates_))
    networks.members_.biases[1][:] = -100.0
    with pytest.raises(cs.InputError, match="Every unit of the networks' last hidden layer is zero"):
        DiffLSTD(features=networks, quiet=True).fit(log, policy)
    np.testing.assert_allclose(found.seed_rates_, exact.reward_rate_, rtol=1e-3)
    assert found.standard_error_ == pytest.approx(exact.standard_error_, rel=1e-2)


def test_a_rate_that_the_log_does_not_tell_is_refused(sweeps: Sweeps) -> None:
    """Action 1 was never taken in state 1, where the target takes it."""
    log = cs.Transitions([0, 1, 0, 1] * 50, [0, 0, 1, 0] * 50, np.arange(200.0) % 3, [1, 0, 1, 0] * 50)
    networks = learner((7, 20)).fit(log, "constant:1")
    with pytest.raises(cs.InputError, match="does not identify the rate"):
        DiffLSTD(features=networks, quiet=True).fit(log, "constant:1")


def part(log: Transitions, rows: Any, rewards: Array | None = None) -> Transitions:
    """Some rows, in any order, perhaps with other rewards."""
    here, action, after = (v.joint().codes[rows] for v in (log.observations, log.actions, log.next_observations))
    return cs.Transitions(here, action, (log.rewards if rewards is None else rewards)[rows], after)


def learned_from(networks: Learned, log: Transitions, policy: Any) -> tuple[Diagnostic, str]:
    """The finding of `DiffLSTD` on the rows that networks were fitted on, and how it is summed up."""
    found = DiffLSTD(features=networks, standard_errors="independent", quiet=True).fit(log, policy)
    return next(e for e in found.diagnostics_ if e.name == "learned features"), str(found.summary_()["networks"])


def test_networks_of_other_rows(sweeps: Sweeps) -> None:
    (log, policy), (other, _) = finite_log(), finite_log(seed=5)
    networks = learner().fit(log, policy)
    finding, words = learned_from(networks, other, policy)
    assert words.startswith("diff-gq1 on other rows")
    assert (finding.value, finding.verdict, finding.remedy) == (0.0, "ok", "")
    fewer = cs.Transitions([0, 1, 0, 1] * 50, [0, 1, 1, 0] * 50, np.zeros(200), [1, 0, 1, 0] * 50)
    with pytest.raises(cs.InputError, match="Got other observations"):
        DiffLSTD(features=networks).fit(fewer, "uniform")


def test_rows_are_known_in_any_order_and_number(sweeps: Sweeps) -> None:
    (log, policy), (other, _) = finite_log(), finite_log(seed=5)
    networks = learner().fit(log, policy)
    for rows in (np.arange(ROWS)[::-1], np.random.default_rng(0).choice(ROWS, ROWS // 3, replace=False)):
        finding, words = learned_from(networks, part(log, rows), policy)
        assert (finding.value, finding.verdict) == (1.0, "caution")
        assert "from 100 % of the same rows, and the interval does not cover" in finding.sentence
        assert words.startswith("diff-gq1 on these rows")
    networks = learner().fit(part(log, slice(0, 150)), policy)
    finding, words = learned_from(networks, log, policy)
    assert (finding.value, finding.verdict) == (0.25, "caution")
    assert "from 25 % of the same rows" in finding.sentence
    assert "repeat" not in finding.sentence
    assert words.startswith("diff-gq1 on 25 % of these rows")
    here, action, after = (
        np.concatenate([getattr(one, role).joint().codes[:rows] for one, rows in ((log, 3), (other, ROWS))])
        for role in ("observations", "actions", "next_observations")
    )
    few = cs.Transitions(here, action, np.concatenate([log.rewards[:3], other.rewards]), after)
    finding, _ = learned_from(networks, few, policy)
    assert (finding.value, finding.verdict) == (3 / (ROWS + 3), "ok")
    assert "from 0.498 % of the same rows, too few to matter" in finding.sentence


def test_constant_rewards_tell_nothing_about_rows(sweeps: Sweeps) -> None:
    rng = np.random.default_rng(3)
    logs = [cs.Transitions(x[:, :3], x[:, 3:4], np.full(ROWS, 2.0), x[:, 4:]) for x in rng.normal(size=(2, ROWS, 7))]
    networks = learner().fit(logs[0], steady)
    assert overlap(row_hashes(logs[1]), networks.rows_digest_) == 0
    assert overlap(row_hashes(logs[0]), networks.rows_digest_) == 1
    assert learned_from(networks, logs[1], steady)[0].verdict == "ok"


def test_rows_that_repeat_are_said_to(sweeps: Sweeps) -> None:
    """Few different rows: two logs share them all, and content cannot tell them apart."""
    (log, policy), (other, _) = finite_log(), finite_log(seed=5)
    log, other = (part(one, slice(None), np.round(one.rewards)) for one in (log, other))
    finding, _ = learned_from(learner().fit(log, policy), other, policy)
    assert finding.verdict == "caution"
    assert "Rows of this log repeat" in finding.sentence


@pytest.mark.parametrize(
    ("target", "remedy"),
    [
        ("auto", "take a smaller step_size or a slower target (target=tracked(0.001), say)."),
        (tracked(0.1), "take a smaller step_size or a slower target."),
        (CURRENT, "take a smaller step_size or a target network (target=tracked(0.005))."),
    ],
)
def test_diff_sgq_that_diverges_is_told_of_its_target(sweeps: Sweeps, target: Any, remedy: str) -> None:
    sweeps.diverged_at = 512
    with pytest.raises(cs.InputError, match=re.escape(remedy) + "$"):
        learner(target=target).set_params(method="diff-sgq").fit(*finite_log())


def test_the_answer_without_an_interval_as_text(sweeps: Sweeps) -> None:
    log, policy = finite_log()
    settings: dict[str, Any] = {"method": "diff-sgq", "approximator": MLP((16,)), "steps": 200, "quiet": True}
    answer = cs.evaluate(log, policy, **settings)
    text = " ".join(evaluation_text(answer, full=True).split())
    spread = f"{answer.estimator.spread_:.2g}"
    assert f"(no interval; standard deviation over seeds {spread})" in headline(answer)
    assert COVERS_NOTHING in text
    assert COVERS not in text
    decimals = common_decimals([answer.behavior])
    assert f"difference {answer.difference.value:+.{decimals}f} none no interval" in text
    alone = cs.evaluate(log, policy, **settings, seeds=1)
    text = " ".join(evaluation_text(alone, full=True).split())
    assert "spread over seeds: none" in text
    assert re.search(r"\bnan\b", text) is None
    assert "(no interval)" in headline(alone)
    assert alone.to_dict()["settings"]["spread_over_seeds"] is None


def test_what_cannot_be_features(sweeps: Sweeps) -> None:
    log, policy = finite_log()
    ready = cs.FeatureTransitions([[0.0], [1.0]], [0.0, 1.0], [[1.0], [0.0]])
    networks = learner().fit(log, policy)
    for features, data, message in (
        (learner(), log, "must be a fitted Learned"),
        (networks, ready, "must not be networks where features come ready"),
        (learner(()).fit(log, policy), log, "must be networks with hidden layers"),
        (
            Learned("diff-gq1", steps=200, quiet=True, seeds=1).set_params(approximator=MLP((3,))).fit(ready),
            log,
            r"on ready features; fit Learned\(method='diff-sgq', approximator='mlp'\)",
        ),
    ):
        with pytest.raises(cs.InputError, match=message):
            DiffLSTD(features=features).fit(data, policy if data is log else None)
    with pytest.raises(cs.InputError, match="dual_features must be 'auto' or 'same'"):
        DiffLSTD(features=networks, dual_features="linear").fit(log, policy)


@pytest.mark.parametrize("draws", [1, 3])
def test_draws_of_continuous_actions_are_rows(sweeps: Sweeps, draws: int) -> None:
    """One pair of inputs per draw, never their mean; a deterministic policy needs one."""
    log = continuous_log()
    learner(draws=draws).fit(log, noisy)
    learner(draws=draws).fit(log, steady)
    drawn, known = sweeps.data
    assert len(drawn) == ROWS * draws
    assert len(known) == ROWS
    parts = drawn.x_next.reshape(draws, ROWS, 4)
    np.testing.assert_array_equal(drawn.x.reshape(draws, ROWS, 4), np.broadcast_to(known.x, (draws, ROWS, 4)))
    np.testing.assert_array_equal(parts[:, :, :3], np.broadcast_to(known.x_next[:, :3], (draws, ROWS, 3)))
    noise = (parts - known.x_next)[:, :, 3] * np.std(np.asarray(log.actions.columns[0]))
    np.testing.assert_allclose(noise.std(axis=1), 0.2, rtol=0.2)
    assert len(np.unique(noise)) == noise.size
    inputs = np.concatenate([log.observations.columns[0], log.actions.columns[0]], axis=1)
    np.testing.assert_allclose(known.x, (inputs - inputs.mean(axis=0)) / inputs.std(axis=0), atol=1e-5)


def test_continuous_actions_end_to_end(sweeps: Sweeps) -> None:
    log = continuous_log()
    networks = learner(standard_errors="independent").fit(log, noisy)
    assert networks.reward_rate_ == pytest.approx(log.rewards.mean() + 0.15 * log.rewards.std())
    values = networks.predict(log.observations.columns[0], log.actions.columns[0])
    x = sweeps.data[0].x
    single = [networks.members_.values(seed, x) - networks.levels_[seed] for seed in range(SEEDS)]
    np.testing.assert_allclose(values, log.rewards.std() * np.mean(single, axis=0), rtol=1e-4, atol=1e-5)
    found = DiffLSTD(features=networks, draws=2, standard_errors="independent", quiet=True).fit(log, noisy)
    np.testing.assert_allclose(
        found.prepared_.map.pairs(log.observations, log.actions),  # type: ignore[union-attr]
        networks.members_.layer(int(np.argsort(found.seed_rates_)[1]))(x.astype(np.float32)),
        rtol=1e-4,
        atol=1e-5,
    )
    assert found.summary_()["draws"] == 2


def test_defaults(sweeps: Sweeps) -> None:
    log, policy = finite_log()
    Learned("diff-sgq", approximator="mlp", quiet=True).fit(log, policy)
    Learned("diff-gq2", approximator="mlp", quiet=True).fit(log, policy)
    first, second = sweeps.settings
    assert first["approximator"] == MLP((128, 128), actions=2)
    assert first["settings"] == [{"step_size": 3e-4, "ridge": 0.0}]
    assert (first["batch_size"], first["dtype"], len(first["seeds"])) == (512, "float32", 5)
    assert first["budget"] == 40_000 * 512
    assert second["budget"] == 2 * first["budget"]
    assert first["target"].update is not None
    assert second["target"].update is None
    assert first["optimizer"] is adam()
    assert second["optimizer"] is adam(0.0)
    np.testing.assert_allclose([sweeps.data[0].rewards.mean(), sweeps.data[0].rewards.std()], [0, 1], atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_forward_pass_is_that_of_the_trained_network(activation: str) -> None:
    function = MLP((6, 4), activation=activation, head_scale=1.0, actions=3)(8, bias=False)
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(function.init, jax.random.key(0))
    network: Network = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes)
    x = rng.normal(size=(50, 8)).astype(np.float32)
    members = Members.of(jax.tree.map(lambda leaf: leaf[None, None], network), 3)
    np.testing.assert_allclose(
        members.values(0, x), np.asarray(jax.jit(function.apply)(network, x)), rtol=1e-4, atol=1e-5
    )
    hidden = np.asarray(jax.jit(type(network).hidden)(network, x[:, :5]))
    np.testing.assert_allclose(members.layer(0)(x[:, :5]), hidden, rtol=1e-4, atol=1e-5)
    assert numpy_networks.ACTIVATIONS.keys() == ACTIVATIONS.keys()


def test_the_command_line(sweeps: Sweeps, tmp_path: Path) -> None:
    log, _ = finite_log()
    columns = {
        "observation": log.observations.joint().codes,
        "action": log.actions.joint().codes,
        "reward": log.rewards,
    }
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    command = ["evaluate", str(tmp_path / "log.parquet"), "--policy", "uniform", "--quiet", "--approximator", "mlp"]
    kept = ["--checkpoint", str(tmp_path / "runs.npz"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(app, [*command, "--method", "diff-sgq", *kept])
    assert result.exit_code == 0, result.output
    assert "diff-sgq (learned, network)" in result.output
    assert "no interval" in result.output
    assert sweeps.settings[0]["checkpoint"] == tmp_path / "runs.npz"
    assert (tmp_path / "out" / "rates.png").stat().st_size > 0
    result = CliRunner().invoke(app, command)
    assert result.exit_code != 0
    assert "--approximator is for learned methods" in result.output.replace("\n", " ")
