"""CSV files that are cut, bent, encoded or packed in other ways than their name says."""

import gzip
from collections.abc import Callable

from .table import Files, Trial, columns, log, rows, text

WALK = text()
HEAD, *LINES = WALK.splitlines()
PACKED = gzip.compress(WALK.encode(), mtime=0)
NO_CSV = (
    "log.csv must be a CSV file with a header. Got: {}…; check that it is complete and has the format its name says."
)
NO_COLUMNS = "the columns of observation and action and reward must be known. Got the columns {}"


def csv(content: str | bytes, name: str = "log.csv") -> Files:
    return {name: content}


def more(name: str, entry: str) -> Files:
    """The walk with more columns."""
    return csv("".join(f"{line},{entry if number else name}\n" for number, line in enumerate(WALK.splitlines())))


TRIALS = [
    Trial("no bytes", csv(""), "log.csv must hold a log. Got an empty file; check what wrote it."),
    Trial("line ends alone", csv("\n" * 50), NO_CSV.format("CSV parse error: Empty CSV file")),
    Trial("a header without end", csv(HEAD), NO_CSV.format("CSV parse error: Empty CSV file")),
    Trial("a header alone", csv(f"{HEAD}\n"), "log.csv must have at least one row. Got none; check what wrote it."),
    Trial(
        "a header alone, streamed", csv(f"{HEAD}\n"), "log.csv must have at least one row. Got none", options="--stream"
    ),
    Trial(
        "one row",
        csv(f"{HEAD}\n{LINES[0]}\n"),
        "must leave at least one transition. Got none of 1 row (1 at the end of a",
    ),
    Trial(
        "two rows",
        csv("\n".join([HEAD, *LINES[:2]])),
        "every logged pair of state and action leads to pairs that no row has…(s', a') = (b, go);",
    ),
    Trial("any bytes", csv(bytes(range(256)) * 4), NO_CSV.format("CSV parse error: …Expected 1 columns, got 2")),
    Trial("zeros", csv(b"\0" * 4096), NO_CSV.format("CSV parse error: Empty CSV file")),
    Trial("UTF-16", csv(WALK.encode("utf-16")), NO_CSV.format("CSV parse error: …Expected 3 columns, got 1")),
    Trial("a byte order mark", csv("\ufeff" + WALK), rate=0.5),
    Trial(
        "two byte order marks",
        csv("\ufeff\ufeff" + WALK),
        r'Got the columns "\ufeffstate", "action", "reward"; give --obs',
    ),
    Trial(
        "Latin-1 in a label",
        csv(WALK.replace("stay", "warté").encode("latin-1")),
        r"""column "action" must hold text in UTF-8. Got b'wart\xe9' at row 2 (counted from 0), line 4; correct that entry.""",
    ),
    Trial(
        "Latin-1 in the header",
        csv(f"{WALK[:-1]},é".encode("latin-1")),
        NO_CSV.format("CSV parse error: …Expected 3 col"),
    ),
    Trial(
        "half a surrogate pair",
        csv(WALK.encode().replace(b"stay", b"\xed\xa0\x80")),
        'column "action" must hold text in UTF',
    ),
    Trial("CR LF", csv(WALK.replace("\n", "\r\n")), rate=0.5),
    Trial("CR", csv(WALK.replace("\n", "\r")), rate=0.5),
    Trial("one file, three line ends", csv(WALK.replace("\n", "\r\n", 5).replace("1\n", "1\r")), rate=0.5),
    Trial(
        "line separators of Unicode",
        csv(WALK.replace("\n", "\u2028")),
        NO_CSV.format("CSV parse error: Empty CSV file"),
    ),
    Trial("no line end at the end", csv(WALK[:-1]), rate=0.5),
    Trial("blank lines between rows", csv(WALK.replace("\n", "\n\n")), rate=0.5),
    Trial(
        "a line of spaces",
        csv(WALK.replace("\n", "\n  \n", 1)),
        NO_CSV.format("CSV parse error: …Expected 3 columns, got 1"),
    ),
    Trial("an end-of-file mark of DOS", csv(f"{WALK}\x1a"), NO_CSV.format("… Expected 3 columns, got 1: \\x1a")),
    Trial("a row too short", csv(f"{WALK}a,go\n"), NO_CSV.format("CSV parse error: …Expected 3 columns, got 2: a,go")),
    Trial(
        "a row too long",
        csv(f"{WALK}a,go,1,1\n"),
        NO_CSV.format("CSV parse error: …Expected 3 columns, got 4: a,go,1,1"),
    ),
    Trial("cut in the last row", csv(WALK[:-4]), NO_CSV.format("CSV parse error: …Expected 3 columns, got 2: a,sta")),
    Trial(
        "a quote that nobody closes",
        csv(f'{WALK}"a,go,1\n'),
        NO_CSV.format("CSV parse error: …Expected 3 columns, got 1"),
    ),
    Trial("a quote inside a label", csv(WALK.replace("stay", 'st"ay')), rate=0.5),
    Trial("a line end inside a label", csv(WALK.replace("stay", '"st\nay"')), rate=0.5),
    Trial(
        "semicolons", csv(WALK.replace(",", ";")), rate=0.5, says="Semicolons separate the columns, as in the header"
    ),
    Trial(
        "tabs", csv(WALK.replace(",", "\t")), NO_COLUMNS.format(r'"state\taction\treward" … write the file with commas')
    ),
    Trial("tabs in .tsv", csv(WALK.replace(",", "\t"), "log.tsv"), rate=0.5),
    Trial("bars", csv(WALK.replace(",", "|")), NO_COLUMNS.format('"state|action|reward" … write the file with commas')),
    Trial(
        "the separator in a line of its own",
        csv(f"sep=,\n{WALK}"),
        NO_CSV.format("CSV parse error: …Expected 2 columns, got 3"),
    ),
    Trial(
        "a comment before the header",
        csv(f"# 2024\n{WALK}"),
        NO_CSV.format("CSV parse error: …Expected 1 columns, got 3"),
    ),
    Trial("no header", csv("\n".join(LINES)), NO_COLUMNS.format('"a", "go", "0"')),
    Trial(
        "two logs joined with their headers",
        csv(WALK * 2),
        "Got 'reward' at row 24 (counted from 0), line 26; correct that entry.",
    ),
    Trial(
        "a page of the web",
        csv("<!DOCTYPE html><html>404, not found</html>\n"),
        NO_COLUMNS.format('"<!DOCTYPE html><html>404"'),
    ),
    Trial("lines of JSON", csv('{"state": "a", "reward": 1}\n' * 9), NO_COLUMNS.format('"{"state": "a""')),
    Trial(
        "a pointer of Git LFS",
        csv("version https://x/v1\noid sha256:4d\nsize 1\n"),
        NO_COLUMNS.format('"version https://x/v1"'),
    ),
    Trial(
        "a column twice",
        more("reward", "1"),
        'must have different column names. Got "reward" twice; rename one of the two.',
    ),
    Trial(
        "a column twice that nobody needs",
        more("x,x", "1,2"),
        'must have different column names. Got "x" twice; rename',
    ),
    Trial("a column without a name", more("", "1"), rate=0.5),
    Trial("names that differ by their case", more("Reward", "7"), rate=0.5),
    Trial("two usual names", more("rewards", "7"), 'Got "reward" and "rewards"; give --reward reward or the other.'),
    Trial(
        "spaces before names",
        csv(WALK.replace(HEAD, "state, action, reward")),
        rate=0.5,
    ),
    Trial(
        "a name with a line end",
        csv(WALK.replace("reward", '"re\nward"')),
        r'Got the columns "state", "action", "re\nward"',
    ),
    Trial("a name like an option", csv(WALK.replace("reward", "--force")), rate=0.5, options="--reward=--force"),
    Trial("a name like a pattern", csv(WALK.replace("reward", "*")), rate=0.5, options="--reward '*'"),
    Trial("a name like a truth value", csv(WALK.replace("reward", "False")), rate=0.5, options="--reward False"),
    Trial(
        "a letter of two signs, asked for as one",
        more("re\u0301", "1"),
        'must have the column "r\u00e9"',
        options="--weight r\u00e9",
    ),
    Trial(
        "a thousand columns", more(",".join(f"c{i}" for i in range(1000)), ",".join(map(str, range(1000)))), rate=0.5
    ),
    Trial("a long label", log(state=[state * 100_000 for state in columns()["state"]]), rate=0.5),
    Trial("packed", csv(PACKED, "log.csv.gz"), rate=0.5),
    Trial(
        "packed in two pieces",
        csv(gzip.compress(WALK[:99].encode()) + gzip.compress(WALK[99:].encode()), "log.csv.gz"),
        rate=0.5,
    ),
    Trial(
        "packed and cut", csv(PACKED[:-20], "log.csv.gz"), "Got: Truncated compressed stream; check that it is complete"
    ),
    Trial(
        "packed and cut, streamed",
        csv(PACKED[:-20], "log.csv.gz"),
        "Got: Truncated compressed stream",
        options="--stream",
    ),
    Trial(
        "packed, another check sum",
        csv(PACKED[:-8] + bytes(4) + PACKED[-4:], "log.csv.gz"),
        "incorrect data check; check that",
    ),
    Trial(
        "packed, another length",
        csv(PACKED[:-4] + bytes(4), "log.csv.gz"),
        "incorrect length check; check that it is complete",
    ),
    Trial(
        "packed, and more behind it",
        csv(PACKED + b"garbage", "log.csv.gz"),
        "incorrect header check; check that it is complete",
    ),
    Trial(
        "packed twice",
        csv(gzip.compress(PACKED, mtime=0), "log.csv.gz"),
        "must be a CSV file with a header. Got: CSV parse",
    ),
    Trial("not packed, but named so", csv(WALK, "log.csv.gz"), "incorrect header check; check that it is complete"),
    Trial("packed, but not named so", csv(PACKED), NO_CSV.format("CSV parse error")),
    Trial("one line of 20 MB, packed", csv(gzip.compress(b"a" * 20_000_000), "log.csv.gz"), "Empty CSV file or block"),
    Trial(
        "not what .zst says", csv(WALK, "log.csv.zst"), "Got: ZSTD decompress failed: Unknown frame descriptor; check"
    ),
    Trial("not what .bz2 says", csv(WALK, "log.csv.bz2"), "Got: bz2 decompress failed: data is not bz2-compressed"),
    Trial("an ending in capitals", csv(WALK, "LOG.CSV"), rate=0.5),
    Trial(
        "no ending",
        csv(WALK, "log"),
        "log must be Parquet, CSV, Arrow/Feather, NPZ or HDF5. Got no file ending; rename it",
    ),
    Trial(
        "an ending of another format",
        csv(WALK, "log.jsonl"),
        "must be Parquet, CSV, Arrow/Feather, NPZ or HDF5. Got .jsonl;",
    ),
]


@rows(TRIALS)
def test_csv(trial: Trial, attempt: Callable[[Trial], None]) -> None:
    attempt(trial)
