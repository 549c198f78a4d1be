"""A group of commands with one that needs no name: `sordino audit THING` and `audit power`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

RUN = "run"
"""The command that is meant where none is named."""


class AuditGroup(TyperGroup):
    """What is no subcommand is an argument or an option of `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` first where the first word is neither a subcommand nor --help."""
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [RUN, *args]
        return super().parse_args(ctx, args)
