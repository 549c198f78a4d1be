"""How far one record can move the final weights of SGD (L2), theorem by theorem.

For f(w, record) = data term + (mu/2) ||w||^2, with a convex data term of gradient norm at most R
and f of curvature at most L (`Constants`; valid for the rows as they ARE, so a caller who admits a
slack in their norms multiplies it in). docs/math.md, section 3:

- A step on the same batch is rho-Lipschitz, rho = max(|1 - eta mu|, |1 - eta L|), also above 1.
- Where the batches differ in one record, both gradients are taken at the same w', so the
  regulariser cancels: 2 eta R / |B| is added if the record is replaced, eta R / |B| if it is
  zeroed out. No projection is needed, and a projection onto a convex set does no harm.
- An average moves no further than its terms do on average.

Both runs start from the same weights, and take their batches in the same order. If n is private
(Relation.ADD_OR_REMOVE_ONE) the divisors are too, and nothing here applies.

Numbers are for exact arithmetic, and rounded up; `rounding` bounds what float64 adds.
`loop.py` is the recurrence, `bounds.py` the theorems, `rounding.py` the arithmetic.
"""

from sordino.sensitivity.bounds import (
    bolt_on_convex,
    bolt_on_fractional,
    bolt_on_strongly_convex,
    contraction,
    fixed_step_limit,
    gradient_descent,
    nsgd,
    reshuffled_contributions,
    rsgd_ar,
    zhang_gradient_descent,
)
from sordino.sensitivity.loop import Batches, Reshuffled, Sensitivity, batch_sizes
from sordino.sensitivity.rounding import rounding

__all__ = [
    "Batches",
    "Reshuffled",
    "Sensitivity",
    "batch_sizes",
    "bolt_on_convex",
    "bolt_on_fractional",
    "bolt_on_strongly_convex",
    "contraction",
    "fixed_step_limit",
    "gradient_descent",
    "nsgd",
    "reshuffled_contributions",
    "rounding",
    "rsgd_ar",
    "zhang_gradient_descent",
]
