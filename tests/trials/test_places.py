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
NO_FOLDER = "' exists and is {}, not a folder; choose another output folder (--out)."
IN_THE_WAY = "' and is in the way, because no run of ours wrote that; move it elsewhere, or choose another"
NOT_OURS = "', which {} did not write, so that --force leaves it alone; choose another output folder (--out)."
# A folder as version 0.1 left it, and one with the ledger of its files.
ANSWER = {"out/evaluation.json": '{"schema": "cesaro-evaluation/1"}', "out/report.txt": "old"}
MARKED = {**ANSWER, "out/.cesaro": "cesaro-folder/1 answer\nresult evaluation.json\nresult report.txt\n"}
STUDY = {"out/manifest.json": '{"schema": "cesaro-study/1", "study": "assumption"}', "out/assumption.csv": "old"}
UNFINISHED = {
    "out.partial/.cesaro": "cesaro-folder/1 study\nprogress settings.json\nprogress pieces/\nprogress pieces/2-0.npz\n",
    "out.partial/pieces/2-0.npz": "",
}
ASSUMPTION = "reproduce assumption --trials 5 --quiet --out out"
SORT = "sort log.csv --time time --out {} --quiet"
(WALK,) = parquet().values()
TIMED = log(time=[str(row) for row in range(24)])


