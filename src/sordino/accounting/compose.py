"""Composition of profiles by the first rule that fits them all.

What several releases spend together, by the tightest rule that is proved for them.

Composition is asked at one delta. Releases of different kinds have no common language, so they are
put into groups that have one, and the groups' epsilons at shares of delta are added. That holds
however the releases of the groups were interleaved and chosen by what came out before: let L_g be
the sum of the privacy losses of group g along the transcript y, drawn from P. Then

    E_P (1 - e^(sum eps_g - sum L_g))_+ <= sum_g E_P (1 - e^(eps_g - L_g))_+ <= sum_g delta_g,

the first by (1 - x y)_+ <= (1 - x)_+ + (1 - y)_+ for x, y >= 0, the second by composition: L_g is
the loss of P against a world that answers for g as Q does and else as P, given any history.

Releases *as you go*: their budgets, not only their outcomes, were chosen after seeing earlier
models. Then few rules are known to hold, each as a filter, that is: a budget (epsilon, delta) fixed
in advance is kept if no release is made that takes the total above it. Adding the promises (Rogers
et al. 2016), Gaussian DP (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023) and zCDP (Feldman
& Zrnic 2021). The least of them is not a filter: who takes a few Gaussian releases, looks how much
they told, and goes on with more of them if much and with an (epsilon, delta) promise under another
rule if little, spends more than either delta. So the rule is fixed too: by its name, or by the kind
of the first release, which was chosen before anything was seen.

Group privacy: what a release tells of a person who has several records in it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sordino import checks
from sordino.accounting import gaussian, renyi
from sordino.accounting.gaussian import least
from sordino.accounting.pld.convolution import Limit
from sordino.accounting.pld.loss import Direction, GaussianLoss, Loss
from sordino.accounting.profile import (
    ApproximateProfile,
    GaussianProfile,
    LossProfile,
    Profile,
    RenyiProfile,
    one_relation,
)
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.types import Floats

_Counted = Sequence[tuple[Profile, int]]


def compose(profiles: Sequence[Profile], counts: Sequence[int] | None = None) -> Profile:
    """The profile of all these releases together, adaptively chosen ones included.

    Exact Gaussian DP if all are Gaussian; else privacy loss distributions where all have one; else
    zCDP, whose numbers add up, or Renyi DP; else basic (epsilon, delta) composition. The theorem
    says which rule was used.

    Parameters
    ----------
    profiles
        One a release.
    counts
        How often there is a release like each of them; None is once.

    Raises
    ------
    InvalidArgument
        If there is none, or two have different relations: their guarantees do not add up.
    """
    profiles = list(checks.sequence("profiles", profiles, "Pass a list of profiles."))
    relation = one_relation(profiles)
    counts = [1] * len(profiles) if counts is None else [checks.whole("count", c) for c in counts]
    counted = [(profile, count) for profile, count in zip(profiles, counts, strict=True) if count]
    if not counted:
        return GaussianProfile(parameter=0.0, relation=relation, theorem="no release")
    return counted[0][0] if counted[1:] == [] and counted[0][1] == 1 else _composed(counted)


def times(profile: Profile, count: int) -> Profile:
    """`count` releases like this one; equal to `compose` of a list of them."""
    return compose([profile], [count])


def _composed(counted: _Counted) -> Profile:
    hopeless = [profile for profile, _ in counted if profile.mu == math.inf]
    if hopeless:  # one release that hides nothing is enough
        return hopeless[0].noted("composed with others, which cannot help")
    squares = [count * (p.mu * p.mu) for p, count in counted if p.mu is not None]
    if len(squares) == len(counted):
        described = _described(counted, "Gaussian DP")
        mu, at_most = math.sqrt(math.fsum(squares)), any(_may_be_less(p) for p, _ in counted)
        return GaussianProfile(parameter=mu, at_most=at_most, **described)
    if composed := _by_losses(counted) or _by_concentration(counted) or _by_renyi(counted):
        return composed
    described = _described(counted, "(epsilon, delta) composition")
    return SummedProfile(parts=tuple(counted), **described)


def _described(counted: _Counted, rule: str) -> dict[str, Any]:
    theorems = list(dict.fromkeys(profile.theorem for profile, _ in counted))
    shown = "; ".join(theorems[:3]) + ("; ..." if len(theorems) > 3 else "")
    notes = tuple(dict.fromkeys(note for profile, _ in counted for note in profile.notes))
    releases = sum(count for _, count in counted)
    return {
        "relation": counted[0][0].relation,
        "theorem": f"composition of {releases} releases by {rule}, of: {shown}",
        "notes": (*notes, f"composed by {rule}"),
    }


def _by_losses(counted: _Counted) -> Profile | None:
    merged: dict[Loss, int] = {}
    for profile, count in counted:
        if profile.losses is None:
            return None
        for loss, many in profile.losses:
            merged[loss] = merged.get(loss, 0) + count * many
    # Gaussians among other laws are one Gaussian: fewer grids to convolve.
    rest, squares = [], []
    for loss, many in merged.items():
        if isinstance(loss, GaussianLoss) and len(loss.mus) == 1:
            squares.append(many * loss.mus[0] ** 2)
        else:
            rest.append((loss, many))
    if (total := math.fsum(squares)) > 0:
        rest.append((GaussianLoss((math.sqrt(total),)), 1))
    limits = [profile.limit for profile, _ in counted if isinstance(profile, LossProfile)]
    limit = min(limits, key=lambda limit: limit.points, default=Limit())
    described = _described(counted, "privacy loss distributions")
    return LossProfile(components=tuple(rest), limit=limit, **described)


def _by_concentration(counted: _Counted) -> Profile | None:
    costs = [_concentrated_cost(profile) for profile, _ in counted]
    if None in costs:
        return None
    repeated = [(cost, count) for cost, (_, count) in zip(costs, counted, strict=True) if cost]
    rho, xi = (math.fsum(count * cost[i] for cost, count in repeated) for i in (0, 1))
    return ConcentratedProfile(rho=rho, xi=xi, **_described(counted, "zero-concentrated DP"))


def _by_renyi(counted: _Counted) -> Profile | None:
    total = np.zeros(len(renyi.ORDERS))
    for profile, count in counted:
        values = profile.renyi(renyi.ORDERS)
        if values is None:
            return None
        total = total + count * values
    described = _described(counted, "Renyi DP")
    return RenyiProfile(orders=tuple(renyi.ORDERS), values=tuple(total), **described)


@dataclass(frozen=True, kw_only=True)
class SummedProfile(Profile):
    """Basic composition: epsilons add up, each release spending an equal part of delta."""

    parts: tuple[tuple[Profile, int], ...]

    def _epsilon_one_way(self, log_delta: float, direction: Direction) -> float:
        share = math.exp(log_delta) / sum(count for _, count in self.parts)
        return math.fsum(count * part.epsilon(share) for part, count in self.parts)

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        def holds(log_delta: float) -> bool:
            return self._epsilon_one_way(log_delta, direction) <= epsilon

        if holds(-745.0):
            return -745.0
        if not holds(-1e-12):
            return 0.0
        # `least` is relative to its value, so it searches what is added to the bottom.
        return -745.0 + least(lambda rise: holds(rise - 745.0), 0.0, 745.0 - 1e-12)


_Fixed = Literal["gaussian", "concentrated", "promised"]

GAUSSIAN = "Gaussian DP, exactly"
CONCENTRATED = "zero-concentrated DP"
PROMISED = "sum of the promised epsilons and deltas"
LOSSES = "privacy loss distributions"
RENYI = "Renyi DP"
_NAMES = {"gaussian": GAUSSIAN, "concentrated": CONCENTRATED, "promised": PROMISED}

_ROUNDING = 1e-12
"""Ten promises of delta / 10 sum to a little more than delta in float64; this much is forgiven."""


@dataclass(frozen=True)
class Part:
    """One release in a ledger.

    Parameters
    ----------
    profile
        All that is proved of it.
    epsilon, delta
        What was promised: proved by `profile` when the release was made, and not proved again.
    """

    profile: Profile
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not isinstance(self.profile, Profile):
            checks.fail("profile", type(self.profile).__name__, "to be a Profile")
        checks.non_negative("epsilon", self.epsilon, allow_infinite=True)
        checks.probability_below_one("delta", self.delta)


@dataclass(frozen=True)
class Total:
    """What releases spend together.

    Parameters
    ----------
    epsilon, delta
        Proved for all of them; infinite if no rule covers them.
    rule
        How, in plain words.
    as_you_go
        Whether the rule holds, as a filter, also if later budgets were chosen after seeing earlier
        models.
    """

    epsilon: float
    delta: float
    rule: str
    as_you_go: bool


Rule = tuple[str, Callable[[], float]]
"""What it is called, and the epsilon it proves, computed when asked."""


def total(
    parts: Sequence[Part],
    delta: float,
    *,
    as_you_go: bool = False,
    fixed: _Fixed | None = None,
    enough: float | None = None,
) -> Total:
    """The least epsilon proved at `delta` for all these releases.

    Parameters
    ----------
    parts
        The releases, oldest first.
    delta
        Of them all together.
    as_you_go
        Whether later budgets were chosen after seeing earlier models. Then one rule is used, and
        where it does not cover a release epsilon is infinite.
    fixed
        That rule, if it was fixed in advance: "gaussian", "concentrated" or "promised". None: by
        the first release, Gaussian DP if it is Gaussian, zCDP if it is that, else the promises.
    enough
        Stop at the first rule that proves this epsilon; cheap rules are tried first.

    Raises
    ------
    InvalidArgument
        If two have different relations: their guarantees do not add up.
    """
    delta = checks.probability_below_one("delta", delta)
    if enough is not None:
        checks.non_negative("enough", enough, allow_infinite=True)
    parts = _checked(parts)
    if not parts:
        return Total(0.0, delta, "nothing was released", True)
    if any(_hides_nothing(part.profile) for part in parts):
        return Total(math.inf, delta, "a release that hides nothing", True)
    name = _NAMES[checks.one_of("fixed", fixed or _by_first(parts), tuple(_NAMES))]
    if as_you_go:
        value = dict(_cheap_rules(parts, delta)).get(name, lambda: math.inf)()
        failed = f"{name}, fixed in advance, which does not cover all releases at this delta"
        return Total(value, delta, name if math.isfinite(value) else failed, True)
    best, rule = math.inf, "no rule, as none proves anything at this delta"
    rules = itertools.chain(_cheap_rules(parts, delta), _costly_rules(parts, delta))
    for candidate, epsilon in rules:
        if (value := epsilon()) < best:
            best, rule = value, candidate
        if enough is not None and best <= enough:
            break
    return Total(best, delta, rule, rule == name)


def largest_gaussian(
    parts: Sequence[Part],
    epsilon: float,
    delta: float,
    *,
    as_you_go: bool = False,
    fixed: _Fixed | None = None,
) -> float:
    """The largest mu of a Gaussian release that still fits into (epsilon, delta), rounded down.

    It is taken to promise what it proves at the delta that the promises leave. 0 if none fits.
    Exact among Gaussian releases; with others a search in 12 steps, each a composition.

    Parameters
    ----------
    parts, delta, as_you_go, fixed
        As in `total`.
    epsilon
        The budget at `delta`.
    """
    epsilon = checks.non_negative("epsilon", epsilon, allow_infinite=True)
    delta = checks.probability_below_one("delta", delta)
    parts = _checked(parts)
    if any(_hides_nothing(part.profile) for part in parts):
        return math.inf if math.isinf(epsilon) else 0.0
    if math.isinf(epsilon):
        return math.inf
    left = max(0.0, delta - math.fsum(part.delta for part in parts))
    alone = _largest_mu(epsilon, delta)
    if alone == 0 or not parts:
        return alone
    rule = fixed or _by_first(parts)
    relation = parts[0].profile.relation

    def fits(mu: float) -> bool:
        profile = GaussianProfile(parameter=mu, relation=relation, theorem="a Gaussian release")
        more = [*parts, Part(profile, gaussian.epsilon(mu, left), left)]
        with_it = total(more, delta, as_you_go=as_you_go, fixed=rule, enough=epsilon)
        return with_it.epsilon <= epsilon

    mus = [part.profile.mu for part in parts]
    promised = _largest_mu(epsilon - math.fsum(part.epsilon for part in parts), left)
    if None not in mus and not (as_you_go and rule != "gaussian"):
        spent = math.fsum(mu * mu for mu in mus if mu is not None)
        return _shrunk(math.sqrt(max(0.0, alone * alone - spent)), fits)
    if as_you_go and rule == "gaussian":
        return 0.0
    promised = _shrunk(promised, fits)
    if as_you_go and rule == "promised":
        return promised
    low, high = promised, alone
    for _ in range(40 if as_you_go else 12):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _checked(parts: Sequence[Part]) -> list[Part]:
    parts = list(checks.sequence("parts", parts, "Pass a list of Part."))
    for part in parts:
        if not isinstance(part, Part):
            checks.fail("part", type(part).__name__, "to be a Part")
    if parts:
        one_relation([part.profile for part in parts])
    return parts


def _may_be_less(profile: Profile) -> bool:
    return isinstance(profile, GaussianProfile) and profile.at_most


def _hides_nothing(profile: Profile) -> bool:
    if isinstance(profile, ApproximateProfile):
        return math.isinf(profile.budget[0])
    if isinstance(profile, ConcentratedProfile):
        return math.isinf(profile.rho) or math.isinf(profile.xi)
    return profile.mu == math.inf


def _by_first(parts: Sequence[Part]) -> _Fixed:
    first = parts[0].profile
    if first.mu is not None:
        return "gaussian"
    return "concentrated" if isinstance(first, ConcentratedProfile) else "promised"


def _cheap_rules(parts: list[Part], delta: float) -> Iterator[Rule]:
    """Those that need no convolution; also those that hold as you go."""
    if math.fsum(part.delta for part in parts) <= delta * (1 + _ROUNDING):
        yield PROMISED, lambda: math.fsum(part.epsilon for part in parts)
    mus = [part.profile.mu for part in parts]
    if None not in mus:
        root = math.sqrt(math.fsum(mu * mu for mu in mus if mu is not None))
        yield GAUSSIAN, lambda: gaussian.epsilon(root, delta)
    costs = [cost for part in parts if (cost := _concentrated_cost(part.profile))]
    if len(costs) == len(parts):
        rho, xi = (math.fsum(column) for column in zip(*costs, strict=True))
        relation = parts[0].profile.relation
        summed = ConcentratedProfile(rho=rho, xi=xi, relation=relation, theorem="zCDP")
        yield CONCENTRATED, lambda: summed.epsilon(delta)


def _concentrated_cost(profile: Profile) -> tuple[float, float] | None:
    """Its (rho, xi), if it has one."""
    if isinstance(profile, ConcentratedProfile):
        return profile.rho, profile.xi
    return None if profile.mu is None else (profile.mu * profile.mu / 2, 0.0)


def _costly_rules(parts: list[Part], delta: float) -> Iterator[Rule]:
    """Those that compose curves; none where Gaussian DP is exact already."""
    profiles = [part.profile for part in parts]
    if all(profile.mu is not None for profile in profiles):
        return
    if len(parts) == 1:
        yield "the curve of the only release", lambda: profiles[0].epsilon(delta)
        return
    common = _language(profiles)
    if common is not None:
        yield common, lambda: _compose_group(profiles).epsilon(delta)
    for grouped in _groupings(parts):
        members = [[part.profile for part in group] for group in grouped]
        words = [f"{_language(g)} of {len(g)}" if len(g) > 1 else "one alone" for g in members]
        named = f"sum over kinds: {', '.join(words)}"
        composed = [_compose_group(group) for group in members]
        promises = [math.fsum(part.delta for part in group) for group in grouped]
        for shares in _shares(promises, delta):
            yield named, lambda c=composed, s=shares: _summed(c, s)  # type: ignore[misc]
    for shares in _shares([part.delta for part in parts], delta):
        yield "sum of epsilons at shares of delta", lambda s=shares: _summed(profiles, s)  # type: ignore[misc]


def _language(profiles: Sequence[Profile]) -> str | None:
    """What all of these can be composed in."""
    if all(profile.losses is not None for profile in profiles):
        return LOSSES
    return RENYI if all(_moments(profile) is not None for profile in profiles) else None


def _compose_group(profiles: list[Profile]) -> Profile:
    """All of these, which have a common language, or the only one."""
    if len(profiles) == 1 or _language(profiles) == LOSSES:
        return compose(profiles)
    return compose([known for profile in profiles if (known := _moments(profile)) is not None])


@functools.lru_cache(maxsize=512)
def _moments(profile: Profile) -> RenyiProfile | None:
    """Its Renyi curve, if there is one; kept, as it takes longer than the composition."""
    values = profile.renyi(renyi.ORDERS)
    if values is None or not np.isfinite(values).any():
        return None
    return RenyiProfile(
        orders=tuple(renyi.ORDERS.tolist()),
        values=tuple(values.tolist()),
        relation=profile.relation,
        theorem=profile.theorem,
    )


def _groupings(parts: list[Part]) -> list[list[list[Part]]]:
    """Mixed kinds by what they have in common: first what has losses, then what has moments."""
    found: list[list[list[Part]]] = []
    for first in (LOSSES, RENYI):
        groups: dict[str | int, list[Part]] = {}
        for number, part in enumerate(parts):
            known = {
                LOSSES: part.profile.losses is not None,
                RENYI: _moments(part.profile) is not None,
            }
            spoken = [first, *(language for language in known if language != first)]
            key = next((language for language in spoken if known[language]), number)
            groups.setdefault(key, []).append(part)
        grouped = list(groups.values())
        # One group is plain composition; all alone are the shares of each release.
        if 1 < len(grouped) < len(parts) and grouped not in found:
            found.append(grouped)
    return found


def _shares(promised: list[float], delta: float) -> Iterator[list[float]]:
    """Delta cut into equal shares, and in proportion to what was promised."""
    yield [delta / len(promised)] * len(promised)
    whole = math.fsum(promised)
    if whole > 0 and len(set(promised)) > 1:
        yield [delta * (part / whole) for part in promised]


def _summed(profiles: list[Profile], shares: list[float]) -> float:
    counted = Counter(zip(profiles, shares, strict=True))
    return math.fsum(many * profile.epsilon(share) for (profile, share), many in counted.items())


def _largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu that proves (epsilon, delta) alone, rounded down."""
    if epsilon < 0 or delta <= 0:
        return 0.0
    mu = 1 / gaussian.sigma(epsilon, delta)
    return _shrunk(mu, lambda mu: gaussian.epsilon(mu, delta) <= epsilon)


