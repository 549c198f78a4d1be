"""Between `Profile` and dp-accounting's `DpEvent`: what was done, in the words of that library.

Conventions. noise_multiplier is the noise's standard deviation over the bound on one record's
contribution, as in dp-accounting. Under `Relation.REPLACE_ONE` the record may be exchanged for one
with the opposite contribution, so `GaussianDpEvent(z)` has mu = 2/z here, as in dp-accounting's
`PLDAccountant`; its `RdpAccountant` (0.6) leaves the factor 2 out under REPLACE_ONE and claims half
of the true loss. `Relation.ZERO_OUT` is its REPLACE_SPECIAL, with mu = 1/z as under add or remove.

`Accountant`: sordino's accounting in the shape that Opacus expects of its accountants.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sordino import checks
from sordino.accounting import dp_sgd
from sordino.accounting.compose import compose
from sordino.accounting.pld.loss import (
    FixedSizeLoss,
    GaussianLoss,
    Loss,
    PoissonLoss,
    PoissonReplaceLoss,
)
from sordino.accounting.profile import GaussianProfile, Profile
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.errors import NotApplicable
from sordino.privacy import Relation, Sampling

if TYPE_CHECKING:
    from dp_accounting import DpEvent


_RELATION = Relation.ADD_OR_REMOVE_ONE
_STATE = {
    "schema": 1,  # version of what `state_dict` holds
    "mechanism": "sordino",
    "sampling": "poisson",
    "relation": _RELATION.value,
}


class Accountant:
    """Counts the steps of DP-SGD and says what they spent; fits `opacus.PrivacyEngine`.

    Opacus has one convention, and so has this class: every step adds Gaussian noise to the clipped
    gradients of a Poisson sample, and neighbours differ by one record that is present or absent
    (`Relation.ADD_OR_REMOVE_ONE`). A loader that shuffles instead (`poisson_sampling=False`) is not
    covered by these numbers; `sordino.accounting.dp_sgd` has that case.

    Opacus asks for the shape only, so this class is no subclass of Opacus' and needs no Opacus::

        from opacus import PrivacyEngine
        from opacus.accountants import register_accountant

        register_accountant(Accountant.mechanism(), Accountant)
        engine = PrivacyEngine(accountant="sordino")

    Attributes
    ----------
    history
        (noise_multiplier, sample_rate, steps) of every stretch of equal steps, in order.

    >>> accountant = Accountant()
    >>> for _ in range(10):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    >>> len(accountant), round(accountant.get_epsilon(1e-6), 3)
    (10, 3.466)
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step; noise_multiplier = std / clip, and 0 means no privacy."""
        self._count(_noise(noise_multiplier), _rate(sample_rate), 1)

    def _count(self, noise_multiplier: float, sample_rate: float, steps: int) -> None:
        if self.history and tuple(self.history[-1][:2]) == (noise_multiplier, sample_rate):
            steps += self.history.pop()[2]
        self.history.append((noise_multiplier, sample_rate, steps))

    def profile(self) -> Profile:
        """Everything the steps so far can leak, composed by their privacy loss distributions."""
        totals: Counter[tuple[float, float]] = Counter()
        for entry in self.history:
            noise_multiplier, sample_rate, steps = _entry("history", entry)
            totals[noise_multiplier, sample_rate] += steps
        runs = [(*pair, steps) for pair, steps in totals.items()] or [(1.0, 1.0, 0)]
        return compose([dp_sgd.pld(*run, sampling="poisson", relation=_RELATION) for run in runs])

    def get_epsilon(self, delta: float, **kwargs: Any) -> float:
        """Epsilon spent so far at `delta`, an upper bound.

        `kwargs` are settings of Opacus' own accountants (`alphas`, `eps_error`), which its engine
        hands to every accountant; they change nothing here.
        """
        return self.profile().epsilon(delta)

    def __len__(self) -> int:
        """Number of steps so far."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name to register this class by; `make_private_with_epsilon` looks it up again."""
        return str(_STATE["mechanism"])

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What an Opacus optimizer calls after each step.

        A step over k accumulated batches may meet a record k times; one batch at k times the rate,
        which is what Opacus' own hook counts, would be too little. The noise is the sum of k
        shares of variance 1/k, so the step leaks no more than k steps with noise_multiplier /
        sqrt(k), and that is counted.
        """
        rate = _rate(sample_rate)

        def hook(optimizer: Any) -> None:
            batches = checks.whole("batches", optimizer.accumulated_iterations, at_least=1)
            noise = _noise(optimizer.noise_multiplier)
            self._count(noise / math.sqrt(batches), rate, batches)

        return hook

    def state_dict(
        self, destination: MutableMapping[str, Any] | None = None
    ) -> MutableMapping[str, Any]:
        """Everything needed to resume, as plain values that JSON can hold."""
        state = {} if destination is None else destination
        history = [list(_entry("history", entry)) for entry in self.history]
        state.update(_STATE, history=history)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume from what `state_dict` returned, also after a trip through JSON.

        Raises
        ------
        InvalidArgument
            If it is anything else; then nothing was changed.
        """
        hint = "Pass what `state_dict` of a sordino Accountant returned."
        if not isinstance(state_dict, Mapping) or not state_dict:
            checks.fail("state_dict", state_dict, "to be a filled dictionary", hint)
        for key, value in _STATE.items():
            if state_dict.get(key) != value:
                name = f'state_dict["{key}"]'
                checks.fail(name, state_dict.get(key), f"to be {value}", hint)
        entries = checks.sequence('state_dict["history"]', state_dict.get("history"), hint)
        self.history = [_entry('state_dict["history"]', entry) for entry in entries or ()]


