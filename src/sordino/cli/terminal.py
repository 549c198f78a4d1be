"""The one way to a terminal: whatever a command prints goes through here, and is cleaned here.

Much of it is somebody else's: texts of a certificate or a study, names of columns and files, what a
user's function raised. Escapes, controls, marks that turn writing around, invisible letters and
line breaks inside a sentence come out as visible escapes, and no text is markup.
`tests/test_architecture.py` holds that no command prints in another way.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console

from sordino._files import reason
from sordino.errors import NotApplicable, Refused, filled, printable

if TYPE_CHECKING:
    from rich.text import Text

_Item = TypeVar("_Item")
_STAGE = 38
"""Columns for the words of a stage."""


class Screen(Console):
    """A Rich console: every text, in a table too, passes `render_str` and is cleaned there."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, markup=False, emoji=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """As Rich does it, of the cleaned text; markup and emoji are never on."""
        return super().render_str(printable(text), **{**how, "markup": False, "emoji": False})


def screen(pipe: int = 400) -> Screen:
    """Standard output for tables and wrapped text; `pipe` columns wide if it is no terminal."""
    console = Screen()
    return console if console.is_terminal else Screen(width=pipe)


def errors() -> Screen:
    """Standard error, where progress is shown, so that output can be piped."""
    return Screen(stderr=True)


def say(*lines: object, err: bool = False, hang: bool = False) -> None:
    """Print each as one line, whatever it holds.

    With `hang` a terminal gets what is too wide for it indented, so that nothing that follows a
    stranger's long text begins a line as a sentence of ours does.
    """
    with suppress(OSError) if err else nullcontext():  # then there is nobody to tell
        for each in lines:
            text = printable(each)
            stream = sys.stderr if err else sys.stdout
            if hang and stream is not None and stream.isatty():  # a shell can close it
                text = filled(text, max(shutil.get_terminal_size().columns, 20), then="    ")
            typer.echo(text, err=err)


def line(console: Screen, text: str) -> None:
    """Print a line whole, as written: a terminal wraps it, and a log wants it in one piece."""
    console.print(text, highlight=False, soft_wrap=True)


def block(text: str) -> None:
    """Print a text of ours in several lines, such as JSON, TOML or a page; it ends in one.

    Its line breaks are kept: whoever made it has escaped those that were inside a field.
    """
    typer.echo("\n".join(printable(each) for each in text.split("\n")), nl=False)


def print_json(document: Any) -> None:
    """Print JSON; an infinite number as 1e999, which every reader takes for infinity."""
    block(json.dumps(document, indent=2).replace("Infinity", "1e999") + "\n")


def ask(what: str, *, twice: bool = False) -> str:
    """Ask for a secret, on standard error."""
    text = typer.prompt(printable(what), hide_input=True, confirmation_prompt=twice, err=True)
    return str(text)


@contextmanager
def bar(words: str, console: Screen | None = None) -> Iterator[Callable[..., None]]:
    """A bar with the time left, if standard error is a terminal: call it (done, total).

    It takes `words=`, too: others than those it began with.
    """
    console = errors() if console is None else console
    if not console.is_terminal:
        yield lambda done, total, words="": None
        return
    from rich import progress as rich

    text = rich.TextColumn("{task.description}", markup=False)
    columns = text, rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn()
    with rich.Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(words, total=None)

        def show(done: int, total: int, words: str = words) -> None:
            progress.update(task, completed=done, total=total, description=words)

        yield show


def track(items: Sequence[_Item], words: str) -> Iterator[_Item]:
    """Each of the items, with a bar as in `bar`."""
    with bar(words) as show:
        for done, each in enumerate(items):
            show(done, len(items))
            yield each
        show(len(items), len(items))


class StageBars(ExitStack):
    """A bar for the stage that runs, if somebody watches; a line for each that is over.

    Use it as a context: no bar outlives it.
    """

    def __init__(self, console: Screen) -> None:
        super().__init__()
        self._console, self._words, self._total = console, "", 0.0

    def begin(self, stage: str, words: str) -> Callable[[int, int], None]:
        """A stage begins; call what is returned with (done, total)."""
        self._words = words
        return self.enter_context(bar(words, self._console))

    def end(self, stage: str, seconds: float, *, resumed: bool) -> None:
        """A stage is over."""
        self.close()
        self._total += 0.0 if resumed else seconds
        time = "done before" if resumed else f"{seconds:.1f} s"
        line(self._console, f"{self._words:{_STAGE}} {time}")
        if stage == "report":
            line(self._console, f"{'in all':{_STAGE}} {self._total:.1f} s")


@contextmanager
def busy(console: Screen, what: str) -> Iterator[None]:
    """Show that the program works, if somebody is watching."""
    with console.status(console.render_str(what)) if console.is_terminal else nullcontext():
        yield


@contextmanager
def plain_warnings(console: Screen | None = None) -> Iterator[None]:
    """Show warnings as one line on standard error, without the place in the code.

    With a `console` they stand above what moves there, also those that were shown before.
    """

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, DeprecationWarning):  # libraries tell each other
            return
        if console is None:
            say(f"Warning: {message}", err=True, hang=True)
        else:
            line(console, f"Warning: {message}")

    with warnings.catch_warnings():
        if console is not None:
            warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def add_note(what: str) -> Iterator[None]:
    """Say `what` is on the disk if what is printed from here on does not arrive."""
    try:
        yield
    except OSError as error:
        error.add_note(what)
        raise


def output_failure(error: OSError) -> str:
    """That standard output takes no more, and what is on the disk all the same; or nothing."""
    try:
        typer.echo()  # the error may have come from elsewhere
    except OSError as full:
        # Nor will it when Python ends, which would say so in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        text = f"The output could not be printed: {reason(full)}."
        return " ".join([text, *getattr(error, "__notes__", ())])
    return ""


@contextmanager
def resumable(how: Callable[[], str] = str) -> Iterator[None]:
    """At Ctrl-C say that it was stopped, what that cost, and `how` to resume: exit code 130."""
    try:
        yield
    except KeyboardInterrupt as stop:
        notes = getattr(stop, "__notes__", ())  # if a release was recorded
        say(" ".join(filter(None, ["Stopped.", *notes, how()])), err=True)
        raise typer.Exit(130) from None


@contextmanager
def wrong_input() -> Iterator[None]:
    """Records that cannot be used, and what is refused, are wrong input here: exit code 2."""
    try:
        yield
    except Exception as error:
        from sordino.data import DataError  # help and accounting do without the data room

        if not isinstance(error, DataError | NotApplicable | Refused):
            raise
        say(error, err=True)
        raise typer.Exit(2) from None
