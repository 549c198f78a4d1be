"""JSON Schemas of the documents, made from the dataclasses, their types and their docstrings.

`python -m sordino.report.schema` writes them beside this file. A test fails while a written schema
is not the one made here: then also ask whether the document's version must grow.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

from sordino.privacy import Guarantee
from sordino.report.assessment import Assessment
from sordino.report.document import Header, Summary
from sordino.report.plain import INFINITE, INFINITE_SETTING, added, choices, fields_of
from sordino.report.public import (
    CERTIFICATE_KEYS,
    CERTIFICATE_SCHEMA,
    CERTIFICATE_VERSION,
    GUARANTEE_MEANS,
    PublicComputed,
    PublicHeader,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
WIDTH = 100
ASSESSMENT, PUBLIC = "assessment.schema.json", "public.schema.json"

_NULL = {"type": "null"}
_SCALARS = {str: "string", int: "integer", bool: "boolean"}
_DEFINITIONS: dict[str, dict[str, Any]] = {
    "number": {
        "description": f'A number. Infinity is written "{INFINITE}"; there is no NaN.',
        "anyOf": [{"type": "number"}, {"const": INFINITE}],
    },
    "plain": {
        "description": f"A setting. An infinite one is {json.dumps(INFINITE_SETTING)}.",
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {"const": INFINITE_SETTING},
        ],
    },
}


def assessment_schema() -> dict[str, Any]:
    """Of the JSON that `document.dumps` writes."""
    about = "Everything that one page says about one release. INTERNAL: made from the records."
    return _document(about, Header, {"summary": Summary}, whole=Assessment)


def public_schema() -> dict[str, Any]:
    """Of the JSON that `public.dumps` writes."""
    about = "What the public may see of a release: its certificate, and what follows from it."
    schema = _document(about, PublicHeader, {"computed": PublicComputed})
    properties = {**schema["properties"], "certificate": _certificate(schema["$defs"])}
    return {**schema, **_closed(properties)}


def written(schema: dict[str, Any]) -> str:
    """A schema as the text of its file."""
    return _folded(schema, "") + "\n"


def _folded(value: Any, margin: str, used: int = 0) -> str:
    """JSON; what fits on its line, after `used` letters, stands there."""
    short = json.dumps(value, ensure_ascii=False)
    if len(margin) + used + len(short) < WIDTH or not isinstance(value, dict | list):
        return short
    deeper = margin + "  "
    if isinstance(value, list):
        lines = [_folded(each, deeper) for each in value]
    else:
        keys = {key: f"{json.dumps(key)}: " for key in value}
        lines = [keys[key] + _folded(value[key], deeper, len(keys[key])) for key in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{margin}{closing}"


def _document(
    about: str, header: type, parts: Mapping[str, type], whole: type | None = None
) -> dict[str, Any]:
    used: dict[str, Any] = {}
    properties = _properties(header, used)
    properties |= {name: _of(part, used) for name, part in parts.items()}
    if whole is not None:
        properties |= _properties(whole, used)
    return {
        "$schema": DIALECT,
        "title": f"{properties['schema']['const']}, version {properties['version']['const']}",
        "description": about,
        **_closed(properties),
        "$defs": dict(sorted(used.items())),
    }


def _certificate(used: dict[str, Any]) -> dict[str, Any]:
    means = {name: {"type": "string"} for name in GUARANTEE_MEANS}
    guarantee = _closed({**_properties(Guarantee, used), **means})
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    known: dict[str, dict[str, Any]] = {
        "schema": {"const": CERTIFICATE_SCHEMA},
        "version": {"const": CERTIFICATE_VERSION},
        "guarantee": {"anyOf": [{"description": _summary(Guarantee), **guarantee}, _NULL]},
        "facts": texts,
        "versions": texts,
        **{name: {"type": "string"} for name in ("date", "why_none", "method", "noise")},
        "ledger_entry": {"type": ["string", "null"]},
        "evidence": {"type": ["object", "null"]},
    }
    about = "The certificate, to the letter; `sordino certificate verify` says whether it holds."
    properties = {name: known.get(name, {"type": "object"}) for name in CERTIFICATE_KEYS}
    return {"description": about, **_closed(properties)}


def _closed(properties: dict[str, Any], may_lack: Collection[str] = ()) -> dict[str, Any]:
    """An object with these keys and no other; all of them but those that it `may_lack`."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(set(properties) - set(may_lack)),
        "properties": properties,
    }


def _properties(cls: type, used: dict[str, Any]) -> dict[str, Any]:
    said = _parameters(cls)
    return {
        name: ({"description": said[name]} if name in said else {}) | _of(hint, used)
        for name, hint in fields_of(cls).items()
    }


def _of(hint: Any, used: dict[str, Any]) -> dict[str, Any]:
    """What values of type `hint` look like; adds what it refers to, to `used`."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if options := choices(hint):
        named = [each for each in options if each is not None]
        if len(named) > 1:
            return _refer("plain", used)
        return {"anyOf": [_of(named[0], used), _NULL]}
    if origin is Literal:
        return {"const": inside[0]} if len(inside) == 1 else {"enum": list(inside)}
    if origin is tuple:
        return _list(inside, used)
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inside[1], used)}
    if hint is float:
        return _refer("number", used)
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _refer(hint.__name__, used, hint)
    if issubclass(hint, enum.Enum):
        return {"enum": [each.value for each in hint]}
    raise TypeError(f"nobody said what {hint} looks like")


def _list(inside: tuple[Any, ...], used: dict[str, Any]) -> dict[str, Any]:
    if inside[-1] is Ellipsis:
        return {"type": "array", "items": _of(inside[0], used)}
    places = [_of(each, used) for each in inside]
    return {"type": "array", "prefixItems": places, "items": False, "minItems": len(places)}


def _refer(name: str, used: dict[str, Any], cls: type | None = None) -> dict[str, Any]:
    if name not in used and cls is not None:
        used[name] = {}  # so that a class that holds itself would end
        properties = _properties(cls, used)
        used[name] = {"description": _summary(cls), **_closed(properties, added(cls))}
    elif name not in used:
        used[name] = _DEFINITIONS[name]
    return {"$ref": f"#/$defs/{name}"}


def _summary(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _parameters(cls: type) -> dict[str, str]:
    """What the numpy docstring says of each parameter."""
    _, _, listed = inspect.cleandoc(cls.__doc__ or "").partition("Parameters\n----------\n")
    said: dict[str, list[str]] = {}
    names: list[str] = []
    for line in listed.splitlines():
        if line.startswith(" "):
            for name in names:
                said.setdefault(name, []).append(line.strip())
        elif line.strip():
            names = [name.strip() for name in line.split(",")]
    return {name: " ".join(lines) for name, lines in said.items()}


def _main() -> None:
    for name, schema in ((ASSESSMENT, assessment_schema()), (PUBLIC, public_schema())):
        Path(__file__).with_name(name).write_text(written(schema), encoding="utf-8")


if __name__ == "__main__":
    _main()
