"""`certify`: one guarantee for a fitted pipeline of private steps and a private model."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from sordino import checks
from sordino.estimators.head import PrivateHead
from sordino.estimators.leaks import leaves, reads_rows
from sordino.estimators.model import PrivateLinearModel
from sordino.estimators.transformers.transformer import PrivateTransformer
from sordino.release.certificate import Certificate
from sordino.release.mechanism import ReleaseRefused
from sordino.release.pipeline import PipelineCertificate, PipelineStep, pipeline_guarantee


def certify(pipeline: Any) -> PipelineCertificate:
    """One guarantee for everything that a fitted pipeline released of its rows.

    The promises of the steps are composed by their whole profiles, not by adding epsilons: .2 and
    .8 at the same delta give less than 1. They must be for the same relation, unit and delta; pass
    `delta` to every step if the number of rows does not decide it alike. A step that learned
    something of the rows and is not private is named under NOT COVERED.

    Under an open `Ledger` every step that learns is charged by its own `fit`, before it hands
    anything to the next: an entry each, which the ledger composes in the same way.

    The document has every number of the composition, and `sordino.release.pipeline.verify_pipeline`
    computes it again. It is no bundle: the model's own holds its weights, not what steps learned.

    Parameters
    ----------
    pipeline
        A fitted `Pipeline` of scikit-learn: its last step is one of sordino's models, or a private
        transformer.

    Returns
    -------
    PipelineCertificate
        With `guarantee`, `steps` and the `model`'s own certificate; `str` is in plain words.

    Raises
    ------
    InvalidArgument
        If it is no such pipeline, or the promises do not add up.
    ReleaseRefused
        If a private step was fitted without a promise.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> import sordino
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scaler = sordino.PrivateStandardScaler(epsilon=0.2, bounds=(0, 5000))
    >>> model = sordino.PrivateLogisticRegression(epsilon=0.8, classes=[0, 1])
    >>> pipeline = make_pipeline(scaler, model).fit(X, y)
    >>> 0.8 < sordino.certify(pipeline).guarantee.epsilon < 1
    True
    """
    if not hasattr(pipeline, "steps") or not hasattr(pipeline, "named_steps"):
        kind = f"[{type(pipeline).__name__}]"
        checks.fail("pipeline", kind, "to be a Pipeline of scikit-learn", "See make_pipeline.")
    check_is_fitted(pipeline)
    flat = list(leaves([pipeline]))
    last = flat[-1] if flat else None
    if not isinstance(last, PrivateLinearModel | PrivateHead | PrivateTransformer):
        hint = "Others would tell of the rows without noise."
        named = f"[{type(last).__name__}]"
        checks.fail("last step", named, "to be a model or transformer of sordino", hint)
    model = None if isinstance(last, PrivateTransformer) else _certificate_of(last)
    before = flat if model is None else flat[:-1]
    steps = tuple(_step(each) for each in before)
    return PipelineCertificate(steps=steps, model=model, guarantee=pipeline_guarantee(steps, model))


def _certificate_of(model: PrivateLinearModel | PrivateHead) -> Certificate:
    check_is_fitted(model)
    if not hasattr(model, "certificate_"):
        raise ReleaseRefused("Of the models of `tune` only the one it returns may leave.")
    found = model.certificate_
    if found.guarantee is None:
        refused = f"{type(model).__name__} was fitted without a promise: {found.why_none}."
        raise ReleaseRefused(refused)
    return found


def _step(step: Any) -> PipelineStep:
    name = type(step).__name__
    if isinstance(step, PrivateTransformer):
        check_is_fitted(step)
        if step.privacy_ is None or step.evidence_ is None:
            raise ReleaseRefused(f"{name} was fitted without a promise: nothing covers it.")
        entry = step._ledger_entry
        return PipelineStep(
            estimator=name,
            kind="private",
            evidence=step.evidence_,
            delta=step.privacy_.delta,
            noise=step.noise_.rpartition("; from: ")[2],
            not_covered=step.privacy_.not_covered,
            ledger_entry=None if entry is None else entry.id,
        )
    return PipelineStep(estimator=name, kind="reads-rows" if reads_rows(step) else "public")
