"""Bad and extreme invocations of every command, derived from what the commands say they take.

`program` walks its commands; `derived` gives every option of every command values of its kind that
are bad or extreme, on top of a small invocation that works (`BASES`). A new option is covered
without a word here; a new command needs a base, or the test fails.
"""

from __future__ import annotations

import os
import re
import socket
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import typer
from forked import Ending
from typer.models import ArgumentInfo, OptionInfo

from sordino.cli.main import GROUP, app

Words = tuple[str, ...]


@dataclass(frozen=True)
class Parameter:
    """An option or an argument of a command: how it is typed (nothing if by position), its kind."""

    name: str
    typed: str
    kind: type


def program() -> Iterator[tuple[Words, list[Parameter]]]:
    """Every command of the program: its own, and those that other packages give it."""
    yield from commands(app)
    for given in entry_points(group=GROUP):
        yield from commands(given.load())


def commands(app: typer.Typer, words: Words = ()) -> Iterator[tuple[Words, list[Parameter]]]:
    """Every command by the words that name it, with what it takes."""
    for each in app.registered_commands:
        assert each.callback is not None
        name = each.name or each.callback.__name__.replace("_", "-")
        yield (*words, name), _parameters(each.callback)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, (*words, str(group.name)))
    root = app.registered_callback
    if root is not None and root.callback is not None and root.invoke_without_command:
        yield words, _parameters(root.callback)


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    found = []
    for name, hint in typing.get_type_hints(function, include_extras=True).items():
        kind, *infos = typing.get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        info = next((each for each in infos if isinstance(each, OptionInfo | ArgumentInfo)), None)
        if info is None:
            continue
        inner = [each for each in typing.get_args(kind) if each is not type(None)]
        typed = ""
        if isinstance(info, OptionInfo):
            named = [each for each in info.param_decls or () if each.startswith("--")]
            typed = named[0] if named else f"--{name.replace('_', '-')}"
        found.append(Parameter(name, typed, inner[0] if inner else kind))
    return found


@dataclass(frozen=True)
class Case:
    """An invocation, and what is done to it.

    Parameters
    ----------
    arguments
        What is typed.
    file_bytes
        How large a file may grow: a full disk.
    out
        Where standard output goes.
    before
        What is done to the directory first.
    works
        Whether it must be answered.
    """

    arguments: Words
    file_bytes: int | None = None
    out: str | None = None
    before: Callable[[Path], None] | None = None
    works: bool = False

    def __str__(self) -> str:
        words = [each if len(each) < 60 else f"{each[:20]}({len(each)})" for each in self.arguments]
        if self.file_bytes is not None:
            words.append(f"[a disk with room for {self.file_bytes}]")
        if self.out is not None:
            words.append(f"> {self.out}")
        if self.before is not None:
            words.append(f"[{self.before.__name__}]")
        return ascii(" ".join(words))[1:-1]


_ACCOUNT = ("--delta", "1e-5", "--sampling", "poisson", "--sample-rate", "0.1", "--steps", "10")
_TABLE = ("--data", "table.csv", "--columns", "columns.toml")
_GRID = ("--steps", "20", "--seeds", "3", "--neighbours", "2", "--checkpoints", "1")
_OWN = ("mine.py:train", "--pair", "mine.py:pair", "--workers", "1")

MATERIAL: tuple[Words, ...] = (
    ("release", *_TABLE, "--epsilon", "2", "--out", "model"),
    ("measure", *_TABLE, *_GRID, "--out", "grid"),
    ("certificate", "new-key", "me.pem"),
    ("ledger", "init", "ledger.db", "--dataset", "people", "--epsilon", "2", "--delta", "1e-6"),
    ("ledger", "init", "unspent.db", "--dataset", "people", "--epsilon", "2", "--delta", "1e-6"),
    ("assess", *_TABLE, "--quick", "--audit-runs", "64", "--out", "study"),
)
"""What the invocations below are given; made by the program itself, in this order."""

