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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from sordino import checks
from sordino.accounting import dp_sgd
from sordino.accounting.compose import compose
from sordino.accounting.pld.allocation import AllocationLoss, AllocationReplaceLoss
from sordino.accounting.pld.loss import (
    LEAST_RATE,
    FixedSizeLoss,
    GaussianLoss,
    Loss,
    PoissonLoss,
    PoissonReplaceLoss,
    amplified,
)
from sordino.accounting.pld.person import MixtureLoss, PersonLoss
from sordino.accounting.pld.pure import DiscreteLoss, LaplaceLoss
from sordino.accounting.profile import ApproximateProfile, GaussianProfile, LossProfile, Profile
from sordino.accounting.selection import repeat_and_select
from sordino.accounting.zcdp import ConcentratedProfile
from sordino.errors import NotApplicable
from sordino.privacy import Relation, Sampling

if TYPE_CHECKING:
    from dp_accounting import DpEvent


_RELATION = Relation.ADD_OR_REMOVE_ONE


class _Sampler(Protocol):
    """What an accountant must know of `sordino.sgd.AllocationSampler`."""

    epoch: int

    def __len__(self) -> int: ...


class Accountant:
    """Counts the steps of DP-SGD and says what they spent; fits `opacus.PrivacyEngine`.

    Opacus has one convention, and so has this class: every step adds Gaussian noise to the clipped
    gradients of a Poisson sample, and neighbours differ by one record that is present or absent
    (`Relation.ADD_OR_REMOVE_ONE`). A loader that shuffles instead (`poisson_sampling=False`) is not
    covered by these numbers; `sordino.accounting.dp_sgd` has that case. For random allocation there
    is `allocation_accountant`.

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

    _sampling = Sampling.POISSON

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step; noise_multiplier = std / clip, and 0 means no privacy."""
        self._count(_noise(noise_multiplier), self._rate(sample_rate), 1)

    def _count(self, noise_multiplier: float, sample_rate: float, steps: int) -> None:
        if self.history and tuple(self.history[-1][:2]) == (noise_multiplier, sample_rate):
            steps += self.history.pop()[2]
        self.history.append((noise_multiplier, sample_rate, steps))

    def profile(self) -> Profile:
        """Everything the steps so far can leak, composed by their privacy loss distributions."""
        totals: Counter[tuple[float, float]] = Counter()
        for entry in self.history:
            noise_multiplier, sample_rate, steps = self._entry("history", entry)
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
        return "sordino"

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What an Opacus optimizer calls after each step.

        A step over k accumulated batches may meet a record k times; one batch at k times the rate,
        which is what Opacus' own hook counts, would be too little. The noise is the sum of k
        shares of variance 1/k, so the step leaks no more than k steps with noise_multiplier /
        sqrt(k), and that is counted.
        """
        rate = self._rate(sample_rate)

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
        history = [list(self._entry("history", entry)) for entry in self.history]
        state.update(self._state(), history=history)
        return state

    def _state(self) -> dict[str, Any]:
        return {
            "schema": 1,  # version of what `state_dict` holds
            "mechanism": self.mechanism(),
            "sampling": self._sampling.value,
            "relation": _RELATION.value,
        }

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
        for key, value in self._state().items():
            if state_dict.get(key) != value:
                name = f'state_dict["{key}"]'
                checks.fail(name, state_dict.get(key), f"to be {value}", hint)
        entries = checks.sequence('state_dict["history"]', state_dict.get("history"), hint)
        self.history = [self._entry('state_dict["history"]', entry) for entry in entries or ()]

    def _entry(self, name: str, entry: Any) -> tuple[float, float, int]:
        hint = "One entry is (noise_multiplier, sample_rate, steps)."
        if len(checks.sequence(name, entry, hint)) != 3:
            checks.fail(name, entry, "to have three numbers an entry", hint)
        noise_multiplier, sample_rate, steps = entry
        return _noise(noise_multiplier), self._rate(sample_rate), checks.whole("steps", steps)

    def _rate(self, value: float) -> float:
        hint = "It is the chance of each record to be in the batch: expected batch size / records."
        return checks.fraction("sample_rate", value, hint)


class AllocationAccountant(Accountant):
    """Counts the steps of DP-SGD by random allocation: made by `allocation_accountant`.

    Each record is in one step of every epoch, and neighbours differ by one record that is present
    or absent. Epochs are those that the sampler began since there is this accountant: one that was
    broken off counts as whole, also where no step was seen of it, as two loaders may draw from one
    sampler by turns. Where noise changed within one, all its steps have the least (adding noise is
    post-processing).

    Attributes
    ----------
    history
        (least noise_multiplier, sample_rate, steps) of every epoch, in order.
    """

    _sampling = Sampling.ALLOCATION
    _sampler: ClassVar[_Sampler]

    def __init__(self) -> None:
        super().__init__()
        self._epoch = self._before

    @property
    def _before(self) -> int:
        """The last epoch of which no step can follow."""
        return max(0, self._sampler.epoch - 1)

    @classmethod
    def mechanism(cls) -> str:
        """The name to register this class by."""
        return "sordino-allocation"

    def _count(self, noise_multiplier: float, sample_rate: float, steps: int) -> None:
        epoch, most = self._sampler.epoch, len(self._sampler)
        hint = "Pass this sampler to the DataLoader as batch_sampler, and poisson_sampling=False."
        if epoch == 0:
            checks.fail("sampler.epoch", epoch, "> 0: no batch was drawn from it", hint)
        if steps > 1:
            hint = "An epoch is accounted batch by batch: take a step after each."
            checks.fail("accumulated_iterations", steps, "to be 1", hint)
        if epoch == self._epoch:
            noise, _, before = self.history[-1]
            if before == most:
                checks.fail("steps", before + 1, f"<= {most}, the batches of one epoch", hint)
            self.history.pop()
            noise_multiplier, steps = min(noise, noise_multiplier), before + 1
        # This may be a step of any epoch that was begun meanwhile.
        self.history += [(noise_multiplier, sample_rate, 0)] * (epoch - self._epoch - 1)
        self._epoch = epoch
        self.history.append((noise_multiplier, sample_rate, steps))

    def profile(self) -> Profile:
        """Everything the steps so far can leak, composed by their privacy loss distributions."""
        steps = len(self._sampler)
        epochs = Counter(self._entry("history", entry)[0] for entry in self.history)
        how: dict[str, Any] = {"sampling": self._sampling, "relation": _RELATION}
        if not epochs:
            return _normal(0.0, _RELATION)
        return compose(
            [
                dp_sgd.pld(noise, 1 / steps, steps * count, steps_per_epoch=steps, **how)
                for noise, count in epochs.items()
            ]
        )

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resume from what `state_dict` returned; the next step begins another epoch."""
        super().load_state_dict(state_dict)
        self._epoch = self._before

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "steps_per_epoch": len(self._sampler)}

    def _rate(self, value: float) -> float:
        steps = len(self._sampler)
        if abs(super()._rate(value) * steps - 1) > 1e-9:
            hint = "Pass the same sampler to the loader and to its accountant."
            checks.fail("sample_rate", value, f"to be 1 / {steps}", hint)
        return 1 / steps


