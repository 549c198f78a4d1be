"""Every `Profile` as plain JSON values and back, for a ledger that lives for years.

A profile is a dict: its `kind`, and one key a field. Kinds and keys are written here and belong to
the file format; classes and attributes may be renamed, these names may not. Numbers keep every
digit, infinity is the text "inf", and `LossProfile.limit` is left out: it says what a computation
may cost, not what leaked. What is read back is not trusted: anything but an exact record is refused
with `InvalidArgument`.
"""

from __future__ import annotations

import math
from typing import Any

from sordino import checks
from sordino.accounting.compose import GroupProfile, SummedProfile
from sordino.accounting.last_iterate.convex import ProjectedProfile
from sordino.accounting.last_iterate.hidden_state import WithSlack
from sordino.accounting.last_iterate.linear_loss import LinearLoss
from sordino.accounting.objective import ObjectiveLoss, ObjectiveProfile
from sordino.accounting.pld.allocation import (
    MOST_STEPS,
    NOISES,
    AllocationLoss,
    AllocationReplaceLoss,
)
from sordino.accounting.pld.loss import (
    ApproximateLoss,
    FixedSizeLoss,
    GaussianLoss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.pld.person import MixtureLoss, PersonLoss, PersonReplaceLoss
from sordino.accounting.pld.pure import DiscreteLoss, LaplaceLoss
from sordino.accounting.pld.truncated import (
    TruncatedLoss,
    TruncatedReplaceLoss,
    TruncatedZeroLoss,
)
from sordino.accounting.profile import (
    ApproximateProfile,
    GaussianProfile,
    LossProfile,
    Profile,
    RenyiProfile,
)
from sordino.accounting.selection import SelectedProfile
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.errors import InvalidArgument
from sordino.privacy import Relation
from sordino.serialize import (
    FLAG,
    TEXT,
    Forms,
    Maybe,
    Number,
    RecordForm,
    RowForm,
    Tagged,
    Whole,
    listed,
    refusing,
)

DEEPEST = 20
"""Profiles inside profiles, at most."""
_LARGEST_COUNT = 10**15
"""Larger counts are no whole numbers in float64."""
_LARGEST_GROUP = 10**4
"""Records of one person; a sum over them is taken whenever the profile is asked."""
_LONGEST_RUN = 10**9
"""Steps of a run whose binomial law is written out whenever the profile is asked."""


def to_plain(profile: Profile) -> dict[str, Any]:
    """Return `profile` as dicts, lists, texts and numbers that any JSON writer takes.

    Raises
    ------
    InvalidArgument
        If it is of a kind that has no name here, or holds numbers that no record may hold.
    """
    with refusing("profile", InvalidArgument):
        plain: dict[str, Any] = _PROFILE.write(profile)
        return plain


def from_plain(values: object) -> Profile:
    """The profile that `to_plain` wrote.

    Raises
    ------
    InvalidArgument
        If anything is not as `to_plain` writes it: an unknown kind, a key too many or too few, a
        number that is a text, out of its range or NaN, a law that does not fit the relation.
    """
    with refusing("profile", InvalidArgument):
        profile: Profile = _PROFILE.read(values)
        return profile


_SIZE = Number(">= 0", lambda number: number >= 0)
_FINITE = Number(">= 0 and finite", lambda number: number >= 0, infinite=False)
_POSITIVE = Number("> 0 and finite", lambda number: number > 0, infinite=False)
_REAL = Number("finite", math.isfinite, infinite=False)
_RATE = Number("in (0, 1]", lambda number: 0 < number <= 1, infinite=False)
_SHARE = Number("in [0, 1]", lambda number: 0 <= number <= 1, infinite=False)
_DELTA = Number("in [0, 1)", lambda number: 0 <= number < 1, infinite=False)
_ORDER = Number("> 1 and finite", lambda number: number > 1, infinite=False)
_COUNT = Whole(least=0, most=_LARGEST_COUNT)
_SOME = Whole(least=1, most=_LARGEST_COUNT)
LAWS: dict[str, RecordForm] = {}
"""Laws of privacy loss by their names in a file."""
PROFILES: dict[str, RecordForm] = {}
"""Profiles by their names in a file."""
_LAW, _PROFILE = Tagged(LAWS), Tagged(PROFILES, DEEPEST)


def _check_weights(loss: GaussianLoss) -> None:
    if not loss.mus or len(loss.mus) != len(loss.weights):
        counts = f"[{len(loss.weights)}]"
        checks.fail("weights", counts, f"to be as many as the {len(loss.mus)} mus")
    # Weights are shares of records, each rounded once or twice.
    if abs(math.fsum(loss.weights) - 1) > 1e-9:
        checks.fail("sum of weights", math.fsum(loss.weights), "to be 1")


def _check_mixture(loss: MixtureLoss) -> None:
    shifts = list(loss.shifts)
    if shifts != sorted(set(shifts)) or not shifts or shifts[-1] == 0:
        checks.fail("shifts", f"[{len(shifts)}]", "to rise")
    _check_chances(loss)


def _check_discrete(loss: DiscreteLoss) -> None:
    _check_chances(loss)
    other = math.fsum(
        chance * math.exp(-max(each, -700.0))
        for each, chance in zip(loss.losses, loss.probabilities, strict=True)
    )
    if abs(other - 1) > 1e-9:
        checks.fail("sum of probabilities in the other world", other, "to be 1")


def _check_chances(loss: MixtureLoss | DiscreteLoss) -> None:
    values = loss.losses if isinstance(loss, DiscreteLoss) else loss.shifts
    if not values or len(values) != len(loss.probabilities):
        checks.fail("probabilities", f"[{len(loss.probabilities)}]", f"to be {len(values)}")
    if abs((whole := math.fsum(loss.probabilities)) - 1) > 1e-9:
        checks.fail("sum of probabilities", whole, "to be 1")


_ONE_SIDED = PoissonLoss, PersonLoss, MixtureLoss, AllocationLoss, LinearLoss, TruncatedLoss
_REPLACED = PersonReplaceLoss, AllocationReplaceLoss, TruncatedReplaceLoss


def _check_laws(profile: LossProfile) -> None:
    """A law of a record that comes or goes says nothing of one that is replaced."""
    for law, _ in profile.components:
        one_sided = isinstance(law, _ONE_SIDED) or (
            isinstance(law, ObjectiveLoss) and not law.replace
        )
        unfit = Relation.REPLACE_ONE if one_sided and not isinstance(law, _REPLACED) else None
        if isinstance(law, FixedSizeLoss):
            unfit = Relation.ADD_OR_REMOVE_ONE
        if profile.relation is unfit:
            checks.fail("relation", unfit.value, f"to fit a {type(law).__name__}")


def _check_objective(profile: ObjectiveProfile) -> None:
    if profile.leverage is None:
        return
    least = math.log1p(profile.leverage / 4)  # l'' of the logistic loss reaches 1/4
    if profile.kappa < least * (1 - 1e-12):
        checks.fail("kappa", profile.kappa, f">= {least}, as its leverage says")


def _check_inside(outer: Profile, inside: tuple[Profile, ...]) -> None:
    if not inside:
        checks.fail("parts", "[]", "to hold at least one profile")
    for profile in inside:
        if profile.relation is not outer.relation:
            condition = f"to be {outer.relation.value}, as that of the profile around it"
            checks.fail("relation", profile.relation.value, condition)


_COMMON = {"relation": Forms().of(Relation), "theorem": TEXT, "notes": listed(TEXT)}
_SAMPLED = {"sample_rate": _RATE, "noise_multiplier": _POSITIVE}
_PERSON = {
    "sample_rate": Number("in (0, 1)", lambda number: 0 < number < 1, infinite=False),
    "noise_multiplier": _POSITIVE,
    "records": Whole(least=1, most=_LARGEST_GROUP),
}
_TRUNCATED = {
    **_SAMPLED,
    "max_batch_size": Whole(least=1, most=_LARGEST_COUNT),
    "records": Whole(least=1, most=_LARGEST_COUNT),
}
_ALLOCATED = {
    "steps_per_epoch": Whole(least=2, most=MOST_STEPS),
    "noise_multiplier": Number(f"in {NOISES}", lambda number: NOISES[0] <= number <= NOISES[1]),
    "finer": Whole(least=1, most=10),
    "at_most": FLAG,
}

LAWS |= {
    "gaussian": RecordForm(
        GaussianLoss, {"mus": listed(_FINITE), "weights": listed(_SHARE)}, check=_check_weights
    ),
    "poisson": RecordForm(PoissonLoss, _SAMPLED),
    "person": RecordForm(PersonLoss, _PERSON),
    "person-replace": RecordForm(PersonReplaceLoss, _PERSON),
    "allocation": RecordForm(AllocationLoss, _ALLOCATED),
    "allocation-replace": RecordForm(AllocationReplaceLoss, _ALLOCATED),
    "truncated": RecordForm(TruncatedLoss, _TRUNCATED),
    "truncated-zero": RecordForm(TruncatedZeroLoss, _TRUNCATED),
    "truncated-replace": RecordForm(TruncatedReplaceLoss, _TRUNCATED),
    "poisson-replace": RecordForm(PoissonReplaceLoss, _SAMPLED),
    "fixed-size": RecordForm(FixedSizeLoss, _SAMPLED),
    "mixture": RecordForm(
        MixtureLoss,
        {
            "noise_multiplier": _POSITIVE,
            "shifts": listed(_SHARE),
            "probabilities": listed(_RATE),
            "at_most": FLAG,
        },
        check=_check_mixture,
    ),
    "laplace": RecordForm(LaplaceLoss, {"epsilon": _POSITIVE, "sample_rate": _RATE}),
    "discrete": RecordForm(
        DiscreteLoss,
        {"losses": listed(_REAL), "probabilities": listed(_RATE)},
        check=_check_discrete,
    ),
    "linear": RecordForm(LinearLoss, {**_SAMPLED, "steps": Whole(least=1, most=_LONGEST_RUN)}),
    "approximate": RecordForm(ApproximateLoss, {"epsilon": _FINITE, "delta": _DELTA}),
    "objective": RecordForm(
        ObjectiveLoss, {"mu": _POSITIVE, "jacobian": _FINITE, "floor": _FINITE, "replace": FLAG}
    ),
}

PROFILES |= {
    "gaussian": RecordForm(
        GaussianProfile, {**_COMMON, "mu": _SIZE}, attributes={"mu": "parameter"}
    ),
    "losses": RecordForm(
        LossProfile,
        {**_COMMON, "laws": listed(RowForm((_LAW, _COUNT)))},
        check=_check_laws,
        attributes={"laws": "components"},
    ),
    "renyi": RecordForm(
        RenyiProfile, {**_COMMON, "orders": listed(_ORDER), "values": listed(_SIZE)}
    ),
    "approximate": RecordForm(ApproximateProfile, {**_COMMON, "budget": RowForm((_SIZE, _DELTA))}),
    "concentrated": RecordForm(ConcentratedProfile, {**_COMMON, "rho": _SIZE, "xi": _SIZE}),
    "objective": RecordForm(
        ObjectiveProfile,
        {
            **_COMMON,
            "gradient_mu": _POSITIVE,
            "output_mu": _FINITE,
            "kappa": _FINITE,
            "leverage": Maybe(_FINITE),
        },
        check=_check_objective,
    ),
    "projected": RecordForm(
        ProjectedProfile, {**_COMMON, "visit": _SIZE, "later": _SIZE, "count": _COUNT}
    ),
    "group": RecordForm(
        GroupProfile,
        {**_COMMON, "one": _PROFILE, "size": Whole(least=1, most=_LARGEST_GROUP)},
        check=lambda made: _check_inside(made, (made.one,)),
    ),
    "summed": RecordForm(
        SummedProfile,
        {**_COMMON, "parts": listed(RowForm((_PROFILE, _SOME)))},
        check=lambda made: _check_inside(made, tuple(part for part, _ in made.parts)),
    ),
    "selected": RecordForm(
        SelectedProfile,
        {
            **_COMMON,
            "candidates": listed(RowForm((_PROFILE, _SOME))),
            "mean": Number(">= 1 and finite", lambda number: number >= 1, infinite=False),
            "shape": _SIZE,
        },
        check=lambda made: _check_inside(made, tuple(one for one, _ in made.candidates)),
    ),
    "slack": RecordForm(
        WithSlack,
        {**_COMMON, "base": _PROFILE, "slack": _RATE},
        check=lambda made: _check_inside(made, (made.base,)),
    ),
}
