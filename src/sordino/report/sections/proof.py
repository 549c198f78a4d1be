"""How it was proved: theorem by theorem, with the preconditions that were checked."""

from __future__ import annotations

import math

from sordino.report.assessment import Assessment
from sordino.report.blocks import (
    Block,
    Bullets,
    Facts,
    Group,
    Heading,
    Section,
    Span,
    Table,
    Text,
    listed,
)
from sordino.report.sections.protection import refuted
from sordino.report.stages import Bound, Proved
from sordino.report.words_numbers import upper

_TITLE = "How it was proved"
_AGAIN = "It is checked again from the numbers in the certificate whenever somebody verifies it."


def proof(assessment: Assessment) -> Section:
    """What every theorem says of this release, or why it says nothing."""
    parts, release = assessment.proved_parts, assessment.release
    if parts is None:
        return Section("proof", _TITLE, (Text("No theorem was asked."),))
    certified = release is not None and bool(release.certificate)
    found = theorems(parts, certified=certified)
    return Section(found.name, found.title, (*refuted(assessment), *found.blocks))


def theorems(parts: Proved, *, certified: bool = True) -> Section:
    """The section, of an assessment or of a certificate."""
    apply = [bound for bound in parts.bounds if _applies(bound)]
    printed = [bound for bound in parts.bounds if bound.kind == "as printed"]
    silent = [bound for bound in parts.bounds if not _applies(bound) and bound not in printed]
    blocks: list[Block] = [*_outcome(parts, certified)]
    if apply:
        blocks += [_ranking(apply), *_conditions(apply)]
    blocks += _trusted(parts, apply)
    if silent:
        blocks += [Heading("What does not apply, and why"), Facts(_reasons(silent))]
    if printed:
        blocks += [Heading("Quoted, not proved"), *_printed(printed)]
    return Section("proof", _TITLE, tuple(blocks))


def _applies(bound: Bound) -> bool:
    return bound.epsilon is not None and bound.kind == "guarantee"


def _outcome(parts: Proved, certified: bool) -> list[Block]:
    blocks: list[Block] = []
    proved = parts.guarantee
    if proved is None:
        blocks.append(Text(parts.why_none, lead="Nothing is proved.", tone="warn"))
    else:
        rests = f"The guarantee rests on this statement: {proved.theorem}."
        blocks.append(Text(f"{rests} {_AGAIN}" if certified else rests))
    if parts.facts:
        numbers = tuple((name.capitalize(), text) for name, text in parts.facts.items())
        blocks += [Heading("Numbers of the proof"), Facts(numbers)]
    return blocks


def _ranking(bounds: list[Bound]) -> Block:
    rows = tuple(
        (
            bound.name + (", used by the guarantee" if bound.used else ""),
            Span(_said(bound), "proved"),
            bound.theorem,
        )
        for bound in sorted(bounds, key=lambda bound: (_epsilon(bound), not bound.used))
    )
    caption = "What each theorem says of this same release; the certificate rests on the used one"
    return listed(caption, ("theorem", "epsilon", "statement"), *rows)


def _conditions(bounds: list[Bound]) -> list[Block]:
    """What was checked: once for all theorems that share it, then what each needs besides."""
    checked = [_checked(bound) for bound in bounds]
    shared = [row for row in checked[0] if len(bounds) > 1 and all(row in each for each in checked)]
    besides = ", besides" if shared else ""
    named = [("for every theorem above", shared)]
    for bound, rows in zip(bounds, checked, strict=True):
        named.append((f"for {bound.name}{besides}", [row for row in rows if row not in shared]))
    groups = tuple(Group(name, tuple(rows)) for name, rows in named if rows)
    caption = "Preconditions that were checked, and by which numbers"
    return [Table(caption, ("precondition", "numbers"), groups)] if groups else []


def _checked(bound: Bound) -> list[tuple[str, str]]:
    return [(each.what, each.numbers or "-") for each in bound.checked if not each.trusted]


def _trusted(parts: Proved, bounds: list[Bound]) -> list[Block]:
    """What no code can see, of all theorems and of the guarantee, each once."""
    told = [each for bound in bounds for each in bound.checked if each.trusted]
    lines = [each.what + (f" ({each.numbers})" if each.numbers else "") for each in told]
    # The guarantee's own list mostly says the same, without numbers.
    known = {each.what for each in told}
    assumed = () if parts.guarantee is None else parts.guarantee.assumes
    lines += [each for each in assumed if each not in known]
    if not lines:
        return []
    return [Heading("Taken on trust"), Bullets(tuple(dict.fromkeys(lines)))]


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
