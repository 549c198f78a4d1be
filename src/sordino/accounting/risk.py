"""What the best attacker can do with a release: risks that people decide by, from the whole curve.

Every number is an upper bound over all attackers who know everything but the one record, also all
other records and how the training works. It follows from the trade-off function f of the release
(docs/math.md 12), which `Profile.beta` bounds from below, and not from one (epsilon, delta).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from sordino import checks
from sordino.accounting.pld.loss import DIRECTIONS
from sordino.accounting.pld.numerics import first_below
from sordino.privacy import Relation
from sordino.types import Floats

if TYPE_CHECKING:
    from sordino.accounting.profile import Profile

FALSE_ALARMS = (0.001, 0.01, 0.05)
"""False-alarm rates at which detection is usually told."""
_PRIOR, _BASELINES = 0.1, (0.001, 0.01, 0.1, 0.5)
_CELLS = 100
"""Between so many points the gap to a Gaussian curve is bounded by chords and tangents."""


@dataclass(frozen=True)
class Risks:
    """What the best attacker gains from a release, in the worse direction.

    Parameters
    ----------
    profile
        What is proved of the release; `Profile.risk()` makes this.

    Examples
    --------
    >>> from sordino.accounting.profile import GaussianProfile
    >>> risk = GaussianProfile(parameter=1.0, relation=Relation.ZERO_OUT, theorem="GDP").risk()
    >>> round(risk.guess(), 4), round(risk.detection(0.01), 4), round(risk.reconstruction(0.5), 4)
    (0.6915, 0.0924, 0.8413)
    """

    profile: Profile

    @property
    def advantage(self) -> float:
        """How much better than chance the best guess of membership is: TPR - FPR, at most."""
        return self.profile.advantage()

    def guess(self, prior: float = 0.5) -> float:
        """The best chance to guess right whether the record was there, if it was with chance prior.

        pi P(A) + (1 - pi) (1 - Q(A)) <= 1 - pi + pi delta(ln((1 - pi) / pi)), and the same for the
        record's absence.
        """
        prior = checks.fraction("prior", prior, allow_zero=True)
        if prior in (0, 1):
            return 1.0
        odds = math.log1p(-prior) - math.log(prior)
        present = 1 - prior + prior * self.profile.delta(odds, "forward")
        absent = prior + (1 - prior) * self.profile.delta(-odds, "backward")
        return min(present, absent)

    def detection(self, false_alarms: float) -> float:
        """The most often the record is found out by a test that raises so many false alarms.

        1 - f(alpha), for tests of the record's presence and of its absence (Dong, Roth & Su 2022).
        """
        rate = checks.fraction("false_alarms", false_alarms, allow_zero=True)
        return max(rate, *(1 - self.profile.beta(rate, way) for way in DIRECTIONS))

    def posterior(self, prior: float, false_alarms: float) -> float:
        """The most an attacker may believe after an alarm, who believed `prior` before.

        Bayes' rule at detection 1 - f(alpha). The rate belongs to the answer: rarer alarms are
        surer, without limit where noise is Gaussian.
        """
        prior = checks.fraction("prior", prior, allow_zero=True)
        rate = checks.fraction("false_alarms", false_alarms, "Say how rare false alarms are.")
        found = prior * self.detection(rate)
        return found / (found + (1 - prior) * rate) if found else 0.0

    def reconstruction(self, baseline: float) -> float:
        """The most often somebody guesses a secret of the record, guessed so often without it.

        An attribute or the whole record: `baseline` is the best guess of who has not seen the
        release but all else. At most 1 - f(baseline), f from without to with (Hayes, Balle &
        Mahloujifar 2023; Kulynych et al. 2025). Where a record is replaced, neither world is
        without it, and the worse direction counts.
        """
        chance = checks.fraction("baseline", baseline, allow_zero=True)
        replaced = self.profile.relation is Relation.REPLACE_ONE
        ways = DIRECTIONS if replaced else DIRECTIONS[:1]
        return max(chance, *(1 - self.profile.beta(chance, way) for way in ways))

    def gaussian(self) -> tuple[float, float]:
        """The mu of the closest Gaussian curve, and how far off it is.

        The trade-off function is nowhere more than the second number below G_mu: detection is at
        most 1 - G_mu(alpha) plus that, at every alpha. mu makes it and the gap on the other side
        least. Conjugation keeps distances: sup |f - G_mu| is sup |delta - delta_mu| over epsilon,
        and over epsilon >= 0 in both directions, as delta(-e) - delta_mu(-e) is e^-e times the
        other direction's (Gomez et al. 2025 report DP-SGD so). Between points a convex curve of
        e^epsilon lies below its chord and above its tangents.
        """
        if self.profile.mu is not None:
            return self.profile.mu, 0.0
        apart = self.advantage
        if apart in (0, 1):
            return (math.inf if apart else 0.0), 0.0
        farthest = self.profile.epsilon(3e-4 * apart)
        if farthest > 500:  # a chance to tell all, which no epsilon ends
            farthest = self.profile.epsilon(min(self.profile.delta(500.0) + 3e-4 * apart, apart))
        farthest = min(max(farthest, 1e-9), 500.0)
        epsilons = np.linspace(0.0, farthest, _CELLS + 1)
        ways = [[self.profile.delta(float(e), way) for e in epsilons] for way in DIRECTIONS]
        curves = np.array(ways)

        def above(mu: float) -> float:
            """By how much more these deltas are above those of mu than below them."""
            gaps = curves - _deltas(epsilons, mu)
            return float(gaps.max() + gaps.min())

        most = 1.0
        while above(most) > 0:
            most *= 2
        mu = first_below(above, 0.0, most, 1e-6)
        below = float((_deltas(epsilons, mu) - curves).max())
        over = max(_most_above(epsilons, curve, mu) for curve in curves)
        return mu, max(below, over, 0.0)

    def plain(self) -> dict[str, Any]:
        """The usual risks as plain values, for JSON."""
        mu, error = self.gaussian()
        return {
            "advantage": self.advantage,
            "guess": self.guess(),
            "detection": [{"false_alarms": a, "at_most": self.detection(a)} for a in FALSE_ALARMS],
            "posterior": [
                {"prior": _PRIOR, "false_alarms": a, "at_most": self.posterior(_PRIOR, a)}
                for a in FALSE_ALARMS
            ],
            "reconstruction": [
                {"baseline": b, "at_most": self.reconstruction(b)} for b in _BASELINES
            ],
            "closest_gaussian": {"mu": mu, "error": error},
        }


def _deltas(epsilons: Floats, mu: float) -> Floats:
    """delta_mu at epsilons >= 0; a difference, so right to 1e-16 and not to all its digits."""
    if mu == 0:
        return np.zeros(len(epsilons))
    far = np.exp(epsilons + log_ndtr(-mu / 2 - epsilons / mu))
    return np.asarray(ndtr(mu / 2 - epsilons / mu) - far, dtype=np.float64)


def _most_above(epsilons: Floats, deltas: Floats, mu: float) -> float:
    """The most that a convex curve through these points is above delta_mu, everywhere.

    In u = e^epsilon: the chord of every cell less the larger of delta_mu's tangents at its ends,
    which is largest at an end or where the tangents cross. Beyond the last point it is at most the
    last delta.
    """
    u, of_mu = np.exp(epsilons), _deltas(epsilons, mu)
    slopes = -ndtr(-mu / 2 - epsilons / max(mu, 1e-300))
    width = np.diff(u)
    turn = np.diff(slopes)
    with np.errstate(divide="ignore", invalid="ignore"):
        meet = (of_mu[:-1] - of_mu[1:] + slopes[1:] * width) / turn
    meet = np.clip(np.where(np.isfinite(meet), meet, 0.0), 0.0, width)
    tangents = np.maximum(of_mu[:-1] + slopes[:-1] * meet, of_mu[1:] + slopes[1:] * (meet - width))
    chords = deltas[:-1] + np.diff(deltas) * (meet / width)
    return float(max((deltas - of_mu).max(), (chords - tangents).max(), deltas[-1]))


@dataclass(frozen=True)
class RiskTarget:
    """A risk that a release must not exceed, to find the noise for it.

    Parameters
    ----------
    kind
        "advantage", "detection" or "reconstruction".
    most
        What it may be at most.
    at
        Of detection its false-alarm rate, of reconstruction the chance without the release.

    Raises
    ------
    InvalidArgument
        For a target that no noise reaches: without any release an attacker has that chance.

    Examples
    --------
    >>> RiskTarget.parse("detection<=0.02@0.01")
    RiskTarget(kind='detection', most=0.02, at=0.01)
    """

    kind: str
    most: float
    at: float = 0.0

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, tuple(_FORMS))
        most = checks.fraction(self.kind, self.most, f"Pass {_FORMS[self.kind]}.")
        chance = checks.fraction(self.kind, self.at, f"Pass {_FORMS[self.kind]}.", allow_zero=True)
        if self.kind == "advantage" and chance:
            checks.fail(self.kind, f"{most:g}@{chance:g}", "to be one number", "Such as 0.05.")
        if most >= 1:
            checks.fail(self.kind, self.most, "< 1", "More than that nobody can do anyway.")
        if most <= chance:
            hint = "Without any release that chance is there: no noise reaches less."
            checks.fail(self.kind, f"{most:g}@{chance:g}", f"> {chance:g}", hint)
        if self.kind != "advantage" and not chance:
            hint = "Noise of any size keeps that, and none does not. Pass a rate, such as 0.01."
            checks.fail(self.kind, f"{most:g}@{chance:g}", "to have a rate > 0", hint)
        vars(self).update(most=most, at=chance)

    @classmethod
    def parse(cls, text: str) -> RiskTarget:
        """From "advantage<=0.05", "detection<=0.02@0.01" or "reconstruction<=0.05@0.01"."""
        kind, sign, rest = str(text).replace(" ", "").partition("<=")
        if not sign or kind not in _FORMS:
            forms = ", ".join(f"{kind}<={form}" for kind, form in _FORMS.items())
            checks.fail("target", text, "to name a risk and its limit", f"Such as {forms}.")
        return cls.of_option(kind, rest)

    @classmethod
    def of_option(cls, kind: str, text: str) -> RiskTarget:
        """From what follows an option: "0.05", or "0.02@0.01" where a rate belongs to it."""
        number = r"([0-9.]+(?:[eE][-+]?[0-9]+)?)"
        pattern = number if kind == "advantage" else f"{number}@{number}"
        found = re.fullmatch(pattern, str(text))
        try:
            numbers = [float(each) for each in found.groups()] if found else []
        except ValueError:  # two dots
            numbers = []
        if not numbers:
            hint = "Detection @ its false alarms, or success @ its chance without the release."
            checks.fail(kind, text, f"to look like {_FORMS[kind]}", hint * (kind != "advantage"))
        return cls(kind, *numbers)

    def __str__(self) -> str:
        return f"{self.kind}<={self.most}" + (f"@{self.at}" if self.at else "")

    @property
    def words(self) -> str:
        """The target as a part of a sentence."""
        what = {
            "advantage": f"membership guessed at most {self.most} better than by chance",
            "detection": f"detection at most {self.most} at {self.at} false alarms",
            "reconstruction": f"a secret of chance {self.at} guessed at most {self.most} often",
        }
        return what[self.kind]

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter with exactly this risk."""
        if self.kind == "advantage":
            return float(2 * ndtri((1 + self.most) / 2))
        return float(ndtri(self.most) - ndtri(self.at))

    def of(self, profile: Profile) -> float:
        """That risk of a release."""
        risk = profile.risk()
        if self.kind == "advantage":
            return risk.advantage
        return risk.detection(self.at) if self.kind == "detection" else risk.reconstruction(self.at)

    def excess(self, profile: Profile) -> float:
        """Above 0 where the risk is above the target: ln of what it adds, over what it may add."""
        value = self.of(profile)
        if value <= self.at:
            return -math.inf
        found = math.log((value - self.at) / (self.most - self.at))
        return min(found, 0.0) if value <= self.most else max(found, 5e-324)


_FORMS = {"advantage": "0.05", "detection": "0.02@0.01", "reconstruction": "0.05@0.01"}
