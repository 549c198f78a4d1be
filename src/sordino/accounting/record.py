"""Every `Profile` as plain JSON values and back, for a ledger that lives for years.

A profile is a dict: its `kind`, and one key a field. Kinds and keys are written here and belong to
the file format; classes and attributes may be renamed, these names may not. Numbers keep every
digit, infinity is the text "inf", and `LossProfile.limit` is left out: it says what a computation
may cost, not what leaked. What is read back is not trusted: anything but an exact record is refused
with `InvalidArgument`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sordino import _check
from sordino.accounting.compose import SummedProfile
from sordino.accounting.concentrated import ConcentratedProfile
from sordino.accounting.group import GroupProfile
from sordino.accounting.hidden_state import WithSlack
from sordino.accounting.linear_loss import LinearLoss
from sordino.accounting.loss import (
    ApproximateLoss,
    FixedSizeLoss,
    GaussianLoss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.objective import ObjectiveProfile
from sordino.accounting.objective_loss import ObjectiveLoss
from sordino.accounting.profile import (
    ApproximateProfile,
    GaussianProfile,
    LossProfile,
    Profile,
    RenyiProfile,
)
from sordino.accounting.projected import ProjectedProfile
from sordino.privacy import Relation

DEEPEST = 20
"""Profiles inside profiles, at most."""
LARGEST_COUNT = 10**15
"""Larger counts are no whole numbers in float64."""
LARGEST_GROUP = 10**4
"""Records of one person; a sum over them is taken whenever the profile is asked."""
LONGEST_RUN = 10**9
"""Steps of a run whose binomial law is written out whenever the profile is asked."""

_HINT = "This record was damaged, changed by hand, or written by another program."


def to_plain(profile: Profile) -> dict[str, Any]:
    """Return `profile` as dicts, lists, texts and numbers that any JSON writer takes.

    Raises
    ------
    InvalidArgument
        If it is of a kind that has no name here, or holds numbers that no record may hold.
    """
    plain = _write(profile, PROFILES, 0)
    from_plain(plain)  # what could not be read back must not be written
    return plain


def from_plain(values: object) -> Profile:
    """The profile that `to_plain` wrote.

    Raises
    ------
    InvalidArgument
        If anything is not as `to_plain` writes it: an unknown kind, a key too many or too few, a
        number that is a text, out of its range or NaN, a law that does not fit the relation.
    """
    profile: Profile = _read("profile", values, PROFILES, 0)
    return profile


@dataclass(frozen=True)
class Form:
    """How a field is written, and how it is read: `read(name, value, depth)` checks everything."""

    write: Callable[[Any, int], Any]
    read: Callable[[str, object, int], Any]


@dataclass(frozen=True)
class Kind:
    """A class that may be recorded.

    Parameters
    ----------
    of
        The class; a subclass of it is another kind.
    fields
        The keys in the file with their forms, `kind` apart.
    check
        What must hold of the fields together; raises `InvalidArgument`.
    attributes
        The attribute of each key that is not called like it.
    """

    of: type
    fields: Mapping[str, Form]
    check: Callable[[Any], None] = lambda made: None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def write(self, value: object, depth: int) -> dict[str, Any]:
        """Every field but `kind`."""
        return {
            key: form.write(getattr(value, self.attributes.get(key, key)), depth)
            for key, form in self.fields.items()
        }

    def read(self, name: str, values: dict[object, object], depth: int) -> Any:
        """The value these fields describe; keys are exactly those of `fields`, and `kind`."""
        expected = {"kind", *self.fields}
        if set(values) != expected:
            missing, extra = expected - set(values), set(values) - expected
            odd = min(_shown(key) for key in missing or extra)
            found = f"[without {odd}]" if missing else f"[with {odd}]"
            _check.fail(name, found, f"to hold {', '.join(sorted(expected))} alone", _HINT)
        read = {
            self.attributes.get(key, key): form.read(key, values[key], depth)
            for key, form in self.fields.items()
        }
        made = self.of(**read)
        self.check(made)
        return made


def _write(value: object, kinds: Mapping[str, Kind], depth: int) -> dict[str, Any]:
    _check_depth(depth)
    names = [name for name, kind in kinds.items() if type(value) is kind.of]
    if not names:
        _check.fail("profile", _shown(value), "to be of a kind that can be recorded")
    return {"kind": names[0], **kinds[names[0]].write(value, depth)}


def _read(name: str, value: object, kinds: Mapping[str, Kind], depth: int) -> Any:
    _check_depth(depth)
    if type(value) is not dict:
        _check.fail(name, _shown(value), "to be an object with a kind", _HINT)
    kind = value.get("kind")
    if type(kind) is not str or kind not in kinds:
        _check.fail(f"kind of {name}", _shown(kind), f"to be one of {', '.join(kinds)}", _HINT)
    return kinds[kind].read(name, value, depth)


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        condition = f"<= {DEEPEST}, profiles inside profiles"
        _check.fail("depth", depth, condition, "Compose the releases in one list.")


def _shown(value: object) -> str:
    """A value in a sentence; str() of a hostile one may itself fail."""
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is str:
        return repr(value[:40])
    if type(value) is int:
        return repr(value) if abs(value) < 10**20 else "[a number of more than 20 digits]"
    return f"[{type(value).__name__}]"


def _number(condition: str, holds: Callable[[float], bool], *, infinite: bool = False) -> Form:
    def write(value: float, depth: int) -> float | str:
        return "inf" if value == math.inf else float(value)

    def read(name: str, value: object, depth: int) -> float:
        if infinite and type(value) is str and value == "inf":
            return math.inf
        # An exact type: True is an int, and a text would be converted.
        exact = type(value) is float or (type(value) is int and abs(value) <= 2**53)
        if not exact or not math.isfinite(number := float(value)):  # type: ignore[arg-type]
            _check.fail(name, _shown(value), f"to be a number {condition}", _HINT)
        if not holds(number):
            _check.fail(name, _shown(value), condition, _HINT)
        return number

    return Form(write, read)


def _whole(least: int, most: int) -> Form:
    def read(name: str, value: object, depth: int) -> int:
        if type(value) is not int or not least <= value <= most:
            condition = f"to be a whole number from {least} to {most}"
            _check.fail(name, _shown(value), condition, _HINT)
        return value

    return Form(lambda value, depth: int(value), read)


def _listed(form: Form) -> Form:
    def read(name: str, value: object, depth: int) -> tuple[Any, ...]:
        if type(value) is not list:
            _check.fail(name, _shown(value), "to be a list", _HINT)
        return tuple(form.read(name, item, depth) for item in value)

    return Form(lambda value, depth: [form.write(item, depth) for item in value], read)


def _row(*forms: Form) -> Form:
    def write(value: Any, depth: int) -> list[Any]:
        return [form.write(item, depth) for form, item in zip(forms, value, strict=True)]

    def read(name: str, value: object, depth: int) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(forms):
            _check.fail(name, _shown(value), f"to be a list of {len(forms)}", _HINT)
        return tuple(form.read(name, item, depth) for form, item in zip(forms, value, strict=True))

    return Form(write, read)


def _or_none(form: Form) -> Form:
    return Form(
        lambda value, depth: None if value is None else form.write(value, depth),
        lambda name, value, depth: None if value is None else form.read(name, value, depth),
    )


def _exactly(of: type, condition: str) -> Form:
    def read(name: str, value: object, depth: int) -> Any:
        if type(value) is not of:
            _check.fail(name, _shown(value), condition, _HINT)
        return value

    return Form(lambda value, depth: of(value), read)


def _read_relation(name: str, value: object, depth: int) -> Relation:
    known = {relation.value: relation for relation in Relation}
    if type(value) is not str or value not in known:
        _check.fail(name, _shown(value), f"to be one of {', '.join(known)}", _HINT)
    return known[value]


TEXT = _exactly(str, "to be a text")
FLAG = _exactly(bool, "to be true or false")
SIZE = _number(">= 0", lambda number: number >= 0, infinite=True)
FINITE = _number(">= 0 and finite", lambda number: number >= 0)
POSITIVE = _number("> 0 and finite", lambda number: number > 0)
RATE = _number("in (0, 1]", lambda number: 0 < number <= 1)
SHARE = _number("in [0, 1]", lambda number: 0 <= number <= 1)
DELTA = _number("in [0, 1)", lambda number: 0 <= number < 1)
ORDER = _number("> 1 and finite", lambda number: number > 1)
COUNT = _whole(0, LARGEST_COUNT)
SOME = _whole(1, LARGEST_COUNT)
RELATION = Form(lambda value, depth: value.value, _read_relation)
PROFILE = Form(
    lambda value, depth: _write(value, PROFILES, depth + 1),
    lambda name, value, depth: _read(name, value, PROFILES, depth + 1),
)
LAW = Form(
    lambda value, depth: _write(value, LAWS, depth),
    lambda name, value, depth: _read(name, value, LAWS, depth),
)


def _check_weights(loss: GaussianLoss) -> None:
    if not loss.mus or len(loss.mus) != len(loss.weights):
        counts = f"[{len(loss.weights)}]"
        _check.fail("weights", counts, f"to be as many as the {len(loss.mus)} mus", _HINT)
    # Weights are shares of records, each rounded once or twice.
    if abs(math.fsum(loss.weights) - 1) > 1e-9:
        _check.fail("sum of weights", math.fsum(loss.weights), "to be 1", _HINT)


def _check_laws(profile: LossProfile) -> None:
    """A law of a record that comes or goes says nothing of one that is replaced."""
    for law, _ in profile.components:
        one_sided = isinstance(law, PoissonLoss | LinearLoss) or (
            isinstance(law, ObjectiveLoss) and not law.replace
        )
        unfit = Relation.REPLACE_ONE if one_sided else None
        if isinstance(law, FixedSizeLoss):
            unfit = Relation.ADD_OR_REMOVE_ONE
        if profile.relation is unfit:
            _check.fail("relation", unfit.value, f"to fit a {type(law).__name__}", _HINT)


def _check_objective(profile: ObjectiveProfile) -> None:
    if profile.leverage is None:
        return
    least = math.log1p(profile.leverage / 4)  # l'' of the logistic loss reaches 1/4
    if profile.kappa < least * (1 - 1e-12):
        _check.fail("kappa", profile.kappa, f">= {least}, as its leverage says", _HINT)


def _check_inside(outer: Profile, inside: tuple[Profile, ...]) -> None:
    if not inside:
        _check.fail("parts", "[]", "to hold at least one profile", _HINT)
    for profile in inside:
        if profile.relation is not outer.relation:
            condition = f"to be {outer.relation.value}, as that of the profile around it"
            _check.fail("relation", profile.relation.value, condition, _HINT)


_COMMON = {"relation": RELATION, "theorem": TEXT, "notes": _listed(TEXT)}
_SAMPLED = {"sample_rate": RATE, "noise_multiplier": POSITIVE}

LAWS: Mapping[str, Kind] = {
    "gaussian": Kind(
        GaussianLoss, {"mus": _listed(FINITE), "weights": _listed(SHARE)}, _check_weights
    ),
    "poisson": Kind(PoissonLoss, _SAMPLED),
    "poisson-replace": Kind(PoissonReplaceLoss, _SAMPLED),
    "fixed-size": Kind(FixedSizeLoss, _SAMPLED),
    "linear": Kind(LinearLoss, {**_SAMPLED, "steps": _whole(1, LONGEST_RUN)}),
    "approximate": Kind(ApproximateLoss, {"epsilon": FINITE, "delta": DELTA}),
    "objective": Kind(
        ObjectiveLoss, {"mu": POSITIVE, "jacobian": FINITE, "floor": FINITE, "replace": FLAG}
    ),
}
"""Laws of privacy loss by their names in a file."""

PROFILES: Mapping[str, Kind] = {
    "gaussian": Kind(GaussianProfile, {**_COMMON, "mu": SIZE}, attributes={"mu": "parameter"}),
    "losses": Kind(
        LossProfile,
        {**_COMMON, "laws": _listed(_row(LAW, COUNT))},
        _check_laws,
        attributes={"laws": "components"},
    ),
    "renyi": Kind(RenyiProfile, {**_COMMON, "orders": _listed(ORDER), "values": _listed(SIZE)}),
    "approximate": Kind(ApproximateProfile, {**_COMMON, "budget": _row(SIZE, DELTA)}),
    "concentrated": Kind(ConcentratedProfile, {**_COMMON, "rho": SIZE, "xi": SIZE}),
    "objective": Kind(
        ObjectiveProfile,
        {
            **_COMMON,
            "gradient_mu": POSITIVE,
            "output_mu": FINITE,
            "kappa": FINITE,
            "leverage": _or_none(FINITE),
        },
        _check_objective,
    ),
    "projected": Kind(ProjectedProfile, {**_COMMON, "visit": SIZE, "later": SIZE, "count": COUNT}),
    "group": Kind(
        GroupProfile,
        {**_COMMON, "one": PROFILE, "size": _whole(1, LARGEST_GROUP)},
        lambda made: _check_inside(made, (made.one,)),
    ),
    "summed": Kind(
        SummedProfile,
        {**_COMMON, "parts": _listed(_row(PROFILE, SOME))},
        lambda made: _check_inside(made, tuple(part for part, _ in made.parts)),
    ),
    "slack": Kind(
        WithSlack,
        {**_COMMON, "base": PROFILE, "slack": RATE},
        lambda made: _check_inside(made, (made.base,)),
    ),
}
"""Profiles by their names in a file."""
