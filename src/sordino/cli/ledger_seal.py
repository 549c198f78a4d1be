"""`sordino ledger head`, `verify` and `reseal`: whether a ledger is all that it was."""

from __future__ import annotations

from typing import Annotated

import typer

from sordino.cli.terminal import say

File = Annotated[str, typer.Argument(metavar="FILE", help="The ledger, a file on a local disk.")]


def head(file: File) -> None:
    """Print what stands for all that was ever written to a ledger: note it where it is safe.

    `verify --head` tells later whether the ledger went on from there: the one way to notice an
    older copy of the ledger *and* its seal. It says how many rows there are, and nothing else.

    `sordino ledger head ledger.db`
    """
    from sordino.mechanisms.ledger import Ledger, LedgerError

    found = Ledger.verify(file)
    if found is None:
        hint = "The next release adds one, or `sordino ledger reseal` now."
        raise LedgerError(
            f"Expected ledger={file} to have a seal; an older sordino made it. {hint}"
        )
    say(str(found))


def verify(
    file: File,
    noted: Annotated[
        str | None,
        typer.Option("--head", metavar="HEAD", help="As `sordino ledger head` printed it once."),
    ] = None,
) -> None:
    """Check every row of a ledger against its seal, and against a head that was noted elsewhere.

    Exit code 1 if rows are missing or were changed.

    `sordino ledger verify ledger.db --head 12:5f0c...`
    """
    from sordino.mechanisms.ledger import Head, Ledger

    found = Ledger.verify(file, None if noted is None else Head.parsed(noted))
    if found is None:
        say("Every row is as it was written. An older sordino made it: it has no seal yet.")
        return
    say(f"Every row is as it was written and sealed; the head is {found}.")
    if noted is None:
        say("An older copy of the ledger and its seal would look the same: pass a noted --head.")
    else:
        say("It went on from the head that was noted.")


def reseal(file: File) -> None:
    """Take a ledger as it is, that lost its seal or is an older copy; the ledger says so for ever.

    For a ledger restored from a backup, when nothing newer is left. Record again, with `spend`,
    what was released since: else it is spent twice.

    `sordino ledger reseal ledger.db`
    """
    from sordino.mechanisms.ledger import Ledger

    done = Ledger.reseal(file)
    if done is None:
        say(f"{file} is in order under its seal; nothing was changed.")
    else:
        say(f"{file} has a new seal, and its history a row: {done.note}.")
