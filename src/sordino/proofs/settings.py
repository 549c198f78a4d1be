"""The methods of the estimators: their settings, and their settings against a proof's numbers.

What was left to a public rule (a setting that is null) is not looked up in the rules: these may
change from version to version. The shape of each method's training does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sordino import checks
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import VARYING, Relation, Sampling
from sordino.proofs.adaptive import AdaptiveEvidence
from sordino.proofs.evidence import StepsEvidence
from sordino.proofs.objective import ObjectiveEvidence
from sordino.proofs.output import OutputEvidence
from sordino.proofs.prepared import (
    MEAN,
    PREPARED_NORM,
    SQUARED_PART,
    SQUARES,
    PreparedEvidence,
    training_of,
)
from sordino.proofs.proof import NORM_SLACK, Evidence, TrainingEvidence
from sordino.proofs.statistics import StatisticsEvidence
from sordino.sgd.spec import Schedule, TrainSpec

LEAST_SQUARES = "least-squares"
ESTIMATORS = {
    "PrivateLogisticRegression": "logistic",
    "PrivateLinearSVC": "huber-svm",
    "PrivateRidge": LEAST_SQUARES,
    "PrivateLinearRegression": LEAST_SQUARES,
}
"""Who makes certificates, and the loss of each."""
_HUBER_WIDTH = 0.5
"""Written down where the loss has none."""
GENERAL = (
    *("epsilon", "delta", "target", "relation", "method", "l2", "data_norm"),
    *("fit_intercept", "max_rows_per_person", "public_rows"),
    *("class_weight", "base_rates", "max_sample_weight"),
    *("bounds", "center", "scale"),
)
WEIGHTS = ("class_weight", "base_rates", "max_sample_weight")
"""How much records count, by public numbers."""
OF_CLASSES = ("class_weight", "base_rates")
"""Those that a regression has no use for."""
MULTI_CLASS = "multi_class"
"""How several classes are told apart: "softmax" trains one model, "one-vs-rest" one a class."""
HOW = (
    *("epochs", "steps", "batch_size", "learning_rate"),
    *("average_every", "max_grad_norm", "accountant", "sampling"),
)
"""Settings of every model; those in `HOW` are null where a method has none, or a rule chose."""
PREPARING = ("bounds", "center", "scale")
"""How rows are prepared: the numbers themselves are in the model's file."""
PRIVATE, PUBLIC, NONE = "private", "public", "none"
WRITTEN_IF_GIVEN = ("sampling", "target", *PREPARING, MULTI_CLASS, *WEIGHTS)
"""Settings that a certificate holds only where they are given: earlier ones have none of them.

With a target it has no epsilon, which follows. `multi_class` is there for every softmax; without
it, several classes are one against the rest. Numbers for classes are in the labels' order.
"""
BALANCED = "balanced"
"""Classes weighted by 1 / base rate."""
_MOST_RATIO = 1e12
_RATES_WITHIN = 0.01
_Compared = Iterator[tuple[str, object, object]]


@dataclass(frozen=True)
class _MethodRecord:
    """What a method's certificates hold: the kind of its numbers, its settings, who it is by."""

    kind: type[Evidence]
    takes: tuple[str, ...] = ()
    source: str = ""

    @property
    def softmax(self) -> bool:
        """Whether its theorems cover a softmax: those of descents do (docs/math.md 14)."""
        return issubclass(self.kind, TrainingEvidence)


_PASSES = ("epochs", "batch_size", "learning_rate", "max_grad_norm")
_DESCENT = ("steps", "learning_rate", "max_grad_norm")
METHODS = {
    "rsgd-ar": _MethodRecord(
        *(OutputEvidence, (*_PASSES, "average_every")),
        "RSGD-AR (Chen, Lee & Kifer 2019, Proposition 3, corrected)",
    ),
    "nsgd": _MethodRecord(OutputEvidence, _PASSES, "NSGD (Chen, Lee & Kifer 2019, Lemma 2)"),
    "bolt-on": _MethodRecord(OutputEvidence, _PASSES, "bolt-on SGD (Wu et al. 2017)"),
    "output-gd": _MethodRecord(
        *(OutputEvidence, _DESCENT),
        "output perturbation of gradient descent (Zhang et al. 2017; Chen et al. 2019)",
    ),
    "noisy-gd": _MethodRecord(StepsEvidence, _DESCENT),
    "dp-sgd": _MethodRecord(StepsEvidence, (*_PASSES, "steps", "accountant", "sampling")),
    "objective": _MethodRecord(ObjectiveEvidence),
    "dp-agd": _MethodRecord(AdaptiveEvidence, _DESCENT),
}
REGRESSION = {"statistics": _MethodRecord(StatisticsEvidence), "noisy-gd": METHODS["noisy-gd"]}
"""Of least squares, which has no Lipschitz constant: noise on its sums, or on clipped gradients."""
_AUTO = ("objective", "noisy-gd", "dp-sgd")