def _entry(name: str, entry: Any) -> tuple[float, float, int]:
    hint = "One entry is (noise_multiplier, sample_rate, steps)."
    if len(checks.sequence(name, entry, hint)) != 3:
        checks.fail(name, entry, "to have three numbers an entry", hint)
    noise_multiplier, sample_rate, steps = entry
    return _noise(noise_multiplier), _rate(sample_rate), checks.whole("steps", steps)


def _noise(value: float) -> float:
    hint = "It is the noise's standard deviation over the clipping norm; 0 means no privacy."
    return checks.non_negative("noise_multiplier", value, hint)


def _rate(value: float) -> float:
    hint = "It is the chance of each record to be in the batch: expected batch size / records."
    return checks.fraction("sample_rate", value, hint)


def from_event(event: DpEvent, relation: Relation) -> Profile:
    """Profile of what a `DpEvent` describes.

    Parameters
    ----------
    event
        GaussianDpEvent, PoissonSampledDpEvent and SampledWithoutReplacementDpEvent of a
        GaussianDpEvent, ZCDpEvent, NoOpDpEvent, NonPrivateDpEvent, and SelfComposedDpEvent and
        ComposedDpEvent of these, nested as you like.
    relation
        What counts as a neighbouring dataset; an event does not say. A `ZCDpEvent` is taken at
        its word for whichever relation you pass.

    Raises
    ------
    NotApplicable
        For an event that has no profile here, or none under this relation.

    >>> import dp_accounting
    >>> from sordino import Relation
    >>> event = dp_accounting.GaussianDpEvent(2.0)
    >>> round(from_event(event, Relation.REPLACE_ONE).epsilon(1e-6), 4)
    4.8866
    """
    import dp_accounting as dp

    if not isinstance(event, dp.DpEvent):
        checks.fail("event", event, "to be a dp_accounting.DpEvent")
    if not isinstance(relation, Relation):
        checks.fail("relation", relation, "to be a Relation", "Pass Relation.REPLACE_ONE, say.")
    # Equal leaves are composed at once, however they were nested. By what they print, since events
    # with lists in them cannot be hashed.
    leaves: dict[str, tuple[Any, int]] = {}
    for leaf, count in _leaves(event, 1):
        leaves[repr(leaf)] = leaf, count + leaves.get(repr(leaf), (leaf, 0))[1]
    profiles = [_leaf_profile(leaf, count, relation) for leaf, count in leaves.values()]
    lost = [profile for profile in profiles if profile.mu == math.inf]
    return lost[0] if lost else compose(profiles or [_gaussian_profile(0.0, relation)])


def to_event(profile: Profile) -> DpEvent:
    """Event that describes `profile`, in its simplest form.

    The inverse of `from_event` on events in that form: equal Gaussian steps are one Gaussian step
    with less noise, other equal steps are one `SelfComposedDpEvent`, and a batch of fixed size is
    given in lowest terms (10 of 1,000 records come back as 1 of 100: only the ratio counts).
    Account for the event under `profile.relation`.

    Raises
    ------
    NotApplicable
        If dp-accounting has no event for it.

    >>> from sordino import Relation
    >>> from sordino.accounting.profile import GaussianProfile
    >>> to_event(GaussianProfile(parameter=0.5, relation=Relation.ZERO_OUT, theorem="GDP"))
    GaussianDpEvent(noise_multiplier=2.0)
    """
    import dp_accounting as dp

    if profile.mu is not None:
        return _gaussian(profile.mu, profile.relation)
    if isinstance(profile, ConcentratedProfile):
        return dp.ZCDpEvent(profile.rho, profile.xi)
    if profile.losses is None:
        raise NotApplicable(
            f"dp-accounting has no DpEvent for a {type(profile).__name__} ({profile.theorem}); "
            "build the profile with accounting.dp_sgd.pld, or write its (epsilon, delta) down."
        )
    steps = []
    for loss, count in profile.losses:
        event = _loss_event(loss, profile.relation)
        steps.append(event if count == 1 else dp.SelfComposedDpEvent(event, count))
    return steps[0] if len(steps) == 1 else dp.ComposedDpEvent(steps)


