"""What somebody new types: near misses, -h, Ctrl-C, a table with an id; and what they are told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer.main

from sordino.audit import game
from sordino.cli.main import app
from sordino.cli.terminal import screen
from sordino.data.catalogue import recipes


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the tree with the words that lead to it."""
    yield words, command
    if hasattr(command, "list_commands"):  # and not `commands`: other packages give some
        for name in command.list_commands(None):
            yield from _commands(command.get_command(None, name), (*words, name))


ROOT = typer.main.get_command(app)
TREE = dict(_commands(ROOT))


def _options(command: Any) -> set[str]:
    return {name for each in command.params for name in each.opts if name.startswith("--")}


def test_the_tree_is_seen() -> None:
    assert ("audit", "power") in TREE
    assert ("measure", "show") in TREE
    assert "--noise-multiplier" in _options(TREE["account",])


def _refused(*arguments: str) -> str:
    """Why the program refuses these words, as the box that it prints has it."""
    with pytest.raises(Exception, match="No such option") as error:
        ROOT.main(list(arguments), standalone_mode=False)
    return str(error.value.format_message())  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", TREE, ids=" ".join)
def test_every_option_is_found_by_every_beginning_of_it(words: tuple[str, ...]) -> None:
    known = {*_options(TREE[words]), "--help"}
    for option in sorted(known):
        for length in range(3, len(option)):
            typed = option[:length]
            if typed in known:
                continue
            said, _, offered = _refused(*words, typed, "1").partition(" Did you mean ")
            assert said == f"No such option: {typed}."
            meant = {each for each in known if each.startswith(typed)}
            assert set(offered.removesuffix("?").split(" or ")) == meant
        spelled = f"--{option[2:].replace('-', '_')}"
        if spelled != option:
            assert f"Did you mean {option}" in _refused(*words, spelled, "1")


def test_a_near_miss_is_told_and_exits_2(program) -> None:
    for typed, meant in (("--noise", "--noise-multiplier"), ("--dleta", "--delta")):
        code, out, err = program("account", typed, 1)
        assert (code, out) == (2, "")
        assert f"No such option: {typed}. Did you mean {meant}?" in err


@pytest.mark.parametrize("words", TREE, ids=" ".join)
def test_h_is_help_everywhere(words, program) -> None:
    code, out, err = program(*words, "-h")
    assert (code, err) == (0, "")
    assert out == program(*words, "--help")[1]
    assert f"Usage: {' '.join(('sordino', *words))}" in out
    assert "completion" not in out


