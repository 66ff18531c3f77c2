"""Score methods on systems: pieces of logs, in parallel, resumable."""

import hashlib
import math
import shlex
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cesaro import checks, documents
from cesaro.data import Transitions
from cesaro.engines.local import cores
from cesaro.errors import InputError
from cesaro.files import Arrays
from cesaro.reproduce import study
from cesaro.suite import design, show
from cesaro.suite.design import Cell, Part
from cesaro.suite.methods import VERDICTS, Answer, Scored, SuiteMethod, chosen, disagreement, methods, own
from cesaro.suite.scoreboard import Row, Scoreboard
from cesaro.suite.system import RELEASE, System
from cesaro.suite.systems import ROBOTS, SYSTEMS, kind_of
from cesaro.suite.truth import truths
from cesaro.text import GIVE, Sentence, Wording

FIELDS = ("rate", "low", "high", "standard_error", "verdict", "seconds", "megabytes")


@dataclass(frozen=True)
class Config:
    """The settings that a scoreboard depends on.

    Attributes:
        systems: names.
        methods: names.
        quick: a few logs of each system instead of all.
        beside: folders of finished boards whose answers are shown beside these.
        logs: of each kind at most so many; None: as the design has them.
        rows: of the logs that are asked about; None: of any size.
    """

    systems: tuple[str, ...]
    methods: tuple[str, ...]
    quick: bool = False
    seed: int = 0
    release: str = RELEASE
    beside: tuple[str, ...] = ()
    logs: int | None = None
    rows: int | None = None


def score(
    estimators: Any = "closed",
    *,
    only: Iterable[str] | None = None,
    exam: bool = False,
    quick: bool = False,
    logs: int | None = None,
    rows: int | None = None,
    beside: str | Path | Iterable[str | Path] = (),
    out: str | Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Scoreboard:
    """Score estimators on systems whose answers are known.

    Args:
        estimators: names of methods ("closed", "default", "learned", "network" and "world" stand for groups, "all" for every
            one), or your own: anything with `fit(log, policy)` and then `reward_rate_`, and where it has them `interval()` and
            `standard_error_`; or a function that makes one. A dict gives names to your own; a list may mix both.
        only: names of systems, "robots" for all of these; None: all on the side but robots.
        exam: whether exam systems are scored as well as development systems. Look at them once, when everything is settled.
        quick: a few logs of each system instead of all; minutes instead of hours.
        logs: at most so many logs of each kind, where fewer will do; None: as many as the design has.
        rows: only logs of so many rows: 2,000, 5,000, 20,000 or 200,000; None: of every size.
        beside: folders of finished boards: what other methods answered about the same systems and logs there is put beside these.
        out: a folder for tables and pictures; what an interrupted call left there is used. None: nothing is written.
        seed: of all random numbers.
        workers: processes; None: one per core.
    """
    asked = _asked(estimators)
    names = _systems(only, exam)
    folders = [beside] if isinstance(beside, str | Path) else beside
    most = None if logs is None else checks.count("logs", logs)
    sizes = sorted({part.cell.rows for name in names for part in design.parts(kind_of(name), quick)})
    if rows is not None and rows not in sizes:
        known = " or ".join(f"{size:,}" for size in sizes)
        raise InputError(
            f"rows must be {known}, as {'the logs of a glance' if quick else 'logs'} here have. Got {rows!r}."
        )
    config = Config(
        tuple(names), tuple(asked), quick, seed, beside=tuple(dict.fromkeys(map(str, folders))), logs=most, rows=rows
    )
    earlier = [row for folder in config.beside for row in _earlier(Path(folder), config)]
    count = cores() if workers is None else workers
    study.check_workers(count)
    if out is not None:
        return _run(config, asked, earlier, Path(out), workers=count, force=force, quiet=quiet)
    with TemporaryDirectory() as folder:
        return _run(config, asked, earlier, Path(folder) / "suite", workers=count, force=force, quiet=quiet)


def _earlier(folder: Path, config: Config) -> list[Row]:
    """The answers of other methods about the same logs, from a finished folder."""
    try:
        settings: Any = documents.read(folder / "manifest.json")["settings"]
        board = Scoreboard.read(folder)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"beside must be a folder of a finished scoreboard, with manifest.json and answers.csv. Got '{folder}' "
            f"({type(error).__name__}: {error})."
        ) from None
    drawn = any(kind_of(name).side == "exam" for name in config.systems)  # the others are the same in every release
    for name in ("seed", "release") if drawn else ("seed",):
        if settings.get(name) != getattr(config, name):
            raise InputError(
                f"beside must be a board of the same logs. Got '{folder}', whose {name} is {settings.get(name)!r}; here it is "
                f"{getattr(config, name)!r}."
            )
    return [row for row in board.rows if row.system in config.systems and row.method not in config.methods]


