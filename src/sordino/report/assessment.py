"""`Assessment`: everything one page says about one release, as plain values.

The three numbers stay three types. Everything here but `Assessment.public` is INTERNAL: exact
accuracies, estimates and what attacks achieved were computed from the records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sordino.privacy import Estimate, Guarantee, Observation, Relation
from sordino.report.stages import Attack, Estimated, OwnNoise, Plain, Proved, Release

STAGES = {
    "read": "reading the records",
    "prove": "asking every theorem",
    "own_noise": "measuring SGD's own noise",
    "release_estimate": "measuring the release's noise",
    "attack_release": "attacking the release",
    "attack_plain": "attacking SGD without added noise",
    "release": "scoring what it costs, and releasing",
    "attack_mechanism": "attacking the mechanism",
    "report": "writing the page",
}
"""What an assessment does, in order: the keys of `Provenance.seconds`, in words."""

State = Literal["holds", "broken", "nothing proved"]


@dataclass(frozen=True)
class Question:
    """What was asked.

    Parameters
    ----------
    title
        In words: "logistic regression on digits/binary".
    data, target, model, method
        As asked; `method` may be "auto". `data` is "" where only a mechanism is attacked.
    epsilon, delta, delta_reason
        The target, and where delta comes from, a sentence.
    relation, rows_per_person
        What counts as a neighbour, and the unit: so many records of one person.
    effort
        "quick", "standard" or "thorough".
    mechanism
        Name of a foreign mechanism that is attacked and nothing else; "" for a release.
    settings
        Every setting of the study file, as plain values; None where it was left out.
    rerun
        The command that makes the same page again.
    """

    title: str
    data: str
    target: str | None
    model: str
    method: str
    epsilon: float
    delta: float
    delta_reason: str
    relation: Relation
    rows_per_person: int = 1
    effort: str = "standard"
    mechanism: str = ""
    settings: Mapping[str, Plain] = field(default_factory=dict)
    rerun: str = ""


@dataclass(frozen=True)
class Records:
    """The records, as they were trained on.

    Parameters
    ----------
    rows, test_rows, columns, classes
        Sizes; `columns` counts the intercept's. Labels in words.
    norm
        Public bound on a row's norm.
    notes
        How they were prepared, a sentence each: missing values, levels, clipping.
    reads_private_data
        What preparing them read off the rows, or was read off the labels: not covered.
    advice
        How to prepare them without that; empty if there is nothing to do.
    """

    rows: int
    test_rows: int
    columns: int
    classes: tuple[str, ...]
    norm: float
    notes: tuple[str, ...] = ()
    reads_private_data: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from.

    Parameters
    ----------
    date
        Day on which the last stage ended, UTC.
    versions
        Of sordino, Python and the libraries.
    fingerprint
        SHA-256 of the rows and labels: INTERNAL, since it lets somebody test a guess of them.
    specs
        JSON of the trainings, by name.
    seconds
        By stage; what was resumed counts as often as it ran.
    machine
        Cores and system, in words.
    """

    date: str
    versions: Mapping[str, str]
    fingerprint: str = ""
    specs: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    machine: str = ""


@dataclass(frozen=True)
class Assessment:
    """The three numbers of one release, and everything behind them. INTERNAL.

    A foreign mechanism has `attacks` alone.
    """

    question: Question
    records: Records | None
    proved_parts: Proved | None
    release: Release | None
    release_estimated: Estimated | None
    own_noise: OwnNoise | None
    attacks: tuple[Attack, ...]
    caveats: tuple[str, ...]
    provenance: Provenance

    @property
    def proved(self) -> Guarantee | None:
        """The upper bound, by a theorem."""
        return None if self.proved_parts is None else self.proved_parts.guarantee

    @property
    def estimated(self) -> Estimate | None:
        """What the release's randomness seems to hide. No guarantee."""
        return None if self.release_estimated is None else self.release_estimated.headline

    @property
    def observed(self) -> Observation | None:
        """The lower bound, won by the attack on the release."""
        return None if self.attack is None else self.attack.observed

    @property
    def attack(self) -> Attack | None:
        """The attack on what is released (or on the foreign mechanism)."""
        return self._attack_on("release", "mechanism")

    @property
    def plain_attack(self) -> Attack | None:
        """The attack on SGD without added noise."""
        return self._attack_on("un-noised SGD")

    @property
    def plain_estimated(self) -> Estimate | None:
        """What the randomness of SGD without added noise seems to hide. No guarantee."""
        return None if self.own_noise is None else self.own_noise.estimated.headline

    @property
    def plain_observed(self) -> Observation | None:
        """The lower bound, won by the attack on SGD without added noise."""
        return None if self.plain_attack is None else self.plain_attack.observed

    def _attack_on(self, *names: str) -> Attack | None:
        return next((attack for attack in self.attacks if attack.of in names), None)

    @property
    def broken(self) -> bool:
        """Whether an attack refuted what is proved or claimed, with its confidence."""
        attack = self.attack
        return attack is not None and (attack.violated or attack.curve_refuted is True)

    @property
    def estimate_refuted(self) -> bool:
        """Whether the attack observed more than was estimated of the release."""
        return _above(self.observed, self.estimated)

    @property
    def plain_estimate_refuted(self) -> bool:
        """The same for SGD without added noise."""
        return _above(self.plain_observed, self.plain_estimated)

    @property
    def state(self) -> State:
        """In one word or two."""
        if self.broken:
            return "broken"
        if self.question.mechanism or self.proved is None or not math.isfinite(self.proved.epsilon):
            return "nothing proved"
        return "holds"

    def __str__(self) -> str:
        from sordino.report import words

        numbers = (self.proved, self.estimated, self.observed)
        return "\n".join([words.verdict(self), *(str(each) for each in numbers if each)])

    def _repr_html_(self) -> str:
        """For notebooks: the verdict, the axis and the three numbers."""
        from sordino.report.page import fragment

        return fragment(self)


def _above(observed: Observation | None, estimated: Estimate | None) -> bool:
    return observed is not None and estimated is not None and observed.epsilon > estimated.epsilon
