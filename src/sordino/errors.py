"""Errors and warnings that any room may raise, and what their text may show.

Names of columns and files, texts of a certificate and what a foreign function raises are somebody
else's. A line break in one could forge a sentence of ours, a control character erase a line, and a
mark for writing from right to left turn a sentence around.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class InvalidArgument(ValueError):
    """An argument that no computation here can accept; nothing was changed.

    Parameters
    ----------
    message
        What is wrong, and what to do.
    argument
        Name of the argument, for programs; empty where several together are wrong.
    """

    def __init__(self, message: str, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class NotApplicable(Exception):
    """A theorem that does not cover what was asked; its text names the condition that fails.

    It also says what would satisfy the condition. Raised instead of a number, never beside one.
    """


class Refused(Exception):
    """A claim, a file or a release that does not hold up; its text is one sentence that says why.

    Nothing left the building. The program exits with 1; arguments that nobody could accept are
    `InvalidArgument`, and 2.
    """


class PrivacyLeakWarning(UserWarning):
    """Something was taken from the data, or repeated, that a guarantee needs kept from it."""


# Letters and marks, by their category, that nobody sees: fillers, joiners and blanks.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")


def printable(text: object, most: int | None = None) -> str:
    """`text` on one line, with what a terminal acts on or a reader does not see as an escape.

    Parameters
    ----------
    text
        Anything; its `str` is shown.
    most
        Letters after which it is cut short.
    """
    whole = str(text)
    if most is not None and len(whole) > most:
        whole = whole[: most - 3] + "..."
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(
        letter if _seen(letter) else letter.encode("unicode_escape").decode("ascii")
        for letter in whole
    )


def _seen(letter: str) -> bool:
    spaces = unicodedata.category(letter) == "Zs"  # wide and narrow ones
    return (letter.isprintable() or spaces) and letter not in _UNSEEN


def filled(text: str, columns: int, *, first: str = "", then: str = "", cut: bool = True) -> str:
    """What `printable` gave, in lines so wide that a terminal shows them whole.

    Parameters
    ----------
    columns
        Places of a line; a letter as wide as high (Chinese, Japanese, Korean) takes two.
    first, then
        Stand before the first line and before the others.
    cut
        Whether a word that is too long is cut.
    """
    # A second place that no printable text holds, taken out again.
    placed = "".join(
        f"{each}\0" if unicodedata.east_asian_width(each) in "WF" else each for each in text
    )
    lines = textwrap.fill(
        placed,
        columns,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=cut,
        break_on_hyphens=False,  # an option broken at one cannot be copied
    )
    return lines.replace("\0", "")


@contextmanager
def without_cells(failure: Callable[[Exception], Exception]) -> Iterator[None]:
    """Raise what is not ours anew, without its text and without a trace of what caused it.

    Libraries quote what they stumble over ("could not convert string to float: 'Smith'"), and what
    they are given here is private. Sentences of this package name rows and columns, never a cell,
    and pass; whatever they were made of does not.

    Parameters
    ----------
    failure
        Makes the exception that is raised instead of the one it is given.
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "sordino":
            raise error from None
        raise failure(error) from None