def _asked(estimators: Any) -> dict[str, SuiteMethod]:
    """Methods by name, with those whose answers others put together."""
    named = estimators.items() if isinstance(estimators, Mapping) else None
    listed = estimators if isinstance(estimators, list | tuple) else [estimators]
    known = methods()
    groups = {method.group for method in known.values()}
    asked: list[SuiteMethod] = [own(one, str(name)) for name, one in named] if named is not None else []
    for one in listed if named is None else ():
        if not isinstance(one, str):
            asked.append(own(one))
        elif one in groups or one == "all":
            asked += [method for method in known.values() if one in ("all", method.group)]
        else:
            asked.append(chosen(one))
    found: dict[str, SuiteMethod] = {}
    for method in asked:
        if (method.digest and method.name in known) or (method.name in found and found[method.name] != method):
            raise InputError(
                f"estimators must have different names, none of them that of a method here. Got {method.name!r} twice; give "
                "your own in a dict, by names that you choose."
            )
        found[method.name] = method
    if not found:
        raise InputError("estimators must name at least one method. Got none.")
    return found | {name: known[name] for method in asked for name in method.together if name not in found}


def _systems(only: Iterable[str] | None, exam: bool) -> list[str]:
    if only is None:
        return [name for name in SYSTEMS if exam or kind_of(name).side == "development"]
    names = dict.fromkeys(name for one in only for name in (ROBOTS if one == "robots" else [one]))
    for name in names:
        if kind_of(name).side == "exam" and not exam:
            raise InputError(
                Sentence(
                    "{name} is an exam system, to be looked at once, when nothing is left to choose; {give} {exam} to say that "
                    "it is time.",
                    name=name,
                    give=GIVE,
                    exam=Wording("exam=True", "--exam"),
                )
            )
    return list(names)


def together(rows: list[Row], earlier: list[Row]) -> list[Row]:
    """Rows, and earlier ones about the same logs; of several about one log by one method the first."""
    logs = {(row.system, row.cell, row.part, row.log) for row in rows}
    found = {
        (row.method, row.system, row.cell, row.part, row.log, row.target): row
        for row in reversed(earlier)
        if (row.system, row.cell, row.part, row.log) in logs
    }
    return [*rows, *reversed(found.values())]


def _run(
    config: Config,
    asked: Mapping[str, SuiteMethod],
    earlier: list[Row],
    out: Path,
    *,
    workers: int,
    force: bool,
    quiet: bool,
) -> Scoreboard:
    settings = {"study": "suite", "seed": config.seed, "release": config.release, "code": _code()}
    with study.Folder(out, settings, force=force) as work:
        jobs = _jobs(config, asked)
        label = f"{len(config.systems)} systems, {len(asked)} methods"
        pieces = study.compute(work, jobs, label=label, workers=workers, quiet=quiet, processes=True)
        board = Scoreboard.of(together(list(_rows(config, asked, pieces)), earlier))
        show.write(board, work)
        work.finish(
            study.manifest("suite", asdict(config), command=command(config), seed=config.seed, summary=board.summary())
        )
    return board


def _code() -> str:
    """A digest of this package's sources: answers of other systems, designs or methods are not taken for these."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        if file.name not in ("show.py", "scoreboard.py", "contest.py"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def command(config: Config) -> str:
    """The command that does the same again."""
    words = ["cesaro", "suite", *(word for name in config.systems for word in ("--only", name))]
    words += [word for name in config.methods for word in ("--method", name)]
    words += ["--exam"] if any(kind_of(name).side == "exam" for name in config.systems) else []
    words += ["--quick"] if config.quick else []
    words += ["--logs", str(config.logs)] if config.logs is not None else []
    words += ["--rows", str(config.rows)] if config.rows is not None else []
    words += [word for folder in config.beside for word in ("--beside", folder)]
    return shlex.join([*words, *(["--seed", str(config.seed)] if config.seed else [])])


def _jobs(config: Config, asked: Mapping[str, SuiteMethod]) -> dict[str, Callable[[], Arrays]]:
    """The longest first, but for logs so long that they would keep the others waiting."""
    groups = ("world", "network", "default", "learned", "closed")
    work = [
        (part, groups.index(method.group), name, method, first, count)
        for name in config.systems
        for part in design.parts(kind_of(name), config.quick, config.logs, config.rows)
        for method in asked.values()
        if not method.together
        for first, count in design.chunks(kind_of(name), part, method)
    ]
    work.sort(key=lambda one: (one[0].cell.rows > design.LARGE.rows, -one[0].cell.rows, one[1]))
    return {
        _name(name, part, method, first, count): partial(_piece, config, name, part, method, first, count)
        for part, _, name, method, first, count in work
    }


def _name(name: str, part: Part, method: SuiteMethod, first: int, count: int) -> str:
    written = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in method.name)
    told_apart = zlib.crc32(f"{method.name} {method.digest}".encode())
    return f"{name}_{part.cell.key}_{part.targets}_{written}_{told_apart:08x}_{first}_{count}"


def logs_of(system: System, cell: Cell, first: int, seed: int) -> list[Transitions]:
    """The logs of a piece."""
    rng = np.random.default_rng([seed, zlib.crc32(f"{system.name} {cell.key}".encode()), first])
    return system.logs(
        design.chunk(cell), cell.rows, rng, shift=cell.shift, behavior=cell.behavior, trajectories=cell.trajectories
    )


def seed_of(name: str, cell: Cell, log: int, seed: int) -> int:
    """The seed of a method's own random numbers on a log."""
    return zlib.crc32(f"{seed} {name} {cell.key} {log}".encode())


