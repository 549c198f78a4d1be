"""`Assessment`: everything that one page says about one release, and its JSON document.

Each stage of an assessment finds one of these values (`Proved`, `Release`, `Estimated`, `OwnNoise`,
`Attack`). Proved, estimated and observed numbers stay three types. Everything here is INTERNAL:
exact accuracies, estimates and results of attacks were computed from the records, and no guarantee
covers them. `public.py` holds what a certificate may show.

`dumps` and `loads` write and read the document (assessment.schema.json) with the grammar of
`serialize.py`. Numbers keep every digit; only lines for figures (`Curve`) are rounded, to six
significant digits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, TypeVar

from sordino import serialize
from sordino.checks import fail
from sordino.errors import Refused
from sordino.privacy import Estimate, Guarantee, Observation, Relation
from sordino.serialize import Unfit, Where, fields_of, listed, refusing

CALIBRATION_BINS = 10
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

_State = Literal["holds", "broken", "nothing proved"]
Plain = str | int | float | bool | None
_Numbers = tuple[float, ...]
ADDED = {"added": True}
"""Metadata of a field that documents of earlier versions lack: they are read with its default."""
_DIGITS = 6
"""Significant digits of a line for a figure: a hundred times finer than any eye."""
_Value = TypeVar("_Value")


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

    x: _Numbers
    y: _Numbers


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
    asked
        In words the risk that was asked for, and epsilon follows from; "" where epsilon was.
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
    asked: str = field(default="", metadata=ADDED)


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
    persons
        Of a user's file: whether rows per person were counted, in words.
    """

    rows: int
    test_rows: int
    columns: int
    classes: tuple[str, ...]
    norm: float
    notes: tuple[str, ...] = ()
    reads_private_data: tuple[str, ...] = ()
    advice: str = ""
    persons: str = field(default="", metadata=ADDED)


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
class Triple:
    """The three numbers of one thing: the release, SGD without added noise, or a mechanism.

    Parameters
    ----------
    of
        Its name, to stand in a sentence.
    bound
        "proved", or "claimed", which promises nothing about where the truth lies.
    most, delta
        That bound, infinite if there is none, and its delta.
    estimated
        What was estimated of it; None where nothing was.
    attack
        The attack on it; None where none was made.
    broken
        Whether the attack refuted the bound.
    """

    of: str
    bound: Literal["proved", "claimed"]
    most: float
    delta: float
    estimated: Estimated | None
    attack: Attack | None
    broken: bool = False

    @property
    def title(self) -> str:
        """Its name, to begin a line."""
        return self.of[:1].upper() + self.of[1:]

    @property
    def estimate(self) -> Estimate | None:
        """The headline of the estimates."""
        return None if self.estimated is None else self.estimated.headline

    @property
    def observed(self) -> Observation | None:
        """What the attack observed."""
        return None if self.attack is None else self.attack.observed

    @property
    def least(self) -> float:
        """The lower bound."""
        return 0.0 if self.attack is None else self.attack.observed.epsilon

    @property
    def estimate_refuted(self) -> bool:
        """Whether the attack observed more than was estimated."""
        return self.estimate is not None and self.least > self.estimate.epsilon


