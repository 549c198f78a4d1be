"""How a theorem's answer becomes a `Bound`: what it proves of a release, or why it proves nothing.

All bounds of one release are about that very release: its training, its noise, all models that it
holds, and all records of one person.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sordino.accounting.profile import Profile
from sordino.privacy import NotApplicable
from sordino.proofs.proof import Proof
from sordino.proofs.training import NORM_SLACK
from sordino.report.stages import Bound, Checked

Answer = tuple[Profile, tuple[Checked, ...]]


def asked(
    name: str,
    theorem: str,
    delta: float,
    answer: Callable[[], Answer],
) -> Bound:
    """What a theorem says at `delta`; its refusal is kept as the reason.

    `theorem` stands where the profile's own statement does not name its source, and where it
    refuses.
    """
    try:
        profile, checked = answer()
    except NotApplicable as refusal:
        return refused(name, theorem, str(refusal))
    return Bound(name, profile.epsilon(delta), theorem, checked=checked)


def refused(name: str, theorem: str, reason: str) -> Bound:
    """A theorem that says nothing of this release."""
    return Bound(name, None, theorem, reason=reason)


def used(
    name: str,
    proof: Proof,
    delta: float,
    checked: Sequence[Checked],
    known: Sequence[str] = (),
) -> Bound:
    """The theorem that the certificate rests on, and what is taken on trust.

    Of what the proof assumes, `known` was checked after all.
    """
    trusted = [Checked(what, trusted=True) for what in proof.assumes if what not in known]
    return Bound(
        name,
        proof.profile.epsilon(delta),
        proof.profile.theorem,
        used=True,
        checked=(*checked, *trusted),
    )


def in_order(bounds: Iterable[Bound]) -> tuple[Bound, ...]:
    """The used one, the others by epsilon, formulas that are only quoted, and refusals."""

    def place(bound: Bound) -> tuple[bool, bool, bool, float]:
        epsilon = 0.0 if bound.epsilon is None else bound.epsilon
        return not bound.used, bound.epsilon is None, bound.kind != "guarantee", epsilon

    return tuple(sorted(bounds, key=place))


def all_refused(bounds: Iterable[Bound], reason: str) -> tuple[Bound, ...]:
    """The same theorems where nothing is promised, whatever they say."""
    kept = [bound for bound in bounds if bound.kind == "guarantee"]
    return tuple(
        replace(bound, epsilon=None, used=False, checked=(), reason=bound.reason or reason)
        for bound in kept
    )


def rows_within(norm: float) -> Checked:
    """The norm bound of the rows."""
    return Checked(
        "no row is longer than the public bound on norms",
        f"{norm:.6g}: longer rows are scaled down to it, and a slack of {NORM_SLACK:g} is counted",
    )


def together(
    problems: int, rows_per_person: int, *, in_one_norm: bool = True
) -> tuple[Checked, ...]:
    """What one-vs-rest and several records of a person cost, where there are any.

    `in_one_norm` if all problems are one long vector; else they are composed.
    """
    found = []
    if problems > 1:
        what = "one record is in the problem of every class, and all models are released"
        farther = f", which it moves sqrt({problems}) = {math.sqrt(problems):.6g} times as far"
        found.append(Checked(what, f"{problems} problems{farther if in_one_norm else ''}"))
    if rows_per_person > 1:
        what = "all records of one person are protected together (group privacy)"
        found.append(Checked(what, f"at most {rows_per_person} records"))
    return tuple(found)


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun: "1 batch", "12 batches"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