def _piece(config: Config, name: str, part: Part, method: SuiteMethod, first: int, count: int) -> Arrays:
    """`answers [targets, logs, FIELDS]`, where the verdict is its number, and `notes [targets, logs]`."""
    cell = part.cell
    made = kind_of(name)(cell.mixing, config.release)
    logs = logs_of(made, cell, first, config.seed)[:count]
    seeds = [seed_of(name, cell, first + k, config.seed) for k in range(count)]
    targets = list(made.targets.values())[: None if part.targets == "all" else 1]
    scored = [[method(log, target, seed) for log, seed in zip(logs, seeds)] for target in targets]
    return {
        "answers": np.array([[_numbers(one) for one in row] for row in scored]),
        "notes": np.array([[one.answer.note[:200] for one in row] for row in scored]),
    }


def _numbers(scored: Scored) -> tuple[float, ...]:
    answer = scored.answer
    rate = answer.rate if math.isfinite(answer.rate) else math.nan
    numbers = (rate, answer.low, answer.high, answer.standard_error)
    return (*numbers, float(VERDICTS.index(answer.verdict)), scored.seconds, scored.megabytes)


def _answers(
    name: str, part: Part, method: SuiteMethod, first: int, count: int, pieces: Mapping[str, Arrays]
) -> tuple[Any, Any]:
    """`[targets, logs, FIELDS]`, and notes."""
    if not method.together:
        piece = pieces[_name(name, part, method, first, count)]
        return piece["answers"], piece["notes"]
    others = np.stack([_answers(name, part, methods()[other], first, count, pieces)[0] for other in method.together])
    combined = others.sum(axis=0)  # seconds add up
    combined[..., FIELDS.index("megabytes")] = others[..., FIELDS.index("megabytes")].max(axis=0)
    for place in np.ndindex(combined.shape[:2]):
        answer = disagreement(Answer(*numbers[:4]) for numbers in others[:, *place])
        combined[place][:5] = (*answer[:4], VERDICTS.index(answer.verdict))
    return combined, np.full(combined.shape[:2], "")


def _rows(config: Config, asked: Mapping[str, SuiteMethod], pieces: Mapping[str, Arrays]) -> Iterable[Row]:
    for name in config.systems:
        kind = kind_of(name)
        for part in design.parts(kind, config.quick, config.logs, config.rows):
            targets = list(kind(part.cell.mixing, config.release).targets)[: None if part.targets == "all" else 1]
            known = {target: about(kind, part.cell, target, config.release) for target in targets}
            for method in asked.values():
                for first, count in design.chunks(kind, part, method):
                    answers, notes = _answers(name, part, method, first, count, pieces)
                    for t, k in np.ndindex(answers.shape[:2]):
                        found: dict[str, Any] = dict(zip(FIELDS, (float(number) for number in answers[t, k])))
                        verdict = VERDICTS[int(found.pop("verdict"))]
                        if verdict != "skipped":
                            yield Row(
                                part=part.targets,
                                log=first + k,
                                method=method.name,
                                verdict=verdict,
                                note=str(notes[t, k]),
                                **known[targets[t]],
                                **found,
                            )


def about(kind: type[System], cell: Cell, target: str, release: str) -> dict[str, Any]:
    """The entries of a row on its system, its log and the truth."""
    place = {"system": kind.name, "side": kind.side, "kind": kind.kind, "fault": bool(kind.fault)}
    place |= {"cell": cell, "target": target}
    if kind.fault:
        return place | {"truth": math.nan, "logged": math.nan, "scale": math.nan}
    known = truths(kind.name, cell.mixing, release)
    return place | {
        "truth": known.targets[target].rate,
        "logged": known.logged(cell.shift, cell.behavior)[0],
        "scale": known.scale(target, cell.shift, cell.behavior, cell.rows),
    }
