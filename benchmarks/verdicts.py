"""How often is "ok" said over an interval that misses: logs where few events, rows or jumps decide, with known truths.

`python -m benchmarks verdicts [--logs N] [--judged] [--only PATTERN]`. Thresholds of diagnostics were chosen on the systems and
seeds that it draws without `--judged`; with it, others are drawn, on which nothing was chosen.
"""

import argparse
import warnings
from bisect import bisect
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cesaro as cs
from cesaro.checks import Array
from cesaro.diagnostics import worst
from cesaro.diagnostics.equations import equations
from cesaro.diagnostics.maps import agreement
from cesaro.diagnostics.rows import over_rows
from cesaro.diagnostics.support import support
from cesaro.errors import InputError

Rewards = Callable[[Array, np.random.Generator], Array]
# Systems of each kind, so that no verdict hangs on one of them.
SYSTEMS = 20
# An answer that is good enough to be ok: it covers, and its error is below this part of the gap between target and log.
CLOSE = 0.1


@dataclass(frozen=True)
class Problem:
    """A kind of logs.

    Attributes:
        rows: of a log.
        rewards: given their means, `[n]`.
        stay: probability that the state stays as it is.
        rare: how often the log takes the target's favorite action; None: every other time.
        weights: standard deviation of the logarithm of the rows' weights.
        lengths: shares of the rows in each trajectory; none: the log has no ids.
        effect: standard deviation of what a trajectory adds to its rewards, drawn anew in every log.
    """

    rows: int
    rewards: Rewards
    stay: float = 0.0
    rare: float | None = None
    weights: float = 0.0
    lengths: tuple[float, ...] = ()
    effect: float = 0.0


def noisy(draw: Callable[[np.random.Generator, int], Array], scale: float = 1.0) -> Rewards:
    """Noise around the mean."""
    return lambda means, rng: means + scale * draw(rng, len(means))


def factor(draw: Callable[[np.random.Generator, int], Array]) -> Rewards:
    """The mean times positive numbers of mean one."""
    return lambda means, rng: means * draw(rng, len(means))


def seldom(rows: float) -> Rewards:
    """Rewards that come about once in so many rows, and nothing else."""
    return lambda means, rng: np.where(rng.random(len(means)) < means / rows, float(rows), 0.0)


NORMAL = noisy(lambda rng, n: rng.normal(size=n), 0.5)
PROBLEMS = {
    "normal": Problem(2_000, NORMAL),
    "normal, 20,000 rows": Problem(20_000, NORMAL),
    "t, 3 degrees of freedom": Problem(2_000, noisy(lambda rng, n: rng.standard_t(3, n), 0.3)),
    "t, 2.1 degrees of freedom": Problem(2_000, noisy(lambda rng, n: rng.standard_t(2.1, n), 0.1)),
    "lognormal(2)": Problem(2_000, factor(lambda rng, n: rng.lognormal(-2, 2, n))),
    "lognormal(2), 20,000 rows": Problem(20_000, factor(lambda rng, n: rng.lognormal(-2, 2, n))),
    "Pareto 1.5": Problem(2_000, factor(lambda rng, n: (1 + rng.pareto(1.5, n)) / 3)),
    "Pareto 1.5, 20,000 rows": Problem(20_000, factor(lambda rng, n: (1 + rng.pareto(1.5, n)) / 3)),
    "a reward in 1,000 rows": Problem(2_000, seldom(1_000)),
    "a reward in 1,000 rows, 20,000 rows": Problem(20_000, seldom(1_000)),
    "sticky .95": Problem(2_000, NORMAL, stay=0.95),
    "sticky .99": Problem(2_000, NORMAL, stay=0.99),
    "sticky .997": Problem(2_000, NORMAL, stay=0.997),
    "sticky .95, 20,000 rows": Problem(20_000, NORMAL, stay=0.95),
    "sticky .99, 20,000 rows": Problem(20_000, NORMAL, stay=0.99),
    "weights lognormal(1.5)": Problem(2_000, NORMAL, weights=1.5),
    "rare action .1": Problem(2_000, NORMAL, rare=0.1),
    "rare action .01": Problem(2_000, NORMAL, rare=0.01),
    "rare action .003": Problem(2_000, NORMAL, rare=0.003),
    "rare action .01, 20,000 rows": Problem(20_000, NORMAL, rare=0.01),
    "3 unequal trajectories": Problem(3_350, NORMAL, lengths=(50, 300, 3_000)),
    "3 unequal, unlike trajectories": Problem(3_350, NORMAL, lengths=(50, 300, 3_000), effect=0.2),
    "3 unlike trajectories": Problem(3_000, NORMAL, lengths=(1, 1, 1), effect=0.2),
    "10 trajectories": Problem(5_000, NORMAL, lengths=(1,) * 10),
    "10 unlike trajectories": Problem(5_000, NORMAL, lengths=(1,) * 10, effect=0.2),
    "10 trajectories, one large": Problem(5_000, NORMAL, lengths=(20, *(1,) * 9)),
    "40 trajectories, one large": Problem(5_000, NORMAL, lengths=(80, *(1,) * 39)),
    "40 unlike trajectories, one large": Problem(5_000, NORMAL, lengths=(80, *(1,) * 39), effect=0.2),
    "40 unlike trajectories": Problem(5_000, NORMAL, lengths=(1,) * 40, effect=0.2),
}


