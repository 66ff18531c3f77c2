"""Where the target goes and the log does not."""

import numpy as np

from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.estimators.pipeline import Prepared
from cesaro.features import OneHot, sample_rows
from cesaro.features.maps import action_probabilities


def unlogged(prepared: Prepared) -> tuple[OneHot, Array] | None:
    """For discrete logs: the target's probability of each never-logged pair, summed over next states; None for other logs."""
    log, policy = prepared.log, prepared.policy
    if log is None or policy is None or not (log.observations.is_discrete and log.actions.is_discrete):
        return None
    try:
        table = OneHot(log.observations, log.next_observations, log.actions)
    except InputError:  # too many combinations to number
        return None
    seen = np.zeros(table.size, dtype=bool)
    seen[table.states(log.observations) * table.num_actions + log.actions.joint().codes] = True
    after = log.next_observations.take(sample_rows(len(log), prepared.random_state))
    probabilities = action_probabilities(after, policy, table.num_actions, np.random.default_rng(0), prepared.draws)
    mass = np.zeros((table.num_states, table.num_actions))
    np.add.at(mass, table.states(after), probabilities)
    return table, np.where(seen, 0.0, mass.ravel()) / len(after)


def without_data(prepared: Prepared, most: int = 5) -> list[str]:
    """The never-logged pairs that the target meets most often, in words; none for continuous logs."""
    found = unlogged(prepared)
    if found is None:
        return []
    table, mass = found
    return [table.label(pair) for pair in np.argsort(-mass, kind="stable")[:most] if mass[pair] > 0]


# What to do about it.
REMEDY = (
    "collect data where the target goes, take fewer features, or a policy closer to the log; a ridge of your own (ridge=1e-6, "
    "--ridge 1e-6) answers anyway"
)


def not_identified(prepared: Prepared) -> str:
    """Why dense features leave the rate open, without the last stop."""
    pairs = without_data(prepared)
    size = f", {prepared.num_rows:,} transitions for {prepared.num_features:,} of them"
    where = f": the target goes to (s', a') = {', '.join(pairs)}, where the log has no data" if pairs else size
    return f"The log does not identify the rate of this policy in these features{where}"