def _shrunk(mu: float, fits: Callable[[float], bool]) -> float:
    """`mu` less what rounding put on it; 0 if that is not enough."""
    for power in range(16):
        if mu == 0 or fits(mu):
            return mu
        mu *= 1 - 1e-15 * 4**power
    return 0.0


_TRIED = 96
"""Epsilons looked at for the least delta, where the bound rises with epsilon."""
_LOG_NOTHING = -1000.0
"""Deltas below exp of this are 0 as floats: there is nothing less to look for."""


def group(profile: Profile, size: int) -> Profile:
    """The profile for all `size` records of one person together; also for fewer.

    Gaussian DP: size times mu, exactly (Dong, Roth & Su 2022, Theorem 2.14). zCDP: size^2 times rho
    and size (1 + 1/2 + ... + 1/size) times xi (Bun & Steinke 2016, Proposition 27). Otherwise
    delta_k(epsilon) = sum over j < k of e^(j epsilon / k) delta(epsilon / k): both epsilon and
    delta grow (Vadhan 2017, Lemma 2.2); or, where that is less, the first rule as if everything but
    the Gaussian noise were known.

    Parameters
    ----------
    profile
        Of the whole release for one record: compose first, then ask for the group.
    size
        The most records any person has: bounded by how the data were made, not read off them.
    """
    size = checks.whole("size", size, "Pass the most records of any person.", at_least=1)
    if size == 1:
        return profile
    notes = (*profile.notes, f"for {size} records of one person")
    about: dict[str, Any] = {"relation": profile.relation, "notes": notes}
    if profile.mu is not None:
        theorem = f"Gaussian DP of {size} records (Dong, Roth & Su 2022), of: {profile.theorem}"
        less = _may_be_less(profile)
        return GaussianProfile(parameter=size * profile.mu, theorem=theorem, at_most=less, **about)
    if isinstance(profile, ConcentratedProfile):
        theorem = f"zCDP of {size} records (Bun & Steinke 2016), of: {profile.theorem}"
        # The factor of xi, k (1 + 1/2 + ... + 1/k), rounded up: h_k = h_(k-1) k / (k - 1) + 1.
        harmonic = size * math.fsum(1 / j for j in range(1, size + 1)) * (1 + 1e-14)
        rho, xi = size**2 * profile.rho, harmonic * profile.xi
        return ConcentratedProfile(rho=rho, xi=xi, theorem=theorem, **about)
    theorem = f"group privacy for {size} records (Vadhan 2017), of: {profile.theorem}"
    return GroupProfile(one=profile, size=size, theorem=theorem, **about)