def allocation_accountant(sampler: _Sampler) -> type[AllocationAccountant]:
    """The class of the accountant for batches of this sampler; Opacus calls it without arguments.

    Parameters
    ----------
    sampler
        A `sordino.sgd.AllocationSampler`: the one that the loader draws from.

    >>> from sordino.sgd import AllocationSampler
    >>> sampler = AllocationSampler(records=100, steps_per_epoch=10)
    >>> accountant = allocation_accountant(sampler)()
    >>> for batch in sampler:
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    >>> len(accountant), round(accountant.get_epsilon(1e-6), 2)
    (10, 2.65)
    """
    if not hasattr(sampler, "epoch") or not hasattr(sampler, "__len__"):
        checks.fail("sampler", type(sampler).__name__, "to be an AllocationSampler")
    return type("AllocationAccountant", (AllocationAccountant,), {"_sampler": sampler})


def _noise(value: float) -> float:
    hint = "It is the noise's standard deviation over the clipping norm; 0 means no privacy."
    return checks.non_negative("noise_multiplier", value, hint)


def from_event(event: DpEvent, relation: Relation) -> Profile:
    """Profile of what a `DpEvent` describes.

    Parameters
    ----------
    event
        Any; compositions nested as you like.
    relation
        What counts as a neighbouring dataset; an event does not say. A `ZCDpEvent` is taken at
        its word for whichever relation you pass.

    Raises
    ------
    NotApplicable
        For an event that has no profile here, or none under this relation; with the reason.
    InvalidArgument
        If a number in the event is out of its range.

    Notes
    -----
    Exact: Gaussian, Laplace and discrete Laplace noise, randomised response, mixtures of Gaussians,
    tree aggregation of one epoch, Poisson samples with Gaussian or Laplace noise, batches of fixed
    size with Gaussian noise. Upper bounds: zCDP; truncated Poisson samples; repeat-and-select;
    mixtures of more than 128 shifts, and pure privacy below 1e-9 or above 100: notes say so.
    Refused everywhere: samples with replacement.

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
    # Equal leaves are converted once, however they were nested.
    leaves: dict[Any, tuple[Any, int]] = {}
    for leaf, count in _leaves(event, 1):
        key = _key(leaf)
        leaves[key] = leaf, count + leaves.get(key, (leaf, 0))[1]
    profiles = [_leaf_profile(leaf, relation) for leaf, _ in leaves.values()]
    lost = [profile for profile in profiles if profile.mu == math.inf]
    if lost or not profiles:
        return lost[0] if lost else _normal(0.0, relation)
    return compose(profiles, [count for _, count in leaves.values()])


def to_event(profile: Profile) -> DpEvent:
    """Event that describes `profile`, in its simplest form.

    The inverse of `from_event` on events in that form: equal Gaussian steps are one Gaussian step
    with less noise, other equal steps are one `SelfComposedDpEvent`, a batch of fixed size is given
    in lowest terms (10 of 1,000 records come back as 1 of 100: only the ratio counts), and a
    mixture of Gaussians with a largest sensitivity of 1, or in clipping norms for a person.
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

    # No subclasses: they may mean another thing.
    if type(event) is dp.SelfComposedDpEvent:
        yield from _leaves(event.event, count * checks.whole("count", event.count))
    elif type(event) is dp.ComposedDpEvent:
        for inner in event.events:
            yield from _leaves(inner, count)
    elif count > 0 and type(event) is not dp.NoOpDpEvent:
        yield event, count


