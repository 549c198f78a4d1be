"""How it was proved: theorem by theorem, with the preconditions that were checked."""

from __future__ import annotations

import math

from sordino.report.assessment import Assessment
from sordino.report.blocks import (
    Block,
    Bullets,
    Cell,
    Facts,
    Folded,
    Heading,
    Section,
    Text,
    listed,
)
from sordino.report.sections.protection import refuted
from sordino.report.stages import Bound, Checked, Proved
from sordino.report.words_numbers import upper

_TITLE = "How it was proved"


def proof(assessment: Assessment) -> Section:
    """What every theorem says of this release, or why it says nothing."""
    if assessment.proved_parts is not None:
        found = theorems(assessment.proved_parts)
        return Section(found.name, found.title, (*refuted(assessment), *found.blocks))
    only = "Does not apply: nothing is proved of a mechanism that is only attacked."
    return Section("proof", _TITLE, (Text(only),))


def theorems(parts: Proved) -> Section:
    """The section, of an assessment or of a certificate."""
    apply = [bound for bound in parts.bounds if _applies(bound)]
    printed = [bound for bound in parts.bounds if bound.kind == "as printed"]
    silent = [bound for bound in parts.bounds if not _applies(bound) and bound not in printed]
    blocks: list[Block] = [*_outcome(parts)]
    if apply:
        blocks += [_ranking(apply), *(block for bound in apply for block in _theorem(bound))]
    if silent:
        blocks += [Heading("What does not apply, and why"), Facts(_reasons(silent))]
    if printed:
        blocks += [Heading("Quoted, not proved"), *_printed(printed)]
    return Section("proof", _TITLE, tuple(blocks))


def _applies(bound: Bound) -> bool:
    return bound.epsilon is not None and bound.kind == "guarantee"


def _outcome(parts: Proved) -> list[Block]:
    blocks: list[Block] = []
    proved = parts.guarantee
    if proved is None:
        blocks.append(Text(parts.why_none, lead="Nothing is proved.", tone="warn"))
    else:
        rests = (
            f"The certificate rests on this statement: {proved.theorem}. It is checked again from "
            "the numbers in the certificate whenever somebody verifies it."
        )
        blocks.append(Text(rests))
    if parts.facts:
        numbers = tuple((name.capitalize(), text) for name, text in parts.facts.items())
        blocks += [Heading("Numbers of the proof"), Facts(numbers)]
    if proved is not None and proved.assumes:
        blocks += [
            Folded(
                f"What the guarantee takes on trust or assumes ({len(proved.assumes)})",
                (Bullets(proved.assumes),),
            )
        ]
    return blocks


def _ranking(bounds: list[Bound]) -> Block:
    ordered = sorted(bounds, key=lambda bound: _epsilon(bound))
    rows = tuple(
        (bound.name, Cell(_said(bound), "proved"), "the certificate's" if bound.used else "-")
        for bound in ordered
    )
    caption = "What each theorem says of this same release: the least counts"
    return listed(caption, ("theorem", "epsilon", "used"), *rows)


def _theorem(bound: Bound) -> list[Block]:
    blocks: list[Block] = [
        Heading(bound.name, mark=f"epsilon {_said(bound)}" + (", used" if bound.used else "")),
        Text(bound.theorem),
    ]
    if bound.checked:
        blocks.append(Bullets(tuple(_checked(each) for each in bound.checked)))
    return blocks


def _checked(checked: Checked) -> str:
    how = "Taken on trust" if checked.trusted else "Checked"
    return f"{how}: {checked.what}" + (f" ({checked.numbers})" if checked.numbers else "")


def _reasons(bounds: list[Bound]) -> tuple[tuple[str, str], ...]:
    return tuple((bound.name, bound.reason or "No reason was recorded.") for bound in bounds)


def _printed(bounds: list[Bound]) -> list[Block]:
    warning = "These formulas are printed somewhere and quoted here for comparison. None counts."
    rows = tuple((bound.name, _quoted(bound), bound.theorem) for bound in bounds)
    return [Text(warning), listed("Formulas as printed", ("name", "epsilon", "formula"), *rows)]


def _quoted(bound: Bound) -> str:
    return "-" if bound.epsilon is None else upper(bound.epsilon)


def _said(bound: Bound) -> str:
    epsilon = _epsilon(bound)
    return "infinite" if math.isinf(epsilon) else f"at most {upper(epsilon)}"


def _epsilon(bound: Bound) -> float:
    return math.inf if bound.epsilon is None else bound.epsilon
