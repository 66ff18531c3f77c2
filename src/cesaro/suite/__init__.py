"""Logs with known truth: systems that can be simulated, what policies earn in them, and a scoreboard of methods.

system.py       `System`: dynamics, behaviors and targets; how logs are made of it
systems/        the systems, one file each
truth.py        what policies earn, stored in truths.json with how it was found
design.py       which logs are scored
methods.py      what is scored on them; an estimator of one's own becomes a method; fitted_q.py: a baseline among them
run.py          scoring, in pieces that resume
scoreboard.py   errors, coverage, ranks and false oks, and their tables; show.py: files and pictures
"""

from typing import TYPE_CHECKING

from cesaro.lazy import lazily

if TYPE_CHECKING:
    from cesaro.suite.run import score as score
    from cesaro.suite.scoreboard import Scoreboard as Scoreboard
    from cesaro.suite.system import System as System
    from cesaro.suite.systems import SYSTEMS as SYSTEMS
    from cesaro.suite.systems import make as make
    from cesaro.suite.truth import Truths as Truths
    from cesaro.suite.truth import truths as truths

_EXPORTS = {
    "score": "cesaro.suite.run",
    "Scoreboard": "cesaro.suite.scoreboard",
    "System": "cesaro.suite.system",
    "SYSTEMS": "cesaro.suite.systems",
    "make": "cesaro.suite.systems",
    "truths": "cesaro.suite.truth",
    "Truths": "cesaro.suite.truth",
}
__all__ = [*_EXPORTS]
if not TYPE_CHECKING:  # a type checker would take any name for one of ours
    __getattr__, __dir__ = lazily(__name__, _EXPORTS)
