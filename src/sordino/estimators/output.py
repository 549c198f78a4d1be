"""Output perturbation: train without noise, add it to the final weights."""

from __future__ import annotations

import functools
from dataclasses import replace

from sordino import checks
from sordino.estimators import rules
from sordino.estimators.task import FitPlan, Settings, Task
from sordino.estimators.training import TrainedMethod
from sordino.privacy import Sampling
from sordino.proofs.evidence_kinds import OutputEvidence
from sordino.proofs.output import SOURCES, OutputPerturbation
from sordino.sgd.spec import Schedule, TrainSpec


class OutputMethod(TrainedMethod):
    """A training whose final weights get Gaussian noise, once."""

    def plan(self, task: Task, given: Settings, start_norm: float = 0.0) -> FitPlan:
        """Settings, sensitivity, noise and proof."""
        self.check(given)
        self.refuse_private_size(task)
        settings = self.settings(task, given)
        spec = self.spec(task, settings)
        unit = OutputEvidence(
            spec=spec,
            rows=task.rows,
            norm=task.norm,
            sigma=1.0,
            start_norm=start_norm,
            source=SOURCES[self.name],
            relation=task.relation,
            columns=task.columns,
            problems=task.problems,
            rows_per_person=task.rows_per_person,
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

    def _spec(
        self,
        task: Task,
        settings: Settings,
        rate: float | Schedule,
        average_every: int | None = None,
    ) -> TrainSpec:
        assert settings.batch_size is not None
        # Equal batches: in a smaller one a record would count for more. The few records that are
        # left over after the secret permutation sit out.
        batches = -(-task.rows // min(settings.batch_size, task.rows))
        return TrainSpec(
            objective=task.objective_with(settings.l2 or task.l2),
            learning_rate=rate,
            batch_size=task.rows // batches,
            epochs=settings.epochs,
            steps=settings.steps,
            order=Sampling.PERMUTE_ONCE if batches > 1 else Sampling.CYCLIC,
            drop_last=True,
            max_grad_norm=settings.max_grad_norm,
            average_every=average_every,
            restart_every=average_every,
            init="given",
            dtype="float64",  # rounding counts in the sensitivity
        )


@functools.lru_cache(maxsize=512)
def _perturbation(evidence: OutputEvidence) -> OutputPerturbation:
    """Sensitivities do not depend on the budget: several budgets ask for the same ones."""
    return evidence.done()


class RestartedAverages(OutputMethod):
    """RSGD-AR of Chen, Lee & Kifer 2019: permute once, average and restart every few epochs."""

    name = "rsgd-ar"
    takes = ("epochs", "batch_size", "learning_rate", "average_every", "max_grad_norm")

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.restarted_averages`."""
        return given.filled(**rules.restarted_averages(task, given))

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """Rate / h in the h-th epoch since the last average."""
        assert settings.learning_rate is not None
        rate = Schedule.per_epoch(settings.learning_rate)
        return self._spec(task, settings, rate, settings.average_every)


class NumericSgd(OutputMethod):
    """NSGD of Chen, Lee & Kifer 2019: rate / h in epoch h, sensitivity by the recurrence.

    The paper goes through the records as they lie. Here they are permuted once, so that records
    sorted by class do no harm; the secret order then also counts in the proof.
    """

    name = "nsgd"
    takes = ("epochs", "batch_size", "learning_rate", "max_grad_norm")

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.numeric_sgd`."""
        return given.filled(**rules.numeric_sgd(task, given))

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """Rate / h in the h-th epoch."""
        assert settings.learning_rate is not None
        return self._spec(task, settings, Schedule.per_epoch(settings.learning_rate))


class BoltOn(OutputMethod):
    """Bolt-on SGD of Wu et al. 2017.

    With a regulariser the rate min(1/smooth, 1/(l2 t)) of their strongly convex theorem, unless a
    constant learning rate is given; without one, their convex theorem with a constant rate. A
    small budget raises the regulariser (`rules.bolt_on`); `settings_` says to what.
    """

    name = "bolt-on"
    takes = ("epochs", "batch_size", "learning_rate", "max_grad_norm", "l2")

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.bolt_on`."""
        return given.filled(**rules.bolt_on(task, given))

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """Strongly convex schedule, or a constant rate."""
        if settings.learning_rate is not None:
            return self._spec(task, settings, settings.learning_rate)
        constants = task.objective_with(settings.l2 or task.l2).constants(task.norm)
        assert constants is not None
        smooth, l2 = constants.smooth, constants.strongly_convex
        return self._spec(task, settings, Schedule.strongly_convex_rate(smooth, l2))


class OutputGradientDescent(OutputMethod):
    """Full-batch gradient descent with a fixed rate (OutPert-GD of Zhang et al. 2017)."""

    name = "output-gd"
    takes = ("steps", "learning_rate", "max_grad_norm")

    def settings(self, task: Task, given: Settings) -> Settings:
        """`rules.output_gd`; every step uses all records."""
        return given.filled(batch_size=task.rows, **rules.output_gd(task, given))

    def spec(self, task: Task, settings: Settings) -> TrainSpec:
        """A constant rate."""
        if settings.learning_rate is None:
            checks.fail("learning_rate", None, "to be given")
        return self._spec(task, settings, settings.learning_rate)
