"""Where logs are and where answers go: paths, folders, links, addresses, and what stands in the way."""

import os
from collections.abc import Callable

from .table import Trial, link, log, parquet, rows, text

HEAD, *LINES = text().splitlines()
FIRST, SECOND = ("\n".join([HEAD, *half, ""]) for half in (LINES[:12], LINES[12:]))
GONE = "must be an existing file, folder or pattern. Got no such file; check the path."
NO_REGULAR = "must be a regular file or a folder. Got a {}; copy what it gives into a file."
EXISTS = "' exists; add --force to replace it, or choose another output folder (--out)."
FOREIGN = (
    "' was not written by evaluate or compare, so that --force leaves it alone; choose another output folder (--out)."
)
NO_FOLDER = "' exists and is not a folder; choose another output folder (--out)."
SORT = "sort log.csv --time time --out {} --quiet"
(WALK,) = parquet().values()
TIMED = log(time=[str(row) for row in range(24)])


PATHS = [
    Trial("nothing there", {}, f"nope.csv {GONE}", log="nope.csv"),
    Trial("no path", {}, "A log's path must not be empty. Got ''; name a file, a folder or a pattern.", log=""),
    Trial("a link to nothing", {"log.csv": link("gone.csv")}, f"log.csv {GONE}"),
    Trial("a link to itself", {"log.csv": link("log.csv")}, f"log.csv {GONE}"),
    Trial("a link to a device", {"log.csv": link("/dev/zero")}, NO_REGULAR.format("device")),
    Trial("a device", {}, NO_REGULAR.format("device"), log="/dev/zero"),
    Trial("a pipe", {"log.csv": os.mkfifo}, NO_REGULAR.format("named pipe")),
    Trial(
        "a folder named like a file",
        {"log.csv/x": ""},
        "log.csv must hold Parquet, CSV or Arrow files. Got a folder without any;",
        log="log.csv",
    ),
    Trial("a name of two lines", {}, rf"a\nb.csv {GONE}", log="a\nb.csv"),
    Trial("a name with a zero byte", {}, rf"a\x00b.csv {GONE}", log="a\0b.csv"),
    Trial("a name of other bytes", {}, rf"a\udcff.csv {GONE}", log="a\udcff.csv"),
    Trial("a name too long", {}, f"aaa.csv {GONE}", log=f"{'a' * 300}.csv"),
    Trial("a path too long", {}, f"a/.csv {GONE}", log=f"{'a/' * 3000}.csv"),
    Trial(
        "a name like an option",
        {"-x.csv": text()},
        rate=0.5,
        command="evaluate --policy uniform --quiet --json -- -x.csv",
    ),
    Trial("a home that is not there", {}, f"~nobodyatall/x.csv {GONE}", log="~nobodyatall/x.csv"),
    Trial(
        "an unknown scheme",
        {},
        "gopher://x/y.csv must be an address that Arrow can open. Got none of s3://",
        log="gopher://x/y.csv",
    ),
    Trial(
        "the web",
        {},
        "http://127.0.0.1:1/log.csv must be an address that Arrow can open.",
        log="http://127.0.0.1:1/log.csv",
    ),
    Trial("an address of this machine", {}, GONE, log="file:///nope/log.csv"),
    Trial("a pattern", rate=0.5, log="*.csv"),
    Trial(
        "a pattern that matches nothing",
        says="*.parquet must match files. Got none; check the folder and the pattern.",
        log="*.parquet",
    ),
    Trial(
        "a pattern that is none",
        says="[.csv must match files. Got none; check the folder and the pattern.",
        log="[.csv",
    ),
]
FOLDERS = [
    Trial("two files", {"logs/a.csv": FIRST, "logs/b.csv": SECOND}, rate=0.5, log="logs"),
    Trial(
        "no log",
        {"logs/notes.txt": ""},
        "logs must hold Parquet, CSV or Arrow files. Got a folder without any",
        log="logs",
    ),
    Trial(
        "another name",
        {"logs/a.csv": FIRST, "logs/b.csv": SECOND.replace("reward", "gain")},
        'must have the columns of a.csv. Got "gain" only in b.csv',
        log="logs",
    ),
    Trial(
        "another order",
        {"logs/a.csv": FIRST, "logs/b.csv": "\n".join(",".join(line.split(",")[::-1]) for line in SECOND.splitlines())},
        rate=0.5,
        log="logs",
    ),
    Trial(
        "text in one",
        {"logs/a.csv": FIRST, "logs/b.csv": SECOND.replace(",1\n", ",y\n")},
        "Got 'y' at row 0 of b.csv (counted from 0)",
        log="logs",
    ),
    Trial(
        "no bytes in one",
        {"logs/a.csv": FIRST, "logs/b.csv": ""},
        "b.csv must be a CSV file with a header. Got: Empty CSV file;…(--skip-bad-files)",
        log="logs",
    ),
    Trial("no rows in one", {"logs/a.csv": text(), "logs/b.csv": f"{HEAD}\n"}, rate=0.5, log="logs"),
    Trial(
        "a damaged one",
        {"logs/a.parquet": WALK, "logs/b.parquet": "junk"},
        "b.parquet must be a complete Parquet file. Got…(--skip-bad-files)",
        log="logs",
    ),
    Trial(
        "a damaged one left out",
        {"logs/a.parquet": WALK, "logs/b.parquet": "junk"},
        "Left out 1 of 2 files that cannot be read: b.parquet",
        0.5,
        log="logs",
        options="--skip-bad-files",
    ),
    Trial(
        "damaged ones alone",
        {"logs/a.parquet": "junk"},
        "logs must hold a file that can be read. Got 1 that cannot",
        log="logs",
        options="--skip-bad-files",
    ),
    Trial(
        "two formats",
        {"logs/a.csv": "x", "logs/b.parquet": WALK},
        "The Parquet files of the folder were read, and not a.csv.",
        0.5,
        log="logs",
    ),
    Trial("hidden files", {"logs/a.csv": text(), "logs/.b.csv": "x", "logs/_SUCCESS": ""}, rate=0.5, log="logs"),
    Trial("folders with values", {"logs/day=1/a.csv": FIRST, "logs/day=2/a.csv": SECOND}, rate=0.5, log="logs"),
    Trial(
        "folders with values of a column",
        {"logs/reward=1/a.csv": FIRST, "logs/reward=2/a.csv": SECOND},
        rate=0.5,
        log="logs",
    ),
    Trial(
        "folders with other values",
        {"logs/day=1/a.csv": FIRST, "logs/hour=2/a.csv": SECOND},
        'names hold \\"day\\", \\"hour\\", which is no column',
        0.5,
        log="logs",
    ),
]
OUT = [
    Trial("a new folder", rate=0.5, options="--out out", makes=frozenset({"out"})),
    Trial(
        "an address",
        says="must be a path on this machine. Got s3:/b/x; write it here, and copy it there.",
        options="--out s3://b/x",
    ),
    Trial("here", says=EXISTS, options="--out ."),
    Trial("here, with force", says=FOREIGN, options="--out . --force"),
    Trial("above", says=EXISTS, options="--out .."),
    Trial("everything, with force", says=FOREIGN, options="--out / --force"),
    Trial("the log, with force", says=f"log.csv{NO_FOLDER}", options="--out log.csv --force"),
    Trial(
        "below the log",
        says="log.csv', which would hold the results, is not a folder; create it or choose",
        options="--out log.csv/out",
    ),
    Trial(
        "below nothing",
        says="nope', which would hold the results, does not exist; create it or choose",
        options="--out nope/out",
    ),
    Trial("a folder of others", {**log(), "out/thesis.tex": ""}, EXISTS, options="--out out"),
    Trial("a folder of others, with force", {**log(), "out/thesis.tex": ""}, FOREIGN, options="--out out --force"),
    Trial("a link to nothing", {**log(), "out": link("gone")}, NO_FOLDER, options="--out out"),
    Trial(
        "a link to a folder, with force",
        {**log(), "other/thesis.tex": "", "out": link("other")},
        NO_FOLDER,
        options="--out out --force",
    ),
    Trial(
        "the folder of the log, with force",
        {"out/log.csv": text(), "out/evaluation.json": "{}"},
        FOREIGN,
        options="--out out --force",
    ),
    Trial(
        "a checkpoint that is a folder",
        says="'.' is not a file of this package (IsADirectoryError)",
        options="--checkpoint .",
    ),
    Trial(
        "a checkpoint that is the log",
        says="'log.csv' is not a file of this package (ValueError); it may be damaged.",
        options="--checkpoint log.csv",
    ),
    Trial(
        "a checkpoint far away",
        says="must be a path on this machine. Got s3:/b/c.npz; write it here",
        options="--checkpoint s3://b/c.npz",
    ),
    Trial(
        "a checkpoint of others",
        {**log(), "c.npz": "mine"},
        "'c.npz' is not a file of this package (ValueError); it may be damaged.",
        options="--checkpoint c.npz",
    ),
    Trial(
        "a checkpoint without bytes",
        {**log(), "c.npz": ""},
        "'c.npz' is not a file of this package (EOFError); it may be damaged.",
        options="--checkpoint c.npz",
    ),
    Trial(
        "a study in a folder of others",
        {"out/thesis.tex": ""},
        EXISTS,
        command="reproduce assumption --trials 5 --out out --quiet",
    ),
    Trial(
        "a study in a folder of others, with force",
        {"out/thesis.tex": ""},
        "' was not written by a study, so that --force leaves it alone",
        command="reproduce assumption --trials 5 --out out --force --quiet",
    ),
    Trial("sort: nothing there", {}, f"nope.csv {GONE}", command="sort nope.csv --time time --out o.parquet"),
    Trial(
        "sort: by nothing",
        says="A log is sorted by --trajectory, --time or both. Got neither; name a column.",
        command="sort log.csv --out o.parquet",
    ),
    Trial(
        "sort: by an unknown column",
        says='must have the column "time" that --time names. Got',
        command=SORT.format("o.parquet"),
    ),
    Trial("sort: into CSV", TIMED, "out must end in .parquet. Got 'o.csv'.", command=SORT.format("o.csv")),
    Trial(
        "sort: into the log, with force",
        {"log.parquet": WALK},
        "log.parquet' must not be part of the log that is sorted",
        command="sort log.parquet --trajectory state --out log.parquet --force",
    ),
    Trial(
        "sort: something in the way",
        {**TIMED, "o.parquet": "mine"},
        "o.parquet' exists; add --force to replace it, or choose another file (--out).",
        command=SORT.format("o.parquet"),
    ),
    Trial(
        "sort: text in the way, with force",
        {**TIMED, "o.parquet": "mine"},
        "o.parquet' is no Parquet file, so that --force leaves it alone",
        command=SORT.format("o.parquet --force"),
    ),
    Trial(
        "sort: a folder in the way, with force",
        {**TIMED, "o.parquet/x": "mine"},
        "o.parquet' is no Parquet file, so that --force leaves it alone",
        command=SORT.format("o.parquet --force"),
    ),
    Trial(
        "sort: a missing time",
        log(time=[*map(str, range(23)), "nan"]),
        'column "time" must not have missing entries. Got an empty entry at row 23',
        command=SORT.format("o.parquet"),
    ),
]


@rows(PATHS)
def test_paths(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(FOLDERS)
def test_folders(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)


@rows(OUT)
def test_out(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
