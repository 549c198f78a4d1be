"""What each stage of an assessment found, as plain values; `assessment.Assessment` holds them all.

INTERNAL: exact accuracies, estimates and what attacks achieved were computed from the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sordino.privacy import Estimate, Guarantee, Observation

ADDED = {"added": True}
"""Metadata of a field that documents of earlier versions lack: they are read with its default."""
CALIBRATION_BINS = 10

Plain = str | int | float | bool | None
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Checked:
    """A precondition of a theorem, and the numbers by which it was checked.

    `trusted` if no code can see it, and it is taken on trust.
    """

    what: str
    numbers: str = ""
    trusted: bool = False


@dataclass(frozen=True)
class Bound:
    """What one theorem says of this release: an upper bound, or why it says nothing.

    Parameters
    ----------
    name
        Short, for the axis: "exact Gaussian, random sensitivity".
    epsilon
        Proved at the question's delta; None where the theorem does not apply.
    theorem
        The statement, with its source.
    used
        Whether the certificate rests on this one.
    reason
        Why it does not apply, and what would satisfy it; "" where it does.
    checked
        Preconditions, in the order of the theorem.
    kind
        "guarantee", or "as printed" for a formula that is quoted, not proved, and never ranked.
    """

    name: str
    epsilon: float | None
    theorem: str
    used: bool = False
    reason: str = ""
    checked: tuple[Checked, ...] = ()
    kind: Literal["guarantee", "as printed"] = "guarantee"


@dataclass(frozen=True)
class Curve:
    """Points of a line, for a figure."""

    x: Numbers
    y: Numbers


@dataclass(frozen=True)
class Proved:
    """What was proved of the release.

    Parameters
    ----------
    guarantee
        What the certificate says; None if nothing is promised, and `why_none` says why.
    bounds
        Every theorem that was asked, the used one first.
    tradeoff
        Least false-negative rate (y) of any test with false-positive rate x, for the guarantee's
        whole profile; None if nothing is proved.
    best_guess
        The largest probability with which anybody guesses right whether a record was in the data
        (or was this one and not that one), if both are equally likely beforehand.
    facts
        Numbers of the proof in words, by name: "sensitivity", "noise", "schedule".
    """

    guarantee: Guarantee | None
    why_none: str = ""
    bounds: tuple[Bound, ...] = ()
    tradeoff: Curve | None = None
    best_guess: float = 1.0
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure:
    """A number with its interval at confidence `level`."""

    value: float
    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True)
class AccuracyPoint:
    """Accuracy of releases at one epsilon, over `repeats` of them (their mean and its interval)."""

    epsilon: float
    accuracy: Measure
    repeats: int


@dataclass(frozen=True)
class Scores:
    """How good a model is on the held-out rows, beside its accuracy; None where not defined.

    Nothing is defined of rows of one class, and no probability of a support vector machine.

    Parameters
    ----------
    balanced_accuracy
        Mean over the classes of the share of its rows that are labelled so.
    auc
        Area under the ROC curve: how surely a row of a class ranks above one of the others (the
        mean over the classes, where there are more than two).
    log_loss
        Mean of -ln of the probability that the model gave to what is.
    calibration_error
        Expected calibration error: how far its probabilities lie from shares, in ten bins.
    """

    balanced_accuracy: float | None = None
    auc: float | None = None
    log_loss: float | None = None
    calibration_error: float | None = None


@dataclass(frozen=True)
class Accuracy:
    """What the privacy costs. INTERNAL: exact accuracies are not covered by any guarantee.

    Parameters
    ----------
    before
        Of the same model without privacy; the interval is for the test rows being a sample.
    after
        Of the released model itself, likewise.
    again
        Of releases made like it, each with noise of its own: mean over them, and the interval in
        which 95 % of such releases fall (low, high).
    repeats
        How many.
    majority
        Of always saying the most frequent class.
    curve
        Against epsilon, all else equal.
    test_rows
        Rows that no training saw.
    before_scores, after_scores, constant_scores
        More of the model without privacy, of the released one (of a network, of one made like it),
        and of always saying the most frequent class with the shares of the training rows.
    """

    before: Measure
    after: Measure | None
    again: Measure
    repeats: int
    majority: float
    curve: tuple[AccuracyPoint, ...]
    test_rows: int
    before_scores: Scores | None = field(default=None, metadata=ADDED)
    after_scores: Scores | None = field(default=None, metadata=ADDED)
    constant_scores: Scores | None = field(default=None, metadata=ADDED)


@dataclass(frozen=True)
class Release:
    """The model that may leave, and how it was made.

    Parameters
    ----------
    method, settings
        What was run in the end, and its settings as plain values.
    noise, source
        How much and where, in words; and where it comes from.
    accuracy
        None where there are no test rows.
    directory
        Of the bundle, relative to the study; "" where nothing was written, and `why_not` says why.
    certificate
        The certificate's JSON text; "" where there is none.
    """

    method: str
    settings: Mapping[str, Plain]
    noise: str
    source: str
    accuracy: Accuracy | None = None
    directory: str = ""
    why_not: str = ""
    certificate: str = ""


@dataclass(frozen=True)
class Estimated:
    """Estimates of one release: none of them a guarantee.

    Parameters
    ----------
    headline
        What stands on the axis: the largest of the direction-by-direction estimates over the pairs
        of datasets that were tried, the attacked one among them. None where none could be made;
        `why_none` says why.
    isotropic
        The papers' way: one sigma for all directions.
    directional
        Along the most telling direction. Often the headline.
    words
        What was measured: which runs, seeds, pairs; a sentence each.
    """

    headline: Estimate | None
    isotropic: Estimate | None = None
    directional: Estimate | None = None
    why_none: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class OwnNoise:
    """SGD's own noise: ordinary training, nothing added, over seeds and neighbouring datasets.

    Parameters
    ----------
    training
        In words: "800 steps, batches of 32, learning rate 0.5, reshuffled every pass".
    seeds, neighbours, runs
        Size of the grid.
    sigma
        sigma_i of the papers (v2: the least over datasets), with its bootstrap interval.
    sensitivity
        The largest distance seen between two neighbours under one seed: a LOWER estimate.
    bound
        What the distance is proved never to exceed; None where nothing is, and `no_bound` says why.
    by_data, by_seed
        Densities (per decade) of distances between final weights: another record, another seed.
    trajectory
        None, or for one weight: its value against steps for some seeds.
    gaussian_share
        Share of weights whose noise a Shapiro-Wilk test at 5 % does not reject as Gaussian.
    estimated
        Of the un-noised release.
    notes
        What could not be computed, and why.
    """

    training: str
    seeds: int
    neighbours: int
    runs: int
    sigma: Measure
    sensitivity: float
    bound: float | None
    by_data: Curve
    by_seed: Curve
    estimated: Estimated
    no_bound: str = ""
    gaussian_share: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Attack:
    """One audit.

    Parameters
    ----------
    of
        "release", "un-noised SGD", or "mechanism" for a foreign one.
    pair
        The two datasets, in words.
    score
        What the attack looks at, in words.
    runs, tested
        In each world; those that tested.
    claimed
        The epsilon to refute; None if nothing is claimed.
    observed
        The headline: assumes nothing.
    others
        Other bounds from the same runs, some under a hypothesis that their text names.
    violated, curve_refuted
        See `sordino.audit.game.Audit`.
    reach, gaussian_reach
        The largest epsilon that so many runs could have shown, without and with the hypothesis of
        Gaussian noise; 0 if too few.
    verdict
        In words.
    roc
        False-negative (y) against false-positive rate (x) as counted, thinned.
    tested_point
        (false positives, false negatives) at the tested threshold: the most they can be.
    claimed_curve
        Least false-negative rates the claim allows, at `roc`-like places; None if no curve.
    """

    of: str
    pair: str
    score: str
    runs: int
    tested: int
    claimed: float | None
    observed: Observation
    others: tuple[Observation, ...]
    violated: bool
    curve_refuted: bool | None
    reach: float
    gaussian_reach: float | None
    verdict: str
    roc: Curve
    tested_point: tuple[float, float] | None = None
    claimed_curve: Curve | None = None
