"""JSON Schemas of the documents, made from the dataclasses, their types and their docstrings.

`python -m sordino.report.schema` writes them beside this file. A test fails while a written schema
is not the one made here: then also ask whether the document's version must grow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sordino.privacy import Guarantee
from sordino.report.assessment import Assessment
from sordino.report.document import Header, Summary
from sordino.report.plain import FORMS
from sordino.report.public import (
    CERTIFICATE_KEYS,
    CERTIFICATE_SCHEMA,
    CERTIFICATE_VERSION,
    GUARANTEE_MEANS,
    PublicComputed,
    PublicHeader,
)
from sordino.serialize import closed, summary

DIALECT = "https://json-schema.org/draft/2020-12/schema"
WIDTH = 100
ASSESSMENT, PUBLIC = "assessment.schema.json", "public.schema.json"


def assessment_schema() -> dict[str, Any]:
    """Of the JSON that `document.dumps` writes."""
    about = "Everything that one page says about one release. INTERNAL: made from the records."
    return _document(about, Header, {"summary": Summary}, whole=Assessment)


def public_schema() -> dict[str, Any]:
    """Of the JSON that `public.dumps` writes."""
    about = "What the public may see of a release: its certificate, and what follows from it."
    schema = _document(about, PublicHeader, {"computed": PublicComputed})
    properties = {**schema["properties"], "certificate": _certificate(schema["$defs"])}
    return {**schema, **closed(properties)}


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
    properties = FORMS.record(header).properties(used)
    properties |= {name: FORMS.of(part).schema(used) for name, part in parts.items()}
    if whole is not None:
        properties |= FORMS.record(whole).properties(used)
    return {
        "$schema": DIALECT,
        "title": f"{properties['schema']['const']}, version {properties['version']['const']}",
        "description": about,
        **closed(properties),
        "$defs": dict(sorted(used.items())),
    }


def _certificate(used: dict[str, Any]) -> dict[str, Any]:
    means = {name: {"type": "string"} for name in GUARANTEE_MEANS}
    guarantee = closed({**FORMS.record(Guarantee).properties(used), **means})
    texts = {"type": "object", "additionalProperties": {"type": "string"}}
    known: dict[str, dict[str, Any]] = {
        "schema": {"const": CERTIFICATE_SCHEMA},
        "version": {"const": CERTIFICATE_VERSION},
        "guarantee": {
            "anyOf": [{"description": summary(Guarantee), **guarantee}, {"type": "null"}]
        },
        "facts": texts,
        "versions": texts,
        **{name: {"type": "string"} for name in ("date", "why_none", "method", "noise")},
        "ledger_entry": {"type": ["string", "null"]},
        "evidence": {"type": ["object", "null"]},
    }
    about = "The certificate, to the letter; `sordino certificate verify` says whether it holds."
    properties = {name: known.get(name, {"type": "object"}) for name in CERTIFICATE_KEYS}
    return {"description": about, **closed(properties)}


def _main() -> None:
    for name, schema in ((ASSESSMENT, assessment_schema()), (PUBLIC, public_schema())):
        Path(__file__).with_name(name).write_text(written(schema), encoding="utf-8")


if __name__ == "__main__":
    _main()
