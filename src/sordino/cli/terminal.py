"""The one way to a terminal: whatever a command prints goes through here, and is cleaned here.

Much of it is somebody else's: texts of a certificate or a study, names of columns and files, what a
foreign mechanism raised. What a terminal would act on (escapes, controls, marks that turn writing
around), what nobody sees, and line breaks inside a sentence come out as visible escapes, and none
of it is markup. `tests/test_architecture.py` holds that no command prints in another way.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import typer

from sordino._files import reason
from sordino._shown import filled, printable

if TYPE_CHECKING:
    from rich.progress import TextColumn

    from sordino.cli.screen import Screen

PIPE = 400
"""A pipe has no width: lines are left whole, for grep and people's logs."""


def say(*lines: object, err: bool = False, hang: bool = False) -> None:
    """Print each as one line, whatever it holds.

    With `hang` a terminal gets what is too wide for it indented, so that nothing that follows a
    stranger's long text begins a line as a sentence of ours does.
    """
    with suppress(OSError) if err else nullcontext():  # then there is nobody to tell
        for each in lines:
            text = printable(each)
            stream = sys.stderr if err else sys.stdout
            watched = stream is not None and stream.isatty()  # a shell can close it
            typer.echo(_hanging(text) if hang and watched else text, err=err)


def _hanging(text: str) -> str:
    return filled(text, max(shutil.get_terminal_size().columns, 20), then="    ")


def block(text: str) -> None:
    """Print a text of ours in several lines, such as JSON, TOML or a page; it ends in one.

    Its line breaks are kept: whoever made it has escaped those that were inside a field.
    """
    typer.echo("\n".join(printable(each) for each in text.split("\n")), nl=False)


def ask(what: str, *, twice: bool = False) -> str:
    """Ask for a secret, on standard error."""
    asked = typer.prompt(printable(what), hide_input=True, confirmation_prompt=twice, err=True)
    return str(asked)


def screen(pipe: int = PIPE) -> Screen:
    """Standard output for tables and wrapped text; `pipe` columns wide if it is no terminal."""
    from sordino.cli.screen import Screen

    found = Screen()
    return found if found.is_terminal else Screen(width=pipe)


def errors() -> Screen:
    """Where progress is shown: standard error, so that output can be piped."""
    from sordino.cli.screen import Screen

    return Screen(stderr=True)


def line(console: Screen, text: str) -> None:
    """Print a line whole, as written: a terminal wraps it, and a log wants it in one piece."""
    console.print(text, highlight=False, soft_wrap=True)


def words_of_bar() -> TextColumn:
    """The column of a progress bar that says what goes on."""
    from rich.progress import TextColumn

    return TextColumn("{task.description}", markup=False)


@contextmanager
def busy(console: Screen, what: str) -> Iterator[None]:
    """Show that something goes on, if somebody is watching."""
    with console.status(console.render_str(what)) if console.is_terminal else nullcontext():
        yield


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as one line on standard error, without the place in the code."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not issubclass(category, DeprecationWarning):  # libraries tell each other
            say(f"Warning: {message}", err=True, hang=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextmanager
def short_warnings(console: Screen) -> Iterator[None]:
    """Show each warning, also one that was shown before, as one line above what moves."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not issubclass(category, DeprecationWarning):
            line(console, f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def kept(what: str) -> Iterator[None]:
    """Say `what` is on the disk if what is printed from here on does not arrive."""
    try:
        yield
    except OSError as error:
        error.add_note(what)
        raise


def unprinted(error: OSError) -> str:
    """That standard output takes no more, and what is kept all the same; or nothing."""
    try:
        typer.echo()  # the error may have come from elsewhere
    except OSError as full:
        # Nor will it when Python ends, which would say so in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        said = f"The output could not be printed: {reason(full)}."
        return " ".join([said, *getattr(error, "__notes__", ())])
    return ""


def stopped(stop: KeyboardInterrupt) -> str:
    """That it was stopped, and what that cost if a release was recorded."""
    return " ".join(["Stopped.", *getattr(stop, "__notes__", ())])
