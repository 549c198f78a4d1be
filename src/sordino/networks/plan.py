"""`TrainingPlan`: the public numbers of a private training, its noise and what it proves.

Sampler, divisor, noise and accountant read the same plan, so they cannot disagree. What is proved
is composition over all steps: of a network's last weights nothing less is known, and they can leak
as much as all iterates together (Annamalai 2024; docs/math.md 6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sordino import checks
from sordino.accounting.dp_sgd import NoisySteps
from sordino.accounting.risk import RiskTarget
from sordino.errors import NotApplicable
from sordino.networks.clipping import Clipping
from sordino.privacy import VARYING, Relation, Sampling, default_delta
from sordino.proofs import theorems
from sordino.proofs.proof import Proof, about_persons, unit_of
from sordino.proofs.steps import Run

_NETWORK = NotApplicable("The loss of a network is not convex; use a linear model.")
_MOST_NOISE = 1e6
_SHORTEST = 1e-12
"""Squares of norms near it are numbers in float32: below 1e-23 they would be 0, and not clipped."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """A training with noisy sums of clipped gradients.

    Parameters
    ----------
    sampling
        How batches are drawn.
    relation
        What counts as a neighbouring dataset.
    sample_rate
        A record's chance to be in a step.
    steps, steps_per_epoch
        How many in all; and in an epoch, where every record is in one of them.
    divisor
        What noisy sums are divided by: the expected size of a batch, a public number.
    noise_multiplier
        Standard deviation of the noise on a sum, over the longest gradient.
    clipping
        How long one example's gradient may be.
    delta
        Where epsilon is told.
    max_rows_per_person
        Records that are protected together.
    target
        The risk that was asked for instead of an epsilon.
    """

    sampling: Sampling
    relation: Relation
    sample_rate: float
    steps: int
    steps_per_epoch: int | None
    divisor: float
    noise_multiplier: float
    clipping: Clipping
    delta: float
    max_rows_per_person: int = 1
    target: RiskTarget | None = None

    @classmethod
    def of(
        cls,
        *,
        rows: int,
        sampling: str = "poisson",
        relation: Relation = Relation.ZERO_OUT,
        batch_size: float | None = None,
        sample_rate: float | None = None,
        steps_per_epoch: int | None = None,
        steps: int | None = None,
        epochs: float | None = None,
        noise_multiplier: float | None = None,
        epsilon: float | None = None,
        target: str | RiskTarget | None = None,
        delta: float | None = None,
        clipping: Clipping = Clipping(),  # noqa: B008 - frozen
        public_rows: int | None = None,
        max_rows_per_person: int = 1,
    ) -> TrainingPlan:
        """Complete what is given by arithmetic on public numbers, and find the noise.

        Parameters
        ----------
        rows
            Records that there are. Where their number is private (add-or-remove-one), nothing is
            made of it, and `public_rows` may be given: a public guess that sets rate and delta.
        batch_size, sample_rate, steps_per_epoch
            The expected size of a batch; or the rate; of allocation, the batches of an epoch.
        steps, epochs
            One of them.
        noise_multiplier, epsilon, target
            One of them. A target is a risk such as "advantage<=0.05".
        """
        given = {"noise_multiplier": noise_multiplier, "epsilon": epsilon, "target": target}
        _exactly_one(given, "Say how much noise, or how much privacy it is to buy.")
        hint = "A shuffled loader is neither: next to nothing is proved of it (docs/accounting.md)."
        kind = Sampling(checks.one_of("sampling", sampling, [each.value for each in VARYING], hint))
        private = relation is Relation.ADD_OR_REMOVE_ONE
        known = public_rows if private else rows
        if public_rows is not None and not private:
            checks.fail("public_rows", public_rows, "only where the number of rows is private")
        if known is not None:
            known = checks.whole("public_rows" if private else "rows", known, at_least=1)
        per_epoch, rate, divisor = _rates(kind, known, batch_size, sample_rate, steps_per_epoch)
        many = _steps(steps, epochs, per_epoch, rate)
        if delta is None:
            delta = default_delta(known)
        plan = cls(
            sampling=kind,
            relation=relation,
            sample_rate=rate,
            steps=many,
            steps_per_epoch=per_epoch if kind == Sampling.ALLOCATION else None,
            divisor=divisor,
            noise_multiplier=1.0,
            clipping=clipping,
            delta=checks.probability_below_one("delta", delta),
            max_rows_per_person=checks.whole(
                "max_rows_per_person", max_rows_per_person, at_least=1
            ),
        )
        longest = clipping.max_grad_norm
        if not _SHORTEST <= longest <= 1 / _SHORTEST:
            what = f"to be between {_SHORTEST:g} and {1 / _SHORTEST:g}"
            checks.fail("max_grad_norm", longest, what, "Scale the losses instead.")
        if noise_multiplier is not None:
            noise = checks.non_negative("noise_multiplier", noise_multiplier)
            return replace(plan, noise_multiplier=noise)
        if epsilon is not None:
            return plan._for_epsilon(checks.positive("epsilon", epsilon, allow_infinite=True))
        return plan._for_risk(
            target if isinstance(target, RiskTarget) else RiskTarget.parse(str(target))
        )

    def _for_epsilon(self, epsilon: float) -> TrainingPlan:
        if self.delta == 0 and not math.isinf(epsilon):
            hint = "Gaussian noise has no guarantee at delta = 0."
            checks.fail("delta", self.delta, "> 0", hint)
        try:
            noise = theorems.noise_for_steps(self.run(), epsilon, self.delta, "pld")
        except NotApplicable as reason:
            checks.fail(
                "epsilon", epsilon, f"to be within reach of noise ({reason})", "Train less."
            )
        if noise > _MOST_NOISE:
            checks.fail(
                "epsilon", epsilon, f"to need a noise of at most {_MOST_NOISE:g}", "Train less."
            )
        return replace(self, noise_multiplier=noise)

    def _for_risk(self, target: RiskTarget) -> TrainingPlan:
        found = theorems.least_noise(self.run(), target, self.delta)
        noises = [each.value for each in found if each.method == "pld" and each.value is not None]
        if not noises:
            checks.fail("target", str(target), "to be within reach of noise", "Train less.")
        return replace(self, noise_multiplier=noises[0], target=target)

    def run(self, steps: int | None = None) -> Run:
        """The training as the table of theorems takes it; or its first steps."""
        noisy = NoisySteps(
            noise_multiplier=self.noise_multiplier,
            sample_rate=self.sample_rate,
            steps=self.steps if steps is None else steps,
            sampling=self.sampling,
            relation=self.relation,
            steps_per_epoch=self.steps_per_epoch,
            max_rows_per_person=self.max_rows_per_person,
        )
        return Run(noisy, "all", _NETWORK)

    def proof(self, steps: int | None = None, assumes: tuple[str, ...] = ()) -> Proof:
        """What holds of all iterates together, and so of the last one; or of the first steps."""
        run = self.run(steps)
        profile = theorems.steps_theorem("pld").profile(run, self.delta)
        rests = (*self._assumes, *assumes)
        unit = unit_of(self.max_rows_per_person)
        return Proof(profile, self.sampling, rests, "all", unit, rests_on="pld")

    @property
    def _assumes(self) -> tuple[str, ...]:
        allocated = self.sampling == Sampling.ALLOCATION
        found = [
            f"batches drawn by {self.sampling} sampling, secretly, as trained",
            "architecture, initial weights and all settings chosen without looking at these data",
            f"gradients of single examples {self.clipping.words}, noise of "
            f"{self.noise_multiplier:g} times that on every sum",
        ]
        if self.relation is Relation.ADD_OR_REMOVE_ONE:
            numbers = "steps, steps per epoch" if allocated else "steps, sample rate"
            found.append(f"{numbers} and divisor are public numbers, not made from n")
        if allocated:
            found += [
                "each record's step is drawn anew every epoch, independently of all other records",
                "steps of records and sizes of batches stay secret, and empty batches get noise",
            ]
        return (*found, *about_persons(False, self.max_rows_per_person, self.relation))


def _rates(
    sampling: Sampling,
    rows: int | None,
    batch_size: float | None,
    sample_rate: float | None,
    steps_per_epoch: int | None,
) -> tuple[int | None, float, float]:
    """Steps of an epoch where there are whole ones, the rate and the divisor."""
    if batch_size is not None:
        checks.positive("batch_size", batch_size)
    if rows is not None and batch_size is not None and batch_size > rows:
        checks.fail("batch_size", batch_size, f"<= {rows}, the number of rows")
    if sampling == Sampling.ALLOCATION:
        if sample_rate is not None:
            checks.fail(
                "sample_rate",
                sample_rate,
                "not to be given for allocation",
                "Pass steps_per_epoch.",
            )
        if steps_per_epoch is None:
            if rows is None or batch_size is None:
                hint = "Pass the number of batches of an epoch."
                checks.fail("steps_per_epoch", None, "to be given, or batch_size and rows", hint)
            steps_per_epoch = max(1, round(rows / batch_size))
        steps = checks.whole("steps_per_epoch", steps_per_epoch, at_least=1)
        size = batch_size if batch_size is not None else None if rows is None else rows / steps
        if size is None:
            checks.fail("batch_size", None, "to be given: noisy sums are divided by it")
        return steps, 1 / steps, float(size)
    if steps_per_epoch is not None:
        checks.fail("steps_per_epoch", steps_per_epoch, "only for allocation", "Pass sample_rate.")
    if sample_rate is None:
        if rows is None:
            hint = "The number of rows is private here, and a rate made of it would tell it."
            checks.fail("sample_rate", None, "to be given, or public_rows and batch_size", hint)
        if batch_size is None:
            hint = "It is the expected number of records in a step, such as 256."
            checks.fail("batch_size", None, "to be given, or sample_rate", hint)
        sample_rate = batch_size / rows
    rate = checks.fraction("sample_rate", sample_rate)
    if batch_size is None:
        if rows is None:
            checks.fail("batch_size", None, "to be given: noisy sums are divided by it")
        batch_size = rate * rows
    return None, rate, float(batch_size)


def _steps(steps: int | None, epochs: float | None, per_epoch: int | None, rate: float) -> int:
    _exactly_one({"steps": steps, "epochs": epochs}, "Say how long to train.")
    if steps is not None:
        return checks.whole("steps", steps, at_least=1)
    assert epochs is not None
    length = checks.positive("epochs", epochs)
    if per_epoch is not None:
        if length != int(length):
            checks.fail("epochs", epochs, "to be a whole number for allocation")
        return per_epoch * int(length)
    return max(1, math.ceil(length / rate - 1e-9))


def _exactly_one(given: Mapping[str, object], hint: str) -> None:
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        checks.fail(" or ".join(given), names or None, "to be given, exactly one", hint)