def _leaves(event: Any, count: int) -> Iterator[tuple[Any, int]]:
    """Every event inside that is no composition, with how often it happens."""
    import dp_accounting as dp

    if isinstance(event, dp.SelfComposedDpEvent):
        yield from _leaves(event.event, count * checks.whole("count", event.count))
    elif isinstance(event, dp.ComposedDpEvent):
        for inner in event.events:
            yield from _leaves(inner, count)
    elif count > 0 and not isinstance(event, dp.NoOpDpEvent):
        yield event, count


def _leaf_profile(event: Any, count: int, relation: Relation) -> Profile:
    import dp_accounting as dp

    if isinstance(event, dp.NonPrivateDpEvent):
        return _gaussian_profile(math.inf, relation)
    if isinstance(event, dp.ZCDpEvent):
        theorem = "zCDP (Bun & Steinke 2016)"
        rho, xi = count * event.rho, count * event.xi
        return ConcentratedProfile(relation=relation, theorem=theorem, rho=rho, xi=xi)
    sampled = isinstance(event, dp.PoissonSampledDpEvent | dp.SampledWithoutReplacementDpEvent)
    step = event.event if sampled else event
    if not isinstance(step, dp.GaussianDpEvent):
        raise NotApplicable(
            f"There is no profile for {event}. Supported are GaussianDpEvent, sampled or not, "
            "ZCDpEvent, NoOpDpEvent, NonPrivateDpEvent and compositions of these."
        )
    rate, sampling = 1.0, Sampling.FULL
    if isinstance(event, dp.PoissonSampledDpEvent):
        rate, sampling = event.sampling_probability, Sampling.POISSON
    elif sampled:
        size, records = checks.whole("sample_size", event.sample_size), event.source_dataset_size
        if size > checks.whole("source_dataset_size", records, at_least=1):
            checks.fail("sample_size", size, f"<= {records}, the number of records")
        rate, sampling = size / records, Sampling.FIXED_SIZE
    return dp_sgd.pld(step.noise_multiplier, rate, count, sampling=sampling, relation=relation)


def _gaussian_profile(mu: float, relation: Relation) -> Profile:
    theorem = "nothing is promised" if mu else "nothing was released"
    return GaussianProfile(relation=relation, theorem=theorem, parameter=mu)


def _gaussian(mu: float, relation: Relation) -> Any:
    import dp_accounting as dp

    if mu == 0:
        return dp.NoOpDpEvent()
    if math.isinf(mu):
        return dp.NonPrivateDpEvent()
    distance = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    noise = distance / mu
    # Dividing twice may lose the last bit of a noise multiplier that was a short decimal.
    short = float(f"{noise:.15g}")
    return dp.GaussianDpEvent(short if distance / short == mu else noise)


def _loss_event(loss: Loss, relation: Relation) -> Any:
    import dp_accounting as dp

    if isinstance(loss, GaussianLoss) and len(loss.mus) == 1:
        return _gaussian(loss.mus[0], relation)
    if isinstance(loss, PoissonLoss | PoissonReplaceLoss):
        step = dp.GaussianDpEvent(loss.noise_multiplier)
        return dp.PoissonSampledDpEvent(loss.sample_rate, step)
    if isinstance(loss, FixedSizeLoss):
        records = 10**9  # the largest denominator
        rate = Fraction(loss.sample_rate).limit_denominator(records)
        if float(rate) < loss.sample_rate:  # a smaller one would claim too little
            rate = Fraction(math.ceil(Fraction(loss.sample_rate) * records), records)
        step = dp.GaussianDpEvent(loss.noise_multiplier)
        return dp.SampledWithoutReplacementDpEvent(rate.denominator, rate.numerator, step)
    raise NotApplicable(
        f"dp-accounting has no DpEvent for {loss}, only for Gaussian steps on all records, on "
        "Poisson samples and on batches of fixed size."
    )
