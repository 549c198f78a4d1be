"""`AssessmentPlan`: one model of one dataset, ready for every stage: records, fit, crafted pair.

Everything in it follows from the request and the records, so a resumed assessment makes it again.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sordino import checks
from sordino.accounting.calibrate import noise_for_risk
from sordino.accounting.risk import RiskTarget
from sordino.assessment.request import Request
from sordino.audit import pairs
from sordino.audit.pairs import Pair
from sordino.audit.runners.fits import class_dataset
from sordino.data import Dataset, recipe
from sordino.data.catalogue.recipes import Network, Recipe
from sordino.data.given import Given
from sordino.data.preprocess import clip_rows
from sordino.data.source import Prepared, Source, held_out
from sordino.errors import NotApplicable
from sordino.estimators import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.estimators.fit import PlannedFit, content_digest
from sordino.models import build
from sordino.models.constants import ObjectiveSpec
from sordino.privacy import Guarantee, Relation, Sampling
from sordino.proofs import theorems
from sordino.proofs.proof import Proof, about_persons
from sordino.proofs.steps import Run, run_of
from sordino.proofs.theorems import prove_steps
from sordino.release.certificate import CLASSES_READ
from sordino.release.ledger import is_open
from sordino.report.result import Records
from sordino.sgd.spec import TrainSpec

_MODELS = {
    "logistic": "logistic regression",
    "svm": "a linear support vector machine",
    "mlp": "a network with one hidden layer",
}
# Ordinary SGD, where no paper has settings for the dataset: ten passes, within the papers' limits.
_RATE, _BATCH, _NETWORK_STEPS, _HIDDEN = 0.5, 32, 2000, 10
_PASSES, _LEAST_STEPS, _MOST_STEPS = 10, 400, 3400
# DP-SGD of a network. The noise of all steps together moves a weight by about WANDER.
_CLIP, _STEPS, WANDER, MOST_RATE = 1.0, 300, 1.2, 2.0


@dataclass(frozen=True)
class NetworkPlan:
    """A network with one hidden layer, trained by DP-SGD and accounted by composition.

    Nothing is proved of its final weights beyond what is proved of all iterates together: theorems
    on the last iterate, on sensitivity and on objectives need a convex loss.

    Parameters
    ----------
    spec
        The training, its noise inside.
    rows
        Number of records.
    delta
        Where the guarantee is stated.
    rows_per_person
        Size of the group protected.
    not_covered
        What was read off the records beside the training.
    persons_counted
        Whether rows per person were counted.
    """

    spec: TrainSpec
    rows: int
    delta: float
    rows_per_person: int = 1
    not_covered: tuple[str, ...] = ()
    persons_counted: bool = False

    @classmethod
    def of(
        cls,
        rows: int,
        recipe: Recipe | None,
        promised: float | RiskTarget,
        delta: float,
        rows_per_person: int = 1,
        not_covered: tuple[str, ...] = (),
        persons_counted: bool = False,
    ) -> NetworkPlan:
        """The training with the least noise for (epsilon, delta), or for a risk.

        Settings follow from public numbers alone: how many records there are, and the papers'
        number of hidden units for a dataset by name.
        """
        batch = min(rows, max(math.isqrt(rows), rows // 20, 1))
        spec = TrainSpec(
            objective=_network_objective(recipe),
            learning_rate=MOST_RATE,
            batch_size=batch,
            steps=_STEPS,
            order=Sampling.POISSON,
            max_grad_norm=_CLIP,
            init="fixed",
            dtype="float64",
        )
        run, theorem = cls(spec, rows, delta, rows_per_person).run, theorems.steps_theorem("pld")
        if isinstance(promised, RiskTarget):
            noise = noise_for_risk(
                lambda noise: theorem.profile(run.with_noise(noise), delta), promised
            )
        else:
            least = theorem.least_noise(run, promised, delta)
            assert isinstance(least, float)
            noise = least
        step = noise * _CLIP / batch * math.sqrt(_STEPS)
        rate = min(MOST_RATE, WANDER / step) if step > 0 else MOST_RATE
        spec = replace(spec, noise_multiplier=noise, learning_rate=rate)
        return cls(spec, rows, delta, rows_per_person, not_covered, persons_counted)

    @cached_property
    def run(self) -> Run:
        """The training as theorems see it."""
        rows = self.rows_per_person
        return run_of(self.spec, None, self.rows, Relation.REPLACE_ONE, rows_per_person=rows)

    @cached_property
    def proof(self) -> Proof:
        """Composition over all iterates, by privacy loss distributions."""
        proof = prove_steps(self.run, self.spec, self.delta, "pld")
        persons = about_persons(self.persons_counted, self.rows_per_person)
        assumes = (*proof.assumes, *persons)
        return replace(proof, not_covered=self.not_covered, assumes=assumes)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Of all iterates, the final one among them."""
        return self.proof.guarantee(self.delta)


