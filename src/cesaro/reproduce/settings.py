"""Settings of studies: a dataclass each, whose fields hold their rules and their options of the command line.

A field is `runs: Annotated[int, at_least(2, most=RUNS), Option("Runs per setting.")] = 30`. Nothing here, and nothing that a
study's `config` imports, loads NumPy, so that `cesaro reproduce STUDY --help` answers at once.
"""

import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

from cesaro.errors import InputError
from cesaro.text import shortened

# Whole numbers among settings are sizes: of work; of what is computed side by side; of the sides of matrices.
WORK, RUNS, SIDES = 100_000_000, 100_000, 10_000
# Lists have at most this many entries, and numbers stay below the bound of `checks.LARGEST_SETTING`, whose module loads NumPy.
ENTRIES, LARGEST = 1_000, 1e30


class Requirement(NamedTuple):
    """A rule of one setting.

    Attributes:
        words: what the setting must be, such as "an integer ≥ 2".
        holds: whether a value keeps the rule.
        most: the largest whole number that makes sense as a size.
    """

    words: str
    holds: Callable[[Any], bool]
    most: int = WORK


def at_least(low: int, *, most: int = WORK) -> Requirement:
    return Requirement(f"an integer ≥ {low}", lambda value: value >= low, most)


def one_of(*names: str) -> Requirement:
    return Requirement(" or ".join(map(repr, names)), names.__contains__)


def several(words: str, holds: Callable[[Any], bool], *, different: bool = False, most: int = WORK) -> Requirement:
    """A rule of every entry of a list, which must have one at least."""

    def hold(values: tuple[Any, ...]) -> bool:
        return bool(values) and all(map(holds, values)) and (not different or len(set(values)) == len(values))

    return Requirement(words, hold, most)


def is_share(value: float) -> bool:
    return 0 < value < 1


def is_positive(value: float) -> bool:
    return 0 < value < math.inf


def is_not_negative(value: float) -> bool:
    return 0 <= value < math.inf


# Rules that several studies have.
SHARE = Requirement("a number between 0 and 1", is_share)
POSITIVE = Requirement("a finite number > 0", is_positive)
POSITIVES = several("different finite numbers > 0", is_positive, different=True)
# For a setting that takes any value of its type, or whose rule depends on other settings, which `StudyConfig.check` looks at.
_ANY = Requirement("anything", lambda value: True)


@dataclass(frozen=True)
class Option:
    """The option of the command line that sets a field.

    Attributes:
        help: its help text.
        name: where it is not the field's, such as "env" for "envs".
        default: words for the default, where the help cannot show the value itself.
        flag: the value of the field with an option that takes none; None: it takes one.
        folder: where results go with a flag, unless they are told to.
        is_path: whether the text is the path of a folder.
        metavar: words for the value, where its type says too little.
    """

    help: str
    name: str = ""
    default: str = ""
    flag: Any = None
    folder: str = ""
    is_path: bool = False
    metavar: str = ""


SEED = Option("Seed of all random numbers.")


@dataclass(frozen=True)
class About:
    """A study as the command line knows it, beside its settings.

    Attributes:
        package: dotted name of the study's package, which has the modules `config`, `run` and `show`.
        quick: settings of `--quick`.
        quick_help: its help text.
        workers_help: of `--workers`, where these are every core by default.
        data_help: of `--data`, where logs and truths are kept in a folder of their own.
    """

    package: str
    quick_help: str
    quick: Mapping[str, Any] = field(default_factory=dict)
    workers_help: str = ""
    data_help: str = ""

    @property
    def name(self) -> str:
        return self.package.rpartition(".")[2]

    @property
    def command(self) -> str:
        """The beginning of the command that starts the study."""
        return f"cesaro reproduce {self.name}" if self.package.startswith("cesaro.") else f"python -m {self.package}"


class Spec(NamedTuple):
    """A field of a study's settings; `kind` is its type, or that of a list's entries, and an option without help is none."""

    name: str
    kind: Any
    is_list: bool
    default: Any
    rule: Requirement
    option: Option

    @property
    def is_flag(self) -> bool:
        return self.option.flag is not None

    @property
    def typed(self) -> str:
        """The name of the option as it is typed."""
        return f"--{(self.option.name or self.name).replace('_', '-')}"


