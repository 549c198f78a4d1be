"""Is epsilon_i* true? The papers' claim about SGD's own noise, put to the test.

Hyland & Tople measure a grid of seeds and neighbours and read off sigma_i (how widely the seed
spreads a weight) and the empirical sensitivity. Their epsilon_i* is that of a Gaussian mechanism
with mu = sensitivity / sigma_i. That is a claim about two laws, and laws can be told apart by runs:

1. the grid gives mu, and the pair of datasets that is easiest to tell apart (`PapersClaim.of`);
2. the pair is trained again with seeds that are not the grid's (`fresh_runs`);
3. a direction, and thresholds along it, are learned on the first half of these runs;
4. the second half tests the claimed trade-off curve (`examine`): as a whole by a simultaneous band,
   at one threshold, and as plain (epsilon, delta).

The three tests share the level: what they say holds at once, with the stated confidence. Nothing
about the runs' law is assumed; where a number is one "if the mechanism is Gaussian", it says so.
Refuted on one pair is refuted; not refuted on one pair says nothing about others.

The same is done to the augmented release (`augment`), which adds only the noise that SGD's own is
thought to leave: both noises together are claimed to be worth the target.

Datasets of the papers' grid replace one record each by the first one. As sets of records, two of
them differ in one record, and where the order is random nothing else matters: `pair` puts them
into that form, so what is tested is a pair of neighbours by any definition.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from sordino import checks, randomness
from sordino.accounting import gaussian
from sordino.accounting.profile import GaussianProfile
from sordino.audit import band, bounds
from sordino.audit.pairs import Claim
from sordino.audit.scores import direction
from sordino.data import neighbours as neighbouring
from sordino.data.dataset import Dataset
from sordino.data.neighbours import Neighbours
from sordino.intrinsic.augment import Augmented, Basis, augment, perturbed
from sordino.privacy import Observation, Relation, Sampling, rounded
from sordino.sgd.spec import TrainSpec
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.intrinsic.summary import Summary
    from sordino.sgd.engine import Progress


_FRESH_SEEDS = 1_000_000
"""First of the seeds that test; a grid's begin at 0."""
_FOLDS = 4
"""Of the learning runs: thresholds are chosen by scores that were learned from other runs."""
_TESTS = 3
"""The band, the Gaussian bound at a threshold, and the plain one: each gets this share."""


@dataclass(frozen=True)
class PapersClaim:
    """What the papers say of one grid, and the pair of its datasets that shows most.

    Parameters
    ----------
    init
        Kind of initial weights, "vary" or "fixed".
    sensitivity, sigma
        The largest distance of two runs with the same seed, and v2's sigma_i.
    delta
        Of their epsilon: 1 / n^2 by default.
    records
        The records replaced by the first one in the two datasets.
    seeds
        The grid's: those that chose `records`.
    """

    init: str
    sensitivity: float
    sigma: float
    delta: float
    records: tuple[int, int]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, summary: Summary, init: str = "vary") -> PapersClaim:
        """The claim that a measured grid makes."""
        found = summary.of(init)
        sigma = found.sigma["minimum"].value
        if found.worst is None or not sigma > 0 or not found.sensitivity > 0:
            checks.fail("summary", f"[{init}]", "to have a worst pair and noise")
        first, second = (found.neighbours[place] for place in found.worst.pair)
        seeds = summary.measured.seeds
        return cls(init, found.sensitivity, sigma, summary.delta, (first, second), seeds)

    @property
    def mu(self) -> float:
        """How many standard deviations apart the papers take the two laws to be, at most."""
        return self.sensitivity / self.sigma

    @property
    def claimed(self) -> Claim:
        """epsilon_i*, by the exact formula, and the whole curve it stands for."""
        return _gaussian_claim(self.mu, self.delta, "epsilon_i* = sensitivity / sigma_i")

    def augmented(self, epsilon: float) -> Augmented:
        """The release that adds what SGD's noise is thought to leave of the noise for `epsilon`."""
        # The claim is tested on the data it was measured on, as in the papers' own tables.
        basis = Basis(self.sensitivity, "empirical", self.sigma, "public")
        return augment(epsilon, self.delta, basis)


