"""How long one example's gradient may be: flat, per layer, or normalised; each with what it bounds.

Whatever the kind, one example adds a vector no longer than `max_grad_norm` to the sum: that is the
sensitivity under add-or-remove-one and zero-out, and twice that under replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from sordino import checks

KINDS = ("flat", "per-layer", "automatic")
_STABILITY = 0.01
"""What is added to a norm before it divides: Bu et al. 2023's gamma, of gradients of any length."""


@dataclass(frozen=True)
class Clipping:
    """What every example's gradient is multiplied by.

    Parameters
    ----------
    kind
        "flat": to `max_grad_norm` where it is longer. "per-layer": each layer's part to its share,
        `max_grad_norm` / sqrt(layers). "automatic": g / (|g| + 0.01) times `max_grad_norm`, for
        every length (Bu et al. 2023).
    max_grad_norm
        The most that one example adds to the sum, in Euclidean norm.

    >>> import torch
    >>> norms = torch.tensor([[0.5], [4.0]])
    >>> Clipping("flat", 1.0).factors(norms).flatten().tolist()
    [1.0, 0.25]
    """

    kind: str = "flat"
    max_grad_norm: float = 1.0

    def __post_init__(self) -> None:
        checks.one_of("clipping", self.kind, KINDS)
        hint = "Pass the longest gradient of an example that counts whole, such as 1.0."
        norm = checks.positive("max_grad_norm", self.max_grad_norm, hint)
        object.__setattr__(self, "max_grad_norm", norm)

    def groups(self, names: Sequence[str]) -> list[int]:
        """Which group each parameter belongs to: one for all, or one a module that owns some."""
        if self.kind != "per-layer":
            return [0] * len(names)
        owners = [name.rpartition(".")[0] for name in names]
        numbers = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
        return [numbers[owner] for owner in owners]

    def factors(self, norms: Tensor) -> Tensor:
        """For norms [example, group] the factors of the same shape."""
        if self.kind == "automatic":
            return self.max_grad_norm / (norms + _STABILITY)
        share = self.max_grad_norm / math.sqrt(norms.shape[1])
        # A norm of 0 divides nothing: the factor is 1.
        return (share / norms.clamp(min=share)).clamp_(max=1.0)

    @property
    def words(self) -> str:
        """The rule as a part of a sentence."""
        how = {
            "flat": "clipped to",
            "per-layer": "clipped layer by layer, together to",
            "automatic": "normalised to below",
        }
        return f"{how[self.kind]} {self.max_grad_norm:g}"
