"""A reproduction for scripts: one flat record a claim, as JSON."""

from __future__ import annotations

import json
from typing import Any

from sordino_papers import scoreboard, words
from sordino_papers.results import Reproduction, Result

SCHEMA = 1
"""Of the document; another number means that fields changed their meaning."""


def document(reproduction: Reproduction) -> str:
    """Every claim with both numbers and its verdict; the same results give the same text."""
    whole = scoreboard.total(reproduction)
    record = {
        "schema": SCHEMA,
        "command": scoreboard.command(reproduction),
        "quick": reproduction.quick,
        "wall_seconds": reproduction.wall_seconds,
        "printed": _score(whole.printed),
        "words": _score(whole.words),
        "seconds": dict(reproduction.seconds),
        "claims": [_record(result) for result in reproduction.results.values()],
    }
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _score(score: scoreboard.Score) -> dict[str, int]:
    return {
        "reproduced": score.reproduced,
        "explained": score.explained,
        "differs": score.differs,
        "not_runnable": score.not_runnable,
    }


def _record(result: Result) -> dict[str, Any]:
    claim = result.claim
    return {
        "name": claim.name,
        "place": claim.place,
        "row": claim.row,
        "column": claim.column,
        "says": claim.says,
        "printed": None if claim.printed is None else claim.printed.text,
        "printed_value": None if claim.printed is None else claim.printed.value,
        **words.found_as_record(result.found),
        "ours_text": words.ours(result),
        "tolerance": words.tolerance(claim),
        "reason": claim.reason,
        "verdict": str(result.verdict),
        "off": result.off,
        "why": result.why,
        "explanation": "" if claim.explanation is None else claim.explanation.text,
        "shown_by": [] if claim.explanation is None else list(claim.explanation.shown_by),
        "check_of_ours": claim.ours,
        "runs": list(claim.runs),
    }