@dataclass(frozen=True, eq=False)
class ClaimAudit:
    """What fresh runs say of one claim. The observations hold all at once, with `confidence`.

    Parameters
    ----------
    claim
        What the grid said.
    tested
        The claim put to the test: the papers', or that of the augmented release.
    added
        Standard deviation of the noise added to every weight; 0 for none.
    refuted_by_band
        Whether the band refutes the claimed curve.
    gaussian_band, gaussian, plain
        Lower bounds on epsilon: by the band and at one threshold, both if the mechanism is
        Gaussian, and without any hypothesis.
    mu
        Lower bound on mu at the threshold, if the mechanism is Gaussian.
    distance
        Mean difference of the tested runs along the learned direction, in their standard
        deviations: an estimate of what is claimed to be at most `claimed_mu`.
    isotropic
        The same along the mean difference, with one standard deviation for all directions, which is
        how the papers measure noise.
    confidence
        Of all of it together.
    negative, positive
        Tested scores of the two datasets, for plots.
    """

    claim: PapersClaim
    tested: Claim
    added: float
    refuted_by_band: bool
    gaussian_band: Observation
    gaussian: Observation
    plain: Observation
    mu: float
    distance: float
    isotropic: float
    confidence: float
    negative: Floats
    positive: Floats

    @property
    def runs(self) -> int:
        """Tested runs a dataset; as many others were learned from."""
        return len(self.negative)

    @property
    def refuted_at_threshold(self) -> bool:
        """Whether the errors at one threshold are fewer than the claimed curve allows."""
        return self.mu > self.claimed_mu

    @property
    def refuted_by_epsilon(self) -> bool:
        """Whether the claimed (epsilon, delta) alone is refuted."""
        return self.plain.epsilon > self.tested.epsilon

    @property
    def refuted(self) -> bool:
        """Whether any of the three tests refutes the claim."""
        return self.refuted_by_band or self.refuted_at_threshold or self.refuted_by_epsilon

    @property
    def claimed_mu(self) -> float:
        """How far apart the two laws are claimed to be at most."""
        assert self.tested.profile is not None
        return self.tested.profile.mu or 0.0

    @property
    def detectable(self) -> float:
        """The mu from which on a Gaussian mechanism would be expected to be caught here."""
        return detectable(self.claimed_mu, runs=self.runs, confidence=_share(self.confidence))

    @property
    def verdict(self) -> str:
        """What was found, in one sentence."""
        curve = f"the Gaussian trade-off with mu = {self.claimed_mu:.3g}"
        at = f"epsilon = {self.tested.epsilon:.3g} at delta = {self.tested.delta:.2g}"
        if self.refuted:
            found = f"if Gaussian, the laws are mu >= {rounded(self.mu, up=False, digits=3)} apart"
            sure = f"{rounded(100 * self.confidence, up=False)}% confidence"
            return f"refuted: these runs contradict {curve} ({at}) with {sure}; {found}"
        if self.detectable == math.inf:
            return f"not refuted: {curve} ({at}) is more than this audit could have refuted"
        power = f"could have refuted it if the truth were mu = {self.detectable:.3g} or more"
        return f"not refuted: {curve} ({at}) is not contradicted; this audit {power}"


def pair(data: Dataset, records: Sequence[int]) -> tuple[Dataset, Neighbours]:
    """Two datasets of the papers' grid as one and its neighbour: [first, second] of `records`.

    The grid's datasets are all records but the first, with record a (or b) replaced by the first.
    The one without a holds b, and the one without b holds a in its place.
    """
    a, b = (checks.index("record", record, data.rows) for record in records)
    if 0 in (a, b) or a == b:
        checks.fail("records", (a, b), "to be two records other than the first")
    X, y = data.X[1:].copy(), data.y[1:].copy()
    X[a - 1], y[a - 1] = data.X[0], data.y[0]
    first = dataclasses.replace(data, X=X, y=y)
    return first, neighbouring.replace(first, [b - 1], data.X[a : a + 1], data.y[a : a + 1])


def fresh_runs(
    spec: TrainSpec,
    data: Dataset,
    claim: PapersClaim,
    runs: int,
    *,
    first_seed: int = _FRESH_SEEDS,
    progress: Callable[[Progress], None] | None = None,
) -> Floats:
    """Final weights [dataset, run, parameter] of the claim's pair, by seeds that did not choose it.

    Both datasets are trained with the same seeds: runs of one dataset are independent of each
    other, which is all that the tests need, and it is twice as fast.
    """
    from sordino.sgd.engine import train  # heavy

    runs = checks.whole("runs", runs, at_least=4)
    if spec.order == Sampling.CYCLIC:
        checks.fail("order", spec.written_order, "to be random: a record's place counts too")
    seeds = range(first_seed, first_seed + runs)
    if taken := set(claim.seeds).intersection(seeds):
        checks.fail("first_seed", first_seed, f"to leave out the grid's seed {min(taken)}")
    first, both = pair(data, claim.records)
    trained = dataclasses.replace(spec, init=claim.init)
    weights = train(trained, first, seeds, both, progress=progress)[:, :, 0]
    return np.ascontiguousarray(weights.swapaxes(0, 1), dtype=np.float64)


