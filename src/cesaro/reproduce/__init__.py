"""The paper's figures and tables, one folder per study, all with the same names: `Config`, `QUICK`, `run`, `Result`, `plot`.

In a folder, `config` holds the settings, `result` what came out, `show` its files, tables, verdict and pictures, and `run` the
work. Imports go one way: `run` takes from `show`, both from `result`, all from `config`. Other modules are what is special about
a study.

| folder | what it repeats | command |
|---|---|---|
| `assumption` | Tables 1 and 2: how often F ⪰ 0 holds | `cesaro reproduce assumption` |
| `boyan` | Figure 2: Boyan's chain with linear features | `cesaro reproduce boyan` |
| `counterexample` | Section 3: Diff-SGQ diverges at every step size | `cesaro reproduce counterexample` |
| `rates` | the finite-sample analysis of the projected variants | `cesaro reproduce rates` |
| `mujoco` | Figure 4 and the appendix's figure: MuJoCo tasks with networks | `cesaro reproduce mujoco` |
| `coverage` | how often intervals hold what they are for | `cesaro reproduce coverage` |
| `pendulum` | what feature maps and ridges give on a continuous system | `cesaro reproduce pendulum` |
| `practice` | what settings that see no truth give on the MuJoCo logs | `cesaro reproduce practice` |
| `stall` | why Diff-GQ1 with networks stays at the behavior's rate | `cesaro reproduce stall` |

`study` holds what they share: a folder that resumes, a manifest, a progress bar. `repeat` runs a study again from its manifest.
"""
