"""The one codec: values as plain ones for JSON or TOML, and back to the letter, or refused.

A `Form` writes and reads one kind of value. `Forms.of` makes it from a type hint (numbers, texts,
literals, enums, tuples, mappings, optionals, dataclasses of these); a file format whose names must
outlive those of the classes spells its `RecordForm`s out. Whatever is read may be somebody else's:
an unknown key, one that is missing or stands twice, a value of another type, a number that is
none and nesting without end are `Unfit`, which names the place and never quotes a text that may be
a record's; `refusing` makes it an error of the room. Numbers keep every digit, infinity is "inf".
A field of a dataclass whose metadata has "added" may be lacking: documents of earlier versions
have its default; where that is `UNLESS_DEFAULT`, the default is not written either. Equal values
give equal bytes, for what is written is signed and chained.

Why no library (measured in 2026, Python 3.11): importing msgspec takes 60 ms, pydantic 90 (250
with its first model), cattrs 100, and json 15, which is loaded anyway; `sordino --help` would pay
for it. msgspec 0.22 and pydantic 2.14 take the last of two equal keys, ignore unknown keys unless
told to forbid them, and round 2^53 + 1 for a float; pydantic also reads NaN and 1e999, and cattrs
26 makes 1.7 an int and "no" a true. All of that would have to be checked around them, with one
sentence a mistake, "inf", conditions on numbers and names of a file that are not those of a class;
what is left for the library is a walk over type hints, which is short.
"""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import enum
import functools
import inspect
import json
import math
import re
import types
import typing
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NoReturn, Union

from sordino.errors import InvalidArgument, printable

_INFINITE = "inf"
_INFINITE_SETTING = {"number": _INFINITE}
"""Infinity where a text may stand as well, and "inf" would be one."""
UNLESS_DEFAULT = "unless it is the default"
"""As a field's "added": what earlier versions wrote is written again as it was."""
_MOST_DIGITS = 40
"""Of a whole number: 2^128 has 39, and nothing here is larger."""

Schema = dict[str, Any]
_NULL = {"type": "null"}


class Unfit(Exception):
    """What cannot be written or read; `path` is the place, "" for the whole."""

    def __init__(self, path: str, says: str) -> None:
        super().__init__(path, says)
        self.path, self.says = path, says

    def sentence(self, noun: str) -> str:
        """The same of a document that is called `noun`."""
        whose = f"The {noun}'s {self.path}" if self.path else f"The {noun}"
        return printable(f"{whose} {self.says}".rstrip(".") + ".")


@contextmanager
def refusing(noun: str, error: Callable[[str], Exception]) -> Iterator[None]:
    """Raise `error` with one sentence for what is unfit; `noun` is what the document is."""
    try:
        yield
    except Unfit as unfit:
        raise error(unfit.sentence(noun)) from None
    except RecursionError:
        raise error(f"The {noun} is nested too deeply.") from None


class Where(NamedTuple):
    """Where a value stands: its path, and how many tagged values are around it."""

    path: str = ""
    depth: int = 0

    def key(self, name: object) -> Where:
        """The place of a key."""
        return Where(f"{self.path}.{name}" if self.path else str(name), self.depth)

    def entry(self, number: int) -> Where:
        """The place of an entry of a list."""
        return Where(f"{self.path}[{number}]", self.depth)

    def refuse(self, says: str) -> NoReturn:
        """Raise `Unfit`."""
        raise Unfit(self.path, says)


_WHOLE_DOCUMENT = Where()


class Form(ABC):
    """How one kind of value is written, and read again; forms call each other with the place."""

    def read(self, value: object) -> Any:
        """The value that a plain one stands for; else `Unfit`."""
        return self._read(value, _WHOLE_DOCUMENT)

    def write(self, value: object) -> Any:
        """The plain value; what could not be read again is `Unfit`."""
        return self._write(value, _WHOLE_DOCUMENT)

    def schema(self, used: dict[str, Schema]) -> Schema:
        """As JSON Schema; what it refers to is added to `used`."""
        return self._schema(used)

    @abstractmethod
    def _read(self, value: Any, place: Where) -> Any: ...

    def _write(self, value: Any, place: Where) -> Any:
        return self._read(_own(value), place)

    def _schema(self, used: dict[str, Schema]) -> Schema:
        raise TypeError(f"nobody said what {self} looks like")


