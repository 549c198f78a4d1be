"""What tables and figures ask of accuracies under noise (kind "noise").

`case` names one way to compute the noise, `epsilon` the target. `over` says what an interval is
over: "models" is the authors' vector, and a mean over as many models as the paper's (together with
where else the sensitivity could have come out, if it is a maximum over a sample of pairs); "draws"
is other vectors; or, if the run has such, other random projections or test rows, with models drawn
again, too: these are asked where nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sordino import checks, randomness
from sordino.intrinsic.augment import paired_test
from sordino.types import Floats
from sordino_papers.found import Found, Numbers

if TYPE_CHECKING:
    from sordino_papers.quantities import Quantity

Counts = npt.NDArray[np.int32]
Statistic = Callable[["Trio"], Floats]
OVER = ("models", "draws")
_DRAWS, _TAILS = 1000, (0.025, 0.975)


@dataclass(frozen=True, eq=False)
class Trio:
    """Rows labelled correctly without noise, with all of it, and with the rest of it: counts.

    Models are on the last axis. Counts are subtracted before they are divided, so that equal gains
    are equal to the last bit.
    """

    counts: tuple[Counts, Counts, Counts]
    rows: float

    @property
    def noiseless(self) -> Floats:
        """Accuracy without noise."""
        return np.asarray(self.counts[0] / self.rows)

    @property
    def target(self) -> Floats:
        """Accuracy with all of the noise."""
        return np.asarray(self.counts[1] / self.rows)

    @property
    def augmented(self) -> Floats:
        """Accuracy with what SGD's own noise leaves of it."""
        return np.asarray(self.counts[2] / self.rows)

    @property
    def gain(self) -> Floats:
        """What counting SGD's own noise gains."""
        return np.asarray((self.counts[2] - self.counts[1]) / self.rows)

    @property
    def gap(self) -> Floats:
        """What all of the noise costs."""
        return np.asarray((self.counts[0] - self.counts[1]) / self.rows)

    def redrawn(self, numbers: Numbers) -> Trio:
        """The same with as many models as the paper's means are over, drawn with replacement.

        Of one draw's models [model] many times, of many draws' [draw, model] once each.
        """
        stream = randomness.stream("reproduce", "noise", "bootstrap")
        models, averaged = self.counts[1].shape[-1], int(numbers["averaged"])
        many = _DRAWS if self.counts[1].ndim == 1 else len(self.counts[1])
        chosen = stream.integers(0, models, (many, averaged))
        noiseless, target, augmented = (
            np.take_along_axis(np.broadcast_to(part, (many, models)), chosen, axis=1)
            for part in self.counts
        )
        return Trio((noiseless, target, augmented), self.rows)


def trio(numbers: Numbers, case: str, epsilon: float, over: str = "models", level: int = 0) -> Trio:
    """Accuracies of one case at one epsilon: [model], or over draws [draw, model]."""
    checks.one_of("over", over, OVER)
    at = int(np.flatnonzero(np.isclose(numbers["epsilons"], epsilon))[0])
    prefix = "drawn/" if over == "draws" else ""
    target, augmented = (
        numbers[f"{prefix}{case}/{setting}"][level, at] for setting in ("target", "augmented")
    )
    noiseless = numbers[f"{prefix}noiseless"]
    return Trio((noiseless, target, augmented), float(numbers["rows"]))


def _over(numbers: Numbers, case: str, epsilon: float, over: str, statistic: Statistic) -> Found:
    """A statistic of models, with the interval that holds 95 % of what else it could have been.

    Where the sensitivity is a maximum over a sample, models and sensitivity are drawn together:
    all levels after the first are equally likely.
    """
    over = over or _natural(numbers)
    counted = f"drawn/{case}/target" if over == "draws" else f"{case}/target"
    held = [trio(numbers, case, epsilon, over, level) for level in range(len(numbers[counted]))]
    likely = held[1:] or held
    if over == "draws":
        again = [each.redrawn(numbers) if numbers["random_rows"] else each for each in likely]
        ends = _predicted(np.concatenate([statistic(each) for each in again]))
        value, words = float(np.median(statistic(held[0]))), f"median of {len(held[0].gain)} draws"
    else:
        ends = np.quantile([statistic(each.redrawn(numbers)) for each in likely], _TAILS)
        value, words = float(statistic(held[0])), ""
    low, high = (float(end) for end in ends)
    return Found(value, min(value, low), max(value, high), words)