def _key(event: Any) -> Any:
    """Itself, or its identity if it has lists in it; not its text, where arrays are cut short."""
    try:
        hash(event)
    except TypeError:
        return id(event)
    return event


def _leaf_profile(event: Any, relation: Relation) -> Profile:
    """Profile of an event that is no composition, once."""
    convert = _CONVERTERS.get(_name(event))
    if convert is None:
        raise NotApplicable(
            f"There is no profile for a {_name(event)}: its class is unknown here. Say what it "
            "promises as a ZCDpEvent, or build its profile yourself and use accounting.compose."
        )
    return convert(event, relation)


def _name(event: Any) -> str:
    """Of its class; somebody else's may have the name of one of theirs, and mean another thing."""
    from dp_accounting import dp_event

    kind = type(event)
    theirs = getattr(dp_event, kind.__name__, None) is kind
    return kind.__name__ if theirs else f"{kind.__module__}.{kind.__qualname__}"


def _normal(mu: float, relation: Relation) -> Profile:
    theorem = "nothing is promised" if mu else "nothing was released"
    return GaussianProfile(relation=relation, theorem=theorem, parameter=mu)


def _convert_gaussian(event: Any, relation: Relation) -> Profile:
    return dp_sgd.pld(event.noise_multiplier, 1.0, 1, sampling=Sampling.FULL, relation=relation)


def _convert_zcdp(event: Any, relation: Relation) -> Profile:
    theorem = "zCDP (Bun & Steinke 2016)"
    return ConcentratedProfile(relation=relation, theorem=theorem, rho=event.rho, xi=event.xi)


