"""`sordino`: the program. Commands live in the files beside this one."""

from __future__ import annotations

from typing import Annotated

import typer

import sordino

app = typer.Typer(
    name="sordino",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help=(
        "How private is the model I am about to release?\n\n"
        "sordino trains, proves, measures and attacks, and says three different numbers: "
        "**proved** epsilon (a theorem, an upper bound), **estimated** epsilon (SGD's own "
        "noise, measured; no guarantee) and **observed** epsilon (a lower bound won by an attack)."
    ),
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        typer.echo(f"sordino {sordino.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the program; a failed check is one sentence on standard error, exit code 2."""
    app()