def _predicted(values: Floats) -> Floats:
    """Between which two of `values` one more lies with 95 % (of fewer than 39: the outermost)."""
    rank = max(int((len(values) + 1) * _TAILS[0]), 1)
    return np.sort(values)[[rank - 1, -rank]]


def _natural(numbers: Numbers) -> str:
    """What a paper's number is compared with: draws where its rows cannot be made again."""
    return "draws" if numbers["random_rows"] else "models"


def _mean(part: str) -> Statistic:
    def statistic(held: Trio) -> Floats:
        return np.asarray(getattr(held, part).mean(axis=-1))

    return statistic


def _deviation(part: str) -> Statistic:
    def statistic(held: Trio) -> Floats:
        return np.asarray(getattr(held, part).std(axis=-1, ddof=1))

    return statistic


def _of_models(held: Trio) -> Floats:
    """Percent: the mean of the models' own ratios; a model without a gap counts as 0."""
    gap = held.gap
    ratios = np.divide(held.gain, gap, out=np.zeros_like(gap), where=gap != 0)
    return np.asarray(100 * ratios.mean(axis=-1))


def _of_means(held: Trio) -> Floats:
    """Percent: the mean gain over the mean gap."""
    gap = held.gap.mean(axis=-1)
    gain = held.gain.mean(axis=-1)
    return np.asarray(100 * np.divide(gain, gap, out=np.zeros_like(gap), where=gap != 0))


def _statistic(part: str) -> Quantity:
    def quantity(numbers: Numbers, *, case: str, epsilon: float, over: str = "") -> Found:
        return _over(numbers, case, epsilon, over, _mean(part))

    return quantity


def _spread(part: str) -> Quantity:
    """Standard deviation over models that share one vector."""

    def quantity(numbers: Numbers, *, case: str, epsilon: float, over: str = "") -> Found:
        return _over(numbers, case, epsilon, over, _deviation(part))

    return quantity


def _any_case(quantity: Quantity) -> Quantity:
    """Without noise it is the same in every case."""

    def of_first(numbers: Numbers, *, over: str = "") -> Found:
        case = next(n.partition("/")[0] for n in numbers if n.endswith("/sensitivities"))
        return quantity(numbers, case=case, epsilon=float(numbers["epsilons"][0]), over=over)

    return of_first


def _gap_closed(
    numbers: Numbers, *, case: str, epsilon: float, over: str = "", of: str = "models"
) -> Found:
    """Percent of the gap to the noiseless model that counting SGD's own noise closes."""
    checks.one_of("of", of, ("models", "means"))
    return _over(numbers, case, epsilon, over, _of_models if of == "models" else _of_means)


def _gain_p_value(numbers: Numbers, *, case: str, epsilon: float, over: str = "models") -> Found:
    """Paired t-test of the gain, over models or over draws; 1 where it is a loss."""
    gains = trio(numbers, case, epsilon, over).gain
    t, p = paired_test(gains.mean(axis=-1) if over == "draws" else gains)
    return Found(p if t > 0 else 1.0, words=f"t = {t:.3g}")


def _own_over_one(numbers: Numbers, *, case: str, epsilon: float) -> Found:
    """Deviation over models with a vector of their own, over that with the authors' one for all."""
    own = trio(numbers, case, epsilon, "draws").target
    one = trio(numbers, case, epsilon).target.std(ddof=1)
    return Found(float(own.std(ddof=1) / one), words=f"{own.std(ddof=1):.3g} and {one:.3g}")


def _share_as_near(
    numbers: Numbers, *, case: str, printed: Sequence[Sequence[float]], within: float
) -> Found:
    """Share of drawn vectors that give all printed accuracies, pairs (epsilon, accuracy)."""
    near = [
        np.abs(trio(numbers, case, epsilon, "draws").target.mean(axis=-1) - accuracy) <= within
        for epsilon, accuracy in printed
    ]
    all_near = np.all(near, axis=0)
    return Found(float(all_near.mean()), words=f"{all_near.sum()} of {len(all_near)}")


def _off_prevalence(
    numbers: Numbers, *, case: str, epsilon: float, accuracy: float | None = None
) -> Found:
    """How far an accuracy, all of the noise's or a given one, is from the share of label 1.

    That share is the accuracy of a model that always says 1.
    """
    share = float(numbers["positive"] / numbers["rows"])
    if accuracy is None:
        accuracy = float(trio(numbers, case, epsilon).target.mean())
    return Found(abs(accuracy - share), words=f"{accuracy:.3g} and {share:.3g}")