def _convert_tree(event: Any, relation: Relation) -> Profile:
    """Every node that holds the record, one a level, is a Gaussian sum."""
    if relation is Relation.ADD_OR_REMOVE_ONE:
        raise NotApplicable(
            "In a SingleEpochTreeAggregationDpEvent a record has its place in a tree, from which "
            "adding or removing one moves all later ones. Use zero-out or replace-one."
        )
    counts = event.step_counts
    counts = counts if hasattr(counts, "__len__") else [counts]
    deepest = max((checks.whole("step_counts", count) for count in counts), default=0)
    noise = event.noise_multiplier
    levels = deepest.bit_length()  # of complete nodes: ceil(log2(deepest + 1))
    return dp_sgd.pld(noise, 1.0, levels, sampling=Sampling.FULL, relation=relation)


def _convert_laplace(event: Any, relation: Relation, rate: float = 1.0) -> Profile:
    noise = checks.non_negative("noise_multiplier", event.noise_multiplier)
    distance = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    epsilon = distance / noise if noise > 0 else math.inf
    return _pure(epsilon, rate, relation, "Laplace mechanism", lambda: LaplaceLoss(epsilon, rate))


def _convert_discrete_laplace(event: Any, relation: Relation, rate: float = 1.0) -> Profile:
    noise = checks.non_negative("noise_parameter", event.noise_parameter)
    shift = checks.whole("sensitivity", event.sensitivity)
    shift *= 2 if relation is Relation.REPLACE_ONE else 1
    epsilon = noise * shift if noise > 0 else math.inf  # there is no noise of that parameter

    def law() -> Loss | None:
        if shift > _MOST_OUTCOMES:
            return None
        beyond = 1 / (1 + math.exp(-noise))
        between = [math.tanh(noise / 2) * math.exp(-noise * x) for x in range(1, shift)]
        losses = [noise * (shift - 2 * x) for x in range(shift + 1)]
        return _discrete(losses, [beyond, *between, beyond * math.exp(-epsilon)], rate)

    return _pure(epsilon, rate, relation, "discrete Laplace mechanism", law)


def _convert_randomized_response(event: Any, relation: Relation) -> Profile:
    noise = checks.fraction("noise_parameter", event.noise_parameter, allow_zero=True)
    buckets = checks.whole("num_buckets", event.num_buckets, at_least=1)
    if relation is Relation.ADD_OR_REMOVE_ONE:
        raise NotApplicable(
            "In a RandomizedResponseDpEvent every record answers: one more or less shows in their "
            "number. Use replace-one or zero-out."
        )
    if buckets == 1:
        return _normal(0.0, relation)
    other = noise / buckets
    own = 1 - noise + other
    if relation is Relation.REPLACE_ONE:
        epsilon = math.log(own / other) if other > 0 else math.inf
        losses, chances = [epsilon, 0.0, -epsilon], [own, (buckets - 2) * other, other]
    else:  # against a uniform answer
        losses = [math.log(buckets * own), math.log(noise) if noise > 0 else -math.inf]
        chances, epsilon = [own, (buckets - 1) * other], max(map(abs, losses))
    theorem = "randomised response (Warner 1965)"
    return _pure(epsilon, 1.0, relation, theorem, lambda: _discrete(losses, chances, 1.0))


def _discrete(losses: list[float], chances: list[float], rate: float) -> Loss:
    """A law of these losses, of a Poisson sample; chances of 0 are left out."""
    before = np.array(losses)[np.array(chances) > 0]
    logs = np.log(np.array(chances)[np.array(chances) > 0])
    after = amplified(before, rate)
    return DiscreteLoss(tuple(after.tolist()), tuple(np.exp(logs - before + after).tolist()))


