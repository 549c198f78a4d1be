"""Whole assessments with numbers like real ones, for tests of the page and of its JSON.

Numbers fit together (curves belong to the epsilons beside them), but nothing here was trained.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from sordino.accounting import gaussian
from sordino.audit.bounds import error_rates
from sordino.privacy import Estimate, Guarantee, Observation, Relation
from sordino.report.public import PublicFacts, public_facts
from sordino.report.result import (
    Accuracy,
    AccuracyPoint,
    Assessment,
    Attack,
    Bound,
    Checked,
    Curve,
    Estimated,
    Measure,
    OwnNoise,
    Proved,
    Provenance,
    Question,
    Records,
    Release,
    Scores,
    curve,
)

DELTA = 5e-7
ROWS, TEST_ROWS, COLUMNS = 1294, 432, 65
MU = 1 / gaussian.sigma(1.0, DELTA)
"""Distance of two datasets in standard deviations, for a Gaussian release that just keeps 1."""

CERTIFICATE = Path(__file__).with_name("sample_certificate.json").read_text(encoding="utf-8")
THEOREM = "shifted interpolation of the hidden iterates (Bok, Su & Altschuler 2024)"
OBSERVED_BY = (
    "a learned direction; Clopper-Pearson at one threshold, both chosen by other runs",
    "a learned direction; Clopper-Pearson with Bonferroni over 20 thresholds fixed beforehand",
    "a learned direction; Clopper-Pearson at one threshold fixed beforehand, if the mechanism is "
    "Gaussian (mu-GDP)",
    "a learned direction; simultaneous DKW band on both error curves, within the family of "
    "Gaussian mechanisms",
)


def release_sample() -> Assessment:
    """Logistic regression on digits/binary, epsilon 1: everything holds."""
    return Assessment(
        question=_question(),
        records=_records(),
        proved_parts=_proved(),
        release=_release(),
        release_estimated=_release_estimated(),
        own_noise=_own_noise(),
        attacks=(_attack("release", MU * 0.8, claimed=1.0), _attack("un-noised SGD", 1.5)),
        caveats=(
            "Accuracies on this page are exact: they were computed from the records and no "
            "guarantee covers them.",
            "Tuning on the same records, if there was any, is not paid for: none was declared.",
        ),
        provenance=_provenance(),
    )


def broken_sample() -> Assessment:
    """The same with a noise that is a third of what was promised: observed above proved."""
    sample = release_sample()
    attack = _attack("release", 3 * MU, claimed=1.0)
    verdict = "BROKEN: with 99 % confidence epsilon is above the 1 that is claimed."
    attack = dataclasses.replace(attack, violated=True, curve_refuted=True, verdict=verdict)
    return dataclasses.replace(sample, attacks=(attack, sample.attacks[1]))


def refuted_sample() -> Assessment:
    """The estimate is too low, of the release and of un-noised SGD: observed above both."""
    sample = release_sample()
    assert sample.release_estimated is not None
    assert sample.own_noise is not None
    estimated = dataclasses.replace(
        sample.release_estimated,
        headline=_estimate(MU * 0.08, "direction by direction"),
        directional=_estimate(MU * 0.08, "direction by direction"),
    )
    own = dataclasses.replace(
        sample.own_noise,
        estimated=dataclasses.replace(
            sample.own_noise.estimated, headline=_estimate(0.4, "direction by direction")
        ),
    )
    return dataclasses.replace(sample, release_estimated=estimated, own_noise=own)


def foreign_sample() -> Assessment:
    """A mechanism of somebody else's that claims epsilon 1 and leaks: attacks alone."""
    question = dataclasses.replace(
        _question(),
        title="the mechanism gallery:half_noise",
        data="",
        model="",
        method="",
        mechanism="gallery:half_noise",
        settings={"mechanism": "gallery:half_noise", "epsilon": 1.0, "audit_runs": 5000},
        rerun="sordino assess --mechanism gallery:half_noise --epsilon 1",
    )
    attack = dataclasses.replace(
        _attack("mechanism", 4 * MU, claimed=1.0),
        pair="the two datasets that the mechanism came with",
        violated=True,
        curve_refuted=True,
        verdict="BROKEN: with 99 % confidence epsilon is above the 1 that is claimed.",
    )
    return Assessment(
        question=question,
        records=None,
        proved_parts=None,
        release=None,
        release_estimated=None,
        own_noise=None,
        attacks=(attack,),
        caveats=("Nothing was proved here: a mechanism that passes an attack may still leak.",),
        provenance=dataclasses.replace(_provenance(), specs={}, fingerprint=""),
    )


