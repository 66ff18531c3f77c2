"""The paper's figures and tables, one folder per study with the same modules: `config`, `run` and `show`.

`config` holds the settings with their rules and options, `run` the work in pieces and the result that they make, `show` files,
tables, the verdict and pictures. Imports go one way: `show` takes from `run`, and both from `config`. A further module is what is
special about a study.

| folder | what it repeats | command |
|---|---|---|
| `assumption` | Tables 1 and 2: how often F ⪰ 0 holds | `cesaro reproduce assumption` |
| `boyan` | Figure 2: Boyan's chain with linear features | `cesaro reproduce boyan` |
| `counterexample` | Section 3: Diff-SGQ diverges at every step size | `cesaro reproduce counterexample` |
| `rates` | the finite-sample analysis of the projected variants | `cesaro reproduce rates` |
| `mujoco` | Figure 4 and the appendix's figure: MuJoCo tasks with networks | `cesaro reproduce mujoco` |
| `coverage` | how often intervals hold what they are for | `cesaro reproduce coverage` |

`study` runs any of them in a folder that resumes, leaves a manifest, and repeats what a manifest records. `settings` is what
their configurations are made of, `looks` what their pictures share, and `painter` a process that draws them beside the work.
Studies that are not the paper's are in `research/`, outside of the package.
"""

STUDIES = {
    name: f"cesaro.reproduce.{name}"
    for name in ("assumption", "boyan", "counterexample", "coverage", "mujoco", "rates")
}
# Studies that were here, with what to run instead.
MOVED = {
    "pendulum": "The pendulum study has ended: the pendulum is a system of the suite, see docs/suite.md; run: "
    "cesaro suite --only pendulum.",
    "practice": "The practice study is not a part of the package; run in a clone of the repository: "
    "python -m research.practice.",
    "stall": "The stall study is not a part of the package; run in a clone of the repository: python -m research.stall.",
}
