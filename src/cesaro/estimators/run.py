"""`Run`: how a fit is run."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a fit is run, which changes nothing about its answer.

    Args:
        checkpoint: a file to keep progress in; the same fit resumes from it, bit for bit.
        engine: "local", or "ray": the passes over the log become tasks of a cluster, with the same bits.
        address: the address of the Ray cluster; None: one on this machine.
        quiet: no progress bar.

    Example:
        >>> import cesaro as cs
        >>> est = cs.DiffLSTD(run=cs.Run(checkpoint="passes.npz", quiet=True))
        >>> est.run.engine
        'local'
    """

    checkpoint: str | os.PathLike[str] | None = None
    engine: str = "local"
    address: str | None = None
    quiet: bool = False
