"""Nothing that a stranger wrote acts on the terminal or passes for a sentence of the program."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sordino import data
from sordino.accounting.profile import GaussianProfile
from sordino.assessment.directory import ASSESSMENT, STUDY
from sordino.cli import terminal
from sordino.cli.main import main
from sordino.cli.terminal import Screen
from sordino.errors import filled
from sordino.intrinsic.measure import measure
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.release import bundle
from sordino.release.certificate import Certificate, Model, Preprocessing
from sordino.release.ledger import Charge, Ledger
from sordino.sgd import TrainSpec

FORGED = (
    "The certificate was signed by the key SHA256:4f5aDe.",
    "signed by the key SHA256:4f5aDe",
    "Signed by the key 4f5aDe: model",
    "The claim follows from the recorded numbers: epsilon <= 0.0004f5aDe.",
    "Verdict: the claim holds 4f5aDe.",
    "Left: 4f5aDe.",
)
BREAKS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\n\n", "\x1b[E")
ACTS = (
    *("\x1b[2J", "\x1b[1A\x1b[2K", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x9b2J"),
    *("\0", "\b" * 9, "\x7f", "\x1bc", "\u202e", "\u2066", "\u2069", "\u061c", "\u200b", "\u200f"),
    *("\ufeff", "\u00ad", "\U000e0041", "\u3164", "\ud800", "[red]x[/]", "[link=x]y", ":warning:"),
)
FEW = pytest.mark.parametrize("many", [3, pytest.param(25, marks=pytest.mark.slow)])
"""How many of the texts are tried, about: each takes a run of the program."""


def hostile(rng: random.Random) -> str:
    parts = [rng.choice((*BREAKS, *ACTS, *FORGED, "x", " ", "é", "語")) for _ in range(4)]
    return "".join([*parts, rng.choice(BREAKS), rng.choice(FORGED)])


def check(out: str, because: object) -> None:
    """The referee: it does not use what the program cleans with."""
    for line in out.split("\n"):
        for letter in line:
            kind = unicodedata.category(letter)
            assert kind not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"), (because, letter, line)
        if not line.endswith("</pre>"):  # text in several lines is one there
            assert not line.startswith(FORGED), (because, line)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the program, and have the referee look at all that it prints."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments: object, because: object = "") -> str:
        monkeypatch.setattr(sys, "argv", ["sordino", *map(str, arguments)])
        monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            try:
                main()
            except SystemExit:
                pass
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
        out, err = capsys.readouterr()
        check(out + err, (because, arguments))
        assert "fault of sordino" not in err, (because, err)
        return out + err

    return run


def _leaves(values: Any, path: tuple = ()) -> Iterator[tuple]:
    """Paths to every text of a JSON value."""
    if isinstance(values, dict):
        for key, each in values.items():
            yield from _leaves(each, (*path, key))
    elif isinstance(values, list):
        for number, each in enumerate(values):
            yield from _leaves(each, (*path, number))
    elif isinstance(values, str):
        yield path


def _spoiled(values: Any, path: tuple, text: str, *, key: bool = False) -> Any:
    """A copy with another text, or another key, at `path`."""
    values = json.loads(json.dumps(values))
    place = values
    for step in path[:-1]:
        place = place[step]
    if key and isinstance(place, dict):
        place[text] = place.pop(path[-1])
    else:
        place[path[-1]] = text
    return values


EVIDENCE = AdaptiveEvidence(relation=Relation.REPLACE_ONE, columns=3, rho=0.02, clip=1.0)
WEIGHTS = bundle.weights_file([[0.5, -1.0]], [0.25])
CERTIFICATE = Certificate(
    model=Model(
        "PrivateLogisticRegression",
        {"method": "dp-agd", "epsilon": 1.0},
        ("no", "yes"),
        "str",
        2,
        ("age", "sex"),
        True,
        bundle.digest(WEIGHTS),
    ),
    guarantee=replace(EVIDENCE.proof().guarantee(1e-6), not_covered=("something",)),
    method="dp-agd",
    evidence=EVIDENCE,
    facts=EVIDENCE.facts(),
    noise="ChaCha20 keyed by the operating system",
    preprocessing=Preprocessing(True, ("the mean of column age",), ""),
    ledger_entry="an entry",
)


@FEW
def test_every_text_of_a_certificate(seen, tmp_path: Path, many: int) -> None:
    plain = json.loads(CERTIFICATE.to_json())
    nothing = json.loads(replace(CERTIFICATE, guarantee=None, why_none="so").to_json())
    rng = random.Random(0)
    directory = tmp_path / "model"
    bundle.write(directory, CERTIFICATE, WEIGHTS)
    tried = [
        (values, path, key)
        for values in (plain, nothing)
        for path in _leaves(values)
        for key in (False, True)
    ]
    chosen = rng.sample(tried, min(3 * many, len(tried)))
    accepted = 0
    for values, path, key in chosen:
        spoiled = _spoiled(values, path, hostile(rng), key=key)
        (directory / bundle.CERTIFICATE).write_text(json.dumps(spoiled))
        shown = seen("certificate", "show", directory, because=path)
        told = seen("certificate", "verify", directory, because=path)
        seen("certificate", "show", directory, "--json", because=path)
        accepted += "HOW IT WAS TRAINED" in shown or "The claim follows" in told
    assert accepted > len(chosen) / 10  # some texts are free, and shown


def test_a_line_break_in_what_was_read_forges_no_signature(seen, tmp_path: Path) -> None:
    reads = ("the mean.\nThe certificate was signed by the key SHA256:4f5aDe.\nx\x1b[1A\u202e",)
    honest = bundle.read(Path(__file__).parents[1] / "corpus" / "bundles" / "auto-named")
    forged = replace(honest.certificate, preprocessing=Preprocessing(True, reads, ""))
    weights = bundle.weights_file(honest.coef, honest.intercept)
    bundle.write(tmp_path / "model", forged, weights)
    told = seen("certificate", "verify", tmp_path / "model")
    assert (
        r"the mean.\nThe certificate was signed by the key SHA256:4f5aDe.\nx\x1b[1A\u202e" in told
    )


@FEW
def test_every_text_of_a_ledger(seen, tmp_path: Path, many: int) -> None:
    file = tmp_path / "ledger.db"
    ledger = Ledger(file, dataset="patients", epsilon=2, delta=1e-6)
    ledger.create()
    profile = GaussianProfile(parameter=0.1, relation=Relation.REPLACE_ONE, theorem="a test")
    ledger.record(Charge(profile, profile.epsilon(1e-6), 1e-6, what="a [bold]model"))
    assert "a [bold]model" in seen("ledger", "show", file)
    rng = random.Random(1)
    with sqlite3.connect(file) as opened:
        tables = opened.execute("select name from sqlite_master where type = 'table'")
        texts = [
            (table, column)
            for (table,) in list(tables)
            for (_, column, *_) in opened.execute(f"pragma table_info({table})")
        ]
    for table, column in rng.sample(texts, min(2 * many, len(texts))):
        spoiled = shutil.copy(file, tmp_path / "spoiled.db")
        with sqlite3.connect(spoiled) as opened:
            triggers = opened.execute("select name from sqlite_master where type = 'trigger'")
            for (name,) in list(triggers):
                opened.execute(f"drop trigger {name}")
            try:
                text = hostile(rng).replace("\ud800", "")
                opened.execute(f"update {table} set {column} = ?", (text,))
            except sqlite3.Error:  # it takes no such text
                continue
        seen("ledger", "show", spoiled, because=(table, column))
    seen("ledger", "spend", file, "--dataset", hostile(rng), "--mu", 1)
    seen("ledger", "spend", file, "--dataset", "patients", "--mu", 0.1, "--note", hostile(rng))
    seen("ledger", "show", file)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("studies") / "digits"
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=5)
    measure(spec, data.load("digits/binary").train, 6, 2, init="vary", store=store)
    return store


@FEW
def test_every_text_of_a_study(seen, study: Path, tmp_path: Path, many: int) -> None:
    assert "sigma_i" in seen("measure", "show", study)
    rng = random.Random(2)
    texts = [
        (file, path)
        for file in sorted(study.rglob("*.json"))
        for path in _leaves(json.loads(file.read_text()))
    ]
    for file, path in rng.sample(texts, min(many, len(texts))):
        copy = tmp_path / "study"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(study, copy)
        values = json.loads(file.read_text())
        spoiled = json.dumps(_spoiled(values, path, hostile(rng), key=rng.random() < 0.2))
        (copy / file.relative_to(study)).write_text(spoiled)
        seen("measure", "show", copy, because=(file.name, path))


@FEW
def test_every_text_of_an_assessment(seen, assessment: Path, tmp_path: Path, many: int) -> None:
    values = json.loads(assessment.read_text())
    rng = random.Random(3)
    directory = tmp_path / "study"
    directory.mkdir()
    (directory / STUDY).write_text("")
    paths = list(_leaves(values))
    for path in rng.sample(paths, min(many, len(paths))):
        spoiled = _spoiled(values, path, hostile(rng).replace("\ud800", ""))
        (directory / ASSESSMENT).write_text(json.dumps(spoiled))
        form = rng.choice(("md", "json", "html") if many > 3 else ("md", "json"))
        seen("report", directory, "--format", form, "--out", "-", because=path)


@pytest.fixture
def assessment(tmp_path: Path) -> Path:
    """A finished assessment's document."""
    report = str(Path(__file__).parents[1] / "report")
    sys.path.insert(0, report)
    try:
        from sample_assessment import release_sample
    finally:
        sys.path.remove(report)
    from sordino.report import result

    path = tmp_path / "sample.json"
    path.write_text(result.dumps(release_sample()))
    return path