# --- Forms of single values


class _Anything(Form):
    """What is checked elsewhere."""

    def _read(self, value: Any, place: Where) -> Any:
        return value


@dataclass(frozen=True)
class _Exactly(Form):
    """A value of one type, called `said` in sentences and `name` in a schema."""

    kind: type
    said: str
    name: str

    def _read(self, value: Any, place: Where) -> Any:
        if type(value) is not self.kind:
            place.refuse(f"is {describe(value)}, and no {self.said}")
        return value

    def _schema(self, used: dict[str, Schema]) -> Schema:
        return {"type": self.name}


@dataclass(frozen=True)
class Whole(_Exactly):
    """A whole number within bounds; True is none."""

    kind: type = int
    said: str = "whole number"
    name: str = "integer"
    least: float = -math.inf
    most: float = math.inf

    def _read(self, value: Any, place: Where) -> Any:
        if not self.least <= super()._read(value, place) <= self.most:
            place.refuse(f"is {describe(value)}, and not from {self.least} to {self.most}")
        return value


@dataclass(frozen=True)
class Number(Form):
    """A float that satisfies a condition; a whole number stands for one, unless that rounds it.

    Parameters
    ----------
    condition, holds
        In words and as code.
    infinite
        Whether it may be infinite.
    as_given
        Whether a whole number stays one.
    digits
        Significant digits that are kept; None is all of them.
    """

    condition: str = ""
    holds: Callable[[float], bool] = lambda number: True
    infinite: bool = True
    as_given: bool = False
    digits: int | None = None

    def _read(self, value: Any, place: Where) -> Any:
        if self.infinite and type(value) is str and value == _INFINITE:
            value = math.inf
        elif type(value) not in (int, float) or not _is_finite(value):
            place.refuse(f"is {describe(value)}, and no number")
        if not self.holds(value):
            place.refuse(f"is {describe(value)}, and not {self.condition}")
        if self.digits is not None:
            return float(f"{value:.{self.digits}g}")
        return value if self.as_given else float(value)

    def _write(self, value: Any, place: Where) -> Any:
        given = _own(value)
        if type(given) is str:  # "inf" stands for a number in a file only
            place.refuse("is a text, and no number")
        number = self._read(_INFINITE if given == math.inf else given, place)
        return _INFINITE if number == math.inf else number

    def _schema(self, used: dict[str, Schema]) -> Schema:
        said = f'A number. Infinity is written "{_INFINITE}"; there is no NaN.'
        both = [{"type": "number"}, {"const": _INFINITE}]
        return _refer("number", used, {"description": said, "anyOf": both})


@dataclass(frozen=True)
class _OneOf(Form):
    """One of a few values; pairs of how it is written and what is meant."""

    pairs: tuple[tuple[Any, Any], ...]

    def _read(self, value: Any, place: Where) -> Any:
        # By type as well: True is 1, and 1.0 is.
        meant = [m for plain, m in self.pairs if type(plain) is type(value) and plain == value]
        if not meant:
            given = _quoted(value) if isinstance(value, str) else describe(value)
            place.refuse(f"is {given}, and none of {', '.join(str(p) for p, _ in self.pairs)}")
        return meant[0]

    def _write(self, value: Any, place: Where) -> Any:
        return _OneOf(tuple((meant, plain) for plain, meant in self.pairs))._read(value, place)

    def _schema(self, used: dict[str, Schema]) -> Schema:
        values = [plain for plain, _ in self.pairs]
        is_enum = isinstance(self.pairs[0][1], enum.Enum)
        return {"const": values[0]} if len(values) == 1 and not is_enum else {"enum": values}


