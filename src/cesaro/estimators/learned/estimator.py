"""`Learned`: the methods of the registry on a log, with the standard error of their limit."""

from dataclasses import replace
from typing import Any, Self

import numpy as np

from cesaro.checks import Array
from cesaro.diagnostics import Subject
from cesaro.errors import InputError
from cesaro.estimators.hidden_features import GivesFeatures
from cesaro.estimators.learned.base import LearnedBase, check, is_network
from cesaro.estimators.learned.linear_run import fit_linear
from cesaro.estimators.learned.network_run import fit_networks, hidden_maps, network_inputs, over_members
from cesaro.features import FeatureMap
from cesaro.files import holding
from cesaro.linear.methods import FORMS

# The method to take for a density ratio.
RATIO_METHOD = next(name for name, form in FORMS.items() if form.learns_ratio)


class Learned(LearnedBase, GivesFeatures):
    """A method that learns from single transitions, drawn from the log again and again; the median over several seeds.

    Linear functions: each run averages the second half of its steps, and the standard error is that of the method's limit on the
    log, from the influence of every row on it, together with the spread over seeds. Networks: each run averages the last quarter
    of its steps; their limit has no formula, so that there is the spread over seeds and no standard error (`DiffLSTD` on the
    fitted estimator gives an interval in the features that the networks found).

    Logs that are read in blocks, and those whose features are too many to be kept, pass through a shuffle buffer of random row
    groups that all runs draw from. Limit and standard error are those of all rows there too, and the distance of the answer from
    the limit is part of the learning error; what networks give over all rows is then taken over a sample of them.

    Args:
        method: diff-sgq, diff-gq1, diff-gq2, diff-gq3, diff-gq4 or gradient-dice; or your own, as in `sweep`: a function
            `(approximator, num_inputs) -> Objective`, or `file.py:name` of one, which files and checkpoints can keep. It has no
            standard error, and numbers of its own beside `step_size`, `ridge` and `lam` keep their defaults.
        features: see `DiffLSTD`; by default at most 64 Fourier features, since learning slows down with many. Networks take
            "auto" alone: columns standardized, labels one-hot, and the action or the probabilities of finite actions.
        approximator: "linear" (started at zero), "linear-random" (started uniformly in ±1/√inputs), "mlp" (two layers of 128 ReLU
            units) or `cesaro.approximators.MLP(widths=…)`.
        step_size: a number, or "auto": half of the largest step at which the sampled update is stable on this log; networks 3e-4.
        ridge: `η ≥ 0`; "auto" is 1e-6 of the features' mean square for our own dense features, which nearly depend on each
            other, and none for others and for networks.
        lam: GradientDICE's weight of the normalization.
        steps: updates of each run, or "auto": until the start is forgotten, at most 204,800; networks 40,000.
        batch_size: transitions per update; "auto" is 1, networks 512.
        optimizer: "auto" ("sgd"; for networks Adam, without momentum where there is a dual), "sgd", "adam", or for networks an
            Optax transformation without learning rate.
        target: "auto", or for networks `CURRENT`, `copied(every)` or `tracked(mixing)` of `cesaro.algorithms.saddle_point`;
            "auto" is a target network tracked at 0.005 for networks of a method that bootstraps, as Diff-SGQ does, and none for
            others.
        seeds: runs.
        standard_errors: "auto", "independent", "clustered" or "long-run".
        draws: actions drawn per next state where the policy only samples; to a network of continuous actions, each is a row.
        random_state: seed of random features, samples and draws.
        dtype: "float64", or "float32" for speed where steps are not tiny (small updates of a large number are lost there);
            "auto" is the first, for networks the second.
        checkpoint: as in `run`.
        engine: as in `run`.
        address: as in `run`.
        quiet: as in `run`.
        run: how the fit is run, which changes nothing about its answer; a cluster makes the passes over the log, and runs stay
            here.

    Attributes:
        reward_rate_: the median over seeds that did not diverge.
        seed_rates_: of each seed, `[seeds]`; NaN where it diverged.
        spread_: their standard deviation.
        standard_error_: of the limit and of the spread over seeds; NaN for networks.
        learning_error_: the part of it that more steps or seeds would remove.
        limit_: the rate that the runs tend to on this log (on at most 20,000 of its rows, for a method of your own); NaN above
            1,024 features (100 for your own) and for networks.
        step_size_, steps_, ridge_, batch_size_: what was used.
        steps_needed_: steps after which the start is forgotten; None where unknown.
        time_constant_: of the slowest direction, in steps.
        is_buffered_: whether runs drew from a shuffle buffer.
        plug_in_: convergence and stable steps on this log; not for networks.
        diverged_: which seeds diverged, `[seeds]`; `diverged_at_`: at which step.
        members_: the networks, one per seed; `earlier_rates_`: of each, the mean rate over the quarter before the last.
        offline_rates_: of networks, `mean R + q(x') − q(x)` over all rows, `[seeds]`; not of GradientDICE.
        ratio_rates_: of networks of GradientDICE, `mean τR` over all rows, `[seeds]`.

    Example:
        >>> import numpy as np, cesaro as cs
        >>> rng = np.random.default_rng(0)
        >>> x, noise = rng.normal(size=(2, 2000, 1))
        >>> data = cs.FeatureTransitions(x, 1 + x[:, 0], 0.5 * x + noise)
        >>> est = cs.Learned("diff-gq1", standard_errors="independent", quiet=True).fit(data)
        >>> bool(abs(est.reward_rate_ - cs.DiffLSTD(standard_errors="independent").fit(data).reward_rate_) < 0.05)
        True
    """

    def fit(self, data: Any, policy: Any = None) -> Self:
        """Evaluate `policy` on a log, or on ready features without one."""
        settings = check(self)
        fit = fit_networks if is_network(self.approximator) else fit_linear
        with holding(settings.checkpoint):
            fit(self, data, policy, settings)
        return self

    @property
    def subject_(self) -> Subject:
        found = replace(super().subject_, lam=self.lam)
        if self.runs_ is None:
            return found
        return replace(found, ridge=self.runs_.ridge, runs=self.runs_, label=self.label)

    @property
    def has_values(self) -> bool:
        return self.runs_ is not None and not self.runs_.learns_ratio

    def predict(self, observations: Any, actions: Any = None) -> Array:
        """Differential values `q(s, a)` with mean zero under the target, `[n]`; NaN for one-hot pairs that no row has.

        Networks: the mean over seeds, each with mean zero over the target's pairs at the logged next states, as there is no
        density ratio. After a fit on ready features, `observations` are features `[n, K]`.
        """
        self._fitted()
        runs = self.runs_
        if runs is not None and runs.learns_ratio:
            raise InputError(f"{self.label} learns a density ratio and no values; take density_ratio() instead.")
        if runs is not None and runs.members is not None:
            return self.scale_ * over_members(self, network_inputs(self, observations, actions), self.levels_)
        return super().predict(observations, actions)

    def density_ratio(self, observations: Any, actions: Any = None) -> Array:
        """GradientDICE's `d_π/d_μ` at these pairs, `[n]`; after a fit on ready features, `observations` are features."""
        self._fitted()
        runs = self.runs_
        if runs is not None and not runs.learns_ratio:
            raise InputError(f"{self.label} learns values and no density ratio; take method={RATIO_METHOD!r}.")
        if runs is not None and runs.members is not None:
            return over_members(self, network_inputs(self, observations, actions))
        x, weights = self._features(observations, actions, "ratio_weights_")
        return np.asarray(x @ weights)

    def hidden_maps(self) -> list[FeatureMap | None]:
        """The last hidden layer of each seed's value network, as features of pairs; None where the run diverged."""
        return hidden_maps(self)