def _toml(text: str) -> str:
    return '"' + "".join(f"\\U{ord(letter):08x}" for letter in text) + '"'


@FEW
def test_names_of_columns_files_and_options(seen, tmp_path: Path, many: int) -> None:
    rng = random.Random(4)
    for number in range(min(many // 2, 30)):
        text = hostile(rng).replace("\ud800", "").replace("\0", "").strip()
        table, described = tmp_path / "people.csv", tmp_path / "columns.toml"
        quoted = '"' + text.replace('"', '""') + '"'
        table.write_text(f"{quoted},ill\n" + "x,no\ny,yes\n" * 30, newline="")
        top = f'target = "ill"\nclasses = ["no", "yes"]\n[columns.{_toml(text)}]\n'
        described.write_text(f"{top}bounds = [0, 1]")
        declared = ("--data", table, "--columns", described, "--epsilon", 1)
        assert "has no finite number" in seen("release", *declared, "--dry-run")
        described.write_text(f'{top}levels = ["x", "y"]')
        released = seen("release", *declared, "--out", tmp_path / f"model {number}")
        assert "A certificate publishes the names" in released  # and not such ones
        seen("release", "--data", table, "--target", text, "--epsilon", 1, "--dry-run")
        seen("data", "describe", table, "--target", text)
        path = tmp_path / text.replace("/", "")[-60:]
        for arguments in (
            ("certificate", "verify", path),
            ("certificate", "show", path, text),
            ("certificate", text),
            ("release", "--data", f"{path}.csv", "--target", "x", "--epsilon", 1, f"--{text}"),
            ("release", "--data", text, "--epsilon", 1, "--out", path),
            ("release", "--data", "digits", "--epsilon", text, "--out", path),
            ("assess", path),
            ("assess", "--model", text),
            ("report", path),
            ("measure", "show", path),
            ("ledger", "show", path),
            ("audit", text, "--data", "digits"),
            ("account", "--noise-multiplier", 1, "--delta", 1e-5, "--sampling", text),
        ):
            seen(*arguments)


def test_levels_are_escaped_in_a_description(seen, tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("word,ill\n" + "a\u202eb,no\na\x9bc,yes\n" * 30)
    told = seen("data", "describe", table, "--target", "ill")
    from sordino.data.columns import Columns

    toml, _, _ = told.partition("Next: ")  # that is on standard error
    assert Columns.from_toml(toml).columns["word"].levels == ("a\x9bc", "a\u202eb")


def test_what_a_foreign_function_says(seen, tmp_path: Path, monkeypatch) -> None:
    rng = random.Random(5)
    for number in range(3):
        name = f"theirs{number}"
        text = hostile(rng)
        (tmp_path / f"{name}.py").write_text(
            f"import warnings\nTEXT = {text!r}\nwarnings.warn(TEXT)\n"
            "def raises(*_):\n    raise RuntimeError(TEXT)\n"
            "def works(data, rng):\n    return rng.normal()\n"
            "def pair():\n    return [0.0], [1.0]\n"
        )
        (tmp_path / f"{name}b.py").write_text(f"raise RuntimeError({text!r})\n")
        monkeypatch.chdir(tmp_path)
        pair = ("--pair", f"{name}.py:pair", "--epsilon", 1, "--runs", 40, "--workers", 1)
        assert "RuntimeError" in seen("audit", f"{name}.py:raises", *pair)
        assert "RuntimeError" in seen(
            "audit", f"{name}.py:works", *pair, "--score", f"{name}.py:raises"
        )
        assert "RuntimeError" in seen("audit", f"{name}.py:works", "--pair", f"{name}.py:raises")
        assert "RuntimeError" in seen("audit", f"{name}b.py:works", *pair)
        seen("audit", f"{name}.py:{text}", *pair)


class TestScreen:
    def test_progress_goes_to_standard_error(self) -> None:
        assert terminal.errors().stderr

    def test_no_text_is_markup_or_moves_the_cursor(self, capsys) -> None:
        from rich.table import Table

        rng = random.Random(6)
        for _ in range(50):
            text = f"x {hostile(rng)}"
            console = Screen(width=400)
            table = Table("a", title=text)
            table.add_column(text)
            table.add_row(text, text)
            console.print(table)
            console.print(text, style="bold")
            terminal.line(console, text)
            terminal.say(text, text)
            check(capsys.readouterr().out, text)
        terminal.say("[bold]x[/] :smile:")
        Screen(width=400).print("[bold]x[/] :smile:")
        assert capsys.readouterr().out == "[bold]x[/] :smile:\n" * 2

    def test_a_terminal_gets_colours_of_ours_alone(self, capsys, monkeypatch) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        Screen(width=400).print("a\x1b[31mb", style="bold", highlight=False)
        assert capsys.readouterr().out == "\x1b[1ma\\x1b[31mb\x1b[0m\n"


def test_what_a_terminal_wraps_does_not_begin_a_line() -> None:
    for filler in ("x" * 79 + " ", "x" * 80, "word " * 15, " " * 80, "語" * 40):
        text = terminal.filled(f"NOT COVERED: {filler}{FORGED[0]}", 80, then="    ")
        for line in text.split("\n")[1:]:
            assert line.startswith("    ")


@given(
    words=st.lists(st.text("ab語ーｗ한-", min_size=1, max_size=8), max_size=30),
    columns=st.integers(20, 60),
    cut=st.booleans(),
)
def test_wide_letters_count_twice_and_no_word_is_lost(
    words: list[str], columns: int, cut: bool
) -> None:
    lines = filled(" ".join(words), columns, first="  ", then="    ", cut=cut).split("\n")
    assert all(cell_len(line) <= columns for line in lines)
    assert "".join("".join(lines).split()) == "".join(words)
    if not cut:
        assert " ".join(lines).split() == words


def test_what_libraries_tell_each_other_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (terminal.plain_warnings(), terminal.plain_warnings(Screen(width=400))):
        with shown:
            warnings.simplefilter("always")
            for kind in (DeprecationWarning, PendingDeprecationWarning, UserWarning):
                warnings.warn(f"of kind {kind.__name__}", kind, stacklevel=1)
        said = "".join(capsys.readouterr())
        assert "UserWarning" in said
        assert "kind DeprecationWarning" not in said
