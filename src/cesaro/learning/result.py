"""The result of a sweep: curves of every run, what diverged, and the best setting by a given truth."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cesaro import checks
from cesaro.checks import Array
from cesaro.errors import CesaroError, InputError
from cesaro.files import chosen, read_arrays, write_arrays
from cesaro.lazy import pandas
from cesaro.learning.arguments import Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SCHEMA = "cesaro-sweep/1"


@dataclass(frozen=True)
class Best:
    """The setting with the smallest mean final error among those of which no run diverged."""

    index: int
    setting: Setting
    error: float  # mean over seeds of |r̂ − truth| at the end
    spread: float  # standard deviation over seeds
    curve: Array  # mean error at every record, [records]
    band: Array  # its standard deviation over seeds, [records]


@dataclass(frozen=True)
class Sweep:
    """All runs of one method.

    Attributes:
        method: its name.
        settings: the numbers of each setting.
        seeds: `[seeds]`.
        samples: samples consumed at each record, `[records]`.
        reward_rate: mean rate over the window before each record, `[settings, seeds, records]`; nan once a run has diverged.
        diverged_at: the sample at which a run diverged, `[settings, seeds]`; −1 where it did not.
        records: further recorded quantities by name, `[settings, seeds, records, …]`.
        final: with `keep_final`, the parameters that each run ended at, as the objective's primal with leading axes
            `[settings, seeds]`, diverged runs included; `save` leaves them out.
    """

    method: str
    settings: list[Setting]
    seeds: NDArray[np.int64]
    samples: NDArray[np.int64]
    reward_rate: Array
    diverged_at: NDArray[np.int64]
    records: dict[str, Array] = field(default_factory=dict)
    final: Any = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        diverged = int((self.diverged_at >= 0).sum())
        return (
            f"Sweep({self.method}: {len(self.settings)} settings × {len(self.seeds)} seeds, {self.samples[-1]} samples, "
            f"{diverged} of {self.diverged_at.size} runs diverged)"
        )

    def plot(
        self, truth: float | None = None, *, settings: int | Iterable[int] | None = None, axes: "Axes | None" = None
    ) -> "Figure":
        """Learning curves: the rate against the samples consumed, mean over seeds with a band of ± 1 standard deviation.

        Args:
            truth: the exact rate, where it is known: then the curves are `|r̂ − truth|` on a logarithmic scale.
            settings: which settings to draw in color and to name, by their places in `settings`. By default all of at
                most five; of more, the five best by the truth, or without it five that are spread over the last mean
                rates. Others are thin and gray, and those of which a run diverged are counted in words.
            axes: matplotlib axes to draw into; by default a new figure, which pyplot does not know.

        Returns:
            The figure. A notebook shows it; `figure.savefig("curves.png")` writes it.

        Example:
            >>> import cesaro as cs
            >>> chain = cs.problems.boyan_chain(pi0=0.1, mu0=0.5)
            >>> sweep = cs.sweep("diff-sgq", chain, settings=cs.grid(step_size=[0.001, 0.1]), seeds=3, budget=1_000)
            >>> figure = sweep.plot(truth=1.9)
            >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
            ['step_size = 0.1', 'step_size = 0.001']
        """
        from cesaro.report.sweep import plot_sweep

        if truth is not None:
            truth = checks.number("truth", truth, low=-np.inf, low_open=True)
        return plot_sweep(self, truth, None if settings is None else self._places(settings), axes)

    def _places(self, settings: int | Iterable[int]) -> list[int]:
        given: list[Any] = list(settings) if isinstance(settings, Iterable) else [settings]
        last = len(self.settings) - 1
        for place in given:
            if isinstance(place, bool) or not isinstance(place, int | np.integer) or not 0 <= place <= last:
                raise InputError(
                    f"settings must be places in the list of settings, from 0 to {last}. Got {place!r}; "
                    "best(truth).index is one."
                )
        if not given:
            raise InputError("settings must name at least one setting. Got none; leave it out for a choice.")
        return [int(place) for place in given]

    def _repr_html_(self) -> str:
        """A view for notebooks: one line, a table of settings and the learning curves."""
        from cesaro.report.sweep import sweep_html

        return sweep_html(self)

    @property
    def diverged(self) -> NDArray[np.bool_]:
        """Settings of which some run diverged, `[settings]`."""
        return np.asarray((self.diverged_at >= 0).any(axis=1))

    def final_error(self, truth: float) -> Array:
        """Mean over seeds of `|r̂ − truth|` at the end, `[settings]`; infinite where a run diverged."""
        error = np.abs(self.reward_rate[:, :, -1] - truth).mean(axis=1)
        return np.where(self.diverged, np.inf, error)

    def best(self, truth: float) -> Best:
        """The setting with the smallest mean final error; one with a diverged run is never chosen."""
        truth = checks.number("truth", truth, low=-np.inf, low_open=True)
        errors = self.final_error(truth)
        if self.diverged.all():
            raise CesaroError(f"Every setting of {self.method} diverged; take smaller step sizes.")
        index = int(np.argmin(errors))
        runs = np.abs(self.reward_rate[index] - truth)
        return Best(
            index,
            self.settings[index],
            float(errors[index]),
            float(runs[:, -1].std()),
            runs.mean(axis=0),
            runs.std(axis=0),
        )

    def to_frame(self) -> Any:
        """A pandas frame with a row per setting, seed and record."""
        count, seeds, records = self.reward_rate.shape
        columns: dict[str, Any] = {
            name: np.repeat([setting[name] for setting in self.settings], seeds * records) for name in self.settings[0]
        }
        columns["seed"] = np.tile(np.repeat(self.seeds, records), count)
        columns["samples"] = np.tile(self.samples, count * seeds)
        columns["reward_rate"] = self.reward_rate.ravel()
        columns["diverged_at"] = np.repeat(self.diverged_at.ravel(), records)
        return pandas().DataFrame(columns)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one `.npz` file, whole or not at all."""
        meta = {"schema": SCHEMA, "method": self.method, "settings": self.settings}
        arrays = {f"record_{name}": values for name, values in self.records.items()}
        fields = {name: getattr(self, name) for name in ("seeds", "samples", "reward_rate", "diverged_at")}
        with chosen(Path(path)):
            write_arrays(Path(path), meta, {**fields, **arrays})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Sweep":
        """Read what `save` wrote."""
        meta, arrays = read_arrays(Path(path), SCHEMA)
        prefix = "record_"
        missing = {"method", "settings"} - set(meta) | {"seeds", "samples", "reward_rate", "diverged_at"} - set(arrays)
        if missing:
            raise InputError(f"'{path}' lacks {', '.join(sorted(missing))}; it may be damaged.")
        return Sweep(
            method=meta["method"],
            settings=meta["settings"],
            records={name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)},
            **{name: a for name, a in arrays.items() if not name.startswith(prefix)},
        )
