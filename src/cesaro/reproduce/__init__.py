"""The paper's figures and tables, one module each, all with the same names: `Config`, `run`, `Result`, `plot`.

| module | what it repeats | command |
|---|---|---|
| `assumption` | Tables 1 and 2: how often F ⪰ 0 holds | `cesaro reproduce assumption` |
| `boyan` | Figure 2: Boyan's chain with linear features | `cesaro reproduce boyan` |
| `counterexample` | Section 3: Diff-SGQ diverges at every step size | `cesaro reproduce counterexample` |
| `rates` | the finite-sample analysis of the projected variants | `cesaro reproduce rates` |

`study` holds what they share: a folder that resumes, a manifest, a progress bar. `repeat` runs a study again from its manifest.
"""
