"""Every command that reads a table, on damaged tables full of a private text: it stays inside."""

from __future__ import annotations

import logging
import random
import sys
import warnings
from pathlib import Path

import pytest
from damaged import NUMBERS, WORDS, damaged_file, leaked

from sordino.cli.main import main

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")

PUBLIC = """\
target = "ill"
classes = ["no", "yes"]
[columns.age]
bounds = [0, 120]
[columns.name]
levels = ["Smith", "Jones"]
[columns.code]
ignore = true
"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys, caplog: pytest.LogCaptureFixture):
    """Run the program: its output, and all else that somebody would see of it."""
    monkeypatch.setenv("COLUMNS", "200")
    caplog.set_level(logging.DEBUG)

    def run(*arguments: object) -> tuple[str, str]:
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
        return out, f"{err}\n{caplog.text}"

    return run


def _commands(path: Path, directory: Path, *, whole: bool = False) -> dict[str, tuple[object, ...]]:
    """Every command; unless `whole`, a good table is refused as well, once it is read."""
    data = ("--data", path, "--target", "ill")
    one = ("--data", path, "--target", "yes")  # a class, in a file without header
    (directory / "public.toml").write_text(PUBLIC)
    public = ("--data", path, "--columns", directory / "public.toml")
    steps = ("--seeds", 2, "--neighbours", 1, "--steps", 2, "--checkpoints", 1, "--init", "vary")
    batch, runs = (2, 40) if whole else (10**6, 1)
    return {
        "describe": ("data", "describe", path, "--target", "ill"),
        "release": ("release", *data, "--epsilon", 1, "--dry-run"),
        "release, described": ("release", *public, "--epsilon", 1, "--dry-run"),
        "release, counted": ("release", *public, "--person", "code", "--epsilon", 1, "--dry-run"),
        "release, counted names": (
            "release",
            *data,
            "--person",
            "name",
            "--epsilon",
            1,
            "--dry-run",
        ),
        "release one": ("release", *one, "--epsilon", 1, "--out", directory / "one"),
        "assess": ("assess", *data, "--quick", "--out", directory / "assessed"),
        "assess, described": ("assess", *public, "--quick", "--out", directory / "described"),
        "measure": ("measure", *data, *steps, "--batch-size", batch, "--out", directory / "study"),
        "audit": ("audit", *data, "--epsilon", 1, "--runs", runs, "--workers", 1),
    }


def _check(told, seed: int, directory: Path, *, whole: bool = False) -> None:
    place = directory / str(seed)
    place.mkdir()
    path = damaged_file(random.Random(seed), place, most=40)  # too few for a whole assessment
    for name, arguments in _commands(path, place, whole=whole).items():
        out, err = told(*arguments)
        assert not leaked(err if name == "describe" else out + err), (seed, name)
        assert "fault of sordino" not in err, (seed, name)
        if name == "describe" and out:
            assert "READ FROM THE DATA" in out
            draft = place / "draft.toml"
            draft.write_text(out)
            drafted = ("--columns", draft, "--epsilon", 1, "--dry-run")
            assert not leaked(*told("release", "--data", path, *drafted)), (seed, "draft")
    assert not leaked(*(each.relative_to(place) for each in place.rglob("*")))


def test_no_command_tells_a_cell_of_a_damaged_table(told, tmp_path: Path) -> None:
    for seed in range(5):
        _check(told, seed, tmp_path)


@pytest.mark.slow
def test_no_command_tells_a_cell_of_hundreds_of_damaged_tables(told, tmp_path: Path) -> None:
    for seed in range(1000, 1050):
        _check(told, seed, tmp_path, whole=seed % 10 == 0)


def test_the_first_line_of_a_file_is_told_by_nobody(told, tmp_path: Path) -> None:
    """The two that were found: an open quote in the header, and no header at all."""
    records = "".join(f"{WORDS[0]}{i},{NUMBERS[0]},{'ny'[i % 2]}\n" for i in range(40))
    for first in ('name,"code,ill\n', ""):
        path = tmp_path / "people.csv"
        path.write_text(first + records)
        for name, arguments in _commands(path, tmp_path).items():
            out, err = told(*arguments)
            assert out == "", name
            assert not leaked(err)
            why = "a quote left open" if first else "seems to have no header"
            assert why in err, name


@pytest.mark.slow
def test_a_whole_assessment_of_private_words(told, tmp_path: Path) -> None:
    """Nothing is damaged here: columns are read off the rows, and so are the labels."""
    lines = [f"{73195 + i % 17},{WORDS[i % 3]},{WORDS[i % 2]}" for i in range(90)]
    path = tmp_path / "people.csv"
    path.write_text("\n".join(["age,name,ill", *lines, ""]))
    commands = {
        **_commands(path, tmp_path, whole=True),
        "released": ("release", "--data", path, "--target", "ill", "--epsilon", 1, "--out"),
    }
    commands["released"] += (tmp_path / "model",)
    for name, arguments in commands.items():
        out, err = told(*arguments)
        assert not leaked(err if name == "describe" else out + err), name
    assert (tmp_path / "model" / "certificate.json").exists()
    assert (tmp_path / "assessed" / "report.html").exists()
    assert not leaked(*(each.relative_to(tmp_path) for each in tmp_path.rglob("*")))
