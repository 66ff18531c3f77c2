"""Score methods on systems: pieces of logs, in parallel, resumable."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cesaro.engines.threads import cores
from cesaro.errors import InputError
from cesaro.files import Arrays
from cesaro.reproduce import study
from cesaro.suite import design, show
from cesaro.suite.design import Part
from cesaro.suite.methods import VERDICTS, Answer, Method, Scored, chosen, disagreement, methods, own
from cesaro.suite.scoreboard import Row, Scoreboard
from cesaro.suite.system import RELEASE
from cesaro.suite.systems import ROBOTS, SYSTEMS, kind_of
from cesaro.suite.truth import truths

FIELDS = ("rate", "low", "high", "standard_error", "verdict", "seconds", "megabytes")


@dataclass(frozen=True)
class Config:
    """What a scoreboard depends on.

    Attributes:
        systems: names.
        methods: names.
        quick: a few logs of each system instead of all.
    """

    systems: tuple[str, ...]
    methods: tuple[str, ...]
    quick: bool = False
    seed: int = 0
    release: str = RELEASE


def score(
    estimators: Any = "closed",
    *,
    only: Iterable[str] | None = None,
    exam: bool = False,
    quick: bool = False,
    out: str | Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Scoreboard:
    """Score estimators on systems whose answers are known.

    Args:
        estimators: names of methods ("closed", "learned" and "network" stand for groups, "all" for every one), or your own:
            anything with `fit(log, policy)` and then `reward_rate_`, and where it has them `interval()` and `standard_error_`; or
            a function that makes one. A dict gives names to your own; a list may mix both.
        only: names of systems, "robots" for all of these; None: all on the side but robots.
        exam: whether exam systems are scored as well as development systems. Look at them once, when everything is settled.
        quick: a few logs of each system instead of all; minutes instead of hours.
        out: a folder for tables and pictures; what an interrupted call left there is used. None: nothing is written.
        seed: of all random numbers.
        workers: processes; None: one per core.
    """
    asked = _asked(estimators)
    asked |= {name: methods()[name] for method in [*asked.values()] for name in method.together if name not in asked}
    names = _systems(only, exam)
    config = Config(tuple(names), tuple(asked), quick, seed)
    count = cores() if workers is None else workers
    study.check_workers(count)
    if out is not None:
        return _run(config, asked, Path(out), workers=count, force=force, quiet=quiet)
    with TemporaryDirectory() as folder:
        return _run(config, asked, Path(folder) / "suite", workers=count, force=force, quiet=quiet)


def _asked(estimators: Any) -> dict[str, Method]:
    if isinstance(estimators, Mapping):
        return {str(name): own(estimator, str(name)) for name, estimator in estimators.items()}
    listed = estimators if isinstance(estimators, list | tuple) else [estimators]
    found: dict[str, Method] = {}
    groups = {method.group for method in methods().values()}
    for one in listed:
        if not isinstance(one, str):
            method = own(one)
            found[method.name] = method
        elif one in groups or one == "all":
            found |= {name: method for name, method in methods().items() if one in ("all", method.group)}
        else:
            found |= chosen([one])
    if not found:
        raise InputError("estimators must name at least one method. Got none.")
    return found


def _systems(only: Iterable[str] | None, exam: bool) -> list[str]:
    if only is not None:
        names = [name for one in only for name in (ROBOTS if one == "robots" else [one])]
        for name in names:
            kind_of(name)
        return names
    return [name for name in SYSTEMS if exam or kind_of(name).side == "development"]


def _run(
    config: Config, asked: Mapping[str, Method], out: Path, *, workers: int, force: bool, quiet: bool
) -> Scoreboard:
    settings = {"study": "suite", "seed": config.seed, "quick": config.quick, "release": config.release}
    with study.Folder(out, settings, force=force) as work:
        jobs = _jobs(config, asked)
        label = f"{len(config.systems)} systems, {len(asked)} methods"
        pieces = study.compute(work, jobs, label=label, workers=workers, quiet=quiet, processes=True)
        board = Scoreboard(tuple(_rows(config, asked, pieces)))
        show.write(board, work)
        manifest = study.manifest("suite", asdict(config), seed=config.seed, options={}, summary=board.summary())
        work.finish({**manifest, "command": command(config)})
    return board


def command(config: Config) -> str:
    """What to type for the same again."""
    words = ["cesaro suite", *(f"--only {name}" for name in config.systems)]
    words += [f"--method {name!r}" if " " in name else f"--method {name}" for name in config.methods]
    return " ".join(
        [*words, *(["--quick"] if config.quick else []), *([f"--seed {config.seed}"] if config.seed else [])]
    )


def _jobs(config: Config, asked: Mapping[str, Method]) -> dict[str, Callable[[], Arrays]]:
    """The longest first, but for logs so long that they would keep the others waiting."""
    groups = ("network", "learned", "closed")
    work = [
        (part, groups.index(method.group), name, method, first, count)
        for name in config.systems
        for part in design.parts(kind_of(name), config.quick)
        for method in asked.values()
        if not method.together
        for first, count in design.chunks(kind_of(name), part, method)
    ]
    work.sort(key=lambda one: (one[0].cell.rows > design.LARGE.rows, -one[0].cell.rows, one[1]))
    return {
        _name(name, part, method, first): partial(_piece, config, name, part, method, first, count)
        for part, _, name, method, first, count in work
    }


def _name(name: str, part: Part, method: Method, first: int) -> str:
    written = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in method.name)
    return f"{name}_{part.cell.key}_{part.targets}_{written}_{first}"


def _piece(config: Config, name: str, part: Part, method: Method, first: int, count: int) -> Arrays:
    """`[targets, logs, FIELDS]`; the verdict is its number."""
    cell = part.cell
    made = kind_of(name)(cell.mixing, config.release)
    rng = np.random.default_rng([config.seed, zlib.crc32(f"{name} {cell.key}".encode()), first])
    logs = made.logs(
        design.chunk(cell), cell.rows, rng, shift=cell.shift, behavior=cell.behavior, trajectories=cell.trajectories
    )[:count]
    targets = list(made.targets.values())[: None if part.targets == "all" else 1]
    return {
        "answers": np.array(
            [[_numbers(method(log, target, first + k)) for k, log in enumerate(logs)] for target in targets]
        )
    }


def _numbers(scored: Scored) -> tuple[float, ...]:
    answer = scored.answer
    return (*answer[:4], float(VERDICTS.index(answer.verdict)), scored.seconds, scored.megabytes)


def _answers(name: str, part: Part, method: Method, first: int, pieces: Mapping[str, Arrays]) -> Any:
    """`[targets, logs, FIELDS]`."""
    if not method.together:
        return pieces[_name(name, part, method, first)]["answers"]
    others = np.stack([_answers(name, part, methods()[other], first, pieces) for other in method.together])
    combined = others.sum(axis=0)  # seconds and megabytes add up
    for place in np.ndindex(combined.shape[:2]):
        answer = disagreement(Answer(*numbers[:4]) for numbers in others[:, *place])
        combined[place][:5] = (*answer[:4], VERDICTS.index(answer.verdict))
    return combined


def _rows(config: Config, asked: Mapping[str, Method], pieces: Mapping[str, Arrays]) -> Iterable[Row]:
    for name in config.systems:
        kind = kind_of(name)
        for part in design.parts(kind, config.quick):
            cell = part.cell
            known = None if kind.fault else truths(name, cell.mixing)
            targets = list(kind(cell.mixing, config.release).targets)[: None if part.targets == "all" else 1]
            for method in asked.values():
                for first, _ in design.chunks(kind, part, method):
                    answers = _answers(name, part, method, first, pieces)
                    for t, target in enumerate(targets):
                        for k, numbers in enumerate(answers[t]):
                            found = dict(zip(FIELDS, (float(number) for number in numbers)))
                            verdict = VERDICTS[int(found.pop("verdict"))]
                            truth, logged, scale, apart = np.nan, np.nan, np.nan, False
                            if known is not None:
                                truth, logged = known.targets[target].rate, known.logged(cell.shift, cell.behavior)[0]
                                scale = known.scale(target, cell.shift, cell.behavior, cell.rows)
                                apart = known.is_apart(target, cell.shift, cell.behavior, cell.rows)
                            yield Row(
                                system=name,
                                side=kind.side,
                                kind=kind.kind,
                                fault=bool(kind.fault),
                                cell=cell,
                                part=part.targets,
                                log=first + k,
                                target=target,
                                method=method.name,
                                verdict=verdict,
                                truth=truth,
                                logged=logged,
                                scale=scale,
                                is_apart=apart,
                                **found,
                            )