class System(NamedTuple):
    """A process of a few states and two actions; `behavior` and `target` are `[S, 2]`."""

    mdp: cs.TabularMDP
    behavior: Array
    target: Array
    truth: float
    gap: float


class Outcome(NamedTuple):
    """What came of one log; `verdict` is "refused" where there was no answer."""

    verdict: str
    covers: bool
    error: float
    findings: tuple[str, ...]


def system(problem: Problem, seed: int) -> System:
    """Where the state goes is drawn from flat Dirichlets; the better of the actions is the target's favorite."""
    rng = np.random.default_rng([seed, 1])
    states = int(rng.integers(3, 7))
    chain = (1 - problem.stay) * rng.dirichlet(np.ones(states), (states, 2)) + problem.stay * np.eye(states)[:, None]
    means = rng.uniform(0.5, 1.5, (states, 2)) + np.array([-0.3, 0.3])
    mdp = cs.TabularMDP(chain, means)
    often = rng.uniform(0.35, 0.65, states) if problem.rare is None else np.full(states, problem.rare)
    favors = rng.uniform(0.8, 0.95, states)
    behavior, target = (np.stack([1 - share, share], axis=1) for share in (often, favors))
    truth, logged = (cs.exact.reward_rate(mdp, policy) for policy in (target, behavior))
    return System(mdp, behavior, target, truth, abs(truth - logged))


def simulated(problem: Problem, found: System, rng: np.random.Generator) -> cs.Transitions:
    """One log, each trajectory from the stationary law of the behavior."""
    shares = np.array(problem.lengths or (1.0,))
    lengths = np.maximum(1, np.round(problem.rows * shares / shares.sum())).astype(int)
    rows = int(lengths.sum())
    law = cs.exact.stationary_distribution(found.mdp, found.behavior).sum(axis=1)
    begins = dict.fromkeys((np.cumsum(lengths) - lengths).tolist())
    start, often = np.cumsum(law)[:-1].tolist(), found.behavior[:, 1].tolist()
    moves = np.cumsum(np.asarray(found.mdp.probabilities), axis=2)[:, :, :-1].tolist()
    path, state = [], 0
    for t, (first, acting, moving) in enumerate(rng.random((rows, 3)).tolist()):
        if t in begins:
            state = bisect(start, first)
        action = int(acting < often[state])
        after = bisect(moves[state][action], moving)
        path.append((state, action, after))
        state = after
    here, actions, then = np.array(path).T
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    rewards = problem.rewards(np.asarray(found.mdp.rewards)[here, actions], rng)
    rewards = rewards + problem.effect * rng.normal(size=len(lengths))[trajectory]
    weights = rng.lognormal(0, problem.weights, rows) if problem.weights else None
    ids: NDArray[np.int64] | None = trajectory if problem.lengths else None
    return cs.Transitions(here, actions, rewards, then, trajectory=ids, weights=weights)


def outcome(name: str, judged: bool, number: int) -> Outcome:
    """Of one log; which system it is from follows from its number. Learned methods are left out, as in a verdict."""
    problem, kinds = PROBLEMS[name], 300 if judged else 0
    found = system(problem, kinds + number % SYSTEMS)
    log = simulated(problem, found, np.random.default_rng([kinds, list(PROBLEMS).index(name), number]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            fitted = cs.DiffLSTD(quiet=True).fit(log, found.target)
        except InputError:
            return Outcome("refused", False, np.nan, ())
        subject = fitted.subject_
        entries = [entry for check in (equations, support, agreement, over_rows) for entry in check(subject)]
    low, high = fitted.interval()
    own = tuple(entry.name for entry in entries if entry.verdict != "ok")
    error = abs(fitted.reward_rate_ - found.truth) / found.gap
    return Outcome(worst(entries), low <= found.truth <= high, error, own)


def line(name: str, outcomes: list[Outcome]) -> str:
    """A row of the table, in per cent."""

    def share(part: float, whole: float) -> str:
        return f"{100 * part / whole:.0f}" if whole else "–"

    given = [one for one in outcomes if one.verdict != "refused"]
    ok = [one for one in given if one.verdict == "ok"]
    close = [one for one in given if one.covers and one.error < CLOSE]
    cells = (
        share(len(outcomes) - len(given), len(outcomes)),
        share(sum(one.covers for one in given), len(given)),
        share(len(ok), len(given)),
        share(sum(not one.covers for one in ok), len(ok)),
        share(len(close), len(given)),
        share(sum(one.verdict == "ok" for one in close), len(close)),
    )
    return f"| {name} | " + " | ".join(cells) + " |"


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200, help="of each kind")
    parser.add_argument("--judged", action="store_true", help="systems and seeds on which no threshold was chosen")
    parser.add_argument("--only", default="*", help="kinds whose names match, such as 'sticky*'")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--findings", action="store_true", help="what was not ok, and how often")
    options = parser.parse_args(arguments)
    print("| logs | refused | cover | ok | ok and miss, of ok | close | ok, of close |\n|---|--:|--:|--:|--:|--:|--:|")
    with ProcessPoolExecutor(options.workers) as pool:
        for name in (name for name in PROBLEMS if fnmatch(name, options.only)):
            outcomes = list(pool.map(partial(outcome, name, options.judged), range(options.logs), chunksize=10))
            print(line(name, outcomes), flush=True)
            if options.findings:
                every = [entry for one in outcomes for entry in one.findings]
                print("   ", {entry: every.count(entry) for entry in sorted(set(every))}, flush=True)


if __name__ == "__main__":
    main()