def examine(
    claim: PapersClaim,
    weights: npt.ArrayLike,
    *,
    epsilon: float | None = None,
    confidence: float = 0.99,
) -> ClaimAudit:
    """Put the papers' claim to the test with the runs of `fresh_runs`.

    Parameters
    ----------
    claim
        What the grid said.
    weights
        [dataset, run, parameter] of fresh runs; the first half is learned from, the other tested.
    epsilon
        None tests the weights as they are against epsilon_i*. A number tests the augmented release
        with that target, which must be below epsilon_i*: otherwise nothing is added.
    confidence
        Of all that is found, together.
    """
    W = np.asarray(weights, dtype=np.float64)
    if W.ndim != 3 or len(W) != 2 or W.shape[1] < 4 * _FOLDS:
        condition = f"to be [2, {4 * _FOLDS} or more runs, parameter]"
        checks.fail("weights", f"[shape {W.shape}]", condition, "Pass what `fresh_runs` returns.")
    checks.finite("weights", W.reshape(2 * W.shape[1], -1))
    tested, added = claim.claimed, 0.0
    if epsilon is not None:
        W, tested, added = _augmented(claim, W, epsilon)
    learned = W.shape[1] // 2
    # Row r of both is one seed, and learns or tests as a whole.
    folds = np.arange(learned) % _FOLDS
    held_out, whole = direction([*W[:, :learned]], [folds, folds], _FOLDS)
    score, learning = whole(), np.concatenate([np.stack(fold) for fold in held_out], axis=1)
    negative, positive = score(W[0, learned:]), score(W[1, learned:])
    each = _share(confidence)
    asked: dict[str, Any] = {"delta": claim.delta, "confidence": each}
    best = bounds.best_threshold(*learning, **asked, runs=len(negative))
    middle = float(learning.mean())
    counts = bounds.counts_at(negative, positive, middle)
    named = {**asked, "attack": "a direction learned from other runs"}
    family, family_name = band.GaussianFamily(claim.delta), "of Gaussian mechanisms"
    assert tested.profile is not None
    return ClaimAudit(
        claim=claim,
        tested=tested,
        added=added,
        gaussian_band=band.band(negative, positive, family, family_name=family_name, **named),
        gaussian=bounds.at_threshold(negative, positive, middle, if_gaussian=True, **named),
        plain=bounds.at_threshold(negative, positive, best, **named),
        mu=bounds.gaussian_mu_from_counts(*counts, confidence=each),
        refuted_by_band=band.refutes(negative, positive, tested.profile, confidence=each),
        distance=_distance(negative, positive),
        isotropic=_isotropic(W[:, :learned], W[:, learned:]),
        confidence=confidence,
        negative=negative,
        positive=positive,
    )


def detectable(mu: float, *, runs: int, confidence: float) -> float:
    """Least true mu at which the test at one threshold is expected to refute a claimed `mu`.

    Infinite if so few runs could never show more than `mu`.
    """
    level = bounds.level_of(confidence)

    def shown(true: float) -> float:
        errors = np.array(runs * ndtr(-true / 2))
        return float(-2 * ndtri(bounds.upper(errors, runs, level / 2)))

    top = 60.0  # no error is expected among any number of runs
    if shown(top) <= mu:
        return math.inf
    return gaussian.least(lambda true: shown(true) > mu, mu, top)


def _gaussian_claim(mu: float, delta: float, source: str) -> Claim:
    profile = GaussianProfile(relation=Relation.REPLACE_ONE, theorem=source, parameter=mu)
    return Claim(profile.epsilon(delta), delta, Relation.REPLACE_ONE, profile, source)


def _augmented(claim: PapersClaim, W: Floats, epsilon: float) -> tuple[Floats, Claim, float]:
    """Runs with the noise still to add, and what they are claimed to be worth."""
    release = claim.augmented(epsilon)
    if release.adds_nothing:
        limit = f"< {claim.claimed.epsilon:.4g}, which is epsilon_i*"
        checks.fail("epsilon", epsilon, limit, "From there on nothing is added.")
    generator = randomness.stream("audit", "augmented release", claim.init)
    together = claim.sensitivity / math.hypot(release.sigma_augment, claim.sigma)
    source = f"augmented release at epsilon = {epsilon:g}"
    tested = _gaussian_claim(together, claim.delta, source)
    return perturbed(W, release, generator), tested, release.sigma_augment


def _distance(negative: Floats, positive: Floats) -> float:
    noise = math.sqrt((negative.var(ddof=1) + positive.var(ddof=1)) / 2)
    difference = float(positive.mean() - negative.mean())
    return difference / noise if noise > 0 else math.copysign(math.inf, difference)


def _isotropic(learning: Floats, tested: Floats) -> float:
    """Mean difference of tested runs along the learning ones', over one sigma for all weights."""
    along = learning[1].mean(axis=0) - learning[0].mean(axis=0)
    size = float(np.linalg.norm(along))
    noise = math.sqrt(float(tested.var(axis=1, ddof=1).mean()))
    if not (size > 0 and noise > 0):
        return 0.0 if size == 0 else math.inf
    return float((tested[1].mean(axis=0) - tested[0].mean(axis=0)) @ along) / size / noise


def _share(confidence: float) -> float:
    return 1 - bounds.level_of(confidence) / _TESTS
