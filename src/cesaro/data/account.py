"""What was done to the rows of a log: counted, and in words."""

from collections.abc import Sequence

import numpy as np

from cesaro.data.continuing import Structure, Successors
from cesaro.data.settings import Settings
from cesaro.errors import InputError
from cesaro.text import Sentence, Wording, argument, visible

# How a caller says that steps of any length belong together.
NO_GAPS = Wording("gap=None (--gap none)", "--gap none")


class Tally:
    """What became of the rows of a log, counted from some rows at a time."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(("rows", "kept", "trajectories", "episodes", "cuts", "restarts"), 0)
        self._dropped: dict[str, int] = {}
        self._end = -1  # the last row of the last episode
        self._lengths: set[int] = set()  # two at most
        self._resets = 0
        self.holes = 0  # cuts where a file or a row was left out
        self.incomplete: tuple[str, ...] = ()  # columns whose missing entries made rows be left out
        self.cut_actions: int | None = None  # rows whose action was cut; None: there are no bounds

    def add(self, found: Structure, then: Successors) -> None:
        counts = self._counts
        before = counts["rows"]
        ends = np.flatnonzero(found.ends_episode)
        counts["rows"] += len(found.ended)
        counts["kept"] += int(np.count_nonzero(then.keep))
        counts["trajectories"] += int(np.count_nonzero(found.ends_trajectory))
        counts["episodes"] += len(ends)
        counts["cuts"] += int(np.count_nonzero(then.cut))
        self.holes += int(np.count_nonzero(found.lost & ~found.ends_episode))
        counts["restarts"] += len(then.restarts)
        for reason, mask in then.dropped.items():
            self._dropped[reason] = self._dropped.get(reason, 0) + int(np.count_nonzero(mask))
        resets = then.restarts[found.truncated[then.restarts]]
        self._resets += len(resets)
        if len(resets) and len(self._lengths) < 2:
            lengths = np.diff(ends, prepend=self._end - before)[np.searchsorted(ends, resets)]
            self._lengths |= {int(lengths.min()), int(lengths.max())}
        if len(ends):
            self._end = before + int(ends[-1])

    def add_incomplete(self, rows: int, columns: Sequence[str]) -> None:
        """Rows that were left out because of missing entries in these columns."""
        self._counts["rows"] += rows
        self._dropped["incomplete"] = rows
        self.incomplete = tuple(columns)

    def add_plain(self, rows: int) -> None:
        """Rows that are all kept and none of which ends anything."""
        self._counts["rows"] += rows
        self._counts["kept"] += rows

    @property
    def counts(self) -> dict[str, int]:
        """Rows, kept ones, trajectories, episodes, cuts, restarts, cut actions, and dropped rows by reason."""
        cut = {} if self.cut_actions is None else {"cut actions": self.cut_actions}
        return self._counts | cut | {f"dropped: {reason}": count for reason, count in self._dropped.items() if count}

    @property
    def reset_after(self) -> int | None:
        """The one episode length at which every restarted truncation happened."""
        return next(iter(self._lengths)) if self._resets > 1 and len(self._lengths) == 1 else None


def account(tally: Tally, has_next: bool, settings: Settings) -> list[str]:
    """Sentences on cut actions, cuts, dropped rows, restarts and resets."""
    notes: list[str] = []
    counts, reset_after = tally.counts, tally.reset_after
    if tally.cut_actions is not None:
        notes.append(
            f"Actions were cut to {settings.action_bounds} in {tally.cut_actions:,} of {_many(counts['rows'], 'row')}."
        )
    if tally.holes:
        notes.append(f"Trajectories were cut at {_many(tally.holes, 'place')} where {_left_out(tally)} were left out.")
    if counts["cuts"] > tally.holes:
        notes.append(
            Sentence(
                "Trajectories were cut at {gaps} of more than {times} times their median step in time; {none} does not cut.",
                gaps=_many(counts["cuts"] - tally.holes, "gap"),
                times=f"{settings.gap:g}",
                none=NO_GAPS,
            )
        )
    if counts["kept"] < counts["rows"]:
        dropped = counts["rows"] - counts["kept"]
        reasons = _reasons(tally, has_next, settings)
        notes.append(f"Dropped {dropped:,} of {_many(counts['rows'], 'row')}: {reasons}.")
    if counts["restarts"]:
        notes.append(
            f"The next observation of {_many(counts['restarts'], 'row')} that ended an episode is the first one of "
            "the next episode."
        )
    if reset_after is not None:
        notes.append(
            Sentence(
                "Every truncated episode was reset after {steps}, and the observation does not show how many are left (such a "
                "reset is not Markov), so the rate may be wrong; {keep} leaves the reset out.",
                steps=_many(reset_after, "step"),
                keep=argument("on_truncation", "keep"),
            )
        )
    return notes


def reject_nothing_left(log: str, tally: Tally, has_next: bool, settings: Settings) -> None:
    if not tally.counts["kept"]:
        raise InputError(
            Sentence(
                "{log} must leave at least one transition. Got none of {rows} ({reasons}); give {next_observation}, longer "
                "trajectories or another {on_termination} or {on_truncation}.",
                log=log,
                rows=_many(tally.counts["rows"], "row"),
                reasons=_reasons(tally, has_next, settings),
                next_observation=argument("next_observation"),
                on_termination=argument("on_termination"),
                on_truncation=argument("on_truncation"),
            )
        )


def reject_empty(log: str, rows: int) -> None:
    if not rows:
        raise InputError(f"{log} must have at least one row. Got none; check what wrote it.")


def _reasons(tally: Tally, has_next: bool, settings: Settings) -> str:
    counts = tally.counts
    empty_in = " or ".join(f'"{visible(name)}"' for name in tally.incomplete)
    without = "" if has_next else " without a next observation"
    why = {
        "cut": "before a gap in time without a next observation",
        "incomplete": f"with an empty entry in {empty_in}",
        "left out": f"before {_left_out(tally)} that were left out",
        "trajectory end": "at the end of a trajectory without a next observation",
        "terminated": "terminated" + (without if settings.on_termination == "keep" else ""),
        "truncated": "truncated" + (without if settings.on_truncation == "keep" else ""),
        "reward lag": "at the end of a segment, whose reward would be on the next row",
    }
    return ", ".join(f"{counts[key]:,} {why[key[9:]]}" for key in counts if key.startswith("dropped: "))


def _left_out(tally: Tally) -> str:
    return "rows" if tally.incomplete else "files"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
