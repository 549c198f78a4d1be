"""`study.json`: what a study is of, in canonical JSON whose hash is its address."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino import _files, checks, serialize
from sordino.errors import InvalidArgument
from sordino.study.files import explained, refuse
from sordino.study.layout import Layout

NAME = "study.json"
UNCHANGED = "Pass another directory."
_SCHEMA, _VERSION = "sordino-study", 1
"""Of all files of a study; one with a higher number was written by a newer sordino."""
_RESTORE = f"Restore {NAME}, or delete it and run the same command: cells are kept."
_SHOWN = 3
_NOTHING = object()


@dataclass(frozen=True)
class Document:
    """The content of a `study.json`; `text` is the description as canonical JSON."""

    text: str
    layout: Layout

    @classmethod
    def of(cls, description: Mapping[str, Any], layout: Layout) -> Document:
        """Write down a description: plain JSON values only, refused with the key's path."""
        if not isinstance(description, Mapping):
            checks.fail("description", type(description).__name__, "to be a mapping")
        if not isinstance(layout, Layout):
            checks.fail("layout", type(layout).__name__, "to be a Layout", "Use Layout.cut.")
        with serialize.refusing("study", InvalidArgument):
            plain = serialize.Tree().write({"description": description})
        return cls(serialize.canonical(plain["description"]), layout)

    @classmethod
    def read(cls, directory: Path) -> Document | None:
        """The `study.json` of a directory; None if it has none, `StudyError` if it is damaged."""
        with explained(directory, "read"):
            try:
                content = _files.read(directory / NAME)
            except FileNotFoundError:
                return None
        hint = _RESTORE
        try:
            plain = serialize.parse(content)
            hint = UNCHANGED
            plain, hint = serialize.headed(plain, _SCHEMA, _VERSION), _RESTORE
            document = cls.of(plain["description"], Layout.from_plain(plain["layout"]))
        except serialize.Unfit as unfit:
            refuse(directory, f"to be a study, and its {NAME} {unfit.says}", hint)
        except (KeyError, TypeError, InvalidArgument) as error:
            refuse(directory, f"to be as written, and {NAME} lacks {_short(str(error))}", hint)
        if not content.isascii() or json.loads(document.encode()) != plain:
            refuse(directory, f"to be as written, and {NAME} was changed", hint)
        return document

    @property
    def description(self) -> dict[str, Any]:
        """A copy of it, the caller's own."""
        loaded: dict[str, Any] = json.loads(self.text)
        return loaded

    @property
    def address(self) -> str:
        """SHA-256 of everything else, in hexadecimal."""
        return hashlib.sha256(serialize.canonical(self._content()).encode("ascii")).hexdigest()

    def encode(self) -> bytes:
        """The bytes of the file, for people to read as well."""
        content = {**self._content(), "address": self.address}
        return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode("ascii")

    def _content(self) -> dict[str, Any]:
        head = {"schema": _SCHEMA, "version": _VERSION}
        return {**head, "description": self.description, "layout": self.layout.to_plain()}

    def check_same(self, directory: Path, wanted: Document) -> None:
        """Refuse a study that is not the one wanted, and name the difference."""
        here, there = wanted._content(), self._content()
        clauses = [
            clause
            for part in ("description", "layout")
            for clause in _differences(part, there[part], here[part])
        ]
        if clauses:
            more = len(clauses) - _SHOWN
            rest = f"; and {more} more" if more > 0 else ""
            condition = f"to be of what is asked for, and {'; '.join(clauses[:_SHOWN])}{rest}"
            refuse(directory, condition, UNCHANGED)


def _differences(path: str, there: Any, here: Any) -> Iterator[str]:
    """Yield a clause for everything in which a study differs from what is asked for."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in dict.fromkeys((*there, *here)):  # labels before the edges that follow them
            values = there.get(key, _NOTHING), here.get(key, _NOTHING)
            yield from _differences(f"{path}.{key}", *values)
    elif isinstance(there, list) and isinstance(here, list):
        if len(there) != len(here):
            yield f"{path} has {len(there)} entries there and {len(here)} here"
            return
        pairs = enumerate(zip(there, here, strict=True))
        clauses = (each for place, two in pairs for each in _differences(f"{path}[{place}]", *two))
        yield from [clause for clause in [next(clauses, "")] if clause]  # one is enough
    elif there != here or isinstance(there, bool) != isinstance(here, bool):
        shown = (
            "absent" if v is _NOTHING else _short(serialize.canonical(v)) for v in (there, here)
        )
        yield "{} is {} there and {} here".format(path, *shown)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
