"""`sordino`: the program. Commands live in the files beside this one.

Another package adds one by an entry point of the group `sordino.commands`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import extract_tb
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import sordino
from sordino import _cost
from sordino._files import reason
from sordino.cli import account, assess, audit, calibrate, certificate, data, ledger, measure
from sordino.cli.predict import predict
from sordino.cli.release import release
from sordino.cli.terminal import output_failure, plain_warnings, resumable, say
from sordino.errors import InvalidArgument, NotApplicable, Refused, printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "sordino.commands"
"""The entry points by which a package gives the program a command: a `typer.Typer` each."""


class _Commands(TyperGroup):
    """What every command shares: Ctrl-C, and what is wrong with the words that were typed.

    These are told without what they would do to a terminal: a name may be a stranger's, as in
    `sordino certificate verify *`.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Those of the program, then those that other packages give it."""
        names = super().list_commands(ctx)
        return [*names, *(name for name in sorted(_entry_points()) if name not in names)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """That command; another package is asked, and loaded, only for one that is not ours."""
        command = super().get_command(ctx, cmd_name)
        if command is not None or cmd_name not in (others := _entry_points()):
            return command
        return _load(others[cmd_name])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """However it was started (`python -m sordino`), its name is sordino."""
        return super().main(*args, **{**kwargs, "prog_name": "sordino"})

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _clean_usage(), resumable():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _clean_usage(), resumable():
            return super().invoke(ctx)


def _entry_points() -> dict[str, EntryPoint]:
    """Commands of other packages, by name."""
    from importlib.metadata import entry_points  # not for a command of ours

    return {each.name: each for each in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Any:
    """That command, or if its package cannot be loaded one that only says so."""
    try:
        return typer.main.get_command(entry.load())
    except Exception as error:
        why = f"{entry.value} cannot be loaded ({type(error).__name__}: {error})"

    broken = typer.Typer(add_completion=False)

    @broken.command(
        entry.name,
        help="Not usable here: call it to see why.",
        context_settings={"ignore_unknown_options": True},
    )
    def tell(_: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        say(f"sordino {entry.name} is not usable: {why}. Install its package again.", err=True)
        raise typer.Exit(1)

    return typer.main.get_command(broken)


@contextmanager
def _clean_usage() -> Iterator[None]:
    """Clean the text of wrong usage; of an option that does not exist, name the nearest."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "format_message"):  # Click's; Typer may bring a Click of its own
            raise
        about = vars(error)
        if "possibilities" in about and (context := about.get("ctx")) is not None:
            params = context.command.get_params(context)
            known = [name for each in params for name in each.opts if name.startswith("--")]
            typed = str(about.get("option_name", ""))
            stem = f"--{typed.lstrip('-').replace('_', '-')}"
            near = sorted((name for name in known if name.startswith(stem)), key=len)
            near = near or difflib.get_close_matches(stem, known, n=1)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            about.update(message=f"No such option: {typed}.{meant}", possibilities=None)
        about["message"] = printable(about.get("message", ""))
        raise


app = typer.Typer(
    cls=_Commands,
    name="sordino",
    no_args_is_help=True,
    add_completion=False,  # it would write to the shell's own files without asking
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("assess")(assess.assess)
app.command("report")(assess.report)
app.command("account")(account.account)
app.command("calibrate")(calibrate.calibrate)
app.command("release")(release)
app.command("predict")(predict)
for _room in (measure, audit, certificate, ledger, data):
    app.add_typer(_room.app, name=_room.__name__.rpartition(".")[2])


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """How private is the model I am about to release?

    sordino answers with three different numbers: **proved** epsilon (a theorem, an upper bound),
    **estimated** epsilon (SGD's own noise, measured; no guarantee) and **observed** epsilon (a
    lower bound won by an attack). `assess` does all of it and writes one page. The parts: `account`
    and `calibrate` prove, `release` releases (with `certificate` and `ledger` for its papers and
    its budget, `predict` for new rows), `measure` estimates, `audit` attacks, `reproduce` sets the
    papers' numbers beside ours.
    """
    if version:
        say(f"sordino {sordino.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the program; what the user can mend is one sentence on standard error.

    Exit code 2: an argument cannot be accepted. Exit code 1: data are missing or corrupt, a claim
    does not hold, a budget is spent.
    """
    try:
        with plain_warnings():
            app()
    except KeyboardInterrupt:
        say("Stopped.", err=True)
        sys.exit(130)
    except MemoryError:  # what could be counted beforehand was
        free = _cost.size(_cost.free_memory())
        say(f"Too little memory: {free} are free. Use fewer rows or columns.", err=True)
        sys.exit(2)
    except Exception as error:
        code, text = _refusal(error)
        if not text:
            sys.excepthook = _tell_fault
            raise
        say(text, err=True, hang=True)
        sys.exit(code)


def _refusal(error: Exception) -> tuple[int, str]:
    """Exit code and sentence; an empty one where it is a fault of the program."""
    if isinstance(error, InvalidArgument | NotApplicable):
        return 2, str(error)
    if isinstance(error, Refused):
        return 1, str(error)
    if isinstance(error, OSError):
        if error.filename:
            return 2, f"{error.filename} cannot be used: {reason(error)}."
        return 1, output_failure(error)
    from sordino.data import DataError  # help and accounting do without the data room

    return 1, str(error) if isinstance(error, DataError) else ""


def _tell_fault(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    """Where a fault of the program happened. Not its text: that may quote a record."""
    say(
        f"sordino failed ({kind.__name__}), and that is a fault of sordino.",
        "Its text is not shown, since it may hold a record. It happened here:",
        *(f"  {each.filename}:{each.lineno}, in {each.name}" for each in extract_tb(trace)),
        err=True,
    )
