"""`Run` and `Finding`: what is asked of every accounting method, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sordino.accounting.hidden_state import HiddenState
from sordino.accounting.printed import AsPrinted
from sordino.accounting.profile import LossProfile, Profile
from sordino.accounting.subsampled import NoisySteps
from sordino.privacy import Estimate, NotApplicable, Relation

Released = Literal["final", "all"]
Kind = Literal["guarantee", "estimate", "as printed"]


@dataclass(frozen=True)
class Run:
    """Noisy steps, what of them is released, and what is known of the loss.

    Parameters
    ----------
    steps
        The noisy steps.
    released
        "all" iterates, or the "final" one only.
    hidden
        The numbers of the hidden iterates, or why theorems on the last iterate do not apply.
    linear
        Whether gradients do not depend on the weights.
    """

    steps: NoisySteps
    released: Released
    hidden: HiddenState | NotApplicable
    linear: bool = False

    def with_noise(self, noise_multiplier: float) -> Run:
        """The same run with other noise."""
        return replace(self, steps=replace(self.steps, noise_multiplier=noise_multiplier))


@dataclass(frozen=True)
class Finding:
    """What one method says of one run: a value with its theorem, or the reason for none.

    `value` is an epsilon, or a noise multiplier when calibrating. Only what `applies` may be
    ranked; the rest is there to be compared with.
    """

    method: str
    title: str
    released: Released
    relation: Relation
    delta: float
    kind: Kind = "guarantee"
    value: float | None = None
    theorem: str = ""
    reason: str | None = None
    milliseconds: float = 0.0
    profile: Profile | None = None
    notes: tuple[str, ...] = ()

    @property
    def applies(self) -> bool:
        """Whether this is a proved bound."""
        return self.kind == "guarantee" and self.reason is None

    def proved(self, profile: Profile, noise: float | None = None) -> Finding:
        """Filled in from a profile; the value is `noise`, or the profile's epsilon."""
        value = profile.epsilon(self.delta) if noise is None else noise
        notes = profile.notes
        if isinstance(profile, LossProfile):
            notes += profile.fallbacks(self.delta)
        return replace(self, value=value, theorem=profile.theorem, profile=profile, notes=notes)

    def estimated(self, estimate: Estimate, noise: float | None = None) -> Finding:
        """Filled in from an estimate, which is never a guarantee."""
        value = estimate.epsilon if noise is None else noise
        return replace(
            self, kind="estimate", value=value, theorem=estimate.method, reason=str(estimate)
        )

    def printed(self, quoted: AsPrinted) -> Finding:
        """Filled in from a formula as a paper prints it."""
        return replace(
            self, kind="as printed", value=quoted.value, theorem=quoted.formula, reason=str(quoted)
        )
