"""`study.json`: what a study is of, in canonical JSON whose hash is its address."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from sordino import _files, checks
from sordino.errors import InvalidArgument
from sordino.serialize import Tree, Unfit, canonical, parse, refusing
from sordino.study.layout import Layout
from sordino.study.refusal import explained, refuse

NAME = "study.json"
SCHEMA = "sordino-study"
VERSION = 1
"""Of all files of a study; one with a higher number was written by a newer sordino."""

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
        with refusing("study", InvalidArgument):
            plain = Tree().write({"description": description})
        return cls(canonical(plain["description"]), layout)

    @property
    def description(self) -> dict[str, Any]:
        """A copy of it, the caller's own."""
        loaded: dict[str, Any] = json.loads(self.text)
        return loaded

    @property
    def address(self) -> str:
        """SHA-256 of everything else, in hexadecimal."""
        return hashlib.sha256(canonical(self._content()).encode("ascii")).hexdigest()

    def encode(self) -> bytes:
        """The bytes of the file, for people to read as well."""
        content = {**self._content(), "address": self.address}
        return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode("ascii")

    def _content(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "description": self.description,
            "layout": self.layout.to_plain(),
        }

    def check_same(self, directory: Path, wanted: Document) -> None:
        """Refuse a study that is not the one wanted, and name the difference."""
        here, there = wanted._content(), self._content()
        found = [
            each
            for part in ("description", "layout")
            for each in _differences(part, there[part], here[part])
        ]
        if found:
            more = len(found) - _SHOWN
            rest = f"; and {more} more" if more > 0 else ""
            hint = "Pass the settings it was made with, or another directory."
            shown = "; ".join(found[:_SHOWN])
            refuse(directory, f"to be of what is asked for, and {shown}{rest}", hint)


def read(directory: Path) -> Document | None:
    """Read the `study.json` of a directory; None if it has none, `StudyError` if it is damaged."""
    with explained(directory, "read"):
        try:
            content = _files.read(directory / NAME)
        except FileNotFoundError:
            return None
    try:
        plain = parse(content)
    except Unfit as unfit:
        _damaged(directory, f"{NAME} {unfit.says}")
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        hint = "Pass another directory; this one was not changed."
        refuse(directory, f"to be a study of sordino, and its {NAME} is something else", hint)
    version = plain.get("version")
    if isinstance(version, int) and version > VERSION:
        condition = f"to have version {VERSION}, and it has version {version}"
        refuse(directory, condition, "A newer sordino wrote it; update sordino.")
    try:
        document = Document.of(plain["description"], Layout.from_plain(plain["layout"]))
    except (KeyError, TypeError, InvalidArgument) as error:
        _damaged(directory, f"{NAME} lacks something ({_short(str(error))})")
    if not content.isascii() or json.loads(document.encode()) != plain:
        _damaged(directory, f"{NAME} was changed")
    return document


def _damaged(directory: Path, what: str) -> NoReturn:
    hint = (
        f"Restore {NAME} from a copy, or delete that one file and run the same command again: "
        "finished cells are kept."
    )
    refuse(directory, f"to be as it was written, and {what}", hint)


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
        for place, (one, other) in pairs:
            first = next(_differences(f"{path}[{place}]", one, other), None)
            if first is not None:  # of many numbers that differ, one is enough
                yield first
                return
    elif there != here or isinstance(there, bool) != isinstance(here, bool):
        yield f"{path} is {_shown(there)} there and {_shown(here)} here"


def _shown(value: object) -> str:
    return "absent" if value is _NOTHING else _short(canonical(value))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