@dataclass(frozen=True)
class SettingForm(Form):
    """A text, number or truth, or none of them: the type it has is the type it keeps."""

    null: bool = True
    infinite: bool = True

    def _read(self, value: Any, place: Where) -> Any:
        if self.infinite and value == _INFINITE_SETTING:
            return math.inf
        plain = type(value) in (str, bool, int) or (value is None and self.null)
        if not plain and not (type(value) is float and math.isfinite(value)):
            place.refuse(
                f"is {describe(value)}, and no text, number, truth{' or null' * self.null}"
            )
        return value

    def _write(self, value: Any, place: Where) -> Any:
        given = _own(value)
        if isinstance(given, float) and given == math.inf and self.infinite:
            return dict(_INFINITE_SETTING)
        return self._read(given if given != _INFINITE_SETTING else [], place)

    def _schema(self, used: dict[str, Schema]) -> Schema:
        said = f"A setting. An infinite one is {json.dumps(_INFINITE_SETTING)}."
        kinds = {"type": ["string", "number", "boolean", "null"]}
        both = [kinds, {"const": _INFINITE_SETTING}]
        return _refer("plain", used, {"description": said, "anyOf": both})


TEXT = _Exactly(str, "text", "string")
FLAG = _Exactly(bool, "truth (true or false)", "boolean")


# --- Forms that hold others


@dataclass(frozen=True)
class Maybe(Form):
    """A value, or null."""

    form: Form

    def _read(self, value: Any, place: Where) -> Any:
        return None if value is None else self.form._read(value, place)

    def _write(self, value: Any, place: Where) -> Any:
        return None if value is None else self.form._write(value, place)

    def _schema(self, used: dict[str, Schema]) -> Schema:
        return {"anyOf": [self.form._schema(used), _NULL]}


@dataclass(frozen=True)
class RowForm(Form):
    """A list with one form for each entry; a tuple here."""

    forms: tuple[Form, ...]

    def _read(self, value: Any, place: Where) -> Any:
        entries = self._entries(value, place, type(value) is list)
        return tuple(form._read(each, inside) for form, each, inside in entries)

    def _write(self, value: Any, place: Where) -> Any:
        entries = self._entries(value, place, isinstance(value, list | tuple))
        return [form._write(each, inside) for form, each, inside in entries]

    def _entries(self, value: Any, place: Where, good: bool) -> Iterator[tuple[Form, Any, Where]]:
        if not good:
            place.refuse(f"is {describe(value)}, and no list")
        for number, (form, each) in enumerate(zip(self._forms(value, place), value, strict=True)):
            yield form, each, place.entry(number)

    def _forms(self, value: Collection[Any], place: Where) -> Collection[Form]:
        if len(value) != len(self.forms):
            place.refuse(f"has {len(value)} entries, and not {len(self.forms)}")
        return self.forms

    def _schema(self, used: dict[str, Schema]) -> Schema:
        places = [form._schema(used) for form in self.forms]
        return {"type": "array", "prefixItems": places, "items": False, "minItems": len(places)}


@dataclass(frozen=True)
class _Listed(RowForm):
    """A list of any length, or of `most` entries at most, with one form (`forms[0]`) for all."""

    most: float = math.inf

    def _forms(self, value: Collection[Any], place: Where) -> Collection[Form]:
        if len(value) > self.most:
            place.refuse(f"has {len(value):,} entries, and at most {self.most:,} are read")
        return self.forms * len(value)

    def _schema(self, used: dict[str, Schema]) -> Schema:
        return {"type": "array", "items": self.forms[0]._schema(used)}


def listed(form: Form, most: float = math.inf) -> _Listed:
    """A list of such values."""
    return _Listed((form,), most)


@dataclass(frozen=True)
class _TableForm(Form):
    """An object with any names for keys."""

    form: Form

    def _read(self, value: Any, place: Where) -> Any:
        return _each(value, place, self.form._read)

    def _write(self, value: Any, place: Where) -> Any:
        return _each(value, place, self.form._write)

    def _schema(self, used: dict[str, Schema]) -> Schema:
        return {"type": "object", "additionalProperties": self.form._schema(used)}


@dataclass(frozen=True)
class Tree(Form):
    """Settings, lists and objects of these, as deep as one likes; lists become `many`."""

    many: type = list

    def _read(self, value: Any, place: Where) -> Any:
        value = _own(value)
        if isinstance(value, list | tuple):
            items = enumerate(value)
            return self.many(self._read(each, place.entry(number)) for number, each in items)
        if isinstance(value, Mapping):
            return _each(value, place, self._read)
        return SettingForm(infinite=False)._read(value, place)


