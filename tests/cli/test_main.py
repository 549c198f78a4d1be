from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest
import typer
from typer.testing import CliRunner

import sordino
from sordino.cli import main
from sordino.data import DataError
from sordino.errors import InvalidArgument


def _run(*arguments: str) -> tuple[int, str, str]:
    # A wide terminal without colour, so that no sentence is broken over lines.
    result = CliRunner().invoke(main.app, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})
    return result.exit_code, result.stdout, result.stderr


def test_help_tells_the_three_numbers_apart() -> None:
    code, out, err = _run("--help")
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "How private is the model I am about to release?" in said
    assert "proved epsilon (a theorem, an upper bound)" in said
    assert "estimated epsilon (SGD's own noise, measured; no guarantee)" in said
    assert "observed epsilon (a lower bound won by an attack)" in said


class _Given:
    """An entry point of somebody's package."""

    name, value = "theirs", "their.package:app"

    def __init__(self, loaded: typer.Typer | None = None) -> None:
        self.loaded = loaded

    def load(self) -> typer.Typer:
        if self.loaded is None:
            raise ImportError("No module named 'their\x1b'")
        return self.loaded


def _give(monkeypatch: pytest.MonkeyPatch, given: _Given) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda group: [given] * (group == main.GROUP))


def test_another_package_gives_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = typer.Typer(add_completion=False)

    @theirs.command()
    def account(word: str) -> None:
        """What they do."""
        typer.echo(f"they say {word}")

    _give(monkeypatch, _Given(theirs))
    assert "What they do." in _run("--help")[1]
    assert _run("theirs", "hello") == (0, "they say hello\n", "")
    assert _run("their", "hello")[0] == 2


def test_a_package_that_cannot_be_loaded_spoils_only_its_own_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _give(monkeypatch, _Given())
    code, out, err = _run("--help")
    assert (code, err) == (0, "")
    assert "Not usable here" in out
    assert _run("--version")[0] == 0
    for arguments in ((), ("all", "--quick", "--out", "x")):
        code, out, err = _run("theirs", *arguments)
        assert (code, out) == (1, "")
        assert err == (
            "sordino theirs is not usable: their.package:app cannot be loaded "
            "(ImportError: No module named 'their\\x1b'). Install its package again.\n"
        )


def test_no_command_of_ours_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    given = _Given()
    given.name = "account"
    _give(monkeypatch, given)
    assert _run("account", "--help")[0] == 0
    assert "Not usable here" not in _run("--help")[1]


def test_no_arguments_shows_the_help_as_a_usage_error() -> None:
    code, out, err = _run()
    assert code == 2
    assert "How private is the model I am about to release?" in out + err


def test_version_is_printed_alone() -> None:
    assert _run("--version") == (0, f"sordino {sordino.__version__}\n", "")
    assert _run("--version", "data", "list") == (0, f"sordino {sordino.__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("nonsense",), "No such command 'nonsense'."),
        (("--nonsense",), "No such option: --nonsense"),
    ],
)
def test_a_usage_error_exits_2_and_keeps_standard_output_clean(
    arguments: tuple[str, ...], complaint: str
) -> None:
    code, out, err = _run(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err


@pytest.mark.parametrize(
    ("error", "code"), [(InvalidArgument("Expected x=1 > 2."), 2), (DataError("It is gone."), 1)]
)
def test_what_the_user_can_mend_is_one_sentence(
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def failing() -> None:
        raise error

    monkeypatch.setattr(main, "app", failing)
    with pytest.raises(SystemExit) as stop:
        main.main()
    assert stop.value.code == code
    assert capsys.readouterr() == ("", f"{error}\n")


def test_a_fault_of_the_program_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing() -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(main, "app", failing)
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    with pytest.raises(ValueError, match="a bug") as fault:
        main.main()
    # Its place is told, its text is not: it may quote a record.
    sys.excepthook(ValueError, fault.value, fault.tb)
    out, err = capsys.readouterr()
    assert out == ""
    assert "sordino failed (ValueError)" in err
    assert f"{__file__}:" in err
    assert "a bug" not in err


def test_the_program_exits_with_the_code_of_its_command() -> None:
    program = "from sordino.cli.main import main; main()"
    codes = [
        subprocess.run(
            [sys.executable, "-c", program, argument], capture_output=True, timeout=60, check=False
        ).returncode
        for argument in ("--version", "nonsense")
    ]
    assert codes == [0, 2]


def test_the_installed_program_is_this_one() -> None:
    try:
        distribution = metadata.distribution("sordino")
    except metadata.PackageNotFoundError:
        pytest.skip("sordino is on the path but not installed")
    (script,) = (e for e in distribution.entry_points if e.group == "console_scripts")
    assert (script.name, script.value) == ("sordino", "sordino.cli.main:main")
    assert distribution.version == sordino.__version__