def _pure(
    epsilon: float, rate: float, relation: Relation, theorem: str, law: Callable[[], Loss | None]
) -> Profile:
    """A pure (epsilon, 0) mechanism: its law, or else the promise alone."""
    if rate < 1 and relation is Relation.REPLACE_ONE:
        raise NotApplicable(
            f"For the {theorem} on a Poisson sample no pair is proved here where a record is "
            "replaced. Use add-or-remove-one or zero-out."
        )
    if epsilon == 0 or math.isinf(epsilon):
        return _normal(epsilon, relation)
    loss = law() if _PURE[0] <= epsilon <= _PURE[1] else None
    if loss is not None:
        return LossProfile(components=((loss, 1),), relation=relation, theorem=theorem)
    budget = float(amplified(np.array(epsilon), rate)), 0.0
    note = f"an upper bound: of the {theorem} its pure epsilon alone is used"
    return ApproximateProfile(budget=budget, relation=relation, theorem=theorem, notes=(note,))


def _convert_mixture(event: Any, relation: Relation) -> Profile:
    if relation is Relation.REPLACE_ONE:
        raise NotApplicable(
            "A MixtureOfGaussiansDpEvent says what a record adds, and not what it is exchanged "
            "for. Use add-or-remove-one or zero-out; for persons dp_sgd.pld knows replace-one."
        )
    deviation = checks.non_negative("standard_deviation", event.standard_deviation)
    chances: defaultdict[float, float] = defaultdict(float)
    if len(event.sensitivities) != len(event.sampling_probs):
        counts = f"[{len(event.sampling_probs)}]"
        checks.fail("sampling_probs", counts, f"to be {len(event.sensitivities)} numbers")
    for shift, chance in zip(event.sensitivities, event.sampling_probs, strict=True):
        chance = checks.fraction("sampling_probs", chance, allow_zero=True)
        if chance > 0:
            chances[checks.non_negative("sensitivities", shift)] += chance
    whole = math.fsum(chances.values())
    if abs(whole - 1) > 1e-9:  # as theirs: each may be rounded
        checks.fail("sum of sampling_probs", whole, "to be 1")
    top = max(chances)
    if top == 0 or deviation / top < dp_sgd.LEAST_NOISE:
        return _normal(0.0 if top == 0 else math.inf, relation)
    shifts, weights, at_most = _grouped(chances, top)
    noise, _ = dp_sgd.within_range(deviation / top, 1.0)
    if len(shifts) == 1 or (len(shifts) == 2 and shifts[0] == 0):
        rate = min(1.0, weights[-1] / whole)
        return dp_sgd.pld(noise, rate, 1, sampling=Sampling.POISSON, relation=relation)
    loss = MixtureLoss(noise, shifts, tuple(weight / whole for weight in weights), at_most)
    theorem = "mixture of Gaussians (Choquette-Choo et al. 2023)"
    notes = ("an upper bound: some shifts are counted as larger ones",) if at_most else ()
    return LossProfile(components=((loss, 1),), relation=relation, theorem=theorem, notes=notes)


def _grouped(
    chances: Mapping[float, float], top: float
) -> tuple[tuple[float, ...], list[float], bool]:
    """Shifts over the largest, rising, their chances, and whether some were moved up.

    Larger shifts tell more, so neighbours may be taken together, and tiny ones or rare ones moved.
    """
    moved: defaultdict[float, float] = defaultdict(float)
    for shift, chance in chances.items():
        moved[max(shift / top, _LEAST_SHIFT) if shift > 0 else 0.0] += chance
    if 0 < moved[0.0] < LEAST_RATE:
        moved[_LEAST_SHIFT] += moved[0.0]
        del moved[0.0]
    shifts = sorted(shift for shift in moved if shift > 0)
    width = math.ceil(len(shifts) / _MOST_SHIFTS)
    groups = [shifts[max(end - width, 0) : end] for end in range(len(shifts), 0, -width)][::-1]
    weights = [max(math.fsum(moved[each] for each in group), LEAST_RATE) for group in groups]
    ends = [group[-1] for group in groups]
    if moved[0.0] > 0:
        ends, weights = [0.0, *ends], [moved[0.0], *weights]
    same = {shift / top for shift in chances} == set(ends)
    return tuple(ends), weights, not (same and min(chances.values()) >= LEAST_RATE)


