"""A fitted model and its certificate: filled in after a fit, completed, written to a directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import _check
from sordino.data.columns import Columns
from sordino.estimators.door import Papers, tell
from sordino.estimators.job import Job
from sordino.mechanisms import bundle
from sordino.mechanisms.certificate import (
    Certificate,
    DatasetFacts,
    Model,
    Preprocessing,
    Tuning,
    plain_labels,
)
from sordino.mechanisms.release import ReleaseRefused
from sordino.proofs.evidence import Evidence

KEPT_INSIDE = ("classes", "initial_weights", "random_state")
"""Parameters that are no plain values (labels have their own place), or that undo the noise."""
_TUNINGS = ("none declared", "unknown")


def certificate(model: Any, job: Job, papers: Papers) -> Certificate:
    """The certificate of a model that was just fitted.

    Parameters
    ----------
    model
        The estimator, with the released weights and its guarantee.
    job
        What it was fitted by.
    papers
        What the ledger adds.
    """
    return _filled(model, job, papers, job.plan.evidence, Tuning("none declared"))


def tuned_certificate(
    model: Any, job: Job, papers: Papers, evidence: Evidence, tuning: Tuning
) -> Certificate:
    """The same for the best of several trainings, with the evidence of the whole selection."""
    return _filled(model, job, papers, evidence, tuning)


def _filled(
    model: Any, job: Job, papers: Papers, evidence: Evidence | None, tuning: Tuning
) -> Certificate:
    promised = model.privacy_ is not None
    kept = evidence if promised else None
    return Certificate(
        model=described(model, model.classes_, bundle.weights_file(model.coef_, model.intercept_)),
        guarantee=model.privacy_,
        why_none="" if promised else job.why_none,
        method=model.method_,
        evidence=kept,
        facts={} if kept is None else kept.facts(),
        noise=model.noise_.rpartition("; from: ")[2],  # how much is among the facts
        preprocessing=Preprocessing(declared=False, reads=()),
        tuning=tuning,
        dataset=DatasetFacts(name=papers.dataset, fingerprint=papers.fingerprint),
        ledger_entry=None if papers.entry is None else papers.entry.id,
    )


def described(model: Any, classes: npt.NDArray[Any], weights: bytes = b"") -> Model:
    """The model's part of the certificate; without weights only to see whether there can be one."""
    labels, label_type = plain_labels(classes)
    names = getattr(model, "feature_names_in_", None)
    return Model(
        estimator=type(model).__name__,
        settings=_plain(model),
        labels=labels,
        label_type=label_type,
        features=int(model.n_features_in_),
        feature_names=None if names is None else tuple(str(name) for name in names),
        intercept=bool(model.fit_intercept),
        sha256=bundle.digest(weights),
    )


def _plain(model: Any) -> dict[str, Any]:
    """The parameters, as plain values."""
    values = {k: v for k, v in model.get_params().items() if k not in KEPT_INSIDE}
    values["relation"] = model._relation().value  # however it was spelled
    plain = {}
    for name, value in values.items():
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, float) and np.isinf(value):
            value = "inf"
        plain[name] = value
    return plain


def declared(
    given: Certificate, preprocessing: Sequence[str] | None, columns: str | None, tuning: str | None
) -> Certificate:
    """The certificate with what the user says of preprocessing and tuning."""
    if preprocessing is not None:
        hint = 'Pass a list of sentences, such as ["the mean of every column"], or [].'
        _check.sequence("preprocessing", preprocessing, hint)
        reads = tuple(str(each) for each in preprocessing)
        given = replace(
            given, preprocessing=Preprocessing(True, reads, given.preprocessing.columns)
        )
    if columns is not None:
        if Columns.from_toml(columns).read_from_data:
            hint = "Put in what is known without looking, and delete read_from_data."
            _check.fail("columns", "[...]", "to be public, not a draft read from the data", hint)
        given = replace(given, preprocessing=replace(given.preprocessing, columns=columns))
    if tuning is None:
        return given
    _check.one_of("tuning", tuning, _TUNINGS)
    if given.tuning.kind == "declared":
        _check.fail("tuning", tuning, "not to be given for a model that `tune` chose")
    return replace(given, tuning=Tuning(tuning))


def save(model: Any, directory: Path) -> Path:
    """Write the bundle, then tell the ledger where it lies.

    Raises
    ------
    ReleaseRefused
        If the weights are not those that were released.
    """
    bundle.check_target(directory)
    weights = bundle.weights_file(model.coef_, model.intercept_)
    if bundle.digest(weights) != model.certificate_.model.sha256:
        raise ReleaseRefused(
            "The weights are not those of the certificate: coef_ or intercept_ was changed after "
            "the release; fit again."
        )
    bundle.write(directory, model.certificate_, weights)
    if model._ledger_entry is not None:
        tell(model._ledger_entry.written, str(directory.resolve()))
    return directory
