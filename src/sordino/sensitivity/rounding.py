"""What float64 arithmetic adds to the distance of two trainings."""

from __future__ import annotations

from typing import Unpack

from sordino import checks
from sordino.accounting.last_iterate.shifted import Numbers
from sordino.errors import NotApplicable
from sordino.privacy import Relation
from sordino.sensitivity.loop import LARGEST, Batches, Loop

_UNIT = 2.0**-53
"""Relative error of one operation in float64."""


def rounding(
    *,
    features: int,
    rates: Numbers,
    norm: float,
    start_norm: float = 0.0,
    average_every: int | None = None,
    summed_apart: bool = False,
    scores: int = 1,
    **batches: Unpack[Batches],
) -> float:
    """Bound on ||weights computed in float64 - weights of exact arithmetic||, of convex models.

    Two worlds are each this far from their exact weights: a release pays twice it.

    Parameters
    ----------
    rates, average_every, batches
        As in `contraction`. Rates are exact as given; any order of the batches is covered.
    features
        Number of weights d of one score, the intercept included.
    norm
        Bound on the rows' norms that `constants` were made for, the intercept included.
    start_norm
        Bound on the norm of the initial weights.
    summed_apart
        Whether the batch's gradients are summed before the weights are touched; otherwise they may
        be added to the weights one by one, each time with a rounding of the weights' size.
    scores
        Scores of a record: 1, or the K classes of a softmax, whose weights are [K, d].

    Notes
    -----
    Let u = 2^-53 and g(k) = k u / (1 - k u), which bounds the relative error of k operations, and
    of a sum of k terms in any order, with fused operations or without (Higham 2002, ch. 3). Rows,
    labels and rates are exact. At computed weights v of norm <= W, in a batch of b rows of norm
    <= X, with psi of slope at most s = (L - mu) / X^2:

    - A score errs by g(d) W X. psi of it errs by s times that, and by g(d + 10) (2 + 2 s) of its
      own: for the logistic e/4 + 4 u with e = 8 u of exp; for the Huber loss g(5) (2 + 3 h) / 2h,
      where s = 1 / 2h; a clip to a computed norm errs by g(d + 5), a record's weight in
      [0, 1] by g(1), for which the first two leave room. Call the sum p.
    - The data term's step is then wrong by eta (b / divisor) X p, and rounding the sum adds
      g(b + 4) eta (b / divisor) (R + X p).
    - keep = 1 - eta mu errs by 2 u (1 + eta mu), and the kept weights by g(b + 4) (|keep| + ...) W
      if gradients are added to them one by one, g(4) otherwise.

    Of a softmax psi is the vector p - e_y, and all that stands here holds of its Euclidean norm:

    - Score k errs by g(d) |w_k| X, their vector by g(d) W X with W the norm of all weights; and
      softmax is s-Lipschitz, s = 1/2, since that bounds the norm of diag(p) - p p'.
    - The largest score is taken off, which errs by u |t_k| in t_k = z_k - max z <= 0, and exp by
      8 u of itself: so exp(t_k) has a relative error e_k of at most (8 + |t_k|) u. The sum of K
      terms and the division by it add (K + 2) u. Relative errors e_k of the terms change p by at
      most 2 sum p_k |e_k| in the sum of absolute values, and sum p_k |t_k| <= entropy of p <=
      ln K. So p errs by (16 + 2 ln K + K + 2) u, and taking off e_y adds u.
    - A clip to the computed norm |p - e_y| |x| errs by g(d + K + 5) of |p - e_y| <= sqrt(2).

    Together that is at most 3 g(d + 2 K + 20), which takes the place of g(d + 10) (2 + 2 s).
    A gradient is (p - e_y) x', and norms of outer products are products of norms; a sum of b of
    them errs entry by entry by g(b + 4) of the sum of absolute values, whose norm is at most
    b (R + X p) again.

    That is a step's own error e. It reaches the end like any distance: times rho at each later
    step. Norms follow W <- |1 - eta mu| W + eta R b / divisor + e. A mean of k iterates errs by
    g(k + 1) times their mean norm. Products and sums must be computed as such (no Strassen), and
    underflow adds less than the 1e-280 put on top. A projection is not covered.
    """
    relation = Relation.REPLACE_ONE  # the loop wants one; a rounding does not depend on it
    loop = Loop(rates, relation, average_every, **batches)
    d = checks.whole("features", features, at_least=1)
    norm = checks.positive("norm", norm)
    mu, R = loop.constants.strongly_convex, loop.constants.lipschitz
    X = max(norm, R)
    slope = (loop.constants.smooth - mu) / norm**2
    dot, link, terms = _gamma(d), _gamma(d + 10) * (2 + 2 * slope), _gamma(max(loop.sizes) + 4)
    if (classes := checks.whole("scores", scores, at_least=1)) > 1:
        link = 3 * _gamma(d + 2 * classes + 20)
    touched = _gamma(4) if checks.flag("summed_apart", summed_apart) else terms
    worth, averages_worth = (part.tolist() for part in loop.worth())
    total = 0.0
    size = checks.non_negative("start_norm", start_norm)
    sizes = 0.0  # sum of the norms since the last averaging
    for t, (rate, left) in enumerate(zip(loop.rates.tolist(), worth, strict=True)):
        psi = slope * dot * size * X + link
        data = rate * loop.crowding * (X * psi + terms * (R + X * psi))
        slip = 2 * _UNIT * (1 + rate * mu)
        error = data + (touched * (abs(1 - rate * mu) + slip) + slip) * size
        total += left * error
        size = abs(1 - rate * mu) * size
        size = (size + rate * R * loop.crowding + error) * (1 + 8 * _UNIT)
        sizes += size
        if loop.window and (t + 1) % loop.window == 0:
            error = _gamma(loop.window + 1) * sizes / loop.window
            total += averages_worth[t // loop.window] * error
            size, sizes = 1.001 * sizes / loop.window, 0.0
    if not total < LARGEST:
        raise NotApplicable(f"Weights can grow beyond {LARGEST:g}; choose smaller learning rates.")
    return 1.001 * total + 1e-280  # the sum above has roundings of its own


def _gamma(operations: int) -> float:
    """Bound on the relative error of so many operations."""
    if operations * _UNIT >= 0.01:
        checks.fail("operations", operations, "to be few enough for float64")
    return operations * _UNIT / (1 - operations * _UNIT)