PATHS = [
    Trial("a name misspelt", says="Got no such file; did you mean 'log.csv'?", log="lgo.csv"),
    Trial("nothing there", {}, f"nope.csv {GONE}", log="nope.csv"),
    Trial("no path", {}, "A log's path must not be empty. Got ''; name a file, a folder or a pattern.", log=""),
    Trial(
        "a link to nothing", {"log.csv": link("gone.csv")}, "log.csv must be an existing file…Got a broken link; check"
    ),
    Trial(
        "a link to itself", {"log.csv": link("log.csv")}, "that can be read. Got: Too many levels of symbolic links;"
    ),
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
    Trial(
        "a name too long",
        {},
        "aaa.csv must be a file…that can be read. Got: File name too long; check",
        log=f"{'a' * 300}.csv",
    ),
    Trial(
        "a path too long",
        {},
        "a/.csv must be a file…that can be read. Got: File name too long; check",
        log=f"{'a/' * 3000}.csv",
    ),
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
        'names hold \\"day\\", \\"hour\\", which is not a column',
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
    Trial("the log, with force", says=f"log.csv{NO_FOLDER.format('a file')}", options="--out log.csv --force"),
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
    Trial("a link to nothing", {**log(), "out": link("gone")}, NO_FOLDER.format("a link"), options="--out out"),
    Trial(
        "a link to a folder, with force",
        {**log(), "other/thesis.tex": "", "out": link("other")},
        NO_FOLDER.format("a link"),
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
        says="' must be a file, or nothing yet. Got a folder; remove it, or choose another path.",
        options="--checkpoint .",
    ),
    Trial("a name of 250 letters", says="Got 250 bytes ('oooooooooooooooooooo…", options=f"--out {'o' * 250}"),
    Trial("a name of 255 bytes", says="must have a name of at most 236 bytes", options=f"--out o{'ä' * 127}"),
    Trial("a path too long", says="', which would hold the results, does not exist", options=f"--out {'o/' * 3000}o"),
    Trial(
        "a folder that only looks like one of ours",
        {**log(), ".out.replaced/thesis.tex": "mine", ".out.0123abcd.replaced/thesis.tex": "mine"},
        rate=0.5,
        options="--out out",
        makes=frozenset({"out"}),
    ),
    Trial(
        "our names in a folder of others",
        {**log(), "out.partial/report.txt": "mine", "out.partial/values.png": "mine"},
        f"out.partial' holds 'report.txt{IN_THE_WAY} output folder (--out).",
        options="--out out",
    ),
    Trial(
        "a ledger of others",
        {**log(), "out.partial/.cesaro": "mine"},
        f"out.partial' holds '.cesaro{IN_THE_WAY} output folder (--out).",
        options="--out out",
    ),
    Trial(
        "a lock of others",
        {**log(), "out.partial/.cesaro.lock": "mine"},
        ".cesaro.lock' is in the way, and no run of ours wrote it; move it away, or choose another output folder (--out).",
        options="--out out",
    ),
    Trial(
        "a link where the work goes",
        {**log(), "other/report.txt": "mine", "out.partial": link("other")},
        "out.partial' is a link and in the way; move it away, or choose another output folder (--out).",
        options="--out out",
    ),
    Trial(
        "a file where the work goes",
        {**log(), "out.partial": "mine"},
        "out.partial' is a file and in the way; move it away, or choose another output folder (--out).",
        options="--out out",
    ),
    Trial(
        "unfinished work of a study",
        {**log(), **UNFINISHED},
        "out.partial' holds unfinished work of another kind (study); repeat that command to finish it, delete that folder",
        options="--out out",
    ),
    Trial(
        "a file of others in an answer, with force",
        {**log(), **MARKED, "out/my_notes.md": "mine"},
        f"also holds 'my_notes.md{NOT_OURS.format('evaluate or compare')}",
        options="--out out --force",
    ),
    Trial(
        "a picture of others in an answer, with force",
        {**log(), **MARKED, "out/rates.png": "mine"},
        "also holds 'rates.png'",
        options="--out out --force",
    ),
    Trial(
        "a link in an answer, with force",
        {**log(), **ANSWER, "thesis.tex": "mine", "out/report.html": link("../thesis.tex")},
        "also holds 'report.html'",
        options="--out out --force",
    ),
    Trial(
        "a folder named like a file of an answer, with force",
        {**log(), **ANSWER, "out/report.html/thesis.tex": "mine"},
        "also holds 'report.html'",
        options="--out out --force",
    ),
    Trial(
        "a ledger of others in an answer, with force",
        {**log(), **ANSWER, "out/.cesaro": "mine"},
        FOREIGN,
        options="--out out --force",
    ),
    Trial(
        "an answer that is nested, with force",
        {**log(), "out/evaluation.json": "[" * 100_000},
        FOREIGN,
        options="--out out --force",
    ),
    Trial(
        "a file of others in a study, with force",
        {**STUDY, "out/my_notes.md": "mine"},
        f"also holds 'my_notes.md{NOT_OURS.format('a study')}",
        command=f"{ASSUMPTION} --force",
    ),
    Trial(
        "a folder of others beside a manifest, with force",
        {**STUDY, "out/src/thesis.tex": "mine"},
        f"also holds 'src{NOT_OURS.format('a study')}",
        command=f"{ASSUMPTION} --force",
    ),
    Trial(
        "pieces whose settings are nested",
        {**UNFINISHED, "out.partial/settings.json": "[" * 100_000},
        "settings.json' is not readable JSON, so that nothing tells which run its pieces belong to; delete the folder",
        command=ASSUMPTION,
    ),
    Trial(
        "a file of others among pieces",
        {**UNFINISHED, "out.partial/pieces/thesis.tex": "mine"},
        f"out.partial' holds 'pieces/thesis.tex{IN_THE_WAY}",
        command=ASSUMPTION,
    ),
    Trial(
        "a study with a long name",
        {},
        "out (--out) must have a name of at most 236 bytes",
        command=f"{ASSUMPTION}{'o' * 250}",
    ),
    Trial(
        "a truth of others, with force",
        {"truth.json": '{"rate": 1}'},
        "' was not written by truth, so that --force leaves it alone; choose another file (--out).",
        command="truth Pendulum-v1 --policy constant:0 --steps 20 --out truth.json --force --quiet",
    ),
    Trial(
        "a checkpoint that is a link",
        {**log(), "c.npz": link("gone.npz")},
        "c.npz' must be a file, or nothing yet. Got a link; remove it, or choose another path.",
        options="--checkpoint c.npz",
    ),
    Trial(
        "a checkpoint with a lock of others",
        {**log(), ".c.npz.lock": "mine"},
        ".c.npz.lock' is in the way, and no run of ours wrote it; move it away, or choose another file.",
        options="--checkpoint c.npz",
    ),
    Trial(
        "a checkpoint in no folder",
        says="c.npz' cannot be written (No such file or directory); choose another path.",
        options="--checkpoint nope/c.npz",
    ),
    Trial(
        "a checkpoint with a name too long",
        says="checkpoint (--checkpoint) must have a name of at most 241 bytes",
        options=f"--checkpoint {'c' * 250}",
    ),
    Trial(
        "a checkpoint that is the log",
        says="'log.csv' is not a file of this package (ValueError), or it is damaged; choose another one, or delete it.",
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
        "'c.npz' is not a file of this package (ValueError), or it is damaged; choose another one, or delete it.",
        options="--checkpoint c.npz",
    ),
    Trial(
        "a checkpoint without bytes",
        {**log(), "c.npz": ""},
        "'c.npz' is not a file of this package (EOFError), or it is damaged; choose another one, or delete it.",
        options="--checkpoint c.npz",
    ),
    Trial(
        "a study in a folder of others",
        {"out/thesis.tex": ""},
        EXISTS,
        command=ASSUMPTION,
    ),
    Trial(
        "a study in a folder of others, with force",
        {"out/thesis.tex": ""},
        "' was not written by a study, so that --force leaves it alone",
        command=f"{ASSUMPTION} --force",
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
        "o.parquet' was not written by sort, so that --force leaves it alone",
        command=SORT.format("o.parquet --force"),
    ),
    Trial(
        "sort: a log of others in the way, with force",
        {**TIMED, "o.parquet": WALK},
        "o.parquet' was not written by sort, so that --force leaves it alone",
        command=SORT.format("o.parquet --force"),
    ),
    Trial(
        "sort: a folder in the way, with force",
        {**TIMED, "o.parquet/x": "mine"},
        "o.parquet' exists and is a folder, not a file; choose another file (--out).",
        command=SORT.format("o.parquet --force"),
    ),
    Trial(
        "sort: a link in the way, with force",
        {**TIMED, "mine.parquet": WALK, "o.parquet": link("mine.parquet")},
        "o.parquet' exists and is a link, not a file; choose another file (--out).",
        command=SORT.format("o.parquet --force"),
    ),
    Trial(
        "sort: a file of others where parts go",
        {**TIMED, "o.parquet.partial/part-time-job.docx": "mine"},
        f"o.parquet.partial' holds 'part-time-job.docx{IN_THE_WAY} file (--out).",
        command=SORT.format("o.parquet"),
    ),
    Trial(
        "sort: a link where parts go",
        {**TIMED, "other/part-000.arrows": "mine", "o.parquet.partial": link("other")},
        "o.parquet.partial' is a link and in the way; move it away, or choose another file (--out).",
        command=SORT.format("o.parquet"),
    ),
    Trial(
        "sort: a name too long",
        TIMED,
        "out (--out) must have a name of at most 236 bytes,…Got 248 bytes ('aaaaaaaaaaaaaaaaaaaa…",
        command=SORT.format(f"{'a' * 240}.parquet"),
    ),
    Trial(
        "sort: a missing time",
        log(time=[*map(str, range(23)), "nan"]),
        'column "time" must not have missing entries. Got …nan…, which counts as an empty entry, at row 23',
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
