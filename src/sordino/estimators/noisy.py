"""Noise in every step: full-batch noisy gradient descent and DP-SGD."""

from __future__ import annotations

import functools
from dataclasses import replace

from sordino.estimators import rules
from sordino.estimators.task import FitPlan, Settings, Task
from sordino.estimators.training import TrainedMethod
from sordino.privacy import Relation, Sampling
from sordino.proofs.evidence_kinds import StepsEvidence
from sordino.proofs.proof import Proof
from sordino.proofs.training import StepTerms, noise_for_steps
from sordino.sgd.spec import TrainSpec


class NoisyMethod(TrainedMethod):
    """A training with Gaussian noise on each sum of clipped gradients."""

    def plan(self, task: Task, given: Settings, start_norm: float = 0.0) -> FitPlan:
        """Settings, noise and proof."""
        self.check(given)
        settings = self.settings(task, given)
        spec = self.spec(task, settings)
        accountant = settings.accountant or "best"
        noise, evidence, proof = _calibrated(spec, task, accountant)
        clip = spec.max_grad_norm
        assert clip is not None
        return FitPlan(
            method=self.name,
            task=task,
            settings=settings,
            proof=proof,
            sigma=noise * clip,
            scale=0.0,
            noise_at="on every sum of clipped gradients",
            spec=replace(spec, noise_multiplier=noise),
            l2=task.l2,
            evidence=evidence,
        )


@functools.lru_cache(maxsize=512)
def _calibrated(
    spec: TrainSpec, task: Task, accountant: str
) -> tuple[float, StepsEvidence | None, Proof | None]:
    """The least noise for the task's promise, and its proof."""
    if not task.private:
        return 0.0, None, None
    how = StepTerms(accountant=accountant, problems=task.problems, rows_per_person=task.rows_per_person)
    promise = task.constants, task.rows, task.relation, task.epsilon, task.delta
    noise = noise_for_steps(spec, *promise, **how)
    evidence = StepsEvidence(
        spec=replace(spec, noise_multiplier=noise),
        rows=task.rows,
        norm=task.norm,
        delta=task.delta,
        relation=task.relation,
        columns=task.columns,
        **how,
    )
    return noise, evidence, evidence.proof()


class NoisyGradientDescent(NoisyMethod):
    """All records in every step; last iterate or composition, whichever needs less noise."""

    name = "noisy-gd"
    takes = ("steps", "learning_rate", "max_grad_norm")

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.noisy_gd`."""
        self.refuse_private_size(task)
        defaults = rules.noisy_gd(task, given)
        filled = given.filled(batch_size=task.rows, max_grad_norm=task.norm, **defaults)
        return filled.clipped(task.norm)

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """A constant rate: a falling one would undo what hiding the iterates gains."""
        assert settings.learning_rate is not None
        return TrainSpec(
            objective=task.objective,
            learning_rate=settings.learning_rate,
            batch_size=task.rows,
            steps=settings.steps,
            order=Sampling.CYCLIC,
            max_grad_norm=settings.max_grad_norm,
            fixed_divisor=True,
            init="given",
            dtype="float64",
        )


class DpSgd(NoisyMethod):
    """DP-SGD of Abadi et al. 2016: Poisson batches, per-example clipping.

    With accountant="moments" it is the SGD-MA of Chen, Lee & Kifer 2019.
    """

    name = "dp-sgd"
    takes = ("epochs", "steps", "batch_size", "learning_rate", "max_grad_norm", "accountant")

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.dp_sgd`."""
        defaults = rules.dp_sgd(task, given)
        filled = given.filled(max_grad_norm=task.norm, accountant="pld", **defaults)
        return filled.clipped(task.norm)

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """Every record in every batch with the same probability, by public numbers."""
        assert settings.learning_rate is not None
        assert settings.batch_size is not None
        steps, epochs = settings.steps, settings.epochs
        if steps is None and epochs is not None:
            steps = epochs * -(-task.rows // settings.batch_size)
        private_size = task.relation is Relation.ADD_OR_REMOVE_ONE
        rate = settings.batch_size / task.rows if private_size else None
        return TrainSpec(
            objective=task.objective,
            learning_rate=settings.learning_rate,
            batch_size=settings.batch_size,
            steps=steps,
            order=Sampling.POISSON,
            sample_rate=rate,
            max_grad_norm=settings.max_grad_norm,
            init="given",
            dtype="float64",
        )