def _gain_over(
    numbers: Numbers, *, case: str, epsilon: float, other_case: str = "", other_epsilon: float = 0
) -> Found:
    """Mean gain over the mean gain of another case or epsilon."""
    other = trio(numbers, other_case or case, other_epsilon or epsilon).gain.mean()
    return Found(float(trio(numbers, case, epsilon).gain.mean() / other))


def _case_above(
    numbers: Numbers, *, case: str, other: str, epsilon: float, part: str = "augmented"
) -> Found:
    """Mean accuracy of one case minus that of another."""
    first, second = (trio(numbers, each, epsilon) for each in (case, other))
    return Found(float((getattr(first, part) - getattr(second, part)).mean()))


def _closed_more(numbers: Numbers, *, case: str, other: str, epsilon: float) -> Found:
    """Percent of the gap closed, a ratio of means, of one case minus that of another."""
    first, second = (float(_of_means(trio(numbers, each, epsilon))) for each in (case, other))
    return Found(first - second, words=f"{first:.3g} and {second:.3g}")


def _first_above_rest(*runs: Numbers, part: str, case: str, epsilon: float) -> Found:
    """A mean ("augmented", "gain"), or "gap_closed", of the first run minus the rest's largest."""
    statistic = _of_means if part == "gap_closed" else _mean(part)
    held = (statistic(trio(run, case, epsilon, _natural(run))) for run in runs)
    values = [float(np.median(each)) for each in held]
    said = ", ".join(f"{value:.3g}" for value in values)
    return Found(values[0] - max(values[1:]), words=said)


# Curves against epsilon (v1, Figures 5 and 9) ------------------------------------------------


def curve(numbers: Numbers, case: str, part: str, models: int | None = None) -> Floats:
    """Means over the first models at every epsilon: "target", "augmented", "gain", "noiseless"."""
    held = (trio(numbers, case, epsilon) for epsilon in numbers["epsilons"])
    return np.array([float(getattr(each, part)[:models].mean()) for each in held])


def _share_gaining(numbers: Numbers, *, case: str) -> Found:
    """Share of epsilons at which counting SGD's own noise loses nothing in the mean."""
    gains = curve(numbers, case, "gain")
    return Found(float((gains >= 0).mean()), words=f"{(gains >= 0).sum()} of {len(gains)}")


def _rise_and_fall(numbers: Numbers, *, case: str) -> Found:
    """The largest gain of all epsilons, minus the larger of those at both ends."""
    gains = curve(numbers, case, "gain")
    return Found(float(gains.max() - max(gains[0], gains[-1])))


def _equal_over_intrinsic(numbers: Numbers, *, case: str) -> Found:
    """The least epsilon from which on no model differs from the noiseless one, over epsilon_i.

    epsilon_i is where sigma_target is SGD's own noise.
    """
    epsilons = numbers["epsilons"]
    held = [trio(numbers, case, epsilon) for epsilon in epsilons]
    noisy = np.flatnonzero([np.any(each.noiseless != each.augmented) for each in held])
    after = int(noisy[-1]) + 1 if len(noisy) else 0
    equal_from = float(epsilons[after]) if after < len(epsilons) else math.inf
    intrinsic = float(
        epsilons[0] * numbers[f"{case}/sigma_target"][0, 0] / numbers[f"{case}/sigma"]
    )
    return Found(equal_from / intrinsic, words=f"{equal_from:g} and {intrinsic:.3g}")


def _mean_gain_over(numbers: Numbers, *, case: str, other: str) -> Found:
    """Mean gain over all epsilons, over that of another case."""
    return Found(float(curve(numbers, case, "gain").mean() / curve(numbers, other, "gain").mean()))


QUANTITIES: dict[str, Quantity] = {
    "noiseless_accuracy": _any_case(_statistic("noiseless")),
    "noiseless_spread": _any_case(_spread("noiseless")),
    "noisy_accuracy": _statistic("target"),
    "noisy_spread": _spread("target"),
    "gain": _statistic("gain"),
    "gap_closed": _gap_closed,
    "gain_p_value": _gain_p_value,
    "own_vectors_over_one": _own_over_one,
    "share_of_vectors_as_near": _share_as_near,
    "off_prevalence": _off_prevalence,
    "gain_over": _gain_over,
    "case_above": _case_above,
    "closed_more": _closed_more,
    "first_above_rest": _first_above_rest,
    "share_of_epsilons_gaining": _share_gaining,
    "gain_rise_and_fall": _rise_and_fall,
    "equal_over_intrinsic": _equal_over_intrinsic,
    "mean_gain_over": _mean_gain_over,
}