def nothing_proved_sample() -> Assessment:
    """A network without added noise: nothing is promised, little is estimated."""
    sample = release_sample()
    why = (
        "A network's loss is not convex, so no theorem bounds its final weights beyond DP-SGD "
        "composition, and no noise was added that composition could count."
    )
    bounds = (
        Bound(
            name="DP-SGD composition",
            epsilon=math.inf,
            theorem="privacy loss distributions (Zhu, Dong & Wang 2022)",
            checked=(Checked("noise is added to every step", "noise multiplier 0"),),
        ),
        _refused("hidden iterates", THEOREM, "the loss is not convex: use a linear model"),
    )
    assert sample.release is not None
    return dataclasses.replace(
        sample,
        question=dataclasses.replace(
            sample.question, title="a network with 16 hidden units on digits/binary", model="mlp"
        ),
        proved_parts=Proved(guarantee=None, why_none=why, bounds=bounds),
        release=dataclasses.replace(
            sample.release,
            method="DP-SGD",
            noise="none",
            source="",
            accuracy=None,
            directory="",
            why_not="Nothing is promised of this model, so no bundle was written.",
            certificate="",
        ),
        release_estimated=Estimated(
            headline=None, why_none="Each weight moves on its own: no distance could be measured."
        ),
        attacks=(_attack("release", 1.5 * MU, claimed=None),),
    )


def public_sample() -> PublicFacts:
    """What the public sees of `release_sample`."""
    made = _proved()
    computed = {"tradeoff": made.tradeoff, "best_guess": made.best_guess, "bounds": made.bounds}
    return public_facts(CERTIFICATE, **computed)


def _question() -> Question:
    return Question(
        title="logistic regression on digits/binary",
        data="digits/binary",
        target=None,
        model="logistic",
        method="auto",
        epsilon=1.0,
        delta=DELTA,
        delta_reason="1/N² for N = 1,294 rows, rounded down to one digit.",
        relation=Relation.REPLACE_ONE,
        effort="standard",
        settings={"data": "digits/binary", "epsilon": 1.0, "delta": None, "seeds": 100},
        rerun="sordino assess --data digits/binary --model logistic --epsilon 1",
    )


def _records() -> Records:
    return Records(
        rows=ROWS,
        test_rows=TEST_ROWS,
        columns=COLUMNS,
        classes=("even", "odd"),
        norm=math.sqrt(2),
        notes=(
            "Pixels divided by 16, the largest value a pixel can have.",
            "Rows longer than 1.414 are shortened to that; the intercept is a column of its own.",
        ),
        reads_private_data=("the labels were counted to find the classes",),
        advice="Name the classes in the study file: classes = ['even', 'odd'].",
    )


def _proved() -> Proved:
    guarantee = Guarantee(
        epsilon=0.9999999999989251,
        delta=DELTA,
        relation=Relation.REPLACE_ONE,
        sampling="full",
        unit="one record",
        theorem=THEOREM,
        assumes=(
            "batches drawn by full sampling, as trained",
            "initial weights and all settings chosen without looking at these data",
            "nothing but the last weights leaves the building: no other iterate, no average",
        ),
        released="final",
    )
    checked = (
        Checked("the loss is convex", "logistic loss with regulariser 0.001"),
        Checked("steps do not expand", "learning rate 1.95025 <= 2/0.501 = 3.99"),
        Checked("settings were chosen without the data", trusted=True),
    )
    bounds = (
        Bound("hidden iterates", guarantee.epsilon, THEOREM, used=True, checked=checked),
        Bound(
            "privacy loss distributions",
            1.0871,
            "privacy loss distributions of the Gaussian mechanism (Zhu, Dong & Wang 2022)",
            checked=checked[2:],
        ),
        Bound("Rényi DP", 1.1722, "moments accountant (Mironov, Talwar & Zhang 2019)"),
        Bound("strong composition", 6.9, "Kairouz, Oh & Viswanath 2015, Theorem 3.4"),
        Bound("basic composition", 7.318, "basic composition (Dwork et al. 2006)"),
        _refused(
            "output perturbation, random sensitivity",
            "Chen, Lee & Kifer 2019, Proposition 3, corrected",
            "the noise is in every step, not on the final weights: use method rsgd-ar",
        ),
        Bound("notes, naive", 4.28, "qT sqrt(2 ln(1.25 qT/δ)) / σ", kind="as printed"),
    )
    return Proved(
        guarantee=guarantee,
        bounds=bounds,
        tradeoff=tradeoff(MU),
        best_guess=float(ndtr(MU / 2)),
        facts={
            "noise": "standard deviation 76.0916 on every sum of clipped gradients",
            "schedule": "38 steps with batches of 1,294 of 1,294 records, learning rate 1.95025",
            "sensitivity": "one record moves a sum of gradients by at most 2.82843",
        },
    )


def _refused(name: str, theorem: str, reason: str) -> Bound:
    return Bound(name=name, epsilon=None, theorem=theorem, reason=reason)


def tradeoff(mu: float) -> Curve:
    """Of two normal laws that lie `mu` standard deviations apart."""
    alpha = np.concatenate([np.geomspace(1e-6, 0.05, 60), np.linspace(0.06, 1, 95)])
    return curve(alpha, ndtr(ndtri(1 - alpha) - mu))


