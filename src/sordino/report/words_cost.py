"""What privacy costs in words, and what would help: rules of three accuracies.

INTERNAL, as the numbers are. The page and the terminal say the same.
"""

from __future__ import annotations

from sordino.report.stages import Accuracy, Scores
from sordino.report.words_numbers import count, percent

NOT_DEFINED = "not defined"
HEAD = ("model", "accuracy", "balanced accuracy", "AUC", "log-loss", "calibration error")
MEANING = (
    "Balanced accuracy is the mean over the classes of the share labelled right; AUC the chance "
    "that a row of a class ranks above one of the others; log-loss the mean of -ln of the "
    "probability given to what is (smaller is better); calibration error (ECE, ten bins) how far "
    "probabilities lie from shares. A support vector machine gives no probabilities."
)
MATTERS = 0.01
"""A difference of accuracies below a percentage point is nothing to build an advice on."""
_RANKS = 0.6
"""An AUC from which on a model ranks rows much better than by chance."""


def cost(found: Accuracy) -> str:
    """How much accuracy is lost, in a sentence."""
    points = 100 * (found.before.value - found.again.value)
    said = (
        f"costs about {points:.1f} percentage points of accuracy"
        if points >= 0.05
        else "costs no accuracy that these rows could show"
    )
    return (
        f"Privacy {said}: {percent(found.before.value)} without it, {percent(found.again.value)} "
        f"on average over {count(found.repeats)} releases like this one."
    )


def useless(found: Accuracy) -> str:
    """Said where always saying the most frequent label does as well, and what would help; or ""."""
    if found.again.low > found.majority:
        return ""
    no_better = (
        "releases like this one are on average no better"
        if found.again.value <= found.majority
        else "some releases like this one are no better"
    )
    return (
        f"{no_better} than always saying the label most frequent in training "
        f"({percent(found.again.value)} right on average, against {percent(found.majority)}). "
        f"{advice(found.majority, found.before.value, found.again.value)}{_ranking(found)}"
    )


def advice(constant: float, without: float, released: float) -> str:
    """What would help, by the accuracy of the most frequent label, without privacy, and released.

    Less noise brings releases no further than the model gets without any.
    """
    if without < constant + MATTERS:
        return (
            f"Without privacy the model is hardly better ({percent(without)}), so neither a larger "
            "epsilon nor less noise by more rows is what is missing: other columns or another "
            "model might help."
        )
    if without < released + MATTERS:
        return (
            f"On average they are as good as without privacy ({percent(without)}), so the noise "
            "costs little: other columns or another model might help."
        )
    return (
        f"Without privacy the model is right {percent(without)} of the time: more rows or a larger "
        "epsilon would bring releases nearer to that."
    )


def _ranking(found: Accuracy) -> str:
    """Labels of uneven classes may be useless where the ranking behind them is not."""
    before, after = found.before_scores, found.after_scores
    best = max((each.auc or 0.0 for each in (before, after) if each is not None), default=0.0)
    if found.before.value >= found.majority + MATTERS or best < _RANKS:
        return ""
    named = (("without privacy", before), (f"of {_released(found)}", after))
    said = ", ".join(f"{_number(each.auc)} {name}" for name, each in named if each is not None)
    return f" It ranks rows better than by chance, though (AUC {said}): try another threshold."


def _released(found: Accuracy) -> str:
    return "one like it" if found.after is None else "this release"


def table(found: Accuracy) -> list[tuple[str, ...]]:
    """Rows below `HEAD`; none of an assessment made before there were scores."""
    named = (
        ("without privacy", found.before.value, found.before_scores),
        (_released(found), None if found.after is None else found.after.value, found.after_scores),
        ("always the most frequent label", found.majority, found.constant_scores),
    )
    return [
        (name, "-" if share is None else percent(share), *_said(scores))
        for name, share, scores in named
        if scores is not None
    ]


def _said(scores: Scores) -> tuple[str, ...]:
    balanced = scores.balanced_accuracy
    return (
        NOT_DEFINED if balanced is None else percent(balanced),
        *(_number(each) for each in (scores.auc, scores.log_loss, scores.calibration_error)),
    )


def _number(value: float | None) -> str:
    return NOT_DEFINED if value is None else f"{value:.3f}"
