"""`sordino`: the program. Commands live in the files beside this one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import sordino
from sordino._check import InvalidArgument
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
from sordino.privacy import NotApplicable, Refused

app = typer.Typer(
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
        typer.echo(f"sordino {sordino.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the program; what the user can mend is one sentence on standard error.

    Exit code 2: an argument cannot be accepted. Exit code 1: data are missing or corrupt, a claim
    does not hold, a budget is spent.
    """
    try:
        app()
    except (InvalidArgument, NotApplicable) as error:
        typer.echo(str(error), err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("Stopped.", err=True)
        sys.exit(130)
    except Refused as error:
        typer.echo(str(error), err=True)
        sys.exit(1)
    except Exception as error:
        _exit_if_data_error(error)
        raise


def _exit_if_data_error(error: Exception) -> None:
    # Loaded only now: help and accounting do without the data room.
    from sordino.data import DataError

    if isinstance(error, DataError):
        typer.echo(str(error), err=True)
        sys.exit(1)
