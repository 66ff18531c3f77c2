"""Settings that see no truth: closed forms, networks and fitted Q on the MuJoCo study's logs and a pendulum's.

`cesaro reproduce mujoco` chooses settings by the true rate, as the paper does. Whoever holds a log cannot. Here each method has
one setting for all logs, that of `Config`, and networks are trained with Adam until they should have settled (the verdict says
where they have not): closed forms in several feature maps, neural Diff-SGQ with a slowly moving target, the closed form on the
last layer that it learned, neural Diff-GQ1, discounted fitted-Q evaluation, which is what people do today, and the target run in
a learned world. Seeds (of worlds: members) show the spread.

No setting was chosen among others by an error. They are not blind either: before they were fixed, a smaller trial of much the
same settings on one of the logs (HalfCheetah, noise 0.5) had been compared with its truth.
"""

from research.practice.config import PracticeConfig as Config

__all__ = ["Config"]