def test_the_package_runs_as_a_module(program) -> None:
    command = [sys.executable, "-m", "sordino", "--version"]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True)
    assert (done.returncode, done.stdout, done.stderr) == program("--version")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """An id, a person with three rows, a date, a postcode, missing values, a label."""
    rng, rows = np.random.default_rng(0), 600
    day = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), "D")
    frame = pd.DataFrame(
        {
            "id": [f"R{i:05d}" for i in range(rows)],
            "patient": [f"P{i // 3:04d}" for i in range(rows)],
            "visit": day.strftime("%Y-%m-%d"),
            "postcode": rng.choice([f"{i:05d}" for i in rng.integers(1000, 90_000, 20)], rows),
            "age": np.where(rng.random(rows) < 0.1, "", rng.integers(18, 95, rows).astype(str)),
            "sex": rng.choice(["F", "M", ""], rows),
            "ill": rng.integers(0, 2, rows),
        }
    )
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_list_of_datasets_fits(width: int, program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SORDINO_DATA", raising=False)
    monkeypatch.setenv("SORDINO_CACHE", "/nowhere")
    monkeypatch.setattr("sordino.cli.data.screen", lambda: screen(width))  # no terminal here
    code, out, _ = program("data", "list")
    assert code == 0
    *table, _ = out.rstrip().splitlines()  # the sentence below it is left whole in a pipe
    assert max(map(len, table)) <= width
    assert "…" not in out
    for name in recipes.names():
        (line,) = (line for line in table if line.split()[:1] == [name])
        assert {"missing", "embedded"} & {*line.split()}


@pytest.mark.parametrize("runs", [16, 50, 1001])
def test_an_audit_says_first_what_its_runs_can_show(runs, program, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"mine{runs}.py").write_text(
        "def train(data, generator):\n    return data[0].mean(axis=0)\n"
    )
    options = ("--data", "breast-cancer", "--epsilon", 0.01, "--runs", runs, "--workers", 1)
    code, out, _ = program("audit", f"mine{runs}.py:train", *options)
    assert code in (0, 1)
    (said,) = (line for line in out.splitlines() if " can show at most epsilon " in line)
    most = float(said.split("can show at most epsilon ")[1].split()[0])
    assert said.startswith(f"{runs:,} runs a dataset, half of them tested,")
    assert out.index(said) < out.index("observed epsilon")
    ceiling = game.ceiling(runs - runs // 2, delta=1e-5, confidence=0.99)
    assert ceiling <= most <= ceiling * 1.01
    shown = float(out.split("> >= ")[1].split()[0])  # no noise at all: as much as could be shown
    assert 0.95 * most - 0.01 <= shown <= most


def _reading(path: Path, directory: Path) -> dict[str, tuple[object, ...]]:
    """Every command that reads a table."""
    data = ("--data", path, "--target", "ill")
    return {
        "describe": ("data", "describe", path, "--target", "ill"),
        "release": ("release", *data, "--epsilon", 1, "--out", directory / "model"),
        "assess": ("assess", *data, "--quick", "--out", directory / "study"),
        "measure": ("measure", *data, "--out", directory / "grid"),
        "audit": ("audit", *data, "--epsilon", 1),
    }


def test_a_refused_column_says_what_to_type_and_that_works(program, people, tmp_path) -> None:
    command = f"sordino data describe {people} --target ill"
    for name, arguments in _reading(people, tmp_path).items():
        if name != "describe":
            code, _, err = program(*arguments)
            assert code in (1, 2), name
            assert f"Draft one: `{command} > columns.toml`" in err, name
            assert "--columns columns.toml" in err, name
    code, out, err = program(*command.split()[1:])
    assert code == 0
    assert "--max-rows-per-person K" in err
    columns = tmp_path / "columns.toml"
    columns.write_text(out.replace("read_from_data = true\n", ""))
    options = ("--data", people, "--columns", columns, "--epsilon", 1)
    code, out, err = program("release", *options, "--max-rows-per-person", 3, "--dry-run")
    assert (code, err) == (0, "")


def test_a_column_refused_in_spite_of_a_description_names_that_file(program, people, tmp_path):
    columns = tmp_path / "mine.toml"
    columns.write_text('target = "ill"\n[columns.age]\nbounds = [0, 120]\n')
    options = ("--data", people, "--columns", columns, "--epsilon", 1)
    code, _, err = program("release", *options, "--dry-run")
    assert code == 1
    assert f"(ignore = true). That file is {columns}.\n" in err


def test_describing_without_a_target_says_the_whole_command(program, people) -> None:
    code, _, err = program("data", "describe", people)
    assert code == 2
    assert f"`sordino data describe {people} --target COLUMN > columns.toml`" in err


@pytest.mark.parametrize("name", _reading(Path(), Path()))
def test_ctrl_c_while_a_table_is_read_is_one_line_and_exit_130(
    name: str, program, people, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pandas does it: the parser takes what its source raises for a table that is broken."""

    def interrupted(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise pd.errors.ParserError("Calling read(nbytes) on source failed.") from None

    monkeypatch.setattr(pd, "read_csv", interrupted)
    code, out, err = program(*_reading(people, tmp_path)[name])
    assert (code, out) == (130, "")
    assert err.startswith("Stopped.")
    assert err.count("\n") == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_ctrl_c_at_any_moment_of_a_long_table(tmp_path: Path) -> None:
    """The real parser, and the real signal."""
    path = tmp_path / "long.csv"
    rng = np.random.default_rng(0)
    part = pd.DataFrame({"ill": rng.integers(0, 2, 50_000), "x": rng.random(50_000)})
    part.to_csv(path, index=False)
    records = path.read_bytes().partition(b"\n")[2]
    with path.open("ab") as file:
        for _ in range(60):
            file.write(records)
    program = (
        "import os, signal, threading\n"
        "import pandas\n"
        "whole, pressed = pandas.read_csv, []\n"
        "def read_csv(*a, **k):\n"
        "    stop = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "    if not pressed:\n"  # a table is read in several calls, and Ctrl-C is pressed once
        "        pressed.append(True)\n"
        "        threading.Timer(float(os.environ['AFTER']), stop).start()\n"
        "    return whole(*a, **k)\n"
        "pandas.read_csv = read_csv\n"
        "from sordino.cli.main import main\n"
        "main()\n"
    )
    arguments = ("data", "describe", str(path), "--target", "ill")
    for after in (0.01, 0.1, 0.3):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, "AFTER": str(after)},
            capture_output=True,
            timeout=120,
            text=True,
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n"), after
