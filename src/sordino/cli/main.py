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
from sordino.cli import (
    account,
    assess,
    audit,
    calibrate,
    certificate,
    data,
    ledger,
    measure,
    measure_show,
    release,
)
from sordino.cli.terminal import plain_warnings, say, stopped, unprinted
from sordino.errors import InvalidArgument, NotApplicable, Refused, printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "sordino.commands"
"""The entry points by which a package gives the program a command: a `typer.Typer` each."""


class _Commands(TyperGroup):
    """What every command shares: what is wrong with the words that were typed, and Ctrl-C.

    They are told without what they would do to a terminal: a name may be a stranger's, as in
    `sordino certificate verify *`.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Those of the program, then those that other packages give it."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in sorted(_given()) if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """That command; another package is asked, and loaded, only for one that is not ours."""
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in (given := _given()):
            return own
        return _loaded(given[cmd_name])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """However it was started (`python -m sordino`), it is called by its name."""
        return super().main(*args, **{**kwargs, "prog_name": "sordino"})

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _cleaned():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _cleaned():
            return super().invoke(ctx)


def _given() -> dict[str, EntryPoint]:
    """Commands of other packages, by name."""
    from importlib.metadata import entry_points  # not for a command of ours

    return {each.name: each for each in entry_points(group=GROUP)}


def _loaded(given: EntryPoint) -> Any:
    """That command, or if its package cannot be loaded one that only says so."""
    try:
        return typer.main.get_command(given.load())
    except Exception as error:
        why = f"{given.value} cannot be loaded ({type(error).__name__}: {error})"

    broken = typer.Typer(add_completion=False)

    @broken.command(
        given.name,
        help="Not usable here: call it to see why.",
        context_settings={"ignore_unknown_options": True},
    )
    def tell(_: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        say(f"sordino {given.name} is not usable: {why}. Install its package again.", err=True)
        raise typer.Exit(1)

    return typer.main.get_command(broken)


@contextmanager
def _cleaned() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as stop:
        # Here, since versions of Typer differ in what they make of it.
        say(stopped(stop), err=True)
        raise typer.Exit(130) from None
    except Exception as error:
        if hasattr(error, "format_message"):  # Click's; Typer may bring a Click of its own
            if "possibilities" in vars(error):
                _tell_near_options(error)
            vars(error)["message"] = printable(vars(error).get("message", ""))
        raise


def _tell_near_options(error: Exception) -> None:
    """Of an option that does not exist: those that begin so, or else those spelled like it."""
    context, typed = vars(error).get("ctx"), str(vars(error).get("option_name", ""))
    if context is None:
        return
    options = context.command.get_params(context)
    known = [name for each in options for name in each.opts if name.startswith("--")]
    stem = f"--{typed.lstrip('-').replace('_', '-')}"
    near = sorted((name for name in known if name.startswith(stem)), key=len)
    near = near or difflib.get_close_matches(stem, known, n=1)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    vars(error).update(message=f"No such option: {typed}.{meant}", possibilities=None)


app = typer.Typer(
    cls=_Commands,
    name="sordino",
    no_args_is_help=True,
    add_completion=False,  # it would write to the shell's own files without asking
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=(
        "How private is the model I am about to release?\n\n"
        "sordino trains, proves, measures and attacks, and says three different numbers: "
        "**proved** epsilon (a theorem, an upper bound), **estimated** epsilon (SGD's own "
        "noise, measured; no guarantee) and **observed** epsilon (a lower bound won by an attack). "
        "`assess` does all of it and writes one page. The parts: `account` and `calibrate` prove, "
        "`release` releases (with `certificate` and `ledger` for its papers and its budget), "
        "`measure` estimates, `audit` attacks, `reproduce` sets the papers' numbers beside ours."
    ),
)
app.command("assess")(assess.assess)
app.command("report")(assess.report)
app.command("account")(account.account)
app.command("calibrate")(calibrate.calibrate)
app.command("release")(release.release)
measure.app.command("show")(measure_show.show)
app.add_typer(measure.app, name="measure")
app.add_typer(audit.app, name="audit")
app.add_typer(certificate.app, name="certificate")
app.add_typer(ledger.app, name="ledger")
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
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
    except (InvalidArgument, NotApplicable) as error:
        say(error, err=True, hang=True)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        say(stopped(stop), err=True)
        sys.exit(130)
    except Refused as error:
        say(error, err=True, hang=True)
        sys.exit(1)
    except MemoryError:  # what could be counted beforehand was
        free = _cost.size(_cost.free_memory())
        say(f"There was not enough memory: {free} are free. Use fewer rows or columns.", err=True)
        sys.exit(2)
    except Exception as error:
        if isinstance(error, OSError) and (said := _unusable(error) or unprinted(error)):
            say(said, err=True, hang=True)
            sys.exit(1 if error.filename is None else 2)
        # Loaded only now: help and accounting do without the data room.
        from sordino.data import DataError

        if isinstance(error, DataError):
            say(error, err=True, hang=True)
            sys.exit(1)
        sys.excepthook = _tell_fault
        raise


def _unusable(error: OSError) -> str:
    """What the system says of a path, where nobody has said it better; or nothing."""
    return f"{error.filename} cannot be used: {reason(error)}." if error.filename else ""


def _tell_fault(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    """Where a fault of the program happened. Not its text: that may quote a record."""
    say(
        f"sordino failed ({kind.__name__}), and that is a fault of sordino.",
        "The text of the fault is not shown, since it may hold a record. It happened here:",
        *(f"  {each.filename}:{each.lineno}, in {each.name}" for each in extract_tb(trace)),
        err=True,
    )
