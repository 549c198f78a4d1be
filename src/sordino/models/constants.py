"""What is minimised: its description (`ObjectiveSpec`) and what is proved of it (`Constants`).

This file is free of torch, so that proofs and certificates can read it cheaply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sordino import checks

LINEAR_KINDS = ("logistic", "huber-svm", "least-squares")
"""One score a record: compiled loops know these."""
CONVEX_KINDS = (*LINEAR_KINDS, "softmax")
"""Of these theorems on convex losses hold."""
KINDS = (*CONVEX_KINDS, "mlp", "cnn")


@dataclass(frozen=True)
class Constants:
    """What theorems need to know about a loss f(w, record) = data term + (l2/2) ||w||^2.

    Parameters
    ----------
    lipschitz
        Bound on the gradient norm of the DATA term alone, for every w and every record within
        the norm bound; infinity if there is none. The regulariser cancels in every
        sensitivity argument, so it is not counted (docs/math.md, 3.1).
    smooth
        Largest curvature of the whole loss, regulariser included.
    strongly_convex
        Least curvature of the whole loss: the l2 weight for a convex data term.
    """

    lipschitz: float
    smooth: float
    strongly_convex: float


@dataclass(frozen=True)
class ObjectiveSpec:
    """A loss, described by plain values. `sordino.models.build` makes it computable.

    Parameters
    ----------
    kind
        One of "logistic", "huber-svm", "least-squares", "softmax", "mlp", "cnn".
    l2
        Weight of (l2/2) ||w||^2 on every parameter, the intercept included: an unregularised
        direction would not be strongly convex.
    intercept
        Whether a convex model has a constant feature 1 (which raises the rows' norm bound
        from R to sqrt(R^2 + 1)). Networks always have biases.
    huber_width
        Half the width h over which the hinge is rounded; curvature 1/(2h).
    hidden
        Hidden units of the dense layer of a network.
    classes
        Outputs of the "softmax", and of that of the "cnn". The "mlp" is binary, as in the papers.

    Examples
    --------
    >>> ObjectiveSpec("huber-svm", l2=0.25, intercept=False).constants(norm_bound=1.0)
    Constants(lipschitz=1.0, smooth=1.25, strongly_convex=0.25)
    """

    kind: str
    l2: float = 0.0
    intercept: bool = True
    huber_width: float = 0.5
    hidden: int = 10
    classes: int = 10

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, KINDS)
        checked = {
            "l2": checks.non_negative("l2", self.l2),
            "intercept": checks.flag("intercept", self.intercept),
            "huber_width": checks.positive("huber_width", self.huber_width),
            "hidden": checks.whole("hidden", self.hidden, at_least=1),
            "classes": checks.whole("classes", self.classes, at_least=2),
        }
        # Kept as plain Python numbers, so that equal specs are equal text.
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if not self.is_convex and not self.intercept:
            checks.fail("intercept", self.intercept, f"to be True for {self.kind}")

    @property
    def is_linear(self) -> bool:
        """Whether a prediction is one inner product with the row."""
        return self.kind in LINEAR_KINDS

    @property
    def is_convex(self) -> bool:
        """Whether the loss is convex in the weights: a linear model, or the softmax of several."""
        return self.kind in CONVEX_KINDS

    @property
    def scores(self) -> int:
        """Inner products with the row that a convex loss is a function of."""
        return self.classes if self.kind == "softmax" else 1

    @property
    def slope(self) -> float:
        """Largest norm of a convex loss' gradient in its scores; infinity for least squares.

        Of the softmax it is p - e_y for probabilities p, whose norm is below sqrt(2) however many
        classes there are: one against the rest would have sqrt(classes).
        """
        return {"least-squares": math.inf, "softmax": math.sqrt(2.0)}.get(self.kind, 1.0)

    @property
    def curvature(self) -> float:
        """Largest second derivative of a convex loss along its scores.

        Of the softmax it is the largest eigenvalue of diag(p) - p p', at most 1/2 (Bohning 1992).
        """
        at = {"logistic": 0.25, "huber-svm": 1 / (2 * self.huber_width), "least-squares": 1.0}
        return at.get(self.kind, 0.5)

    def constants(self, norm_bound: float) -> Constants | None:
        """What is proved of the loss for rows of at most this norm; None for a network.

        Section 3 of docs/math.md: |psi| <= 1, psi' <= 1/4 (logistic) or 1/(2h) (Huber); a softmax'
        gradient is an outer product, of norm |p - e_y| |x|. Least squares has no Lipschitz constant
        on an unbounded domain: it is infinite.
        """
        bound = checks.positive("norm_bound", norm_bound)
        if not self.is_convex:
            return None
        squared = bound**2 + (1.0 if self.intercept else 0.0)
        lipschitz = self.slope * math.sqrt(squared)
        return Constants(lipschitz, self.curvature * squared + self.l2, self.l2)
