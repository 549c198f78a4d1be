"""Warnings and remarks as single lines on standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def short_warnings(console: Console) -> Iterator[None]:
    """Show each warning as one line on standard error, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        line(console, f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def line(console: Console, text: str) -> None:
    """Print a line whole, as written: a terminal wraps it, and a log wants it in one piece."""
    console.print(text, highlight=False, markup=False, emoji=False, soft_wrap=True)


def stopped(stop: KeyboardInterrupt) -> str:
    """That it was stopped, and what that cost if a release was recorded."""
    return " ".join(["Stopped.", *getattr(stop, "__notes__", ())])