def is_regression(estimator: str) -> bool:
    """Whether it predicts a number and not a class."""
    return ESTIMATORS.get(estimator) == LEAST_SQUARES


def methods_for(estimator: str) -> dict[str, _MethodRecord]:
    """The methods of an estimator."""
    return REGRESSION if is_regression(estimator) else METHODS


def auto_for(estimator: str) -> tuple[str, ...]:
    """What the method "auto" may have chosen."""
    return tuple(REGRESSION) if is_regression(estimator) else _AUTO


def setting_names(estimator: str) -> frozenset[str]:
    """The settings that every certificate of an estimator holds, also `WRITTEN_IF_GIVEN`."""
    if is_regression(estimator):
        return frozenset({*GENERAL, *_DESCENT, "target_bounds"} - {*OF_CLASSES})
    own = "huber_width" if estimator == "PrivateLinearSVC" else MULTI_CLASS
    return frozenset({*GENERAL, *HOW, own})


def target_bounds(given: object) -> tuple[float, float]:
    """Public bounds on a target as two numbers, low and high."""
    hint = "Pass what you know without looking at the data, such as (0, 100)."
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
    if len(listed) != 2:
        checks.fail("target_bounds", f"[{type(given).__name__}]", "to be (low, high)", hint)
    low, high = (checks.number("target_bounds", each, hint) for each in listed)
    if not _LEAST_WIDTH < high - low < _MOST_WIDTH:
        checks.fail("target_bounds", (low, high), "to be low < high, 1e-30 to 1e30 apart", hint)
    return low, high


_LEAST_WIDTH, _MOST_WIDTH = 1e-30, 1e30


