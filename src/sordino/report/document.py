"""An assessment as JSON: versioned, with a schema (assessment.schema.json), read to the letter.

INTERNAL, as the page is: `public.py` writes what a certificate may show.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from sordino.report.assessment import Assessment, State
from sordino.report.plain import (
    DocumentError,
    check_header,
    check_keys,
    curve,
    fields_of,
    from_plain,
    parse,
    refuse,
    to_plain,
)

SCHEMA: Final = "sordino-assessment"
VERSION: Final = 1

__all__ = [
    "DocumentError",
    "Summary",
    "check_keys",
    "curve",
    "dumps",
    "from_plain",
    "loads",
    "parse",
    "refuse",
    "to_plain",
]


@dataclass(frozen=True)
class Header:
    """What a document is, so that no other is taken for it."""

    schema: Literal["sordino-assessment"] = SCHEMA
    version: Literal[1] = VERSION
    internal: Literal[True] = True


@dataclass(frozen=True)
class Summary:
    """The answer in short, for programs; all of it follows from the rest of the document.

    Parameters
    ----------
    state
        "broken" if an attack refuted what is proved or claimed.
    broken, estimate_refuted, plain_estimate_refuted
        Whether an attack showed more than is proved or claimed; than was estimated of the release;
        than was estimated of SGD without added noise.
    proved
        Epsilon of the guarantee: an upper bound, by a theorem. Null if nothing is promised.
    estimated
        Epsilon that the release's randomness seems to hide. No guarantee.
    observed
        Epsilon that the attack showed: a lower bound, with its confidence.
    """

    state: State
    broken: bool
    estimate_refuted: bool
    plain_estimate_refuted: bool
    proved: float | None
    estimated: float | None
    observed: float | None

    @classmethod
    def of(cls, assessment: Assessment) -> Summary:
        """What `assessment` says in short."""
        three = (assessment.proved, assessment.estimated, assessment.observed)
        return cls(
            assessment.state,
            assessment.broken,
            assessment.estimate_refuted,
            assessment.plain_estimate_refuted,
            *(None if each is None else each.epsilon for each in three),
        )


def dumps(assessment: Assessment) -> str:
    """The whole assessment: equal ones give equal text, with sorted keys, in ASCII."""
    summary = {"summary": to_plain(Summary.of(assessment))}
    return text({**to_plain(Header()), **summary, **to_plain(assessment)})


def loads(content: str | bytes) -> Assessment:
    """Read what `dumps` wrote.

    Raises
    ------
    DocumentError
        For anything else, with one sentence.
    """
    values = check_header(parse(content), SCHEMA, VERSION)
    header = fields_of(Header)
    check_keys(values, (*header, "summary", *fields_of(Assessment)), "")
    from_plain(Header, {name: values.pop(name) for name in header})
    summary = from_plain(Summary, values.pop("summary"))
    assessment = from_plain(Assessment, values)
    if summary != Summary.of(assessment):
        refuse("summary", "says something else than the rest of it")
    return assessment


def text(values: dict[str, Any]) -> str:
    """JSON for people and for `diff`: sorted, indented, lists of numbers on one line."""
    return _indented(values, "") + "\n"


def _indented(value: Any, margin: str) -> str:
    deeper = margin + "  "
    if isinstance(value, dict) and value:
        lines = (f"{json.dumps(key)}: {_indented(value[key], deeper)}" for key in sorted(value))
        return "{\n" + ",\n".join(deeper + line for line in lines) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(each, dict | list | str) for each in value):
        lines = (_indented(each, deeper) for each in value)
        return "[\n" + ",\n".join(deeper + line for line in lines) + f"\n{margin}]"
    return json.dumps(value, allow_nan=False)