@dataclass(frozen=True, eq=False)
class AssessmentPlan:
    """What all stages work on.

    Parameters
    ----------
    request
        What was asked.
    source
        Where the records came from.
    prepared
        Records and what is known of them.
    X, y, test_X, test_y
        Training rows and labels as an estimator takes them, and held-out ones (None if none).
    recipe
        Of a dataset by name.
    delta
        Where everything is stated.
    estimator, fitting
        Of a linear model: prepared and unfitted, and its plan with the rows within their norm.
    network
        Of a network: its plan.
    D, pair
        The records as they are trained on (of more than two classes: as the first one's problem
        against the rest), and two datasets made from them that differ in one crafted record.
    plain
        Ordinary SGD of the same model without added noise.
    """

    request: Request
    source: Source
    prepared: Prepared
    X: Any
    y: Any
    test_X: Any
    test_y: Any
    recipe: Recipe | None
    delta: float
    estimator: PrivateLinearClassifier | None
    fitting: PlannedFit | None
    network: NetworkPlan | None
    D: Dataset
    pair: Pair
    plain: TrainSpec

    @classmethod
    def of(
        cls, request: Request, secret: bytes | None = None, records: Given | None = None
    ) -> AssessmentPlan:
        """Read the records, plan the release and craft the pair.

        Parameters
        ----------
        request
            What was asked.
        secret
            By which rows of persons are drawn: the same one gives the same plan.
        records
            What is in memory, where the request says that the data are.

        Raises
        ------
        InvalidArgument, DataError, NotApplicable
            For what cannot be assessed; nothing was written.
        """
        source = request.source(records)
        whole = source.read(persons=True, secret=secret)
        prepared = whole.cut(request.max_rows_per_person)
        train, test_X, test_y = held_out(prepared)
        X, y = train.X, train.y
        delta, _ = request.delta_and_reason(len(X))
        own = source.is_file or records is not None
        known = None if own else recipe(request.data)
        persons, counted = request.max_rows_per_person, prepared.persons is not None
        promised = request.risk or request.epsilon
        assert promised is not None  # `Request` sees to that
        estimator = fitting = network = None
        if request.model == "mlp":
            norm, second = prepared.data_norm, network_labels(prepared, y)[1]
            codes = (np.asarray(y) == second).astype(np.int64)
            D = Dataset(clip_rows(np.asarray(X, dtype=np.float64), norm), codes, norm, "fit")
            read = () if prepared.classes is not None else (CLASSES_READ,)
            network = NetworkPlan.of(D.rows, known, promised, delta, persons, read, counted)
        else:
            svm = request.model == "svm"
            estimator = (PrivateLinearSVC if svm else PrivateLogisticRegression)(
                **({"epsilon": promised} if request.risk is None else {"target": str(promised)}),
                delta=delta,
                method=request.method,
                l2=request.l2,
                data_norm=prepared.data_norm,
                classes=prepared.classes,
                max_rows_per_person=persons,
            )
            # Nobody has too many rows any more: the estimator sees that, and says so.
            fitting = estimator._prepare(X, y, train.persons)
            if fitting.plan.task.prepared is not None:
                what = "An assessment measures trainings on rows as they are, and here a private"
                raise NotApplicable(f"{what} centre or scale comes before; use center='none'.")
            if counted:
                classes, codes = np.unique(whole.y, return_inverse=True)
                digest = content_digest(np.asarray(whole.X), codes, classes)
                fitting = replace(fitting, digest=digest)
            D = fitting.records.dataset(0)
        return cls(
            *(
                request,
                source,
                prepared,
                X,
                y,
                test_X,
                test_y,
                known,
                delta,
                estimator,
                fitting,
                network,
            ),
            D=D,
            pair=pairs.canary(D),
            plain=plain_spec(D.rows, fitting, known),
        )

    @cached_property
    def fingerprint(self) -> str:
        """Of all rows and labels, and of what is known of them: INTERNAL."""
        prepared = self.prepared
        rows = self.D.fingerprint if self.fitting is None else self.fitting.content_digest()
        known = (
            *(rows, prepared.reads_private_data, prepared.description, prepared.data_norm),
            [str(label) for label in prepared.classes or ()],
            [str(name) for name in getattr(self.X, "columns", ())],
        )
        digest = hashlib.sha256(repr(known).encode())
        if self.test_X is not None:
            digest.update(np.ascontiguousarray(self.test_X).tobytes())
            digest.update(repr([str(label) for label in self.test_y]).encode())
        return digest.hexdigest()

    def check_budget(self) -> None:
        """Refuse, before any work, what an open ledger has no budget for (`BudgetExceeded`)."""
        if self.fitting is not None and is_open():
            self.fitting.payment(self.estimator)

    @property
    def epsilon(self) -> float:
        """As it was asked for, or as it follows from the risk that was."""
        if self.request.epsilon is not None:
            return self.request.epsilon
        if self.network is not None:
            return self.network.guarantee.epsilon
        assert self.fitting is not None
        return self.fitting.plan.task.epsilon

    @property
    def persons_counted(self) -> bool:
        """Whether rows per person were counted, and cut to what is promised."""
        return self.prepared.persons is not None

    @property
    def about_persons(self) -> str:
        """What the promise rests on that is about rows of a person."""
        (line,) = about_persons(self.persons_counted, self.request.max_rows_per_person)
        return line

    @property
    def problems(self) -> int:
        """Models that are released together: one, or one a class."""
        return 1 if self.fitting is None else self.fitting.records.problems

    @property
    def release_spec(self) -> TrainSpec | None:
        """The release's training, where the engine does it."""
        if self.network is not None:
            return self.network.spec
        return None if self.fitting is None else self.fitting.plan.spec

    @cached_property
    def release_pair(self) -> tuple[Dataset, Dataset]:
        """The pair that the release is attacked on; labels are class numbers."""
        pair = self.pair
        if self.fitting is not None and self.problems > 1:
            pair = pairs.canary(class_dataset(self.fitting))
        assert isinstance(pair.D_prime, Dataset)
        return pair.D, pair.D_prime

    def parameters(self, spec: TrainSpec) -> int:
        """Numbers of one model that is trained so."""
        return build(spec.objective, self.D.features, self.D.image_shape).parameters

    @property
    def plain_words(self) -> str:
        """How ordinary SGD is trained."""
        spec, steps = self.plain, self.plain.total_steps(self.D.rows)
        passes = f"{steps:,} steps (passes: {steps * spec.batch_size / self.D.rows:.3g})"
        return f"{passes}, batches of {spec.batch_size}, learning rate {spec.schedule.rate:g}"

    @property
    def title(self) -> str:
        """In words."""
        data = self.request.data
        name = os.path.basename(data) if self.recipe is None else data
        return f"{_MODELS[self.request.model]} on {name}"

    @cached_property
    def records(self) -> Records:
        """The records in words and sizes, for the page."""
        prepared = self.prepared
        labels = np.unique(self.y) if self.fitting is None else self.fitting.classes
        unknown = (CLASSES_READ,) if prepared.classes is None else ()
        return Records(
            rows=self.D.rows,
            test_rows=0 if self.test_X is None else len(self.test_X),
            columns=self.D.features,
            classes=tuple(str(label) for label in labels),
            norm=prepared.data_norm,
            notes=prepared.notes,
            reads_private_data=(*prepared.reads_private_data, *unknown),
            advice=prepared.advice,
            persons=self.about_persons if self.recipe is None else "",
        )


