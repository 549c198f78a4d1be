"""Noise in every step: full-batch noisy gradient descent and DP-SGD."""

from __future__ import annotations

import functools
from dataclasses import replace

from sordino.estimators import rules
from sordino.estimators.fit import FitPlan, Settings, Task
from sordino.estimators.methods.training import TrainedMethod
from sordino.proofs.evidence import StepsEvidence
from sordino.proofs.proof import Proof
from sordino.proofs.settings import longest
from sordino.proofs.theorems import noise_for_steps
from sordino.sgd.spec import TrainSpec


class _NoisyMethod(TrainedMethod):
    """A training with Gaussian noise on each sum of gradients, clipped to the norm at most."""

    def settings(self, task: Task, given: Settings) -> Settings:
        """The given ones, completed by the public rule."""
        clip = longest(task.objective_with(task.l2), task.norm)
        return given.filled(clip=clip, **self.rule(task, given))

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        settings = self.settings(task, given)
        spec = self.spec(task, settings)
        evidence, proof = _calibrate(spec, task, settings.accountant or "best")
        spec = spec if evidence is None else evidence.spec
        assert spec.max_grad_norm is not None
        noise = spec.noise_multiplier * spec.max_grad_norm, 0.0, "on every sum of clipped gradients"
        return FitPlan(self.name, task, settings, proof, *noise, spec, task.l2, evidence)


@functools.lru_cache(maxsize=512)
def _calibrate(
    spec: TrainSpec, task: Task, accountant: str
) -> tuple[StepsEvidence | None, Proof | None]:
    """The least noise for the task's promise, and its proof."""
    if not task.private:
        return None, None
    same = {name: getattr(task, name) for name in ("rows", "norm", "delta")} | task.shape
    noisy = replace(spec, noise_multiplier=1.0)
    unit = StepsEvidence(spec=noisy, accountant=accountant, **same)
    noise = noise_for_steps(unit.done(), task.epsilon, task.delta, accountant)
    evidence = replace(unit, spec=replace(spec, noise_multiplier=noise))
    return evidence, evidence.proof()


NOISY_GD = _NoisyMethod("noisy-gd", rules.noisy_gd)
"""All records in every step; last iterate or composition, whichever needs less noise."""
DP_SGD = _NoisyMethod("dp-sgd", rules.dp_sgd, public_size=False)
"""DP-SGD of Abadi et al. 2016: Poisson batches or random allocation, per-example clipping.

With accountant="moments" it is the SGD-MA of Chen, Lee & Kifer 2019.
"""
