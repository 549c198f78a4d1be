"""The program as a shell sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from sordino.cli import main as entry
from sordino.errors import InvalidArgument

Program = Callable[..., tuple[int, str, str]]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Run the program with arguments: its exit code, standard output and standard error."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def program(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sordino", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            entry.main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return program


@pytest.fixture
def refused(program: Program, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run the program, which must refuse an argument in one sentence: the argument's name."""
    raised: list[Exception] = []
    tell = entry._refusal

    def refusal(error: Exception) -> tuple[int, str]:
        raised.append(error)
        return tell(error)

    monkeypatch.setattr(entry, "_refusal", refusal)

    def refused(*arguments: object) -> str:
        code, out, err = program(*arguments)
        assert (code, out) == (2, ""), err
        lines = [each for each in err.splitlines() if not each.startswith("Warning: ")]
        assert len(lines) == 1, err
        assert isinstance(raised[-1], InvalidArgument)
        return raised[-1].argument

    return refused
