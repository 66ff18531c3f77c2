"""Simulation: logs and truths from Gymnasium environments, and target policies for studies."""

from typing import TYPE_CHECKING

from cesaro.lazy import lazily

if TYPE_CHECKING:
    from cesaro.policies.actor import actor_path as actor_path
    from cesaro.policies.actor import shipped as shipped
    from cesaro.simulation.collection import collect as collect
    from cesaro.simulation.monte_carlo import MonteCarloRate as MonteCarloRate
    from cesaro.simulation.monte_carlo import batch_means as batch_means
    from cesaro.simulation.monte_carlo import monte_carlo_rate as monte_carlo_rate
    from cesaro.simulation.streams import Job as Job
    from cesaro.simulation.streams import plan as plan
    from cesaro.simulation.streams import run_jobs as run_jobs
    from cesaro.simulation.streams import stream as stream

# Workers that only simulate do without Arrow.
_EXPORTS = {
    "Job": "cesaro.simulation.streams",
    "MonteCarloRate": "cesaro.simulation.monte_carlo",
    "actor_path": "cesaro.policies.actor",
    "batch_means": "cesaro.simulation.monte_carlo",
    "collect": "cesaro.simulation.collection",
    "monte_carlo_rate": "cesaro.simulation.monte_carlo",
    "plan": "cesaro.simulation.streams",
    "run_jobs": "cesaro.simulation.streams",
    "shipped": "cesaro.policies.actor",
    "stream": "cesaro.simulation.streams",
}
__all__ = list(_EXPORTS)
if not TYPE_CHECKING:  # a type checker would take any name for one of ours
    __getattr__, __dir__ = lazily(__name__, _EXPORTS)
