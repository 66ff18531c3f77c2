"""Simulation: logs and truths from Gymnasium environments, and target policies for studies."""

from cesaro.policies.shipped import actor_path, shipped
from cesaro.simulation.collection import collect
from cesaro.simulation.jobs import run_jobs
from cesaro.simulation.monte_carlo import MonteCarloRate, batch_means, monte_carlo_rate
from cesaro.simulation.streams import Job, plan, stream

__all__ = [
    "Job",
    "MonteCarloRate",
    "actor_path",
    "batch_means",
    "collect",
    "monte_carlo_rate",
    "plan",
    "run_jobs",
    "shipped",
    "stream",
]