@dataclass(frozen=True, kw_only=True)
class GroupProfile(Profile):
    """A chain of `size` neighbours: each step costs epsilon / size, and deltas pile up.

    All records of the person come or go together, so every step has the direction asked for. Of
    many records, or where noise is small, deltas pile up to 1 at every epsilon; then Gaussian DP
    of what is drawn, taken for known, still tells something.
    """

    one: Profile
    size: int

    @functools.cached_property
    def _most_mu(self) -> float:
        """The parameter of Gaussian DP that holds for all of them; infinite if none is known."""
        squares = [count * loss.most_mu**2 for loss, count in self.one.losses or ()]
        return self.size * math.sqrt(math.fsum(squares)) * (1 + 1e-14) if squares else math.inf

    def log_delta_one_way(self, epsilon: float, direction: Direction) -> float:
        known = gaussian.log_delta(epsilon, self._most_mu)
        return min(known, self._chained(epsilon, direction))

    def _chained(self, epsilon: float, direction: Direction) -> float:
        """Ln of delta by the chain alone, which must not rise."""
        here = self._chain(epsilon, direction)
        if epsilon == 0 or here == -math.inf or self._chain(0.999 * epsilon, direction) > here:
            return here
        # The sum rises with epsilon here, but a delta proved for less holds for more.
        points, values = self._known(direction)
        return min(here, float(values[points <= epsilon].min()))

    def _known(self, direction: Direction) -> tuple[Floats, Floats]:
        """The sum on a ladder of epsilons, and where it is least; kept once known."""
        known: dict[str, tuple[Floats, Floats]] = self.__dict__.setdefault("_ladders", {})
        if direction not in known:
            points = np.concatenate([[0.0], self.size * np.geomspace(1e-3, 1e3, _TRIED)])
            values: list[float] = []
            for point in points.tolist():
                values.append(self._chain(point, direction))
                if values[-1] < _LOG_NOTHING:
                    break
            points = points[: len(values)]
            best = int(np.argmin(values))
            low, high = points[max(best - 1, 0)], points[min(best + 1, len(values) - 1)]
            low, high = float(low), float(high)
            for _ in range(70 if values[best] >= _LOG_NOTHING else 0):  # by thirds: each is a proof
                third = (high - low) / 3
                left, right = (self._chain(low + step, direction) for step in (third, 2 * third))
                low, high = (low, high - third) if left <= right else (low + third, high)
            least = self._chain(high, direction)
            known[direction] = np.append(points, high), np.append(values, least)
        return known[direction]

    def _chain(self, epsilon: float, direction: Direction) -> float:
        """Ln of sum e^(j epsilon / k) delta(epsilon / k), at most 0."""
        share = epsilon / self.size
        one = self.one.log_delta_one_way(share, direction)
        if one == -math.inf or one == 0:
            return one
        if math.isinf(share):
            return 0.0
        steps = share * np.arange(self.size)
        return min(0.0, one + float(np.logaddexp.reduce(steps)))
