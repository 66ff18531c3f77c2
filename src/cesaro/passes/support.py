"""Where the target goes and the log does not."""

import numpy as np

from cesaro.checks import Array
from cesaro.errors import InputError
from cesaro.features import OneHot
from cesaro.features.maps import action_probabilities, fewer
from cesaro.inspection import evidence
from cesaro.passes.moments import Moments
from cesaro.passes.prepare import Prepared
from cesaro.text import Sentence, Wording, percent, visible

# Columns of an observation that are looked at where the log does not identify a rate.
MOST_COLUMNS = 20
# Rows without a transition that are worth a word then.
MANY = 0.2


def pair_table(prepared: Prepared) -> OneHot | None:
    """The pairs of a discrete log, by number; None for other logs, and where there are too many combinations to number."""
    if isinstance(prepared.map, OneHot):
        return prepared.map
    if prepared.log is None or not prepared.is_discrete:
        return None
    rows = prepared.sample.rows
    try:
        return OneHot(rows.observations, prepared.log.states(), rows.actions)
    except InputError:
        return None


def logged_weight(prepared: Prepared, table: OneHot, moments: Moments | None) -> Array:
    """The weight of each pair in the log, `[S·A]`: of all rows where the moments tell, else of the sampled ones."""
    if moments is not None and isinstance(prepared.map, OneHot):
        return np.asarray(moments.mean("v")) * moments.weight
    rows = prepared.sample.rows
    pairs = table.states(rows.observations) * table.num_actions + rows.actions.joint().codes
    return np.asarray(np.bincount(pairs, rows.weights, minlength=table.size), dtype=np.float64)


def unlogged(prepared: Prepared, moments: Moments | None = None) -> tuple[OneHot, Array] | None:
    """For discrete logs: the target's probability of each never-logged pair, summed over next states; None for other logs."""
    policy, table = prepared.policy, pair_table(prepared)
    if policy is None or table is None:
        return None
    seen = logged_weight(prepared, table, moments) > 0
    after = prepared.sample.rows.next_observations
    probabilities = action_probabilities(after, policy, table.num_actions, np.random.default_rng(0), prepared.draws)
    mass = np.zeros((table.num_states, table.num_actions))
    np.add.at(mass, table.states(after), probabilities)
    return table, np.where(seen, 0.0, mass.ravel()) / len(after)


def without_data(prepared: Prepared, moments: Moments | None = None, most: int = 5) -> list[str]:
    """The never-logged pairs that the target meets most often, in words; none for continuous logs."""
    found = unlogged(prepared, moments)
    if found is None:
        return []
    table, mass = found
    return [table.label(pair) for pair in np.argsort(-mass, kind="stable")[:most] if mass[pair] > 0]


def remedy(prepared: Prepared) -> Sentence:
    """The remedy where the log does not identify the rate, without a full stop."""
    return Sentence(
        "collect data where the target goes, use {fewer}, or evaluate a policy closer to the log; a ridge of your own ({ridge}) "
        "gives a number anyway, with verdict bad",
        fewer=fewer(prepared.map),
        ridge=Wording("ridge=1e-6", "--ridge 1e-6"),
    )


def not_identified(prepared: Prepared) -> str:
    """Why dense features leave the rate open, without the last stop."""
    pairs = without_data(prepared)
    is_short = prepared.num_rows < prepared.num_features
    size = f", {prepared.num_rows:,} transitions for {prepared.num_features:,} of them"
    size = f", because it is too short{size}" if is_short else size
    where = f": the target goes to (s', a') = {', '.join(pairs)}, where the log has no data" if pairs else size
    return f"The log does not identify the rate of this policy in these features{where}{_lost(prepared)}{_results(prepared)}"


def _lost(prepared: Prepared) -> str:
    """A clause on rows that the log has lost on the way to transitions; empty where these are few."""
    counts = {"kept": 1, "rows": 1} if prepared.log is None else prepared.log.counts
    share = 1 - counts["kept"] / counts["rows"]
    return f"; {percent(share)} of its rows gave no transition, as its notes say" if share > MANY else ""


def _results(prepared: Prepared) -> str:
    """Columns of the observation that look like results of the action of their own row, which leave the log without support."""
    if prepared.log is None:
        return ""
    sample = evidence.contiguous(prepared.log, prepared.random_state)
    names = sample.rows.observations.names
    for place in range(min(len(sample.rows.observations.columns), MOST_COLUMNS)):
        share = evidence.made_by_action(sample, place)
        if share is not None:
            return (
                f'; the action of a row predicts {100 * share:.0f} % of "{visible(names[place])}" in the same row: if that is a '
                "result of the action, which no policy sees before it acts, leave it out of the observation"
            )
    return ""