@dataclass(frozen=True)
class Assessment:
    """The three numbers of one release, and everything behind them. INTERNAL.

    A mechanism from elsewhere has `attacks` alone.
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
        """The attack on what is released (or on the mechanism)."""
        return self._attack_on("release", "mechanism")

    @property
    def plain_attack(self) -> Attack | None:
        """The attack on SGD without added noise."""
        return self._attack_on("un-noised SGD")

    def _attack_on(self, *names: str) -> Attack | None:
        return next((attack for attack in self.attacks if attack.of in names), None)

    @property
    def broken(self) -> bool:
        """Whether an attack refuted what is proved or claimed, with its confidence."""
        attack = self.attack
        return attack is not None and (attack.violated or attack.curve_refuted is True)

    @property
    def state(self) -> _State:
        """In one word or two."""
        if self.broken:
            return "broken"
        if self.question.mechanism or self.proved is None or not math.isfinite(self.proved.epsilon):
            return "nothing proved"
        return "holds"

    @property
    def triples(self) -> list[Triple]:
        """The numbers of the release (or of the mechanism), then those of un-noised SGD."""
        attack, proved, plain = self.attack, self.proved, self.plain_attack
        if name := self.question.mechanism:
            claimed = math.inf if attack is None or attack.claimed is None else attack.claimed
            delta = 0.0 if attack is None else attack.observed.delta
            broken = self.broken or (attack is not None and attack.observed.epsilon > claimed)
            of = f"the mechanism {name}"
            return [Triple(of, "claimed", claimed, delta, None, attack, broken)]
        most, delta = (math.inf, 0.0) if proved is None else (proved.epsilon, proved.delta)
        above = attack is not None and attack.observed.epsilon > most
        estimated, broken = self.release_estimated, self.broken or above
        rows = [Triple("the release", "proved", most, delta, estimated, attack, broken)]
        if self.own_noise is not None or plain is not None:
            own = None if self.own_noise is None else self.own_noise.estimated
            rows.append(Triple("un-noised SGD", "proved", math.inf, 0.0, own, plain))
        return rows

    def __str__(self) -> str:
        from sordino.report import words

        numbers = (self.proved, self.estimated, self.observed)
        return "\n".join([words.verdict(self), *(str(each) for each in numbers if each)])

    def _repr_html_(self) -> str:
        """For notebooks: the verdict, the axis and the three numbers."""
        from sordino.report.sections import fragment

        return fragment(self)


# --- The document


class DocumentError(Refused):
    """A document that is not what it should be; one sentence names the place."""


HEADER = {"schema": "sordino-assessment", "version": 1, "internal": True}
"""What a document is, so that no other is taken for it."""


@dataclass(frozen=True)
class Summary:
    """The answer in short, for programs; all of it follows from the rest of the document.

    Parameters
    ----------
    state
        "broken" if an attack refuted what is proved or claimed.
    broken, estimate_refuted, plain_estimate_refuted
        Whether an attack showed more than is proved or claimed; than was estimated of the release;
        than was estimated of SGD without added noise.
    proved
        Epsilon of the guarantee: an upper bound, by a theorem. Null if nothing is promised.
    estimated
        Epsilon that the release's randomness seems to hide. No guarantee.
    observed
        Epsilon that the attack showed: a lower bound, with its confidence.
    """

    state: _State
    broken: bool
    estimate_refuted: bool
    plain_estimate_refuted: bool
    proved: float | None
    estimated: float | None
    observed: float | None


def _summary(of: Assessment) -> Summary:
    three = (of.proved, of.estimated, of.observed)
    refuted = {each.of: each.estimate_refuted for each in of.triples}
    first = next(iter(refuted.values()))
    epsilons = (None if each is None else each.epsilon for each in three)
    return Summary(of.state, of.broken, first, refuted.get("un-noised SGD", False), *epsilons)


def _check_lengths(line: Curve) -> None:
    if len(line.x) != len(line.y):
        fail("y", f"[{len(line.y)} numbers]", f"to be as many as x has, {len(line.x)}")


_POINTS = listed(serialize.Number(digits=_DIGITS))
FORMS = serialize.Forms(
    {Curve: serialize.RecordForm(Curve, {"x": _POINTS, "y": _POINTS}, check=_check_lengths)}
)
"""The forms of everything in a report."""


def curve(x: Iterable[float], y: Iterable[float]) -> Curve:
    """A line for a figure, from any sequence of numbers, rounded to six significant digits.

    >>> curve([0.5], [1 / 3])
    Curve(x=(0.5,), y=(0.333333,))
    """
    line = Curve(*(tuple(float(f"{each:.{_DIGITS}g}") for each in side) for side in (x, y)))
    _check_lengths(line)
    return line


def to_plain(value: Any) -> Any:
    """A dataclass of the report as plain values, ready for JSON.

    >>> to_plain(Measure(1.0, 0.5, math.inf))
    {'value': 1.0, 'low': 0.5, 'high': 'inf', 'level': 0.95}

    Raises
    ------
    DocumentError
        If a field holds what its type does not allow, or a number that is none.
    """
    with refusing("document", DocumentError):
        return FORMS.of(type(value)).write(value)


def from_plain(cls: type[_Value], plain: object) -> _Value:
    """What `to_plain` was given, of the dataclass `cls`.

    Raises
    ------
    DocumentError
        For anything else, with a sentence that names the place.
    """
    with refusing("document", DocumentError):
        value: _Value = FORMS.of(cls).read(plain)
        return value


def parse(content: str | bytes) -> object:
    """The value that strict JSON stands for: no key twice, no number that is none."""
    with refusing("document", DocumentError):
        return serialize.parse(content)


def check_keys(value: object, names: Collection[str], place: str) -> None:
    """Refuse anything but an object with exactly these keys."""
    with refusing("document", DocumentError):
        serialize.check_keys(value, names, Where(place))


def check_document(
    values: object, header: Mapping[str, Any], names: Collection[str], place: str = ""
) -> dict[str, Any]:
    """The values of a document without its header; refuse another header or other keys."""
    with refusing("document", DocumentError):
        found = serialize.headed(values, header["schema"], header["version"])
    check_keys(found, (*header, *names), place)
    if found.get("internal") is not header.get("internal"):
        refuse("internal", f"is not {str(header['internal']).lower()}")
    return {name: found[name] for name in names}


def refuse(place: str, says: str) -> NoReturn:
    """Raise `DocumentError`, naming the place."""
    raise DocumentError(Unfit(place, says).sentence("document"))


def dumps(assessment: Assessment) -> str:
    """The whole assessment: equal ones give equal text, with sorted keys, in ASCII."""
    summary = to_plain(_summary(assessment))
    return text({**HEADER, "summary": summary, **to_plain(assessment)}) + "\n"


def loads(content: str | bytes) -> Assessment:
    """Read what `dumps` wrote.

    Raises
    ------
    DocumentError
        For anything else, with one sentence.
    """
    values = check_document(parse(content), HEADER, ("summary", *fields_of(Assessment)))
    summary = from_plain(Summary, values.pop("summary"))
    assessment = from_plain(Assessment, values)
    if summary != _summary(assessment):
        refuse("summary", "says something else than the rest of it")
    return assessment


def text(values: Any, margin: str = "\n") -> str:
    """JSON for people and for `diff`: sorted, indented, lists of numbers on one line."""
    inside = margin + "  "
    if isinstance(values, dict) and values:
        lines = [f"{json.dumps(key)}: {text(values[key], inside)}" for key in sorted(values)]
        return "{" + inside + f",{inside}".join(lines) + margin + "}"
    if isinstance(values, list) and any(isinstance(each, dict | list | str) for each in values):
        lines = [text(each, inside) for each in values]
        return "[" + inside + f",{inside}".join(lines) + margin + "]"
    return json.dumps(values, allow_nan=False)
