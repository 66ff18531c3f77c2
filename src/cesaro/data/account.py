"""What was done to the rows of a log, in words."""

from cesaro.data.continuing import Tally
from cesaro.data.settings import Settings
from cesaro.errors import InputError


def account(tally: Tally, has_next: bool, settings: Settings) -> list[str]:
    """Sentences on cuts, dropped rows, restarts and resets."""
    notes = []
    counts, reset_after = tally.counts, tally.reset_after
    if tally.holes:
        notes.append(f"Trajectories were cut at {_many(tally.holes, 'place')} where files were left out.")
    if counts["cuts"] > tally.holes:
        notes.append(
            f"Trajectories were cut at {_many(counts['cuts'] - tally.holes, 'gap')} of more than {settings.gap:g} times "
            "their median step in time; gap=None (--gap none) keeps the order and does not cut."
        )
    if counts["kept"] < counts["rows"]:
        dropped = counts["rows"] - counts["kept"]
        reasons = _reasons(counts, has_next, settings)
        notes.append(f"Dropped {dropped} of {_many(counts['rows'], 'row')}: {reasons}.")
    if counts["restarts"]:
        notes.append(
            f"The next observation of {_many(counts['restarts'], 'row')} that ended an episode is the first one of "
            "the next episode."
        )
    if reset_after is not None:
        notes.append(
            f"Every truncated episode was reset after {_many(reset_after, 'step')}: such a reset is not Markov "
            'in the observation, so the rate may be wrong; on_truncation="keep" leaves it out.'
        )
    return notes


def reject_nothing_left(log: str, counts: dict[str, int], has_next: bool, settings: Settings) -> None:
    if not counts["kept"]:
        raise InputError(
            f"{log} must leave at least one transition. Got none of {_many(counts['rows'], 'row')} "
            f"({_reasons(counts, has_next, settings)}); give next_observation=, longer trajectories or another on_… "
            "setting."
        )


def reject_empty(log: str, rows: int) -> None:
    if not rows:
        raise InputError(f"{log} must have at least one row. Got none; check what wrote it.")


def _reasons(counts: dict[str, int], has_next: bool, settings: Settings) -> str:
    without = "" if has_next else " without a next observation"
    why = {
        "cut": "before a gap in time without a next observation",
        "left out": "before files that were left out",
        "trajectory end": "at the end of a trajectory without a next observation",
        "terminated": "terminated" + (without if settings.on_termination == "keep" else ""),
        "truncated": "truncated" + (without if settings.on_truncation == "keep" else ""),
        "reward lag": "at the end of a piece, whose reward would be on the next row",
    }
    return ", ".join(f"{counts[key]} {why[key[9:]]}" for key in counts if key.startswith("dropped: "))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
