"""The paper's figures and tables, one module each, all with the same names: `Config`, `run`, `Result`, `plot`.

| module | what it repeats | command |
|---|---|---|
| `assumption` | Tables 1 and 2: how often F ⪰ 0 holds | `cesaro reproduce assumption` |

`study` holds what they share: a folder that resumes, a manifest, a progress bar.
"""
