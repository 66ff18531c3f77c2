"""The settings of the MuJoCo study: places, methods and grids."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from cesaro.reproduce.settings import POSITIVES, RUNS, SEED, About, Option, Requirement, StudyConfig, at_least, several

if TYPE_CHECKING:
    from cesaro.learning.arguments import Setting

BASELINE = "gradient-dice"
CLAIMED = "diff-gq1"
METHODS = ("diff-sgq", CLAIMED, "diff-gq2", BASELINE)
Place = tuple[str, float]  # an environment and a noise
ENVS = ("HalfCheetah-v5", "Walker2d-v5", "Hopper-v5", "Swimmer-v5")
STREAMS = 20
BATCH_SIZE = 100
# Minibatches between records, that the rate is averaged over, and between copies of the target network.
RECORD, WINDOW, COPIED = 10, 100, 100

_MINIBATCHES = Requirement(
    f"a positive multiple of {WINDOW}, below ten million", lambda count: count % WINDOW == 0 and 0 < count < 10**7
)


@dataclass(frozen=True)
class MujocoConfig(StudyConfig):
    """The settings of the study; the defaults are the full study.

    Attributes:
        envs: names of Gymnasium environments with vectors for actions, a column of the figure each.
        sigmas: standard deviations of the behavior's noise, a row each.
        transitions: of a log.
        truth_steps: of the simulation that gives the truth.
        lrs: the paper's learning rates; `run.step_sizes` says what they are here.
        lams: λ, for GradientDICE.
        runs: independent runs per setting.
        minibatches: per run. An update of Diff-GQ2 takes two.
        seed: of logs and truths; run `i` uses the stream of samples number `seed · runs + i`, in every cell.
        actors: folder with a file ENV.safetensors per environment; empty: the actors that come with cesaro.
    """

    ABOUT: ClassVar = About(
        __package__,
        "A glance in minutes: HalfCheetah with noise 0.9, 20,000 transitions, 5 runs, 300 minibatches, fewer settings.",
        {
            "envs": ENVS[:1],
            "sigmas": (0.9,),
            "transitions": 20_000,
            "truth_steps": 20_000,
            "lrs": (0.1, 0.01, 0.001),
            "lams": (1.0,),
            "runs": 5,
            "minibatches": 300,
        },
        workers_help="Processes, and threads on a CPU; the results do not depend on it.",
        data_help="Folder that keeps logs and truths; what it lacks is simulated.",
    )

    envs: Annotated[
        tuple[str, ...],
        several("different names of environments", bool, different=True),
        Option("Environment; repeat for more.", "env", "the paper's four, v5"),
    ] = ENVS
    sigmas: Annotated[
        tuple[float, ...], POSITIVES, Option("Standard deviation of the behavior's noise; repeat for more.", "sigma")
    ] = (0.1, 0.5, 0.9)
    transitions: Annotated[int, at_least(2 * STREAMS)] = 1_000_000
    truth_steps: Annotated[int, at_least(2 * STREAMS)] = 1_000_000
    lrs: Annotated[tuple[float, ...], POSITIVES] = (0.1, 0.05, 0.01, 0.005, 0.001)
    lams: Annotated[tuple[float, ...], POSITIVES] = (0.1, 1.0, 10.0)
    runs: Annotated[int, at_least(2, most=RUNS), Option("Runs per setting.")] = 30
    minibatches: Annotated[int, _MINIBATCHES] = 1_000
    seed: Annotated[int, SEED] = 0
    actors: Annotated[
        str, Option("Folder with a target ENV.safetensors per environment.", "", "those of cesaro", is_path=True)
    ] = ""

    def check(self) -> None:
        self.check_streams(self.seed, self.runs)

    @property
    def places(self) -> tuple[Place, ...]:
        """Every environment with every noise."""
        return tuple((env, sigma) for env in self.envs for sigma in self.sigmas)

    def settings(self, method: str) -> "list[Setting]":
        """The grid of a method, in the paper's numbers."""
        if method == BASELINE:
            return [{"lr": lr, "lam": lam} for lr in self.lrs for lam in self.lams]
        return [{"lr": lr} for lr in self.lrs]

    @property
    def seeds(self) -> range:
        """Numbers of the streams of samples, one per run."""
        return range(self.seed * self.runs, (self.seed + 1) * self.runs)