BASES: dict[Words, Words] = {
    (): ("--version",),
    ("release",): (*_TABLE, "--epsilon", "2", "--out", "new"),
    ("report",): ("study",),
    ("account",): ("--noise-multiplier", "2", *_ACCOUNT),
    ("calibrate",): ("--epsilon", "2", *_ACCOUNT),
    ("measure", "show"): ("grid",),
    ("audit", "power"): ("--runs", "100", "--epsilon", "1"),
    ("audit", "worst-case"): (
        *("--sample-rate", "0.1", "--steps", "4", "--noise-multiplier", "2", "--runs", "100"),
    ),
    ("audit", "gallery"): ("--list",),
    ("certificate", "show"): ("model",),
    ("certificate", "verify"): ("model",),
    ("predict",): ("model", "--data", "table.csv"),
    ("certificate", "sign"): ("model", "--key", "me.pem"),
    ("certificate", "new-key"): ("new.pem",),
    ("ledger", "init"): ("new.db", "--dataset", "them", "--epsilon", "2", "--delta", "1e-6"),
    ("ledger", "show"): ("ledger.db",),
    ("ledger", "spend"): (
        *("ledger.db", "--dataset", "people", "--epsilon", "0.1", "--delta", "1e-8"),
    ),
    ("ledger", "amend"): ("unspent.db", "--dataset", "people", "--epsilon", "3"),
    ("ledger", "head"): ("ledger.db",),
    ("ledger", "verify"): ("ledger.db",),
    ("ledger", "reseal"): ("ledger.db",),
    ("data", "list"): (),
    ("data", "fetch"): ("breast-cancer",),
    ("data", "describe"): ("table.csv", "--target", "ill"),
    ("reproduce",): ("list", "notes"),
    ("measure",): (*_TABLE, *_GRID, "--out", "new"),
    ("audit", "run"): (*_OWN, "--epsilon", "1", "--runs", "40"),
    ("assess",): (*_TABLE, "--quick", "--audit-runs", "64", "--out", "study"),
}
"""A small invocation of every command that works; the quicker ones come first."""

WRITES: dict[Words, Words] = {
    ("account",): ("--plot", "new.svg"),
    ("calibrate",): ("--plot", "new.svg"),
    ("report",): ("--out", "new.html"),
    ("predict",): ("--out", "new.csv"),
    ("audit", "worst-case"): ("--plot", "new.svg"),
    ("audit", "run"): ("--plot", "new.png"),
    ("measure", "show"): ("--figures", "new"),
}
"""What makes a command write a file, on top of its base, where the base does not."""


def material(directory: Path) -> None:
    """Files that work, and things of all kinds to be named where another kind is meant."""
    rows = [
        f"{18 + 7 * i % 61},{('female', 'male')[i % 2]},{('no', 'yes')[7 * i % 61 > 30]}"
        for i in range(120)
    ]
    (directory / "table.csv").write_text("\n".join(["age,sex,ill", *rows]) + "\n")
    (directory / "columns.toml").write_text(
        'target = "ill"\nclasses = ["no", "yes"]\n[columns.age]\nbounds = [0, 120]\n'
        '[columns.sex]\nlevels = ["female", "male"]\n'
    )
    (directory / "mine.py").write_text(
        "import numpy as np\n\n\ndef train(data, generator):\n"
        "    return np.array([float(data[0].sum()) + generator.normal()])\n\n\n"
        "def pair():\n    X, y = np.zeros((3, 1)), np.array([0, 1, 0])\n"
        "    return (X, y), (np.array([[0.0], [0.0], [1.0]]), y)\n"
    )
    for ending in {"", *(each.partition(":")[0] for each in ENDINGS.values())}:
        (directory / f"empty{ending}").write_bytes(b"")
        (directory / f"noise{ending}").write_bytes(bytes(range(256)) * 4)
        (directory / f"folder{ending}").mkdir()
        (directory / f"folder{ending}" / "file").write_text("here\n")
        os.mkfifo(directory / f"pipe{ending}")
        os.symlink("nowhere", directory / f"dangling{ending}")
        os.symlink(f"loop{ending}", directory / f"loop{ending}")
        os.symlink("table.csv", directory / f"link{ending}")
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(directory / f"socket{ending}"))


ENDINGS = {
    **{"columns": ".toml", "data": ".csv", "file": ".csv", "plot": ".svg"},
    **{"mechanism": ".py:x", "pair": ".py:x", "score": ".py:x"},
}
"""How a name must end to be looked at, by the parameter; any other may end as it likes."""
PATHS: Words = (
    *("x" * 300, "/".join(["d" * 50] * 120), "pipe", "socket", "folder", "noise", "empty"),
    *("dangling", "loop", "link", "table.csv/x", "no/such/x"),
)
DEVICES: Words = ("/dev/zero", "/dev/full")
TEXTS: Words = ("", "x" * 100_000, "\x1b[2J\r\n\u202e", "\udcff")
NUMBERS: dict[type, Words] = {
    int: ("0", "-1", "1.5", "", str(10**12), str(10**18), str(10**40)),
    float: ("0", "-1", "nan", "inf", "1e300", "1e-300", "1e18", ""),
}


