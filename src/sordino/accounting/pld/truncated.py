"""Poisson batches that are cut to a maximum: the surplus is dropped uniformly at random.

Where memory holds B records, a Poisson batch of more is cut to a random B of them. Then a record
may push out another one, and one step moves the sum by two clipping norms: accounting of plain
Poisson batches is false. What holds (cf. Ganesh 2025, arXiv 2508.15089):

Take the record x alone, and let S, N of them, be the others that were drawn: Binom(records - 1, q),
the same in both worlds. If N < B nothing is dropped, and given S the step is one of the usual pair.
If N >= B and x was drawn, it stays with chance B / (N + 1), beside T', B - 1 uniform ones of S;
else, with chance 1 - r, r = q B / (N + 1), the batch is T, B uniform ones of S. Draw T as T' and
one more, z, in both worlds. Given S, T', z the sums are, in noise N(., z^2) around T',

    with x: g_z with chance 1 - r, g_x with chance r; without x: g_z.

So x shifts by g_x - g_z, two norms at most, at rate r <= q: Poisson's pair at half the noise. A
replaced or zeroed record is there in both worlds: with chance r the sums have g_x and g_x', each
within two norms of g_z, and opposite ones are the worst (docs/accounting.md, several records). That
S, T' and z are not told, and N >= B is, can only add to the bound (joint convexity):

    (1 - psi) usual pair at noise z + psi pair at noise z / 2, psi = P[Binom(records - 1, q) >= B].

Steps compose, as the pair dominates whatever came before. The second pair dominates the first, so
the bound rises with psi, and `records` may be any public upper bound: where the number of records
is private (add-or-remove-one) it must be one. Nothing is added to delta: an overflow costs what a
step at half the noise does, not everything, as in delta + (1 + e^epsilon) steps psi (Chua et al.
2024, arXiv 2411.04205, by total variation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import bdtrc

from sordino.accounting.pld.loss import Direction, Loss, PoissonLoss, PoissonReplaceLoss
from sordino.accounting.pld.numerics import log_add
from sordino.types import Floats


@dataclass(frozen=True)
class TruncatedLoss(Loss):
    """Poisson batches of at most `max_batch_size` of `records`, a record present or absent."""

    symmetric = False
    sample_rate: float
    noise_multiplier: float
    max_batch_size: int
    records: int

    @property
    def parts(self) -> tuple[Loss, Loss]:
        """The pair of a batch that is not cut, and of one that may be."""
        q, noise = self.sample_rate, self.noise_multiplier
        return PoissonLoss(q, noise), PoissonLoss(q, noise / 2)

    @cached_property
    def overflow(self) -> float:
        """The chance that the others alone fill the batch, rounded up; never 0."""
        chance = float(bdtrc(self.max_batch_size - 1, self.records - 1, self.sample_rate))
        return min(1.0, max(chance * (1 + 1e-9), 1e-300))

    @cached_property
    def _log_shares(self) -> tuple[float, float]:
        none = math.log1p(-self.overflow) if self.overflow < 1 else -math.inf
        return none, math.log(self.overflow)

    @property
    def most_mu(self) -> float:
        """Of a batch that is cut."""
        return max(part.most_mu for part in self.parts)

    def largest(self, direction: Direction) -> float:
        return max(part.largest(direction) for part in self.parts)

    def masses(self, edges: Floats, direction: Direction) -> tuple[Floats, Floats]:
        (drawn, other), (rare, beside) = (part.masses(edges, direction) for part in self.parts)
        return (
            (1 - self.overflow) * drawn + self.overflow * rare,
            (1 - self.overflow) * other + self.overflow * beside,
        )

    def log_delta(self, epsilon: float, direction: Direction) -> float:
        logs = [part.log_delta(epsilon, direction) for part in self.parts]
        return min(0.0, log_add(*map(sum, zip(logs, self._log_shares, strict=True))))

    def log_moments(self, thetas: Floats, direction: Direction) -> Floats:
        usual, rare = (part.log_moments(thetas, direction) for part in self.parts)
        none, some = self._log_shares
        if none == -math.inf:  # the usual moments may be infinite, and do not count
            return rare
        with np.errstate(over="ignore"):
            # What they are above 1 keeps its digits.
            more = (1 - self.overflow) * np.expm1(usual) + self.overflow * np.expm1(rare)
        return np.where(more < 1, np.log1p(more), np.logaddexp(none + usual, some + rare))

    def reach(self, log_tail: float, direction: Direction) -> tuple[float, float]:
        ends = []
        for log, part in zip(self._log_shares, self.parts, strict=True):
            if (share := log_tail - math.log(2) - log) < -1e-3:  # else it is rarer than the tail
                ends.append(part.reach(share, direction))
        return min(low for low, _ in ends), max(high for _, high in ends)

    def optimistic(self) -> Loss | None:
        """None: that a batch was cut is told here, and nobody is told."""
        return None


@dataclass(frozen=True)
class TruncatedZeroLoss(TruncatedLoss):
    """The same for a record that is zeroed: it takes its place in both worlds."""

    @property
    def parts(self) -> tuple[Loss, Loss]:
        """Beyond the maximum a record is dropped for it in both worlds."""
        q, noise = self.sample_rate, self.noise_multiplier
        return PoissonLoss(q, noise), PoissonReplaceLoss(q, noise / 2)


@dataclass(frozen=True)
class TruncatedReplaceLoss(TruncatedLoss):
    """The same for a record that is replaced."""

    symmetric = True

    @property
    def parts(self) -> tuple[Loss, Loss]:
        """Of a replaced record, both."""
        q, noise = self.sample_rate, self.noise_multiplier
        return PoissonReplaceLoss(q, noise), PoissonReplaceLoss(q, noise / 2)
