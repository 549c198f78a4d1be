"""Hyland & Tople's theory of variability (v1, III; v2, B), with exact numbers for small n.

Two runs on one dataset from one start, with orders of their own: a step that meets the same
example in both adds nothing to the papers' bound on the distance, any other step 2 L eta. So the
bound is random: it counts the examples that stand in the same place in two random orders (with
mini-batches: in the same batch).

All of this is about an UPPER BOUND of a distance. The distance itself may be 0 (identical
records), so nothing follows for privacy.

An overlap is a whole number and a probability here a `Fraction`: nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sordino import checks

_MOST_RECORDS = 300
"""Beyond this the exact numbers have hundreds of digits, and 4 / (k (n-2)^2) says enough."""


def rencontres(n: int) -> tuple[int, ...]:
    """How many permutations of n have j fixed points, for j = 0..n: C(n, j) !(n - j).

    >>> rencontres(3)
    (2, 3, 0, 1)
    """
    n = _records(n)
    without = [1]  # permutations of m without a fixed point: 1, 0, 1, 2, 9, 44, ...
    for m in range(1, n + 1):
        without.append(m * without[-1] + (-1) ** m)
    return tuple(math.comb(n, j) * without[n - j] for j in range(n + 1))


def batch_overlaps(n: int, batch_size: int) -> tuple[int, ...]:
    """How many of the n! orders share j examples with a fixed one, batch by batch, j = 0..n.

    An example counts if it falls in the t-th batch in both. `rencontres` is `batch_size` 1. By the
    rook polynomial of a board of full squares, one for each batch.

    Parameters
    ----------
    n
        Records, at most 300: beyond, the exact numbers have hundreds of digits.
    batch_size
        At most n; the last batch may be smaller.

    Returns
    -------
    counts
        For each overlap j = 0..n; their sum is n!.

    Raises
    ------
    InvalidArgument
        If n or the batch size is out of range.

    References
    ----------
    Hyland & Tople 2019 (v1, III), which counts single examples.

    Examples
    --------
    >>> batch_overlaps(4, 2)
    (4, 0, 16, 0, 4)
    """
    n = _records(n)
    whole, rest = divmod(n, _batch(n, batch_size))
    board = [1]
    for size in (batch_size,) * whole + ((rest,) if rest else ()):
        square = [math.comb(size, k) ** 2 * math.factorial(k) for k in range(size + 1)]
        board = _product(board, square)
    placed = [rooks * math.factorial(n - k) for k, rooks in enumerate(board)]
    # Inclusion and exclusion: sum of placed[k] (x - 1)^k, sorted by powers of x.
    return tuple(
        sum((-1) ** (k - j) * math.comb(k, j) * placed[k] for k in range(j, n + 1))
        for j in range(n + 1)
    )


def overlap_mean(n: int, batch_size: int = 1) -> Fraction:
    """Expected overlap of two random orders: B, for batches of B that divide n."""
    return Fraction(_dividing(n, batch_size))


def overlap_variance(n: int, batch_size: int = 1) -> Fraction:
    """Variance of the overlap: 1 for single examples if n >= 2, for every n and not in the limit.

    n p (1 - p) + n (n - 1) (P2 - p^2) with p = B/n, the probability that an example falls in the
    same batch twice, and P2 = p ((B - 1)^2 + (n - B) B) / (n - 1)^2, that two examples both do.
    """
    size = _dividing(n, batch_size)
    if n == 1:
        return Fraction(0)
    p = Fraction(size, n)
    both = p * Fraction((size - 1) ** 2 + (n - size) * size, (n - 1) ** 2)
    return n * p * (1 - p) + n * (n - 1) * (both - p * p)


@dataclass(frozen=True)
class _VariabilityBounds:
    """The papers' bounds on how far two runs can end up apart.

    `sensitivity`: one record differs, same order: 2 k L eta / B. `largest`: no overlap at all,
    2 k L n eta / B. `mean` and `variance`: of the bound over random orders.
    """

    sensitivity: float
    largest: float
    mean: float
    variance: float


def bounds(
    n: int, epochs: int, lipschitz: float, learning_rate: float, batch_size: int = 1
) -> _VariabilityBounds:
    """Theorem 2, equation (8), (11) and (12) of v1, with mini-batches, which the paper leaves out.

    For a convex loss that is smooth enough for the learning rate, a new order in each of `epochs`
    whole passes, and batches that divide n.
    """
    size = _dividing(n, batch_size)
    k = checks.whole("epochs", epochs, at_least=1)
    step = 2 * checks.non_negative("lipschitz", lipschitz) / size
    step *= checks.positive("learning_rate", learning_rate)
    return _VariabilityBounds(
        sensitivity=k * step,
        largest=k * step * n,
        mean=k * step * (n - size),
        variance=step**2 * k * float(overlap_variance(n, size)),
    )


def chebyshev(n: int, epochs: int = 1) -> Fraction | None:
    """Claim 2: P(|bound - mean| >= k L eta (n - 2)) <= 4 / (k (n - 2)^2); None for n <= 2.

    At n <= 4 and one epoch it says nothing (1 or more). `exact_tail` is the probability itself.
    """
    k = checks.whole("epochs", epochs, at_least=1)
    if checks.whole("n", n, at_least=1) <= 2:
        return None
    return Fraction(4, k * (n - 2) ** 2)


def exact_tail(n: int, epochs: int = 1) -> Fraction:
    """The probability that Claim 2 bounds, for single examples: overlaps off k by k (n - 2) / 2."""
    k = checks.whole("epochs", epochs, at_least=1)
    return _probability(n, k, lambda overlap: 2 * abs(overlap - k) >= k * (n - 2))


def not_above_sensitivity(n: int, epochs: int = 1) -> Fraction:
    """The probability that the variability's bound is at most the sensitivity's; 1/n! at k = 1."""
    k = checks.whole("epochs", epochs, at_least=1)
    return _probability(n, k, lambda overlap: overlap >= k * (n - 1))


def _probability(n: int, epochs: int, event: Callable[[int], bool]) -> Fraction:
    """Probability of an event of the summed overlap of independent epochs."""
    one = rencontres(n)
    total: list[int] = [1]
    for _ in range(epochs):
        total = _product(total, one)
    good = sum(many for overlap, many in enumerate(total) if event(overlap))
    return Fraction(good, math.factorial(n) ** epochs)


def _product(left: Sequence[int], right: Sequence[int]) -> list[int]:
    found = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            found[i + j] += a * b
    return found


def _records(n: int) -> int:
    n = checks.whole("n", n, at_least=1)
    if n > _MOST_RECORDS:
        checks.fail("n", n, f"<= {_MOST_RECORDS}", "`chebyshev` and `bounds` take any size.")
    return n


def _batch(n: int, batch_size: int) -> int:
    size = checks.whole("batch_size", batch_size, at_least=1)
    if size > n:
        checks.fail("batch_size", size, f"<= {n}, the number of records")
    return size


def _dividing(n: int, batch_size: int) -> int:
    size = _batch(checks.whole("n", n, at_least=1), batch_size)
    if n % size:
        checks.fail("batch_size", size, f"to divide n={n}", "A smaller last batch weighs more.")
    return size