def _convert_poisson(event: Any, relation: Relation) -> Profile:
    rate = checks.fraction("sampling_probability", event.sampling_probability, allow_zero=True)
    leaves = list(_leaves(event.event, 1))
    alone = leaves[0][0] if len(leaves) == 1 and leaves[0][1] == 1 else None
    kinds: dict[str, Callable[[Any, Relation, float], Profile]] = {
        "LaplaceDpEvent": _convert_laplace,
        "DiscreteLaplaceDpEvent": _convert_discrete_laplace,
    }
    if rate == 0:
        return _normal(0.0, relation)
    if convert := kinds.get(_name(alone)):
        return convert(alone, relation, rate)
    noise = _noise_on_a_sample(event, leaves)
    if relation is Relation.REPLACE_ONE and alone is None and 0 < noise < math.inf:
        raise NotApplicable(
            "Several releases of one Poisson sample have no pair that is proved here where a "
            "record is replaced. Use add-or-remove-one or zero-out."
        )
    return dp_sgd.pld(noise, rate, 1, sampling=Sampling.POISSON, relation=relation)


def _convert_truncated(event: Any, relation: Relation) -> Profile:
    most = checks.whole("truncated_batch_size", event.truncated_batch_size)
    records = checks.whole("dataset_size", event.dataset_size)
    if most == 0 or records == 0:
        return _normal(0.0, relation)
    # The record that comes or goes may be one more.
    records += relation is Relation.ADD_OR_REMOVE_ONE
    how: dict[str, Any] = {"max_batch_size": most, "records": records, "relation": relation}
    numbers = event.noise_multiplier, event.sampling_probability, 1
    return dp_sgd.pld(*numbers, sampling=Sampling.POISSON, **how)


def _convert_fixed_size(event: Any, relation: Relation) -> Profile:
    size, records = checks.whole("sample_size", event.sample_size), event.source_dataset_size
    if size > checks.whole("source_dataset_size", records, at_least=1):
        checks.fail("sample_size", size, f"<= {records}, the number of records")
    noise = _noise_on_a_sample(event, list(_leaves(event.event, 1)))
    return dp_sgd.pld(noise, size / records, 1, sampling=Sampling.FIXED_SIZE, relation=relation)


def _noise_on_a_sample(event: Any, leaves: list[tuple[Any, int]]) -> float:
    """The multiplier of one Gaussian release that tells as much as these of the same sample."""
    squares = 0.0
    for leaf, count in leaves:
        kind = _name(leaf)
        if kind not in ("GaussianDpEvent", "NonPrivateDpEvent"):
            raise NotApplicable(
                f"There is no profile for a {kind} inside a {type(event).__name__}: amplification "
                "by sampling is proved here for Gaussian noise, and on Poisson samples for one "
                "release with Laplace noise. Account for it without the sampling: that is safe."
            )
        noise = 0.0
        if kind == "GaussianDpEvent":
            hint = "It is the noise's standard deviation over the bound on a contribution."
            noise = checks.non_negative("noise_multiplier", leaf.noise_multiplier, hint)
        if len(leaves) == count == 1:
            return noise
        squares += count / noise**2 if noise > dp_sgd.LEAST_NOISE else math.inf
    return 1 / math.sqrt(squares) if squares > 0 else math.inf


def _convert_selection(event: Any, relation: Relation) -> Profile:
    one = from_event(event.event, relation)
    if one.mu in (0.0, math.inf):
        return one
    return repeat_and_select([one], mean=event.mean, shape=event.shape)


def _refusing(reason: str) -> Callable[[Any, Relation], Profile]:
    def refuse(event: Any, relation: Relation) -> Profile:
        raise NotApplicable(f"There is no profile for a {type(event).__name__}: {reason}")

    return refuse