@dataclass(frozen=True)
class StudyConfig:
    """The settings of a study; the defaults are the full study.

    Raises:
        InputError: a setting breaks its rule.
    """

    ABOUT: ClassVar[About]

    def __post_init__(self) -> None:
        for spec in specs(type(self)):
            if spec.name != "seed":
                self._check_size(spec.name, spec.rule.most)
        for spec in specs(type(self)):
            self.require(spec.name, spec.rule.holds(getattr(self, spec.name)), spec.rule.words)
        self.check()

    def check(self) -> None:
        """Check the rules that several settings take part in."""

    def require(self, name: str, holds: bool, rule: str, got: Any = None) -> None:
        """Refuse a setting that breaks a rule."""
        if not holds:
            value = getattr(self, name) if got is None else got
            shown = repr(value) if isinstance(value, str) and got is None else value
            raise InputError(
                f"The '{name}' setting of the {self.ABOUT.name} study must be {rule}. Got {shown} instead."
            )

    def _check_size(self, name: str, most: int) -> None:
        """Refuse whole numbers that no list or array could have as its size, and other huge ones."""
        value = getattr(self, name)
        entries = value if isinstance(value, tuple) else (value,)
        self.require(name, len(entries) <= ENTRIES, f"a list of at most {ENTRIES:,} entries", f"{len(entries):,}")
        for entry in entries:
            if isinstance(entry, int):
                self.require(name, entry <= most, f"at most {most:,}", shortened(entry))
            elif isinstance(entry, float) and math.isfinite(entry):
                self.require(name, abs(entry) < LARGEST, f"below {LARGEST:g} in size", entry)

    def check_streams(self, seed: int, runs: int) -> None:
        """Refuse a seed with which some stream of samples, `runs` of them for a seed, would have a number beyond 32 bits."""
        last = 2**32 // runs - 1
        self.require("seed", 0 <= seed <= last, f"an integer from 0 to {last}")

    def lacks(self, *names: str) -> bool:
        """Whether this is less than the full study: a list without some of its entries, or a smaller number."""
        pairs = [(getattr(self, name), getattr(type(self), name)) for name in names]
        return any(bool({*full} - {*own}) if isinstance(own, tuple) else own < full for own, full in pairs)

    @property
    def command(self) -> str:
        """A command that gives these settings; where no options do, the manifest itself does."""
        options = options_of(type(self))
        sizes = [spec for spec in options if is_size(spec, self.ABOUT)]
        others = sorted((spec for spec in options if spec not in sizes), key=lambda spec: spec.is_flag)
        now = {spec.name: getattr(self, spec.name) for spec in specs(type(self))}
        defaults = {spec.name: spec.default for spec in specs(type(self))}
        for quick, given in (({}, options), (self.ABOUT.quick, others)):
            told = {spec.name: now[spec.name] for spec in given if spec.option.flag in (None, now[spec.name])}
            if now == {**defaults, **quick, **told}:
                words = ["--quick"] if quick else [word for spec in sizes for word in _words(spec, now[spec.name])]
                words += [word for spec in others for word in _words(spec, now[spec.name])]
                return f"{self.ABOUT.command} {shlex.join(words)}"
        return f"{self.ABOUT.command.removesuffix(f' {self.ABOUT.name}')} --from manifest.json"


def specs(settings: type[StudyConfig]) -> tuple[Spec, ...]:
    """The fields of a study's settings in their order."""
    hints = get_type_hints(settings, include_extras=True)
    found = []
    for one in fields(settings):
        kind, *beside = get_args(hints[one.name]) if get_origin(hints[one.name]) is Annotated else (hints[one.name],)
        is_list = get_origin(kind) is tuple
        rule = next((entry for entry in beside if isinstance(entry, Requirement)), _ANY)
        option = next((entry for entry in beside if isinstance(entry, Option)), Option(""))
        found.append(Spec(one.name, get_args(kind)[0] if is_list else kind, is_list, one.default, rule, option))
    return tuple(found)


def minibatches(method: str) -> int:
    """Independent minibatches of one update."""
    return 2 if method.removeprefix("projected-") == "diff-gq2" else 1


def options_of(settings: type[StudyConfig]) -> list[Spec]:
    """The fields that have an option."""
    return [spec for spec in specs(settings) if spec.option.help]


def is_size(spec: Spec, about: About) -> bool:
    """Whether `--quick` sets this option itself; lists that are given take the place of its own."""
    return spec.name in about.quick and not spec.is_list


def _words(spec: Spec, value: Any) -> Iterator[str]:
    if spec.is_flag:
        yield from [spec.typed] * (value == spec.option.flag)
    elif value != "":
        for entry in value if spec.is_list else (value,):
            yield from (spec.typed, str(entry))
