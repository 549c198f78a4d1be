"""`from_plain`: what a certificate carries; evidence of noisy steps, and of the best of several.

The other kinds stand with what they describe: `output.py`, `objective.py`, `adaptive.py`,
`prepared.py`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field, replace
from typing import Any

from sordino import checks, serialize
from sordino.accounting.selection import by_moments, repeat_and_select
from sordino.errors import InvalidArgument
from sordino.privacy import Relation
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence
from sordino.proofs.prepared import PreparedEvidence
from sordino.proofs.proof import Evidence, Proof, TrainingEvidence, check_length
from sordino.proofs.steps import Run, refuse_private_numbers, run_of
from sordino.proofs.theorems import ACCOUNTANTS, prove_steps
from sordino.sgd.spec import TrainSpec

_MOST_CANDIDATES = 200
"""Of a selection: each is proved anew when it is verified."""


@dataclass(frozen=True, kw_only=True)
class StepsEvidence(TrainingEvidence):
    """A training with noise in every step; accountants are compared at `delta`."""

    kind = "noisy-steps"

    delta: float
    accountant: str = "best"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.positive("noise_multiplier", self.spec.noise_multiplier)
        checks.one_of("accountant", self.accountant, tuple(ACCOUNTANTS))
        if not checks.probability_below_one("delta", self.delta) > 0:
            checks.fail("delta", self.delta, "> 0")

    def done(self) -> Run:
        """The noisy steps, of all models together."""
        refuse_private_numbers(self.spec, self.rows, self.relation)
        return run_of(
            *(self.spec, self.constants, self.rows, self.relation),
            problems=self.problems,
            rows_per_person=self.rows_per_person,
        )

    def proof(self) -> Proof:
        """What these numbers prove."""
        proof = prove_steps(self.done(), self.spec, self.delta, self.accountant)
        return replace(proof, assumes=(*proof.assumes, *self.about_persons))

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        clip = self.spec.max_grad_norm
        assert clip is not None  # there is noise
        sigma = self.spec.noise_multiplier * clip
        moved = 2 * clip if self.relation is Relation.REPLACE_ONE else clip
        moves = f"one record moves a sum of them by at most {moved:.6g}"
        each, by = " in each problem" if self.problems > 1 else "", self.spec.noise_multiplier
        noise = f"standard deviation {sigma:.6g} on every sum of clipped gradients"
        return {
            "schedule": self.schedule(),
            "sensitivity": f"gradients are clipped to {clip:.6g}: {moves}{each}",
            "noise": f"{noise} (noise multiplier {by:.6g})",
        }


@dataclass(frozen=True, kw_only=True)
class SelectionEvidence(Evidence):
    """The best of a random number of trainings, each of a candidate drawn from a public list.

    `mean` and `shape` are those of `sordino.accounting.selection.repeat_and_select`; `selected`
    says which candidate the released model is of. `accountant` is "best" (whole profiles) or
    "moments" (Renyi DP alone, as all certificates from before there was a choice).
    """

    kind = "selection"
    _positive = ("mean",)

    candidates: tuple[Evidence, ...]
    selected: int
    mean: float
    shape_of_runs: float
    accountant: str = field(default="moments", metadata={"added": serialize.UNLESS_DEFAULT})

    def __post_init__(self) -> None:
        super().__post_init__()
        many = len(self.candidates)
        if not 1 <= many <= _MOST_CANDIDATES:
            checks.fail("candidates", f"[{many}]", f"to be 1 to {_MOST_CANDIDATES}")
        checks.index("selected", self.selected, many)
        checks.non_negative("shape_of_runs", self.shape_of_runs, allow_infinite=True)
        checks.one_of("accountant", self.accountant, ("best", "moments"))
        for each in self.candidates:
            if not isinstance(each, Evidence) or isinstance(each, SelectionEvidence):
                checks.fail("candidates", "[...]", "to be trainings, not selections")
            same = ("relation", "rows_per_person", "persons_counted")
            if any(getattr(each, name) != getattr(self, name) for name in same):
                checks.fail("candidates", "[...]", "to have one relation and one unit")
        check_length(sum(each.length for each in self.candidates))
        if self.candidates[self.selected].shape != self.shape:
            checks.fail("selected", self.selected, "to have as many weights as were released")

    @functools.cached_property
    def proofs(self) -> dict[Evidence, Proof]:
        """What is proved of each candidate alone."""
        return {each: each.proof() for each in dict.fromkeys(self.candidates)}

    def done(self) -> Proof:
        """What is proved of the chosen training alone."""
        return self.proofs[self.candidates[self.selected]]

    def proof(self) -> Proof:
        """What these numbers prove."""
        chosen = self.done()
        profiles = [self.proofs[each].profile for each in self.candidates]
        rule = repeat_and_select if self.accountant == "best" else by_moments
        return Proof(
            profile=rule(profiles, mean=self.mean, shape=self.shape_of_runs),
            sampling=chosen.sampling,
            assumes=(
                *chosen.assumes,
                "the same of every other candidate, with its own numbers",
                "the number of trainings was drawn before them and independently of the records",
                "every training drew its candidate and its randomness afresh",
                "the best was chosen by the released weights and public records alone",
                "nothing is said of the other trainings: not their scores, nor how many there were",
            ),
            unit=chosen.unit,
            rests_on="repeat-and-select",
        )

    def facts(self) -> dict[str, str]:
        """Schedule, sensitivity and noise."""
        chosen = self.candidates[self.selected].facts()
        runs = f"the best of {self.runs_in_words}; the released one: "
        return {**chosen, "schedule": runs + chosen["schedule"]}

    @property
    def runs_in_words(self) -> str:
        """How many trainings, of how many candidates."""
        law = f"truncated negative binomial of shape {self.shape_of_runs:g}"
        law = f"{'Poisson' if math.isinf(self.shape_of_runs) else law}, mean {self.mean:g}"
        return f"a random number of trainings ({law}) over {len(self.candidates)} candidates"


def from_plain(values: object) -> Evidence:
    """Evidence from what `Evidence.to_plain` returned, also after a trip through JSON.

    Raises
    ------
    InvalidArgument
        For anything else: an unknown kind, a missing or unknown key, a number that is none.

    Examples
    --------
    >>> numbers = {"relation": "zero-out", "columns": 3, "problems": 1, "rows_per_person": 1}
    >>> from_plain({"kind": "adaptive", **numbers, "rho": 0.1, "clip": 1.0}).proof().released
    'all'
    """
    with serialize.refusing("evidence", InvalidArgument):
        found: Evidence = form().read(values)
        return found


class _Spec(serialize.Form):
    def _read(self, value: Any, place: serialize.Where) -> TrainSpec:
        if not isinstance(value, dict):
            place.refuse(f"is {serialize.describe(value)}, and no object")
        return TrainSpec.from_dict(value)

    def _write(self, value: Any, place: serialize.Where) -> dict[str, Any]:
        return TrainSpec.to_dict(value)


@functools.cache
def form() -> serialize.Form:
    """How evidence of every kind is written and read."""
    kinds: dict[str, serialize.RecordForm] = {}
    tagged = serialize.Tagged(kinds)
    forms = serialize.Forms(
        {
            # A whole number stays one: certificates are compared to the letter.
            float: serialize.Number(as_given=True),
            TrainSpec: _Spec(),
            tuple[Evidence, ...]: serialize.listed(tagged, _MOST_CANDIDATES),
            Evidence: tagged,
        }
    )
    trainings = OutputEvidence, StepsEvidence, ObjectiveEvidence, AdaptiveEvidence
    others = PreparedEvidence, SelectionEvidence
    kinds.update({each.kind: forms.record(each) for each in (*trainings, *others)})
    return tagged