@dataclass(frozen=True)
class TrainingRequest:
    """What was asked of one training: the method, and the settings that were given for it.

    Without `settings`, all that a certificate states of an estimator, nothing is known but the
    numbers: so it is with candidates of a selection that were not released.
    """

    method: str
    given: Mapping[str, Any]
    loss: str = ""
    settings: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, estimator: str, settings: Mapping[str, Any], method: str) -> TrainingRequest:
        """Of the model that was released."""
        checks.positive("data_norm", settings["data_norm"])
        checks.non_negative("l2", settings["l2"])
        checks.positive("huber_width", settings.get("huber_width", _HUBER_WIDTH))
        if is_regression(estimator):
            target_bounds(settings["target_bounds"])
        given = {name: settings[name] for name in HOW if settings.get(name) is not None}
        check_settings(given, allow_infinite=True)
        loss = ESTIMATORS[estimator]
        if settings.get(MULTI_CLASS) is not None:
            ways = ("softmax", "one-vs-rest") if METHODS[method].softmax else ("one-vs-rest",)
            checks.one_of(MULTI_CLASS, settings[MULTI_CLASS], ways)
            loss = "softmax" if settings[MULTI_CLASS] == "softmax" else loss
        for name in PREPARING:
            if (how := settings.get(name)) is not None:
                hows = (PUBLIC,) if name == "bounds" else (NONE, PRIVATE, PUBLIC)
                checks.one_of(name, how, hows)
        return cls(method, given, loss, settings)

    def compared(self, evidence: Evidence) -> _Compared:
        """Name, what was asked, and what the numbers are of."""
        if self.settings is not None:
            yield from self._prepared(evidence)
        norm, evidence = self._norm(evidence), training_of(evidence)
        if self.settings is not None:
            yield "data_norm", norm, getattr(evidence, "norm", norm)
        if isinstance(evidence, TrainingEvidence):
            yield from self._training(evidence)
        elif isinstance(evidence, ObjectiveEvidence):
            yield from self._loss(ObjectiveSpec(evidence.loss, huber_width=evidence.huber_width))
        elif isinstance(evidence, StatisticsEvidence) and self.settings is not None:
            yield "loss", self.loss, LEAST_SQUARES
        elif isinstance(evidence, AdaptiveEvidence) and self.settings is not None:
            yield "max_grad_norm", self._clip(norm), evidence.clip

    def _prepared(self, evidence: Evidence) -> _Compared:
        """What was released before the training: what was asked for, of rows in that norm."""
        assert self.settings is not None
        made = evidence.releases if isinstance(evidence, PreparedEvidence) else ()
        names = [each.what for each in made]
        for setting, what in (("center", MEAN), ("scale", SQUARES)):
            # "auto" is not written: then either may be.
            if (how := self.settings.get(setting)) is not None:
                yield f"{setting}='private'", how == PRIVATE, what in names
        for each in made:
            whole = each.what == MEAN
            norm = self.settings["data_norm"] * (1.0 if whole else SQUARED_PART)
            yield f"norm of {each.what}", norm, each.norm

    def _norm(self, evidence: Evidence) -> float:
        """Of the rows that the training saw."""
        public = [(self.settings or {}).get(name) == PUBLIC for name in ("center", "scale")]
        if isinstance(evidence, PreparedEvidence) or any(public):
            return PREPARED_NORM
        return float((self.settings or {"data_norm": math.inf})["data_norm"])

    def _loss(self, objective: ObjectiveSpec) -> _Compared:
        smooth = objective.kind in ("logistic", "softmax")
        width = _HUBER_WIDTH if smooth else objective.huber_width
        if self.settings is not None:
            yield "loss", self.loss, objective.kind
            width = self.settings.get("huber_width", _HUBER_WIDTH)
        yield "huber_width", width, objective.huber_width

    def _training(self, evidence: TrainingEvidence) -> _Compared:
        spec, objective = evidence.spec, evidence.spec.objective
        yield from self._loss(objective)
        if self.settings is not None:
            raised = objective.l2 if self.method == "bolt-on" else 0.0
            yield "l2", max(self.settings["l2"], raised), objective.l2
        if isinstance(evidence, OutputEvidence):
            yield "source", METHODS[self.method].source, evidence.source
        if isinstance(evidence, StepsEvidence) and self.settings is not None:
            default = "pld" if self.method == "dp-sgd" else "best"
            yield "accountant", self.given.get("accountant", default), evidence.accountant
        expected, recorded = self._expected(evidence).to_dict(), spec.to_dict()
        for name in {**recorded, **expected}:
            yield name, expected.get(name), recorded.get(name)

    def _expected(self, evidence: TrainingEvidence) -> TrainSpec:
        """The training as this method does it; numbers that a rule chose are as recorded."""
        spec, rows, given = evidence.spec, evidence.rows, self.given
        of, private = spec.objective, evidence.relation is Relation.ADD_OR_REMOVE_ONE
        how = {"batch_size": spec.batch_size, "learning_rate": spec.schedule.rate, **given}
        noise = 0.0
        if isinstance(evidence, StepsEvidence):
            noise = spec.noise_multiplier
            how["max_grad_norm"] = self._clip(longest(of, evidence.norm))
            chosen = of.kind == LEAST_SQUARES and "max_grad_norm" not in given  # by a rule
            if (self.settings is None or chosen) and spec.max_grad_norm:
                how["max_grad_norm"] = min(how["max_grad_norm"], spec.max_grad_norm)
            if not {"steps", "epochs"} & set(given):
                how["steps"] = spec.total_steps(rows)
            if self.settings is None and spec.order in VARYING:
                how["sampling"] = spec.order
        else:
            length = "steps" if self.method == "output-gd" else "epochs"
            how.setdefault(length, getattr(spec, length) or 1)
            if self.settings is None:
                how["max_grad_norm"] = spec.max_grad_norm
            if self.method == "rsgd-ar":
                how.setdefault("average_every", spec.average_every or 1)
            if "batch_size" not in given:  # they are equal: no more of them than fit
                how["batches"] = rows // min(spec.batch_size, rows)
            falls = spec.schedule.kind == "strongly-convex"
            if self.settings is not None:
                falls = self.settings["l2"] > 0 and "learning_rate" not in given
            if self.method == "bolt-on" and falls:
                how["learning_rate"] = None
        loss = ObjectiveSpec(of.kind, of.l2, False, of.huber_width)
        if of.kind == "softmax":
            loss = replace(loss, classes=evidence.problems)
        made = training(self.method, loss, rows, evidence.norm, how, private_size=private)
        return replace(made, noise_multiplier=noise)

    def _clip(self, most: float) -> float:
        return float(min(self.given.get("max_grad_norm", most), most))


def longest(objective: ObjectiveSpec, norm: float) -> float:
    """Where noisy steps clip unless told otherwise: to no more than a gradient can be long.

    A softmax that is really clipped is no convex loss any more, so its clip lies above the slack
    that rows have in their norm.
    """
    if objective.kind != "softmax":
        return norm
    constants = objective.constants(norm)
    assert constants is not None
    return constants.lipschitz * (1 + NORM_SLACK)


