"""What was asked of a training, against the numbers of its proof: settings, shape, schedule.

What was left to a public rule (a setting that is null) is not looked up in the rules: these may
change from version to version. The shape of each method's training does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sordino import checks
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Relation, Sampling
from sordino.proofs.evidence import Evidence
from sordino.proofs.evidence_kinds import (
    AdaptiveEvidence,
    ObjectiveEvidence,
    OutputEvidence,
    StepsEvidence,
    TrainingEvidence,
)
from sordino.proofs.output import SOURCES
from sordino.sgd.spec import Schedule, TrainSpec

ESTIMATORS = {"PrivateLogisticRegression": "logistic", "PrivateLinearSVC": "huber-svm"}
"""Who makes certificates, and the loss of each."""
HUBER_WIDTH = 0.5
"""Written down where the loss has none."""
GENERAL = (
    *("epsilon", "delta", "relation", "method", "l2", "data_norm"),
    *("fit_intercept", "max_rows_per_person", "public_rows"),
)
HOW = (
    *("epochs", "steps", "batch_size", "learning_rate"),
    *("average_every", "max_grad_norm", "accountant"),
)
"""Settings of every model; those in `HOW` are null where a method has none, or a rule chose."""


@dataclass(frozen=True)
class AskedMethod:
    """What a method's papers look like: the kind of its numbers, and the settings it takes."""

    kind: type[Evidence]
    takes: tuple[str, ...]


METHODS = {
    "rsgd-ar": AskedMethod(
        OutputEvidence, ("epochs", "batch_size", "learning_rate", "average_every", "max_grad_norm")
    ),
    "nsgd": AskedMethod(OutputEvidence, ("epochs", "batch_size", "learning_rate", "max_grad_norm")),
    "bolt-on": AskedMethod(
        OutputEvidence, ("epochs", "batch_size", "learning_rate", "max_grad_norm")
    ),
    "output-gd": AskedMethod(OutputEvidence, ("steps", "learning_rate", "max_grad_norm")),
    "noisy-gd": AskedMethod(StepsEvidence, ("steps", "learning_rate", "max_grad_norm")),
    "dp-sgd": AskedMethod(
        StepsEvidence,
        ("epochs", "steps", "batch_size", "learning_rate", "max_grad_norm", "accountant"),
    ),
    "objective": AskedMethod(ObjectiveEvidence, ()),
    "dp-agd": AskedMethod(AdaptiveEvidence, ("steps", "learning_rate", "max_grad_norm")),
}