def values(parameter: Parameter) -> Words:
    """Bad and extreme values of an option of this kind."""
    kind = parameter.kind
    if kind is bool:
        return ("yes",)
    if kind in NUMBERS:
        return NUMBERS[kind]
    if issubclass(kind, Enum):
        return ("", "nonsense", "\x1b[2J")
    ending = ENDINGS.get(parameter.name, "")
    return (*(f"{each}{ending}" for each in PATHS), *DEVICES, *TEXTS)  # a text may name anything


_APART = 12


def derived() -> Iterator[Case]:
    """Every command with every option, bad or extreme; on a full disk; to a full or closed pipe."""
    met: Counter[tuple[str, type]] = Counter()
    takes = dict(program())
    for words, base in BASES.items():
        yield Case((*words, *base), works=True)
        for parameter in takes[words]:
            tried, times = values(parameter), met[parameter.name, parameter.kind]
            # One that several commands take is tried with all values in the first, with others
            # of them in each of the rest.
            for value in tried[times % _APART :: _APART] if times else tried:
                yield Case((*words, *_with(base, parameter, value)))
            met[parameter.name, parameter.kind] += 1
        written = (*words, *base, *WRITES.get(words, ()))
        for room in (0, 1000):
            yield Case(written, file_bytes=room)
        yield Case(written, out="/dev/full")
        yield Case(written, out="closed pipe")
    yield Case((), out="/dev/full")
    yield Case(("--help",), out="/dev/full")


def _with(base: Words, parameter: Parameter, value: str) -> Words:
    """The base with another value: in the place of its own, or added."""
    if not parameter.typed:
        return (value, *base[1:]) if base and not base[0].startswith("--") else (value, *base)
    if parameter.kind is bool:
        return (*base, f"{parameter.typed}={value}")
    if parameter.typed in base:
        place = base.index(parameter.typed) + 1
        return (*base[:place], value, *base[place + 1 :])
    return (*base, parameter.typed, value)


def written_by_hand(directory: Path) -> Iterator[Case]:
    """What somebody did and saw; `directory` holds the material."""
    account = ("account", *BASES[("account",)])
    for option, value in (
        ("--noise-multiplier", "1e300"),
        ("--noise-multiplier", "1e-300"),
        ("--steps", str(10**18)),
        ("--steps", str(10**9)),
        ("--delta", "1e-300"),
        ("--sample-rate", "1e-18"),
    ):
        yield Case((*account, option, value))
    measure = ("measure", *BASES[("measure",)])
    for option, value in (
        ("--seeds", str(10**9)),
        ("--steps", str(10**12)),
        ("--neighbours", str(10**9)),
        ("--checkpoints", str(10**9)),
        ("--batch-size", str(10**9)),
    ):
        yield Case((*measure, option, value))
    worst = ("audit", "worst-case", *BASES[("audit", "worst-case")])
    yield Case((*worst, "--runs", str(10**12)))
    yield Case((*worst, "--steps", str(10**9)))
    outputs = ("audit", "run", *BASES[("audit", "run")], "--outputs", "new.runs")
    for room in (0, 100, 1000):
        yield Case(outputs, file_bytes=room)
    for each in ("study.toml", "columns.toml", "x.db", "report.html"):
        yield Case(("assess", "x" * 300 + each))
        yield Case(("report", "study", "--out", "x" * 300 + each))
    yield Case(
        ("release", "--data", "wide.csv", "--target", "ill", "--epsilon", "1", "--out", "new"),
        before=wide,
    )
    yield Case(("measure", "--data", "wide.csv", "--target", "ill", "--out", "new"), before=wide)
    yield from _damaged(directory)


def _damaged(directory: Path) -> Iterator[Case]:
    """A study with one file damaged, of each kind of file."""
    kinds: dict[object, Path] = {}
    for place in sorted((directory / "study").rglob("*")):
        name = place.relative_to(directory)
        if (
            place.is_file()
            and place.name != ".lock"
            and {"init", "seed", "step"}.isdisjoint(name.parts)
        ):
            # Of the many grids, and of the many cells of one, one will do.
            kinds.setdefault((name.parts[:3], name.parts[4:-1], name.suffix, len(name.parts)), name)
    for number, name in enumerate(kinds.values()):
        hows = list(DAMAGES) if len(name.parts) < 4 else [list(DAMAGES)[number % len(DAMAGES)]]
        for how in hows:
            yield Case(("assess", *BASES[("assess",)]), before=Damage(str(name), how))
            if name.name in ("assessment.json", "study.toml") or "model" in name.parts:
                yield Case(("report", "study"), before=Damage(str(name), how))