def training(
    method: str,
    objective: ObjectiveSpec,
    rows: int,
    norm: float,
    how: Mapping[str, Any],
    *,
    private_size: bool,
) -> TrainSpec:
    """The training of a method by settings `how`, which are complete; noise inside is still to set.

    Without noise inside, batches are equal: in a smaller one a record would count for more. The few
    records that are left over after the secret permutation sit out.
    """
    rate, batch = how["learning_rate"], how["batch_size"]
    if rate is None:  # bolt-on
        constants = objective.constants(norm)
        assert constants is not None
        schedule = Schedule.strongly_convex_rate(constants.smooth, constants.strongly_convex)
    else:
        per_epoch = method in ("rsgd-ar", "nsgd")
        schedule = Schedule.per_epoch(rate) if per_epoch else Schedule.constant(rate)
    spec: dict[str, Any] = {"steps": how.get("steps"), "max_grad_norm": how.get("max_grad_norm")}
    if method == "noisy-gd":
        # A constant rate: a falling one would undo what hiding the iterates gains.
        spec |= {"batch_size": rows, "order": Sampling.CYCLIC, "fixed_divisor": True}
    elif method == "dp-sgd":
        # Every record in every batch with the same probability, by public numbers.
        order, per_epoch = Sampling(how.get("sampling") or Sampling.POISSON), -(-rows // batch)
        spec |= {"batch_size": batch, "order": order}
        if private_size and order == Sampling.POISSON:
            spec["sample_rate"] = batch / rows
        elif private_size:
            spec["steps_per_epoch"] = per_epoch
        if spec["steps"] is None:
            spec["steps"] = how["epochs"] * per_epoch
    else:
        batches = how.get("batches") or -(-rows // min(batch, rows))
        batches = 1 if method == "output-gd" else batches
        spec |= {"batch_size": rows // batches, "epochs": how.get("epochs"), "drop_last": True}
        spec["order"] = Sampling.PERMUTE_ONCE if batches > 1 else Sampling.CYCLIC
        spec["average_every"] = spec["restart_every"] = how.get("average_every")
    # Rounding counts in the sensitivity of the final weights.
    return TrainSpec(objective, schedule, init="given", dtype="float64", **spec)


def check_settings(given: Mapping[str, Any], *, allow_infinite: bool = False) -> None:
    """Refuse settings of a training that are no counts or no lengths."""
    for name in ("epochs", "steps", "batch_size", "average_every"):
        if given.get(name) is not None:
            checks.whole(name, given[name], at_least=1)
    for name in ("learning_rate", "max_grad_norm"):
        if given.get(name) is not None:
            checks.positive(name, given[name], allow_infinite=allow_infinite)
    if given.get("sampling") is not None:
        checks.one_of("sampling", given["sampling"], [each.value for each in VARYING])
    if given.get("epochs") is not None and given.get("steps") is not None:
        checks.fail("steps", given["steps"], "or epochs to be given, not both")


def check_weights(given: Mapping[str, Any], classes: int) -> None:
    """Refuse weights that are no public numbers above 0, one a class.

    Whatever they are, the proof is the same: losses are divided by the largest weight there can be
    (`estimators/weights.py`), so that none counts for more than one without weights.
    """
    class_weight, base_rates = given.get("class_weight"), given.get("base_rates")
    if isinstance(class_weight, str):
        checks.one_of("class_weight", class_weight, (BALANCED,), "Or pass {label: number}.")
    balanced = class_weight == BALANCED
    if balanced and base_rates is None:
        hint = "Rates read off the labels would leak: pass {label: public share}."
        checks.fail("base_rates", None, "to be given for class_weight='balanced'", hint)
    if base_rates is not None and not balanced:
        checks.fail("base_rates", "[given]", "to be left out unless class_weight='balanced'")
    for name, each in (("class_weight", class_weight), ("base_rates", base_rates)):
        if each is None or isinstance(each, str):
            continue
        if len(checks.sequence(name, each)) != classes:
            checks.fail(name, f"[{len(each)}]", f"to be {classes} numbers, one a class")
        numbers = [checks.positive(name, number) for number in each]
        if max(numbers) > _MOST_RATIO * min(numbers):
            checks.fail(name, numbers, f"to differ by no more than a factor of {_MOST_RATIO:g}")
        if name == "base_rates" and abs(sum(numbers) - 1) > _RATES_WITHIN:
            checks.fail(name, numbers, "to sum to 1")
    if (most := given.get("max_sample_weight")) is not None:
        checks.positive("max_sample_weight", most)


def method_of(evidence: Evidence) -> str:
    """Whose numbers they are."""
    evidence = training_of(evidence)
    if isinstance(evidence, StepsEvidence):
        return "dp-sgd" if evidence.spec.order in VARYING else "noisy-gd"
    if isinstance(evidence, OutputEvidence):
        sources = {row.source: name for name, row in METHODS.items()}
        return sources.get(evidence.source, "output-gd") if evidence.source else "output-gd"
    if isinstance(evidence, StatisticsEvidence):
        return "statistics"
    return "objective" if isinstance(evidence, ObjectiveEvidence) else "dp-agd"
