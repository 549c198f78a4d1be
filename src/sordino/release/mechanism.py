"""The one door out: weights go in, a `Release` comes out, or nothing does."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.errors import InvalidArgument, Refused
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
    """
    if math.isinf(checks.positive("epsilon", epsilon, allow_infinite=True)):
        return Release(_read_only(_exact(weights)), None, "none: epsilon is infinite")
    scale = checks.non_negative("scale", scale)
    guarantee = _proved(proof, epsilon, delta)
    if scale == 0 and not already_inside:
        _refuse("scale", scale, "> 0", "Without noise nothing is protected.")
    exact = _exact(weights)
    value = exact if scale == 0 else np.array(noise.perturb(exact, scale), dtype=np.float64)
    if value.shape != exact.shape or not np.isfinite(value).all():
        _refuse("noise", type(noise).__name__, "to keep the shape of the weights, and finite ones")
    words = _in_words(noise.name, scale, already_inside)
    return Release(_read_only(value), None if noise.repeatable else guarantee, words)


def _proved(proof: Proof | None, epsilon: float, delta: float) -> Guarantee:
    if proof is None:
        hint = f"Nothing was proved, so epsilon={epsilon:g} cannot be promised."
        _refuse("proof", None, "to be given", hint)
    guarantee = proof.guarantee(delta)
    if not guarantee.epsilon <= epsilon * (1 + SLACK):
        hint = f"At delta={delta:g} that is what was proved; more noise is needed."
        _refuse("epsilon", guarantee.epsilon, f"<= {epsilon:g}, which was promised", hint)
    return guarantee


def _exact(weights: npt.ArrayLike) -> Floats:
    """A float64 copy, so that nobody changes what left afterwards."""
    given: npt.NDArray[Any] = np.asarray(weights)
    if given.dtype.kind not in "iuf":
        checks.fail("weights", given.dtype, "to be real numbers")
    exact = np.array(given, dtype=np.float64)
    if not np.isfinite(exact).all():
        # Not how many or where: that would be more than a refusal.
        _refuse("weights", "[...]", "to be finite", "The training diverged; try a smaller step.")
    return exact


def _in_words(source: str, scale: float, already_inside: str) -> str:
    on_output = f"N(0, {scale:.6g}^2) on the output, on every weight" if scale else ""
    where = " and ".join(part for part in (already_inside, on_output) if part)
    return f"{where}; from: {source}"


def _read_only(value: Floats) -> Floats:
    value.setflags(write=False)
    return value


def _refuse(name: str, value: object, condition: str, hint: str = "") -> NoReturn:
    try:
        checks.fail(name, value, condition, hint)
    except InvalidArgument as refusal:
        raise ReleaseRefused(str(refusal)) from None
