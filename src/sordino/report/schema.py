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
from sordino.report import public, result
from sordino.report.result import FORMS, Assessment, Summary
from sordino.serialize import Schema, closed, summary


def schemas() -> dict[str, str]:
    """The text of each schema, by the name of its file: of `result.dumps` and `public.dumps`."""
    used: dict[str, Any] = {}
    parts = {"summary": FORMS.of(Summary).schema(used), **FORMS.record(Assessment).properties(used)}
    about = "Everything that one page says about one release. INTERNAL: made from the records."
    internal = _document(about, result.HEADER, parts, used)
    used = {}
    computed = FORMS.of(public.PublicComputed).schema(used)
    parts = {"computed": computed, "certificate": _certificate(used)}
    about = "What the public may see of a release: its certificate, and what follows from it."
    shown = _document(about, public.HEADER, parts, used)
    files = {"assessment.schema.json": internal, "public.schema.json": shown}
    return {
        name: json.dumps(each, indent=2, ensure_ascii=False) + "\n" for name, each in files.items()
    }


def _document(about: str, header: Mapping[str, Any], parts: Schema, used: dict[str, Any]) -> Schema:
    constant = {name: {"const": value} for name, value in header.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{header['schema']}, version {header['version']}",
        "description": about,
        **closed({**constant, **parts}),
        "$defs": dict(sorted(used.items())),
    }


def _certificate(used: dict[str, Any]) -> Schema:
    text = {"type": "string"}
    means = dict.fromkeys(public.GUARANTEE_MEANS, text)
    guarantee = closed({**FORMS.record(Guarantee).properties(used), **means})
    promise = {"description": summary(Guarantee), **guarantee}
    known: dict[str, Schema] = {
        "guarantee": {"anyOf": [promise, {"type": "null"}]},
        **{
            name: {"type": "object", "additionalProperties": text} for name in ("facts", "versions")
        },
        **dict.fromkeys(("date", "why_none", "method", "noise"), text),
        "ledger_entry": {"type": ["string", "null"]},
        "evidence": {"type": ["object", "null"]},
    }
    about = "The certificate, to the letter; `sordino certificate verify` says whether it holds."
    constant = {name: {"const": value} for name, value in public.CERTIFICATE.items()}
    keys = {name: known.get(name, {"type": "object"}) for name in public.CERTIFICATE_KEYS}
    return {"description": about, **closed({**constant, **keys})}


if __name__ == "__main__":
    for name, text in schemas().items():
        Path(__file__).with_name(name).write_text(text, encoding="utf-8")