def wide(directory: Path) -> None:
    """A table of 40 columns with 900 levels each."""
    rows = [
        ",".join([*(f"v{(i * (c + 1)) % 900}" for c in range(40)), ("no", "yes")[i % 2]])
        for i in range(1800)
    ]
    header = ",".join([*(f"c{c}" for c in range(40)), "ill"])
    (directory / "wide.csv").write_text("\n".join([header, *rows]) + "\n")


def _as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "null": lambda path: path.write_bytes(b"null"),
    "pipe": _as_pipe,
}


@dataclass(frozen=True)
class Damage:
    """One file of a study, damaged."""

    name: str
    how: str

    @property
    def __name__(self) -> str:
        return f"{self.how}: {self.name}"

    def __call__(self, directory: Path) -> None:
        study, *inner = Path(self.name).parts
        if inner[0] == "work":  # which is looked at only while a stage is not finished
            (directory / study / "stages" / f"{inner[1]}.json").unlink()
        DAMAGES[self.how](directory / self.name)


State = dict[str, tuple[int, int, int]]


def state(directory: Path) -> State:
    """What is in a directory: kind, size and time of change of all of it."""
    found = {}
    for root, folders, files in os.walk(directory):
        for name in (*folders, *files):
            if name.endswith(("-shm", "-wal")):  # SQLite's own, and part of the file beside them
                continue
            seen = os.lstat(os.path.join(root, name))
            kind = seen.st_mode & 0o170000
            changed = (0, 0) if name in folders else (seen.st_size, seen.st_mtime_ns)
            found[os.path.relpath(os.path.join(root, name), directory)] = (kind, *changed)
    return found


_LOOSE = re.compile(r"^(Warning|Note|INTERNAL|DRY RUN)\b|^ *$|  (\d[\d.:]*( s)?|done before)$")
"""Lines of standard error beside a refusal: warnings, notes, and stages that are over."""
_TRACES = ("Traceback", "fault of sordino", "Exception ignored", 'File "', "allow_pickle", "pickle")


def faults(case: Case, ending: Ending, before: State, after: State, most: float) -> list[str]:
    """What is wrong with how an invocation ended; nothing if it was answered or refused cleanly."""
    found = []
    if ending.hung:
        return ["it hung"]
    if ending.interrupted:  # work that takes long says so, and can be stopped
        fine = ending.code == 130 and "Ctrl-C stops it" in ending.err + ending.out
        return [] if fine else ["it is long and does not say so"]
    if any(each in ending.err + ending.out for each in _TRACES):
        found.append("a traceback")
    if case.works and ending.code:
        found.append("it does not work")
    if ending.code not in (0, 1, 2):
        found.append(f"exit code {ending.code}")
    if ending.gigabytes > most:
        found.append(f"{ending.gigabytes:.1f} GB of memory")
    if re.search(r"(?<![\w.])nan(?![\w.])", ending.out):
        found.append("it answers nan")
    names = sorted(before.keys() | after.keys())
    # Standard error says where something is if standard output is full, or of work that is kept.
    told = case.out is not None or " are kept." in ending.err
    said = ending.err if told else ending.out
    # A study that goes on writes into its own directory.
    own = f"study{os.sep}" if case.arguments[:1] == ("assess",) else None
    secret = [
        each
        for each in names
        if before.get(each) != after.get(each) and not _told(each, said)
        if own is None or not each.startswith(own)
    ]
    if ending.code and secret and case.out != "closed pipe":  # then nobody could be told
        found.append(f"it left {secret[0]} and told nobody")
    if any(".partial" in name for name in after):
        found.append("half a file is left")
    return found + _sentence_faults(case, ending)


def _told(name: str, out: str) -> bool:
    """Whether the output says where it is: a failed claim is an answer, too."""
    top = name.split(os.sep)[0].removesuffix(".seal")  # a ledger's, beside it
    return re.search(rf"(^|[\s/=]){re.escape(top)}([\s/.:,]|$)", out) is not None


def _sentence_faults(case: Case, ending: Ending) -> list[str]:
    said = [line for line in ending.err.splitlines() if not _LOOSE.search(line)]
    usage = ending.err.lstrip().startswith(("Usage:", "╭─ Error"))
    if ending.code == 0 and case.out is None and not ending.out:
        return ["it answers nothing"]
    if ending.code and case.out == "closed pipe" and not said:
        return []  # nobody listens: it need not say why it ended
    answered = ending.code == 1 and ending.out and case.out is None
    if ending.code and not answered and not usage and len(said) != 1:
        return [f"{len(said)} sentences on standard error"]
    return []