@dataclass(frozen=True)
class RecordForm(Form):
    """A dataclass as an object with exactly these keys.

    Parameters
    ----------
    of
        The class; a subclass of it is something else.
    fields
        The keys in the file with their forms.
    attributes
        The attribute of each key that is not called like it.
    check
        What must hold of the fields together; raises `InvalidArgument`.
    derived
        Keys whose values follow from the others: written, and compared when read.
    may_lack
        Keys that earlier versions did not write.
    unwritten
        Values of some of them that are not written, so that what earlier versions wrote is
        written as it was.
    """

    of: type
    fields: Mapping[str, Form]
    attributes: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Any], None] = lambda made: None
    derived: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    may_lack: Collection[str] = ()
    unwritten: Mapping[str, Any] = field(default_factory=dict)

    def _read(self, value: Any, place: Where) -> Any:
        check_keys(value, (*self.fields, *self.derived), place, may_lack=self.may_lack)
        parts = {
            self.attributes.get(name, name): form._read(value[name], place.key(name))
            for name, form in self.fields.items()
            if name in value
        }
        made = self._checked(lambda: self.of(**parts), place)
        for name, follows in self.derived.items():
            if value[name] != follows(made):
                place.key(name).refuse("is something else than follows from the rest")
        return made

    def _write(self, value: Any, place: Where) -> Any:
        if type(value) is not self.of:
            place.refuse(f"is {describe(value)}, and no {self.of.__name__}")
        plain = {
            name: form._write(getattr(value, self.attributes.get(name, name)), place.key(name))
            for name, form in self.fields.items()
            if name not in self.unwritten or getattr(value, name) != self.unwritten[name]
        }
        self._checked(lambda: value, place)
        return {**plain, **{name: follows(value) for name, follows in self.derived.items()}}

    def _checked(self, make: Callable[[], Any], place: Where) -> Any:
        try:
            made = make()
            self.check(made)
        except InvalidArgument as error:
            place.refuse(f"cannot be right. {error}")
        return made

    def properties(self, used: dict[str, Schema]) -> Schema:
        """What a schema says of each key, with the words of the class's docstring."""
        said = _parameters(self.of)
        return {
            name: ({"description": said[name]} if name in said else {}) | form._schema(used)
            for name, form in self.fields.items()
        }

    def _schema(self, used: dict[str, Schema]) -> Schema:
        name = self.of.__name__
        if name not in used:
            inside = closed(self.properties(used), self.may_lack)
            used[name] = {"description": summary(self.of), **inside}
        return _refer(name, used)


@dataclass(frozen=True)
class Tagged(Form):
    """One of several classes, told by the key "kind"; at most `deepest` inside each other."""

    kinds: Mapping[str, RecordForm]
    deepest: float = math.inf

    def _read(self, value: Any, place: Where) -> Any:
        inside = _each(value, place, lambda each, _: each)
        if "kind" not in inside:
            place.refuse("has no 'kind'")
        kind = _OneOf(tuple(self.kinds.items()))._read(inside.pop("kind"), place.key("kind"))
        return kind._read(inside, self._inside(place))

    def _write(self, value: Any, place: Where) -> Any:
        names = [name for name, kind in self.kinds.items() if type(value) is kind.of]
        if not names:
            place.refuse(f"is {describe(value)}, and not of a kind that can be recorded")
        return {"kind": names[0], **self.kinds[names[0]]._write(value, self._inside(place))}

    def _inside(self, place: Where) -> Where:
        if place.depth > self.deepest:
            raise Unfit("", f"is nested more than {self.deepest} deep; compose in one list")
        return Where(place.path, place.depth + (self.deepest < math.inf))


# --- Forms of types


