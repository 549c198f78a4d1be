"""Output perturbation: train without noise, add it to the final weights."""

from __future__ import annotations

import functools
from dataclasses import replace

from sordino.estimators import rules
from sordino.estimators.fit import FitPlan, Settings, Task
from sordino.estimators.methods.training import TrainedMethod
from sordino.proofs.output import OutputEvidence, OutputPerturbation
from sordino.proofs.settings import METHODS


class _OutputMethod(TrainedMethod):
    """A training whose final weights get Gaussian noise, once."""

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        settings = self.settings(task, given)
        spec = self.spec(task, settings)
        more = {"start_norm": start_norm, "source": METHODS[self.name].source, **task.shape}
        unit = OutputEvidence(spec=spec, rows=task.rows, norm=task.norm, sigma=1.0, **more)
        mechanism = _perturbation(unit)
        sigma = mechanism.sigma(task.epsilon, task.delta)
        proof = mechanism.proof(sigma) if task.private else None
        evidence = replace(unit, sigma=sigma) if task.private else None
        noise = sigma, sigma, "on every weight", spec, spec.objective.l2, evidence
        return FitPlan(self.name, task, settings, proof, *noise)


@functools.lru_cache(maxsize=512)
def _perturbation(evidence: OutputEvidence) -> OutputPerturbation:
    """Sensitivities do not depend on the budget: several budgets ask for the same ones."""
    return evidence.done()


OUTPUT_METHODS = (
    # RSGD-AR of Chen, Lee & Kifer 2019: permute once, average and restart every few epochs.
    _OutputMethod("rsgd-ar", rules.restarted_averages),
    # NSGD of Chen, Lee & Kifer 2019: rate / h in epoch h, sensitivity by the recurrence. The paper
    # goes through the records as they lie. Here they are permuted once, so that records sorted by
    # class do no harm; the secret order then also counts in the proof.
    _OutputMethod("nsgd", rules.numeric_sgd),
    # Bolt-on SGD of Wu et al. 2017. With a regulariser the rate min(1/smooth, 1/(l2 t)) of their
    # strongly convex theorem, unless a constant learning rate is given; without one, their convex
    # theorem with a constant rate.
    _OutputMethod("bolt-on", rules.bolt_on, raises_l2=True),
    # Full-batch gradient descent with a fixed rate (OutPert-GD of Zhang et al. 2017).
    _OutputMethod("output-gd", rules.output_gd),
)