@dataclass(frozen=True)
class Asked:
    """What was asked of one training: the method, and the settings that were given for it.

    Without `settings`, all that a certificate states of an estimator, nothing is known but the
    numbers: so it is with candidates of a selection that were not released.
    """

    method: str
    given: Mapping[str, Any]
    loss: str = ""
    settings: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, estimator: str, settings: Mapping[str, Any], method: str) -> Asked:
        """Of the model that was released."""
        checks.positive("data_norm", settings["data_norm"])
        checks.non_negative("l2", settings["l2"])
        checks.positive("huber_width", settings.get("huber_width", HUBER_WIDTH))
        given = {name: settings[name] for name in HOW if settings[name] is not None}
        for name in {"epochs", "steps", "batch_size", "average_every"} & set(given):
            checks.whole(name, given[name], at_least=1)
        if {"epochs", "steps"} <= set(given):
            checks.fail("steps", given["steps"], "or epochs to be given, not both")
        for name in {"learning_rate", "max_grad_norm"} & set(given):
            checks.positive(name, given[name], allow_infinite=True)
        return cls(method, given, ESTIMATORS[estimator], settings)

    def compared(self, evidence: Evidence) -> Iterator[tuple[str, object, object]]:
        """Name, what was said, and what the numbers are of."""
        if self.settings is not None:
            norm = self.settings["data_norm"]
            yield "data_norm", norm, getattr(evidence, "norm", norm)
        if isinstance(evidence, TrainingEvidence):
            yield from self._training(evidence)
        elif isinstance(evidence, ObjectiveEvidence):
            yield from self._loss(ObjectiveSpec(evidence.loss, huber_width=evidence.huber_width))
        elif isinstance(evidence, AdaptiveEvidence) and self.settings is not None:
            yield "max_grad_norm", self._clip(self.settings["data_norm"]), evidence.clip

    def _loss(self, objective: ObjectiveSpec) -> Iterator[tuple[str, object, object]]:
        width = HUBER_WIDTH if objective.kind == "logistic" else objective.huber_width
        if self.settings is not None:
            yield "loss", self.loss, objective.kind
            width = self.settings.get("huber_width", HUBER_WIDTH)
        yield "huber_width", width, objective.huber_width

    def _training(self, evidence: TrainingEvidence) -> Iterator[tuple[str, object, object]]:
        spec = evidence.spec
        yield from self._loss(spec.objective)
        if self.settings is not None:
            raised = spec.objective.l2 if self.method == "bolt-on" else 0.0
            yield "l2", max(self.settings["l2"], raised), spec.objective.l2
        if isinstance(evidence, OutputEvidence):
            yield "source", SOURCES[self.method], evidence.source
        if isinstance(evidence, StepsEvidence) and self.settings is not None:
            default = "pld" if self.method == "dp-sgd" else "best"
            yield "accountant", self.given.get("accountant", default), evidence.accountant
        expected = self._spec(evidence).to_dict()
        for name, found in spec.to_dict().items():
            yield name, expected[name], found

    def _spec(self, evidence: TrainingEvidence) -> TrainSpec:
        """The training as this method does it; numbers that a rule chose are as recorded."""
        spec, rows = evidence.spec, evidence.rows
        objective = ObjectiveSpec(
            spec.objective.kind,
            l2=spec.objective.l2,
            intercept=False,  # a column like any other
            huber_width=spec.objective.huber_width,
        )
        how = self._output(spec, rows)
        if isinstance(evidence, StepsEvidence):
            how = {**self._steps(evidence), "noise_multiplier": spec.noise_multiplier}
        return TrainSpec(objective, self._schedule(evidence), init="given", dtype="float64", **how)

    def _output(self, spec: TrainSpec, rows: int) -> dict[str, Any]:
        """Equal batches of a secret order, without noise."""
        length = "steps" if self.method == "output-gd" else "epochs"
        every = None
        if self.method == "rsgd-ar":
            every = self.given.get("average_every", spec.average_every or 1)
        batches = rows // min(spec.batch_size, rows)
        if "batch_size" in self.given:
            batches = -(-rows // min(self.given["batch_size"], rows))
        batches = 1 if self.method == "output-gd" else batches
        return {
            length: self.given.get(length, getattr(spec, length) or 1),
            "batch_size": rows // batches,
            "order": "permute-once" if batches > 1 else "fixed",
            "drop_last": True,
            "max_grad_norm": self.given.get("max_grad_norm")
            if self.settings is not None
            else spec.max_grad_norm,
            "average_every": every,
            "restart_every": every,
        }

    def _steps(self, evidence: StepsEvidence) -> dict[str, Any]:
        """Full batches, or such as chance draws; clipped to the norm at most."""
        spec, rows = evidence.spec, evidence.rows
        clip = self._clip(evidence.norm)
        if self.settings is None:
            clip = min(clip, spec.max_grad_norm or clip)
        steps, batch = spec.total_steps(rows), self.given.get("batch_size", spec.batch_size)
        if "epochs" in self.given:
            steps = self.given["epochs"] * -(-rows // batch)
        how = {"steps": self.given.get("steps", steps), "max_grad_norm": clip}
        if self.method == "noisy-gd":
            return {**how, "batch_size": rows, "order": "fixed", "fixed_divisor": True}
        private = evidence.relation is Relation.ADD_OR_REMOVE_ONE
        rate = batch / rows if private else None
        return {**how, "batch_size": batch, "order": "poisson", "sample_rate": rate}

    def _clip(self, norm: float) -> float:
        return float(min(self.given.get("max_grad_norm", norm), norm))

    def _schedule(self, evidence: TrainingEvidence) -> Schedule:
        """The learning rate: of the method's kind, and the one that was given."""
        recorded = evidence.spec.schedule
        rate = self.given.get("learning_rate", recorded.rate)
        if self.method in ("rsgd-ar", "nsgd"):
            return Schedule.per_epoch(rate)
        falls = recorded.kind == "strongly-convex"
        if self.settings is not None:
            falls = self.settings["l2"] > 0 and "learning_rate" not in self.given
        if self.method == "bolt-on" and falls:
            loss = evidence.constants
            return Schedule.strongly_convex_rate(loss.smooth, loss.strongly_convex)
        return Schedule.constant(rate)


def method_of(evidence: Evidence) -> str:
    """Whose numbers they are."""
    if isinstance(evidence, StepsEvidence):
        return "dp-sgd" if evidence.spec.order == Sampling.POISSON else "noisy-gd"
    if isinstance(evidence, OutputEvidence):
        named = [name for name, source in SOURCES.items() if source == evidence.source]
        return named[0] if named else "output-gd"
    return "objective" if isinstance(evidence, ObjectiveEvidence) else "dp-agd"
