"""The program as a shell sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from sordino.cli.main import main

Program = Callable[..., tuple[int, str, str]]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Run the program with arguments: its exit code, standard output and standard error."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def program(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sordino", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return program
