"""Tables full of a private text, damaged in every way that a file can be, for tests of leaks."""

from __future__ import annotations

import datetime
import decimal
import gzip
import random
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd

HIDDEN = ("xq7j", "73195")
"""What no output may hold, in small letters: the beginning of every private cell below."""
WORDS = (
    *("Xq7jSmith-HIV", "Xq7jSmithHIV", "xq7j_smith", "Xq7j Smith", "xq7j", "Xq7j;Smith,HIV"),
    *(
        'Xq7j "Smith"',
        "Xq7jSmith\nHIV",
        "Xq7j\x1b[2JSmith",
        "Xq7j\u202eSmith",
        "[bold]Xq7jSmith[/]",
    ),
)
NUMBERS = (
    "731950286.25",
    "73195",
    "7.3195e7",
    "73195" * 80,
    "0x73195",
    "73195-12-31",
    "-73195e400",
)
ODD = ("", " ", "NA", "nan", "null", "inf", "-inf", "True", "1e999", "?", '"', "0")
HEADER = ("age", "name", "code", "ill")


def leaked(*texts: object) -> list[str]:
    """The private beginnings that these texts hold, one way or another."""
    whole = " ".join(map(str, texts)).lower().replace("\\", "")
    return [hidden for hidden in HIDDEN if hidden in whole]