class Forms:
    """The forms of type hints, each made once.

    Parameters
    ----------
    special
        The forms of hints that are not to have their usual one.
    by_hand
        Whether people write the files: then every field that has a default may be lacking.
    """

    def __init__(self, special: Mapping[Any, Form] | None = None, *, by_hand: bool = False) -> None:
        self._by_hand = by_hand
        usual: dict[Any, Form] = {str: TEXT, bool: FLAG, int: Whole(), float: Number()}
        self._known = {**usual, Any: _Anything(), **(special or {})}

    def of(self, hint: Any) -> Form:
        """The form of a type hint."""
        if hint not in self._known:
            self._known[hint] = self._made(hint)
        return self._known[hint]

    def record(self, cls: type, **more: Any) -> RecordForm:
        """The form of a dataclass, with what else a `RecordForm` can have."""
        fields = {name: self.of(hint) for name, hint in fields_of(cls).items()}
        parts = dataclasses.fields(cls)
        added = {each.name: each for each in parts if "added" in each.metadata}
        by_hand = {each.name for each in parts if self._by_hand and _has_default(each)}
        unwritten = {
            name: each.default
            for name, each in added.items()
            if each.metadata["added"] == UNLESS_DEFAULT
        }
        lacking = frozenset({*added, *by_hand})
        return RecordForm(cls, fields, may_lack=lacking, unwritten=unwritten, **more)

    def _made(self, hint: Any) -> Form:
        origin, inside = typing.get_origin(hint), typing.get_args(hint)
        if origin in (Union, types.UnionType):
            named = [each for each in inside if each is not types.NoneType]
            optional = len(named) < len(inside)
            return Maybe(self.of(named[0])) if len(named) == 1 else SettingForm(null=optional)
        if origin is Literal:
            return _OneOf(tuple((each, each) for each in inside))
        if origin is tuple and inside[-1] is Ellipsis:
            return listed(self.of(inside[0]))
        if origin is tuple:
            return RowForm(tuple(map(self.of, inside)))
        if origin is not None and issubclass(origin, Mapping):
            return _TableForm(self.of(inside[1]))
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self.record(hint)
        if isinstance(hint, type) and issubclass(hint, enum.Enum):
            return _OneOf(tuple((each.value, each) for each in hint))
        raise TypeError(f"nobody said how to write {hint} down")


def _has_default(part: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return part.default is not missing or part.default_factory is not missing


@functools.cache
def fields_of(cls: type) -> dict[str, Any]:
    """Type of every field of a dataclass, by name, in its order."""
    hints = typing.get_type_hints(cls)
    return {each.name: hints[each.name] for each in dataclasses.fields(cls)}


def check_keys(
    value: object, names: Collection[str], place: Where, *, may_lack: Collection[str] = ()
) -> None:
    """Refuse anything but an object with exactly these keys, or all but some of `may_lack`."""
    if not isinstance(value, dict):
        place.refuse(f"is {describe(value)}, and no object with {', '.join(names)}")
    for name in value:
        if name not in names:
            near = difflib.get_close_matches(str(name), list(names), n=1)
            meant = f"; did you mean {near[0]}" if near else ""
            place.refuse(f"has {_quoted(name)}, which is no part of it{meant}")
    for name in names:
        if name not in value and name not in may_lack:
            place.refuse(f"has no {name!r}")


def _each(value: object, place: Where, act: Callable[[Any, Where], Any]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        place.refuse(f"is {describe(value)}, and no object")
    for name in value:
        if not isinstance(name, str):
            place.refuse(f"has the key {_quoted(name)}, which is no text")
    return {name: act(each, place.key(name)) for name, each in value.items()}


def _own(value: Any) -> Any:
    """Python's own value for numpy's, which need not be loaded for that, or an enum's text.

    An array without axes is no number: `len` is a method of arrays, and not of numpy's numbers.
    """
    if isinstance(value, str):
        return str.__str__(value)
    without_axes = hasattr(value, "__len__") and not getattr(value, "ndim", 1)
    return value.tolist() if hasattr(value, "tolist") and not without_axes else value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value) and float(value) == value
    except OverflowError:
        return False


def describe(value: object) -> str:
    """A value in a sentence: a number or truth itself, of all else what it is."""
    names = {dict: "an object", list: "a list", str: "a text", types.NoneType: "null"}
    if type(value) is int and abs(value) >= 10**_MOST_DIGITS:
        return "too large"
    if type(value) in (bool, int, float):
        return repr(value)
    return names.get(type(value), f"of type {type(value).__name__}")


def _quoted(name: object) -> str:
    """Somebody else's name or key: short, and nothing that a terminal would act on."""
    text = ascii(name)
    return text if len(text) <= 60 else text[:57] + "..."


# --- JSON


def parse(content: str | bytes, most: int | None = None) -> Any:
    """The value that strict JSON, of `most` bytes, stands for; else `Unfit`."""
    whole = _WHOLE_DOCUMENT
    if most is not None and len(content) > most:
        whole.refuse(f"is larger than {most // 2**20} MB, and none is")
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        kinds = ("constant", "float", "int")
        hooks: dict[str, Any] = {f"parse_{kind}": _number for kind in kinds}
        return json.loads(text, object_pairs_hook=_once, **hooks)
    except UnicodeDecodeError:
        whole.refuse("is not a text in UTF-8")
    except RecursionError:
        whole.refuse("is nested too deeply")
    except json.JSONDecodeError as error:
        read = error.doc.rstrip()
        cut = "" if read.endswith("}") and error.pos < len(read) else "; it seems to be cut short"
        whole.refuse(f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}{cut}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        counted = Counter(name for name, _ in pairs)  # one pass: there may be a million of them
        twice = next(name for name, many in counted.items() if many > 1)
        _WHOLE_DOCUMENT.refuse(f"has the key {_quoted(twice)} twice")
    return values


def _number(text: str) -> float:
    if text in ("NaN", "Infinity", "-Infinity"):
        _WHOLE_DOCUMENT.refuse(f"holds {text}, which is not a number")
    whole = text.removeprefix("-").isdigit()
    if len(text) > _MOST_DIGITS if whole else math.isinf(float(text)):
        _WHOLE_DOCUMENT.refuse(f"holds the number {_quoted(text)}, which is too large")
    return int(text) if whole else float(text)


def headed(values: object, schema: str, version: int) -> dict[str, Any]:
    """`values` if they say to be of this schema and version."""
    if not isinstance(values, dict) or values.get("schema") != schema:
        _WHOLE_DOCUMENT.refuse(f"is no {schema}: its schema says otherwise")
    other = values.get("version")
    if type(other) is not int or other != version:
        newer = "; a newer sordino wrote it" if type(other) is int and other > version else ""
        says = f"has version {describe(other)} of {schema}, and this sordino reads {version}{newer}"
        _WHOLE_DOCUMENT.refuse(says)
    return values


def canonical(value: object) -> str:
    """`value` as JSON with one spelling: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


# --- JSON Schema


def closed(properties: Schema, may_lack: Collection[str] = ()) -> Schema:
    """An object with these keys and no other; all of them but those that it `may_lack`."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(set(properties) - set(may_lack)),
        "properties": properties,
    }


