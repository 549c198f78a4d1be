"""Strict JSON: a file that somebody sent is read to the letter, or refused with one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from typing import Any, NoReturn

from sordino._shown import printable
from sordino.privacy import Refused

MOST_BYTES = 32 * 2**20
"""A longer certificate is refused unread."""
MOST_DIGITS = 20
"""Of a whole number; 2^64 has as many, and none here is larger."""


class CertificateError(Refused):
    """A certificate, bundle or signature that does not hold up; one sentence says why."""

    def __init__(self, sentence: str) -> None:
        super().__init__(printable(sentence))


def parse(content: str | bytes) -> object:
    """The value that strict JSON stands for.

    Raises
    ------
    CertificateError
        For anything else: other text, a key given twice, a number that is none or is absurd.
    """
    if len(content) > MOST_BYTES:
        refuse(f"is larger than {MOST_BYTES // 2**20} MB, and no certificate is")
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_float,
            parse_int=_whole,
        )
    except UnicodeDecodeError:
        refuse("is not a text in UTF-8")
    except RecursionError:
        refuse("is nested too deeply")
    except json.JSONDecodeError as error:
        whole = error.doc.rstrip().endswith("}") and error.pos < len(error.doc.rstrip())
        cut = "" if whole else "; it seems to be cut short"
        refuse(f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}{cut}")


def refuse(why: str) -> NoReturn:
    """Raise a `CertificateError` that says "The certificate `why`."."""
    raise CertificateError(f"The certificate {why}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            refuse(f"has the key {_short(name)} twice")
        values[name] = value
    return values


def _no_number(text: str) -> NoReturn:
    refuse(f"holds {text}, which is not a number")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        refuse(f"holds the number {_short(text)}, which is too large")
    return number


def _whole(text: str) -> int:
    if len(text.lstrip("-")) > MOST_DIGITS:
        refuse(f"holds the number {_short(text)}, which is too large")
    return int(text)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Fields:
    """The fields of one JSON object: exactly those named, each asked for by its type.

    Parameters
    ----------
    values
        What was read.
    where
        The object's place in the file, for sentences; empty for the whole of it.
    names
        The keys it must have; no other is allowed.
    """

    def __init__(self, values: object, where: str, names: Collection[str]) -> None:
        self._where = where
        if not isinstance(values, dict):
            refuse(f"has {_kind(values)} instead of an object{self._at()}")
        for name in names:
            if name not in values:
                refuse(f"has no {self._path(name)}")
        for name in values:
            if name not in names:
                refuse(f"has an unknown key {_short(name)}{self._at()}")
        self._values = values

    def any(self, name: str) -> Any:
        """The value as it is."""
        return self._values[name]

    def text(self, name: str) -> str:
        """A text."""
        return str(self._of(name, str, "a text"))

    def text_or_none(self, name: str) -> str | None:
        """A text, or null."""
        return None if self._values[name] is None else self.text(name)

    def flag(self, name: str) -> bool:
        """True or false."""
        return bool(self._of(name, bool, "true or false"))

    def whole(self, name: str) -> int:
        """A whole number."""
        return int(self._of(name, int, "a whole number"))

    def number(self, name: str) -> float:
        """A number."""
        value = self._values[name]
        if isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        return float(self._of(name, float, "a number"))

    def items(self, name: str) -> tuple[Any, ...]:
        """A list."""
        return tuple(self._of(name, list, "a list"))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        for item in (items := self.items(name)):
            if not isinstance(item, str):
                refuse(f"has {_kind(item)} instead of a text in {self._path(name)}")
        return items

    def table(self, name: str) -> dict[str, str]:
        """An object that holds texts."""
        for item in (values := self._of(name, dict, "an object")).values():
            if not isinstance(item, str):
                refuse(f"has {_kind(item)} instead of a text in {self._path(name)}")
        return dict(values)

    def object(self, name: str) -> dict[str, Any]:
        """An object that holds anything."""
        return dict(self._of(name, dict, "an object"))

    def _of(self, name: str, kind: type, called: str) -> Any:
        value = self._values[name]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            refuse(f"has {_kind(value)} instead of {called} for {self._path(name)}")
        return value

    def _path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def _at(self) -> str:
        return f" in {self._where}" if self._where else ""


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", type(None): "null"}
    return names.get(type(value), f"the value {_short(value)}")