def _release() -> Release:
    epsilons = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    means = (0.71, 0.80, 0.864, 0.884, 0.893, 0.898, 0.899)
    widths = (0.05, 0.03, 0.012, 0.007, 0.005, 0.003, 0.003)
    points = tuple(
        AccuracyPoint(epsilon, Measure(mean, mean - width, mean + width), repeats=10)
        for epsilon, mean, width in zip(epsilons, means, widths, strict=True)
    )
    return Release(
        method="noisy-gd",
        settings={"steps": 38, "learning_rate": 1.9502533150683141, "accountant": None},
        noise="standard deviation 76.09 on every sum of clipped gradients",
        source="ChaCha20 keystream keyed by the operating system",
        accuracy=Accuracy(
            before=Measure(0.9015437, 0.8695, 0.9271),
            after=Measure(0.8842593, 0.8503, 0.9120),
            again=Measure(0.884, 0.861, 0.903),
            repeats=40,
            majority=0.5046296,
            curve=points,
            test_rows=TEST_ROWS,
            before_scores=Scores(0.9013, 0.9652, 0.2511, 0.0312),
            after_scores=Scores(0.8839, 0.9474, 0.3126, 0.0574),
            constant_scores=Scores(0.5, 0.5, 0.6931, 0.0046),
        ),
        directory="release",
        certificate=CERTIFICATE,
    )


def _estimate(distance: float, method: str) -> Estimate:
    low, high = (gaussian.epsilon(distance * factor, DELTA) for factor in (0.85, 1.2))
    return Estimate(
        epsilon=gaussian.epsilon(distance, DELTA),
        delta=DELTA,
        low=low,
        high=high,
        level=0.95,
        method=f"exact Gaussian epsilon of a measured distance, {method}",
        caveat="takes the noise for Gaussian and the pairs tried for the worst",
    )


def _release_estimated() -> Estimated:
    directional = _estimate(MU * 0.88, "direction by direction")
    return Estimated(
        headline=directional,
        isotropic=_estimate(MU * 0.3, "one sigma for all directions"),
        directional=directional,
        words=(
            "100 releases like this one, each with noise of its own, on the records themselves.",
            "24 neighbouring datasets, the attacked one among them.",
        ),
    )


def _own_noise() -> OwnNoise:
    directional = _estimate(2.6, "direction by direction")
    return OwnNoise(
        training="800 steps, batches of 32, learning rate 0.5, reshuffled every pass",
        seeds=100,
        neighbours=24,
        runs=2500,
        sigma=Measure(0.0213, 0.0204, 0.0222),
        sensitivity=0.0301,
        bound=0.1189,
        by_data=_bump(math.log10(0.012), 0.22),
        by_seed=_bump(math.log10(0.24), 0.05),
        estimated=Estimated(
            headline=directional,
            isotropic=_estimate(1.41, "one sigma for all directions"),
            directional=directional,
            words=("Ordinary SGD, no noise added.",),
        ),
        gaussian_share=0.923,
        notes=("The corner pixels are constant: their weights were left out.",),
    )


def _bump(centre: float, width: float) -> Curve:
    decades = np.linspace(centre - 4 * width, centre + 4 * width, 81)
    density = np.exp(-0.5 * ((decades - centre) / width) ** 2) / (width * math.sqrt(2 * math.pi))
    return curve(10**decades, density)


def _attack(of: str, distance: float, claimed: float | None = None, tested: int = 4000) -> Attack:
    """Scores are normal, `distance` apart; bounds are what such runs would show."""
    random = np.random.default_rng(8)
    negative = random.standard_normal(tested)
    positive = random.standard_normal(tested) + distance
    alpha, beta = error_rates(negative, positive)
    kept = np.unique(np.geomspace(1, len(alpha), 200).astype(int)) - 1
    kept = np.unique(np.concatenate([kept, len(alpha) - 1 - kept]))
    epsilons = tuple(
        gaussian.epsilon(distance * factor, DELTA) for factor in (0.6, 0.55, 0.85, 0.9)
    )
    # The threshold is 2; errors stand with room for chance, as tested.
    point = (1.25 * float(ndtr(-2)), min(1.05 * float(ndtr(2 - distance)), 1.0))
    observed, *others = (
        Observation(float(epsilon), DELTA, 0.99, by, 2 * tested)
        for epsilon, by in zip(epsilons, OBSERVED_BY, strict=True)
    )
    return Attack(
        of=of,
        pair="a crafted canary (at the norm bound, mislabelled, in a quiet direction)",
        score="a learned direction",
        runs=2 * tested,
        tested=tested,
        claimed=claimed,
        observed=observed,
        others=tuple(others),
        violated=False,
        curve_refuted=None if claimed is None else False,
        reach=5.8,
        gaussian_reach=1.37,
        verdict="no violation found.",
        roc=curve(alpha[kept], beta[kept]),
        tested_point=point,
        claimed_curve=None if claimed is None else tradeoff(MU),
    )


def _provenance() -> Provenance:
    return Provenance(
        date="2026-01-31",
        versions={"sordino": "0.1.0.dev0", "python": "3.11.7", "numpy": "2.4.6"},
        fingerprint="f1" * 32,
        specs={"un-noised SGD": '{"batch_size": 32, "learning_rate": 0.5, "steps": 800}'},
        seconds={"proving": 2.7, "measuring": 24.1, "releasing": 18.9, "attacking": 47.3},
        machine="2 cores, Linux",
    )
