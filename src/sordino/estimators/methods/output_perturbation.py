"""Output perturbation: train without noise, add it to the final weights."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sordino.estimators import rules
from sordino.estimators.fit import FitPlan, Settings, Task
from sordino.estimators.methods.training import TrainedMethod
from sordino.privacy import Sampling
from sordino.proofs.output import OutputEvidence, OutputPerturbation
from sordino.proofs.settings import METHODS
from sordino.sgd.spec import Schedule, TrainSpec


@dataclass(frozen=True)
class OutputMethod(TrainedMethod):
    """A training whose final weights get Gaussian noise, once.

    Parameters
    ----------
    name
        As the estimators call it.
    rule
        Settings from public facts, where none are given.
    per_epoch
        Whether the rate is divided by h in the h-th epoch since the last restart.
    raises_l2
        Whether a small budget raises the regulariser; `settings_` says to what.
    """

    name: str
    rule: Callable[[Task, Settings], dict[str, Any]]
    per_epoch: bool = False
    raises_l2: bool = False

    def settings(self, task: Task, given: Settings) -> Settings:
        """The method's rule."""
        return given.filled(**self.rule(task, given))

    def _plan(self, task: Task, given: Settings, start_norm: float) -> FitPlan:
        settings = self.settings(task, given)
        spec = self.spec(task, settings)
        unit = OutputEvidence(
            spec=spec,
            rows=task.rows,
            norm=task.norm,
            sigma=1.0,
            start_norm=start_norm,
            source=METHODS[self.name].source,
            **task.shape,
        )
        mechanism = _perturbation(unit)
        sigma = mechanism.sigma(task.epsilon, task.delta)
        return FitPlan(
            method=self.name,
            task=task,
            settings=settings,
            proof=mechanism.proof(sigma) if task.private else None,
            sigma=sigma,
            scale=sigma,
            noise_at="on every weight",
            spec=spec,
            l2=spec.objective.l2,
            evidence=replace(unit, sigma=sigma) if task.private else None,
        )

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """Equal batches: in a smaller one a record would count for more.

        The few records that are left over after the secret permutation sit out.
        """
        objective, rate = task.objective_with(settings.l2 or task.l2), settings.learning_rate
        if rate is None:  # bolt-on
            constants = objective.constants(task.norm)
            assert constants is not None
            smooth, l2 = constants.smooth, constants.strongly_convex
            schedule = Schedule.strongly_convex_rate(smooth, l2)
        else:
            schedule = Schedule.per_epoch(rate) if self.per_epoch else Schedule.constant(rate)
        assert settings.batch_size is not None
        batches = -(-task.rows // min(settings.batch_size, task.rows))
        return TrainSpec(
            objective=objective,
            learning_rate=schedule,
            batch_size=task.rows // batches,
            epochs=settings.epochs,
            steps=settings.steps,
            order=Sampling.PERMUTE_ONCE if batches > 1 else Sampling.CYCLIC,
            drop_last=True,
            max_grad_norm=settings.max_grad_norm,
            average_every=settings.average_every,
            restart_every=settings.average_every,
            init="given",
            dtype="float64",  # rounding counts in the sensitivity
        )


@functools.lru_cache(maxsize=512)
def _perturbation(evidence: OutputEvidence) -> OutputPerturbation:
    """Sensitivities do not depend on the budget: several budgets ask for the same ones."""
    return evidence.done()


OUTPUT_METHODS = (
    # RSGD-AR of Chen, Lee & Kifer 2019: permute once, average and restart every few epochs.
    OutputMethod("rsgd-ar", rules.restarted_averages, per_epoch=True),
    # NSGD of Chen, Lee & Kifer 2019: rate / h in epoch h, sensitivity by the recurrence. The paper
    # goes through the records as they lie. Here they are permuted once, so that records sorted by
    # class do no harm; the secret order then also counts in the proof.
    OutputMethod("nsgd", rules.numeric_sgd, per_epoch=True),
    # Bolt-on SGD of Wu et al. 2017. With a regulariser the rate min(1/smooth, 1/(l2 t)) of their
    # strongly convex theorem, unless a constant learning rate is given; without one, their convex
    # theorem with a constant rate.
    OutputMethod("bolt-on", rules.bolt_on, raises_l2=True),
    # Full-batch gradient descent with a fixed rate (OutPert-GD of Zhang et al. 2017).
    OutputMethod("output-gd", rules.output_gd),
)