def network_labels(prepared: Prepared, y: Any) -> Any:
    """The two labels that a network tells apart."""
    labels = np.unique(y) if prepared.classes is None else np.asarray(prepared.classes)
    if len(labels) != 2:
        checks.fail("classes", len(labels), "to be 2 for --model mlp", "Use logistic or svm.")
    return labels


def _network_objective(recipe: Recipe | None) -> ObjectiveSpec:
    network = None if recipe is None else recipe.network
    return ObjectiveSpec("mlp", hidden=_HIDDEN if network is None else network.hidden_size)


def plain_spec(rows: int, fitting: PlannedFit | None, recipe: Recipe | None) -> TrainSpec:
    """Ordinary SGD, of a network without `fitting`: the papers' settings, or usual ones.

    Of one whole pass at least: a record that most runs never see is hidden by that alone, which
    says nothing of ordinary SGD.
    """
    papers: Recipe | Network | None = recipe
    if fitting is None:
        papers = None if recipe is None else recipe.network
    rate, batch, steps = _RATE, _BATCH, _NETWORK_STEPS
    if papers is not None:
        rate, batch, steps = papers.learning_rate, papers.batch_size, papers.steps
    batch = min(rows, batch)
    one_pass = -(-rows // batch)
    objective = _network_objective(recipe)
    if fitting is not None:
        task = fitting.plan.task
        width = task.huber_width
        objective = ObjectiveSpec(task.kind, l2=task.l2, intercept=False, huber_width=width)
        if papers is None:
            steps = min(max(_PASSES * one_pass, _LEAST_STEPS), _MOST_STEPS)
        rate = min(rate, 1 / task.constants.smooth)  # beyond twice that, a strong l2 diverges
    return TrainSpec(objective, rate, batch, steps=max(steps, one_pass), init="fixed")
