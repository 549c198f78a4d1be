"""Numbers and verdicts as people read them, the same on the page, in Markdown and in the terminal.

Ours has one digit more than the printed number, so that a reader sees on which side it lies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sordino.report.numbers import UNKNOWN
from sordino_papers.claims import PaperClaim, PaperRun, Printed
from sordino_papers.reproduction import ClaimVerdict, Result

SIGNS = dict(zip(ClaimVerdict, "✓△✗–", strict=True))
"""Beside the word or in its place: colour alone tells nothing."""
_OF_CHECKS = {ClaimVerdict.REPRODUCED: "holds", ClaimVerdict.DIFFERS: "fails"}
_WRITTEN_OUT_BELOW = 1e7
_WRITTEN_OUT_FROM = 1e-3
_DIGITS, _MOST_DIGITS = 4, 16


def number(value: float, printed: Printed | None = None) -> str:
    """One of our numbers; beside a printed one with its sign, its percent and one digit more."""
    if math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    return _alone(value) if printed is None else _beside(value, printed)


def wanted(claim: PaperClaim) -> str:
    """What the paper says: the printed text, or what a claim in words needs: "at least 0.95"."""
    return tolerance(claim) if claim.printed is None else claim.printed.text


def ours(result: Result) -> str:
    """What we found, with its words: "0.0417 (3 of 72)"; "-" where nothing was computed."""
    answer, claim = result.answer, result.claim
    if answer is None:
        return "-"
    text = number(answer.value, claim.printed)
    if claim.printed is None and math.isfinite(answer.value):
        text = _apart(answer.value, claim.tolerance.size)
    return f"{text} ({answer.words})" if answer.words else text


def interval(result: Result) -> str:
    """Where ours may lie by our own runs: "0.081 to 0.086"; empty where there is none."""
    answer = result.answer
    if answer is None or answer.low is None or answer.high is None:
        return ""
    return " to ".join(number(end, result.claim.printed) for end in (answer.low, answer.high))


def tolerance(claim: PaperClaim) -> str:
    """How far ours may be from the printed number, or what it must be."""
    text = str(claim.tolerance)
    in_points = claim.tolerance.kind == "absolute" and claim.printed and claim.printed.percent
    return f"{text} points" if in_points else text


def verdict(result: Result) -> str:
    """In words; a check of ours holds or fails, since no paper is reproduced by it."""
    if result.claim.ours:
        return _OF_CHECKS.get(result.verdict, str(result.verdict))
    if result.claim.setting and result.verdict is ClaimVerdict.REPRODUCED:
        return "a setting, as printed"
    return f"{result.verdict}{', weakly' if result.weak else ''}"


def title(claim: PaperClaim) -> str:
    """What a claim is about, within its place: its row and column, or its sentence."""
    what = claim.says if claim.printed is None else claim.row
    return ", ".join(filter(None, [what.rstrip("."), claim.column]))


def compared(result: Result) -> str:
    """The two numbers in a phrase: "paper 0.083, ours 0.0843 (1.02 times)"."""
    printed = result.claim.printed
    mine = f"ours {ours(result)}" if result.answer else "ours could not be computed"
    if printed is None:
        return f"{mine}, needed: {tolerance(result.claim)}"
    return f"paper {printed}, {mine}" + (f" ({result.off})" if result.off else "")


def settings(run: PaperRun, *, quick: bool) -> str:
    """What a run was made with, on one line."""
    return ", ".join(
        f"{name.replace('_', ' ')} {_setting(value)}" for name, value in run.at_size(quick).items()
    )


def _beside(value: float, printed: Printed) -> str:
    signed = "+" if printed.text.strip()[0] in "+-" else ""
    percent = "%" if printed.percent else ""
    mantissa, exponent, _ = printed.text.lower().partition("e")
    if exponent:
        more = len(mantissa.partition(".")[2]) + 1
        return f"{value:{signed}.{more}e}{percent}"
    places = max(0, 1 - round(math.log10(printed.unit)))
    if printed.unit >= 1 and float(value).is_integer():
        places = 0
    hidden = 0 < abs(value) < 10.0**-places
    endless = abs(value) >= _WRITTEN_OUT_BELOW and not (places == 0 and printed.unit >= 1)
    if hidden or endless:
        return f"{value:{signed}.1e}{percent}"
    return f"{value:{signed}z,.{places}f}{percent}"


def _alone(value: float, digits: int = _DIGITS) -> str:
    size = abs(value)
    if float(value).is_integer() and size < _WRITTEN_OUT_BELOW:
        return f"{int(value):,}"
    if not _WRITTEN_OUT_FROM <= size < _WRITTEN_OUT_BELOW:
        return f"{value:.{digits - 3}e}"
    places = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if places else text


def _apart(value: float, threshold: float) -> str:
    """`value` with digits enough to see that it is not the threshold, nor all or nothing."""
    marks = [mark for mark in (threshold, 0.0, 1.0) if not math.isclose(value, mark, rel_tol=1e-9)]
    for digits in range(_DIGITS, _MOST_DIGITS):
        text = _alone(value, digits)
        if float(text.replace(",", "")) not in marks:
            return text
    return repr(value)


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value) if abs(value) >= _WRITTEN_OUT_FROM else f"{value:g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_setting(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "/".join(_setting(each) for each in value)
    return str(value)