def _refer(name: str, used: dict[str, Schema], schema: Schema | None = None) -> Schema:
    if schema is not None:
        used.setdefault(name, schema)
    return {"$ref": f"#/$defs/{name}"}


def summary(cls: type) -> str:
    """The first paragraph of a class's docstring."""
    return inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _parameters(cls: type) -> dict[str, str]:
    """What the numpy docstring says of each parameter."""
    _, _, text = inspect.cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")
    said: dict[str, list[str]] = {}
    names: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            for name in names:
                said.setdefault(name, []).append(line.strip())
        elif line.strip():
            names = [name.strip() for name in line.split(",")]
    return {name: " ".join(lines) for name, lines in said.items()}


# --- TOML


def toml(value: Any, *, escaped: bool = False, place: Where = _WHOLE_DOCUMENT) -> str:
    """A value as TOML.

    Parameters
    ----------
    value
        A text, number, truth, day or time, or a list or mapping of these; else `Unfit`.
    escaped
        Write what a terminal would act on, or nobody sees, as an escape.
    """
    if isinstance(value, bool | str):
        # JSON and TOML agree on true, false and the escapes of a text; TOML also wants the
        # character 127 escaped.
        text = json.dumps(value, ensure_ascii=False)
        if not escaped:
            return text.replace("\x7f", "\\u007f")
        letters = (each if printable(each) == each else f"\\U{ord(each):08x}" for each in text)
        return "".join(letters)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(each, escaped=escaped, place=place) for each in value)}]"
    if not isinstance(value, Mapping):
        place.refuse(f"is {describe(value)}, and no text, number, truth, or list of them")
    write = functools.partial(toml, escaped=escaped, place=place)
    return f"{{{', '.join(f'{toml_key(key)} = {write(each)}' for key, each in value.items())}}}"


def toml_key(name: object, *, escaped: bool = False) -> str:
    """A name as a key of TOML, quoted if it must be."""
    text = str(name)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else toml(text, escaped=escaped)
