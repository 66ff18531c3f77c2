"""Target policies: what they are, how they are read, and how they meet a log."""

from cesaro.policies.actor import save_actor
from cesaro.policies.attach import Attached, attach
from cesaro.policies.base import Finite, LogInfo, Policy, Sampler
from cesaro.policies.convert import parse, policy

__all__ = ["Attached", "Finite", "LogInfo", "Policy", "Sampler", "attach", "parse", "policy", "save_actor"]
