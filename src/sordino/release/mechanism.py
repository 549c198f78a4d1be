"""The one door out: weights go in, a `Release` comes out, or nothing does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.errors import Refused
from sordino.privacy import Guarantee
from sordino.proofs.proof import Proof
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.release.noise import Noise


SLACK = 1e-9
"""How far, relatively, the proved epsilon may lie above the promised one: rounding, no more."""


class ReleaseRefused(Refused, ValueError):
    """What was asked to leave may not; nothing left, and no noise was used."""


@dataclass(frozen=True, eq=False)
class Release:
    """What left the building.

    Parameters
    ----------
    value
        The weights as published; read-only.
    guarantee
        What was proved of them; None if nothing is promised.
    noise
        In words: how much, where, and from which source.
    """

    value: Floats
    guarantee: Guarantee | None
    noise: str


def release(
    weights: npt.ArrayLike,
    *,
    proof: Proof | None,
    epsilon: float,
    delta: float,
    noise: Noise,
    scale: float,
    already_inside: str = "",
) -> Release:
    """Add the noise and state what is proved, or refuse.

    Everything public is checked before the weights are looked at, and the only thing that is asked
    of the weights is that they are finite: a refusal tells no more than that.

    Parameters
    ----------
    weights
        Final weights, any shape.
    proof
        What was proved of this training and this noise together.
    epsilon, delta
        What is promised. With an infinite epsilon the exact weights leave, without noise and
        without a guarantee.
    noise
        Where the noise comes from. If it is repeatable, nothing is promised.
    scale
        Standard deviation of the noise added here to every weight. 0 only if the training added
        its own, which then came from `noise`.
    already_inside
        Where the training added noise itself, such as "in every step"; empty if nowhere.

    Raises
    ------
    ReleaseRefused
        If nothing was proved, less was proved than is promised, no noise was added anywhere, or
        the weights are not finite.

    Examples
    --------
    >>> import math
    >>> from sordino.release.noise import SeededNoise
    >>> noise = SeededNoise(0)
    >>> release([1.0], proof=None, epsilon=math.inf, delta=0, noise=noise, scale=0).noise
    'none: epsilon is infinite'
    """
    if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
        return Release(_exact(weights), None, "none: epsilon is infinite")
    scale = checks.non_negative("scale", scale)
    if proof is None:
        checks.fail("proof", None, "to be given: nothing was proved", "", ReleaseRefused)
    guarantee = proof.guarantee(delta)
    if not guarantee.epsilon <= epsilon * (1 + SLACK):
        condition = f"<= {epsilon:g}, which was promised"
        checks.fail("epsilon", guarantee.epsilon, condition, "Add more noise.", ReleaseRefused)
    if scale == 0 and not already_inside:
        checks.fail("scale", scale, "> 0", "Without noise nothing is protected.", ReleaseRefused)
    exact = _exact(weights)
    value = exact if scale == 0 else np.array(noise.perturb(exact, scale), dtype=np.float64)
    if value.shape != exact.shape or not np.isfinite(value).all():
        condition = "to keep weights finite, and their shape"
        checks.fail("noise", type(noise).__name__, condition, "", ReleaseRefused)
    value.setflags(write=False)
    on_output = f"N(0, {scale:.6g}^2) on the output, on every weight" if scale else ""
    where = " and ".join(part for part in (already_inside, on_output) if part)
    words = f"{where}; from: {noise.name}"
    return Release(value, None if noise.repeatable else guarantee, words)


def _exact(weights: npt.ArrayLike) -> Floats:
    """A read-only float64 copy, so that nobody changes what left afterwards."""
    given: npt.NDArray[Any] = np.asarray(weights)
    if given.dtype.kind not in "iuf":
        checks.fail("weights", given.dtype, "to be real numbers")
    exact = np.array(given, dtype=np.float64)
    if not np.isfinite(exact).all():
        # Not how many or where: that would be more than a refusal.
        checks.fail("weights", "[...]", "to be finite", "Try a smaller step.", ReleaseRefused)
    exact.setflags(write=False)
    return exact
