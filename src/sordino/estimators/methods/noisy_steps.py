"""Noise in every step: full-batch noisy gradient descent and DP-SGD."""

from __future__ import annotations

import functools
from dataclasses import replace

from sordino.estimators import rules
from sordino.estimators.fit import FitPlan, Settings, Task
from sordino.estimators.methods.training import TrainedMethod
from sordino.privacy import Sampling
from sordino.proofs.evidence import StepsEvidence
from sordino.proofs.proof import Proof
from sordino.proofs.theorems import noise_for_steps
from sordino.sgd.spec import TrainSpec


class _NoisyMethod(TrainedMethod):
    """A training with Gaussian noise on each sum of clipped gradients."""

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        settings = self.settings(task, given)
        spec = self.spec(task, settings)
        evidence, proof = _calibrate(spec, task, settings.accountant or "best")
        spec = spec if evidence is None else evidence.spec
        assert spec.max_grad_norm is not None
        sigma, where = (
            spec.noise_multiplier * spec.max_grad_norm,
            "on every sum of clipped gradients",
        )
        return FitPlan(
            *(self.name, task, settings, proof, sigma, 0.0, where, spec, task.l2, evidence)
        )


@functools.lru_cache(maxsize=512)
def _calibrate(
    spec: TrainSpec, task: Task, accountant: str
) -> tuple[StepsEvidence | None, Proof | None]:
    """The least noise for the task's promise, and its proof."""
    if not task.private:
        return None, None
    unit = StepsEvidence(
        spec=replace(spec, noise_multiplier=1.0),
        rows=task.rows,
        norm=task.norm,
        delta=task.delta,
        accountant=accountant,
        **task.shape,
    )
    noise = noise_for_steps(unit.done(), task.epsilon, task.delta, accountant)
    evidence = replace(unit, spec=replace(spec, noise_multiplier=noise))
    return evidence, evidence.proof()


class NoisyGradientDescent(_NoisyMethod):
    """All records in every step; last iterate or composition, whichever needs less noise."""

    name = "noisy-gd"

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.noisy_gd`."""
        return given.filled(clip=task.norm, batch_size=task.rows, **rules.noisy_gd(task, given))

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """A constant rate: a falling one would undo what hiding the iterates gains."""
        assert settings.learning_rate is not None
        return TrainSpec(
            objective=task.objective_with(task.l2),
            learning_rate=settings.learning_rate,
            batch_size=task.rows,
            steps=settings.steps,
            order=Sampling.CYCLIC,
            max_grad_norm=settings.max_grad_norm,
            fixed_divisor=True,
            init="given",
            dtype="float64",
        )


class DpSgd(_NoisyMethod):
    """DP-SGD of Abadi et al. 2016: Poisson batches, per-example clipping.

    With accountant="moments" it is the SGD-MA of Chen, Lee & Kifer 2019.
    """

    name = "dp-sgd"
    public_size = False

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.dp_sgd`."""
        return given.filled(clip=task.norm, accountant="pld", **rules.dp_sgd(task, given))

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """Every record in every batch with the same probability, by public numbers."""
        batch, steps = settings.batch_size, settings.steps
        assert settings.learning_rate is not None
        assert batch is not None
        if steps is None and settings.epochs is not None:
            steps = settings.epochs * -(-task.rows // batch)
        return TrainSpec(
            objective=task.objective_with(task.l2),
            learning_rate=settings.learning_rate,
            batch_size=batch,
            steps=steps,
            order=Sampling.POISSON,
            sample_rate=batch / task.rows if task.private_size else None,
            max_grad_norm=settings.max_grad_norm,
            init="given",
            dtype="float64",
        )