_PURE = (1e-9, 100.0)
"""Pure epsilons whose law is composed; of others the promise alone."""
_MOST_OUTCOMES, _MOST_SHIFTS = 2_000, 128
_LEAST_SHIFT = 1e-6
"""Over the largest: smaller shifts lose the digits of a loss."""
_CONVERTERS: dict[str, Callable[[Any, Relation], Profile]] = {
    "DiscreteLaplaceDpEvent": _convert_discrete_laplace,
    "GaussianDpEvent": _convert_gaussian,
    "LaplaceDpEvent": _convert_laplace,
    "MixtureOfGaussiansDpEvent": _convert_mixture,
    "NonPrivateDpEvent": lambda event, relation: _normal(math.inf, relation),
    "PoissonSampledDpEvent": _convert_poisson,
    "RandomizedResponseDpEvent": _convert_randomized_response,
    "RepeatAndSelectDpEvent": _convert_selection,
    "SampledWithReplacementDpEvent": _refusing(
        "a batch drawn with replacement may hold a record several times, and no theorem for that "
        "is here. Draw without replacement, or Poisson samples."
    ),
    "SampledWithoutReplacementDpEvent": _convert_fixed_size,
    "SingleEpochTreeAggregationDpEvent": _convert_tree,
    "TruncatedSubsampledGaussianDpEvent": _convert_truncated,
    "UnsupportedDpEvent": _refusing(
        "it says that nothing is known of what was done. Put the event of that, or "
        "NonPrivateDpEvent, in its place."
    ),
    "ZCDpEvent": _convert_zcdp,
}
"""By name: dp-accounting is slow to import. Each converts one release; `from_event` counts them."""


def _gaussian(mu: float, relation: Relation) -> Any:
    import dp_accounting as dp

    if mu == 0:
        return dp.NoOpDpEvent()
    if math.isinf(mu):
        return dp.NonPrivateDpEvent()
    distance = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    return dp.GaussianDpEvent(_divided(distance, mu))


def _divided(distance: float, size: float) -> float:
    """A noise multiplier; dividing twice may lose the last bit of one that was a short decimal."""
    short = float(f"{distance / size:.15g}")
    return short if distance / short == size else distance / size


def _loss_event(loss: Loss, relation: Relation) -> Any:
    write = _WRITERS.get(type(loss))
    if write is None or (isinstance(loss, GaussianLoss) and len(loss.mus) > 1):
        reason = "only for noise on all records, on Poisson samples and on batches of fixed size"
        if isinstance(loss, AllocationLoss | AllocationReplaceLoss):
            reason = "which has none for random allocation"
        raise NotApplicable(f"dp-accounting has no DpEvent for {loss}, {reason}.")
    return write(loss, relation)


def _poisson_event(loss: Any, relation: Relation) -> Any:
    import dp_accounting as dp

    return dp.PoissonSampledDpEvent(loss.sample_rate, dp.GaussianDpEvent(loss.noise_multiplier))


def _fixed_size_event(loss: Any, relation: Relation) -> Any:
    import dp_accounting as dp

    records = 10**9  # the largest denominator
    rate = Fraction(loss.sample_rate).limit_denominator(records)
    if float(rate) < loss.sample_rate:  # a smaller one would claim too little
        rate = Fraction(math.ceil(Fraction(loss.sample_rate) * records), records)
    step = dp.GaussianDpEvent(loss.noise_multiplier)
    return dp.SampledWithoutReplacementDpEvent(rate.denominator, rate.numerator, step)


def _mixture_event(loss: Any, relation: Relation) -> Any:
    from dp_accounting import dp_event

    (shifts, weights), _ = loss.worlds
    kept = weights > 0
    listed = shifts[kept].tolist(), weights[kept].tolist()
    return dp_event.MixtureOfGaussiansDpEvent(loss.noise_multiplier, *listed)


def _laplace_event(loss: Any, relation: Relation) -> Any:
    import dp_accounting as dp

    event = dp.LaplaceDpEvent(
        _divided(2.0 if relation is Relation.REPLACE_ONE else 1.0, loss.epsilon)
    )
    return event if loss.sample_rate == 1 else dp.PoissonSampledDpEvent(loss.sample_rate, event)


_WRITERS: dict[type[Loss], Callable[[Any, Relation], Any]] = {
    FixedSizeLoss: _fixed_size_event,
    GaussianLoss: lambda loss, relation: _gaussian(loss.mus[0], relation),
    LaplaceLoss: _laplace_event,
    MixtureLoss: _mixture_event,
    PersonLoss: _mixture_event,
    PoissonLoss: _poisson_event,
    PoissonReplaceLoss: _poisson_event,
}
