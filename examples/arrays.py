"""Arrays are a log as well: a machine that is worn (0 to 4) either runs on or is repaired; repair it from wear 3 on?"""

import numpy as np

import cesaro as cs

rng = np.random.default_rng(0)
rows = 20_000
action = rng.choice(["run", "repair"], rows, p=[0.8, 0.2])  # what was done: a coin decides
wear = np.zeros(rows, dtype=int)
for t in range(1, rows):
    wear[t] = 0 if action[t - 1] == "repair" else min(4, wear[t - 1] + (rng.random() < 0.3))
reward = np.where(action == "run", 10.0 - 2 * wear, -5.0) + rng.normal(size=rows)

log = cs.Transitions(wear, action, reward)
answer = cs.evaluate(log, {state: "repair" if state >= 3 else "run" for state in range(5)}, name="from wear 3 on")
print(answer)
