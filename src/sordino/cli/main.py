"""`sordino`: the program. Commands live in the files beside this one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import extract_tb
from types import TracebackType
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import sordino
from sordino import _cost
from sordino._check import InvalidArgument
from sordino._shown import printable
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
    report,
    reproduce,
)
from sordino.cli.terminal import plain_warnings, say
from sordino.privacy import NotApplicable, Refused


class _Commands(TyperGroup):
    """What is wrong with the words that were typed, told without what they would do to a terminal.

    A name may be a stranger's: `sordino certificate verify *`.
    """

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _cleaned():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _cleaned():
            return super().invoke(ctx)


@contextmanager
def _cleaned() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # Click's; Typer may bring a Click of its own
            vars(error)["message"] = printable(vars(error).get("message", ""))
        raise


app = typer.Typer(
    cls=_Commands,
    name="sordino",
    no_args_is_help=True,
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
app.command("report")(report.report)
app.command("account")(account.account)
app.command("calibrate")(calibrate.calibrate)
app.command("release")(release.release)
measure.app.command("show")(measure_show.show)
app.add_typer(measure.app, name="measure")
app.add_typer(audit.app, name="audit")
app.add_typer(certificate.app, name="certificate")
app.add_typer(ledger.app, name="ledger")
app.add_typer(data.app, name="data")
app.command("reproduce")(reproduce.reproduce)


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
    except KeyboardInterrupt:
        say("Stopped.", err=True)
        sys.exit(130)
    except Refused as error:
        say(error, err=True, hang=True)
        sys.exit(1)
    except MemoryError:  # what could be counted beforehand was
        free = _cost.size(_cost.free_memory())
        say(f"There was not enough memory: {free} are free. Use fewer rows or columns.", err=True)
        sys.exit(2)
    except Exception as error:
        # Loaded only now: help and accounting do without the data room.
        from sordino.data import DataError

        if isinstance(error, DataError):
            say(error, err=True, hang=True)
            sys.exit(1)
        sys.excepthook = _tell_fault
        raise


def _tell_fault(kind: type[BaseException], _: BaseException, trace: TracebackType | None) -> None:
    """Where a fault of the program happened. Not its text: that may quote a record."""
    say(
        f"sordino failed ({kind.__name__}), and that is a fault of sordino.",
        "The text of the fault is not shown, since it may hold a record. It happened here:",
        *(f"  {each.filename}:{each.lineno}, in {each.name}" for each in extract_tb(trace)),
        err=True,
    )