def said(use: Callable[[], object]) -> tuple[object, str]:
    """What `use` returns or raises, and all that is said: warnings, and a traceback with causes."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found, told = use(), ""
        except Exception as error:
            found, told = error, "".join(traceback.format_exception(error))
    return found, "\n".join([*(str(each.message) for each in warned), told])


def rows(rng: random.Random, count: int) -> list[list[str]]:
    """Records of which nearly every cell is private."""
    label = rng.choice(("words", "words", "numbers", "private", "mixed"))
    word, name_is = rng.choice(WORDS), rng.choice(("one", "few", "few", "unique"))
    made = []
    for number in range(count):
        labels = {
            "words": ("no", "yes")[number % 2],
            "numbers": str(number % 2),
            "private": WORDS[number % 2],
            "mixed": rng.choice((*WORDS, *NUMBERS, *ODD)),
        }
        names = {"one": word, "few": rng.choice(WORDS), "unique": f"{word}{number}"}
        age = rng.choice((*NUMBERS[:3], str(73195 + number)))
        made.append([age, names[name_is], rng.choice((*WORDS, *NUMBERS, *ODD)), labels[label]])
    return made


def _join(table: list[list[str]], separator: str, quoting: str) -> str:
    def cell(text: str) -> str:
        if quoting == "right" and any(letter in text for letter in f'{separator}"\n\r'):
            return '"' + text.replace('"', '""') + '"'
        return f'"{text}"' if quoting == "always" else text

    return "\n".join(separator.join(map(cell, row)) for row in table) + "\n"


def _flipped(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 5)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def _inserted(what: bytes) -> Callable[[bytes, random.Random], bytes]:
    def insert(content: bytes, rng: random.Random) -> bytes:
        # Half of the time in the first line, where the names are.
        most = content.index(b"\n") if rng.random() < 0.5 and b"\n" in content else len(content)
        place = rng.randint(0, most)
        return content[:place] + what + content[place:]

    return insert


BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "an open quote": _inserted(b'"'),
    "an open quote before a name": lambda content, rng: content.replace(b"name", b'"name', 1),
    "an open quote at the start": lambda content, rng: b'"' + content,
    "a line too few": lambda content, rng: content.partition(b"\n")[2] or content,
    "a NUL": _inserted(b"\0"),
    "a carriage return": _inserted(b"\r"),
    "a line break": _inserted(b"\n"),
    "a separator": _inserted(b","),
    "another separator": _inserted(b";"),
    "a byte that is no text": _inserted(b"\xff"),
    "cut short": lambda content, rng: content[: rng.randint(1, len(content))],
    "one field of a megabyte": lambda content, rng: content.replace(b"name", b"Xq7j" * 250_000, 1),
    "a BOM": lambda content, rng: b"\xef\xbb\xbf" + content,
    "BOMs": lambda content, rng: b"\xef\xbb\xbf" * 3 + content,
    "UTF-16": lambda content, rng: content.decode(errors="replace").encode("utf-16"),
    "Latin-1": lambda content, rng: "ä".encode("latin-1") + content,
    "old line ends": lambda content, rng: content.replace(b"\n", b"\r"),
    "flipped bytes": _flipped,
    "blank lines": lambda content, rng: b"\n\r\n  \n" + content,
    "one line": lambda content, rng: content.replace(b"\n", b","),
}


def csv_file(rng: random.Random, directory: Path, most: int = 60) -> Path:
    """A CSV file with one or more things wrong with it."""
    header = list(HEADER)
    table = rows(rng, rng.choice((1, 2, 9, 40, most)))
    wrong = ("none", "private names", "twice", "number names", "blank")
    form = "names" if rng.random() < 0.5 else rng.choice(wrong)
    if form == "none":
        header = table[0]
    elif form == "private names":
        header = [*rng.sample(WORDS, 3), "ill"]
    elif form == "twice":
        header[0] = header[1] = rng.choice(WORDS)
    elif form == "number names":
        header = [*rng.sample(NUMBERS, 3), "ill"]
    elif form == "blank":
        header[rng.randrange(3)] = ""
    if rng.random() < 0.3:  # ragged
        for row in rng.sample(table, 1 + len(table) // 3):
            row[:] = row[: rng.randint(0, 4)] if rng.random() < 0.5 else [*row, rng.choice(WORDS)]
    separator = rng.choice((",", ",", ",", ";", "\t", "|", " "))
    quoting = rng.choice(("right", "right", "always", "never"))
    content = _join([header, *table], separator, quoting).encode()
    for damage in rng.sample(list(BYTES), rng.choice((0, 1, 1, 2))):
        content = BYTES[damage](content, rng)
    if rng.random() < 0.15:
        content = gzip.compress(content)
        if rng.random() < 0.5:
            content = _flipped(content, rng)
        path = directory / "table.csv.gz"
    else:
        path = directory / "table.csv"
    path.write_bytes(content)
    return path


_COLUMNS: dict[str, Callable[[int], list]] = {
    "words": lambda n: [f"{WORDS[0]}{i}" for i in range(n)],
    "bytes": lambda n: [WORDS[1].encode()] * n,
    "lists": lambda n: [[WORDS[1]]] * n,
    "objects": lambda n: [{WORDS[2]: WORDS[1]}] * n,
    "dates": lambda n: [datetime.date(7319, 5, 1 + i % 28) for i in range(n)],
    "late times": lambda n: [datetime.datetime(7319, 5, 1 + i % 28) for i in range(n)],
    "decimals": lambda n: [decimal.Decimal("73195.25") * (i + 1) for i in range(n)],
    "numbers": lambda n: [73195.0 + i for i in range(n)],
    "whole": lambda n: [73195 * 10**12 + i for i in range(n)],
    "infinite": lambda n: [float("inf")] * n,
    "nothing": lambda n: [None] * n,
    "durations": lambda n: [datetime.timedelta(days=73195 + i) for i in range(n)],
}


def parquet_file(rng: random.Random, directory: Path, most: int = 60) -> Path:
    """A Parquet file of the same kind; needs pyarrow."""
    count = rng.choice((1, 9, most))
    names = rng.choice((HEADER[:3], WORDS[:3], NUMBERS[:3]))
    chosen = {name: _COLUMNS[rng.choice(list(_COLUMNS))](count) for name in names}
    labels = rng.choice(([*"01"], list(WORDS[:2]), [0, 1], list(NUMBERS[:2]), [None, "no"]))
    chosen["ill"] = [labels[number % 2] for number in range(count)]
    path = directory / "table.parquet"
    pd.DataFrame(chosen).to_parquet(path)
    if rng.random() < 0.3:
        path.write_bytes(_flipped(path.read_bytes(), rng))
    return path


STRUCTURE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "emptied": lambda content, rng: b"",
    "cut short": lambda content, rng: content[: rng.randrange(1, len(content))],
    "random bytes": lambda content, rng: rng.randbytes(len(content)),
    "zeros": lambda content, rng: bytes(len(content)),
    "another type": lambda content, rng: rng.choice((b"[]", b"3", b"null", b'"text"', b"{}")),
    "a huge number": lambda content, rng: b"9" * 5000,
    "deep": lambda content, rng: b"[" * 100_000,
    "no text": lambda content, rng: b"\xff\xfe" + content,
    "objects of Python": lambda content, rng: b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00.",
}
"""What can become of a file that we wrote ourselves; none of it reads as what it was."""


def damaged_file(rng: random.Random, directory: Path, most: int = 60) -> Path:
    """Either, with so many rows at most."""
    return (parquet_file if rng.random() < 0.2 else csv_file)(rng, directory, most)
