"""`Learned`: the methods of the registry on a log, with the standard error of their limit."""

from typing import Any, Self

import numpy as np

from cesaro.checks import Array
from cesaro.engines import check_engine
from cesaro.errors import InputError
from cesaro.estimators.base import subject_of
from cesaro.estimators.diagnostics import Diagnostic, diagnose
from cesaro.estimators.learned.base import LearnedBase
from cesaro.estimators.learned.findings import linear_findings, network_findings
from cesaro.estimators.learned.linear_run import fit_linear
from cesaro.estimators.learned.network_run import fit_networks, hidden_maps, network_inputs, over_members
from cesaro.estimators.learned.settings import check, is_network
from cesaro.features import FeatureMap
from cesaro.files import holding


class Learned(LearnedBase):
    """A method that learns from single transitions, drawn from the log again and again; the median over several seeds.

    Linear functions: each run averages the second half of its steps, and the standard error is that of the method's limit on the
    log, from the influence of every row on it, together with the spread over seeds. Networks: each run averages the last quarter
    of its steps; their limit has no formula, so that there is the spread over seeds and no standard error (`DiffLSTD` on the
    fitted estimator gives an interval in the features that the networks found).

    Logs that are read in blocks, and those whose features are too many to be kept, pass through a shuffle buffer of random row
    groups that all runs draw from. Limit and standard error are those of all rows there too, and the distance of the answer from
    the limit is part of the learning error; what networks give over all rows is then taken over a sample of them.

    Args:
        method: diff-sgq, diff-gq1, diff-gq2, diff-gq3, diff-gq4 or gradient-dice.
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
            "auto" is a target network tracked at 0.005 for Diff-SGQ with networks, and none for others.
        seeds: runs.
        standard_errors: "auto", "independent", "clustered" or "long-run".
        draws: actions drawn per next state where the policy only samples; to a network of continuous actions, each is a row.
        random_state: seed of random features, samples and draws.
        dtype: "float64", or "float32" for speed where steps are not tiny (small updates of a large number are lost there);
            "auto" is the first, for networks the second.
        checkpoint: a file to keep progress in; the same fit resumes from it, bit for bit.
        engine: "local", or "ray": the passes over the log become tasks of a cluster, with the same bits; runs stay here.
        address: the address of the Ray cluster; None: one on this machine.
        quiet: no progress bar.

    Attributes:
        reward_rate_: the median over seeds that did not diverge.
        seed_rates_: of each seed, `[seeds]`; NaN where it diverged.
        spread_: their standard deviation.
        standard_error_: of the limit and of the spread over seeds; NaN for networks.
        learning_error_: the part of it that more steps or seeds would remove.
        limit_: the rate that the runs tend to on this log; NaN above 1,024 features and for networks.
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
        check_engine(self.engine, self.address)
        with holding(settings.checkpoint):
            if is_network(self.approximator):
                fit_networks(self, data, policy, settings)
            else:
                fit_linear(self, data, policy, settings)
        return self

    @property
    def diagnostics_(self) -> tuple[Diagnostic, ...]:
        self._fitted()
        if not hasattr(self, "_diagnostics"):
            own = network_findings if hasattr(self, "members_") else linear_findings
            self._diagnostics = (*diagnose(subject_of(self)), *(() if self.prepared_.is_logged else own(self)))
        return self._diagnostics

    def predict(self, observations: Any, actions: Any = None) -> Array:
        """Differential values `q(s, a)` with mean zero under the target, `[n]`; NaN for one-hot pairs that no row has.

        Networks: the mean over seeds, each with mean zero over the target's pairs at the logged next states, as there is no
        density ratio. After a fit on ready features, `observations` are features `[n, K]`.
        """
        if self.method == "gradient-dice":
            self._fitted()
            raise InputError("gradient-dice learns a density ratio and no values; take density_ratio() instead.")
        if hasattr(self, "members_"):
            return self.scale_ * over_members(self, network_inputs(self, observations, actions), self.levels_)
        return super().predict(observations, actions)

    def density_ratio(self, observations: Any, actions: Any = None) -> Array:
        """GradientDICE's `d_π/d_μ` at these pairs, `[n]`; after a fit on ready features, `observations` are features."""
        self._fitted()
        if self.method != "gradient-dice":
            raise InputError(f"{self.method} learns values and no density ratio; take method='gradient-dice'.")
        if hasattr(self, "members_"):
            return over_members(self, network_inputs(self, observations, actions))
        x, weights = self._features(observations, actions, "ratio_weights_")
        return np.asarray(x @ weights)

    def hidden_maps(self) -> list[FeatureMap | None]:
        """The last hidden layer of each seed's value network, as features of pairs; None where the run diverged."""
        return hidden_maps(self)
