"""A fitted model and its certificate: filled in after a fit, completed, written to a directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sordino import checks
from sordino.data.columns import Columns
from sordino.estimators.job import Door, Job, Papers, tell
from sordino.proofs.evidence import Evidence
from sordino.release import bundle
from sordino.release.certificate import (
    FITTED_INSIDE,
    STEPS_FITTED,
    Certificate,
    CertificateError,
    DatasetFacts,
    Model,
    Preprocessing,
    Tuning,
    plain_labels,
)
from sordino.release.ledger import Entry
from sordino.release.mechanism import ReleaseRefused
from sordino.release.verify import check_consistent

Sign = Callable[[bytes], bytes]
"""From the bytes of a certificate to a signature."""

KEPT_INSIDE = ("classes", "initial_weights", "random_state")
"""Parameters that are no plain values (labels have their own place), or that undo the noise."""
_TUNINGS = ("none declared", "unknown")


def certificate(
    model: Any, job: Job, papers: Papers, selection: tuple[Evidence, Tuning] | None = None
) -> Certificate:
    """The certificate of a model that was just fitted.

    Parameters
    ----------
    model
        The estimator, with the released weights and its guarantee.
    job
        What it was fitted by.
    papers
        What the ledger adds.
    selection
        Of the best of several trainings: the evidence of all of them, and how it was chosen.
    """
    searched = any(line.startswith(FITTED_INSIDE) for line in job.not_covered)
    alone = job.plan.evidence, Tuning("unknown" if searched else "none declared")
    evidence, tuning = selection or alone
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
        ledger_entry=papers.line,
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
        checks.sequence("preprocessing", preprocessing, hint)
        reads = tuple(str(each) for each in preprocessing)
        for line in () if reads or given.guarantee is None else given.guarantee.not_covered:
            if line.startswith(STEPS_FITTED):
                checks.fail("preprocessing", [], "to name what was read", f"fit saw it: {line}.")
        given = replace(
            given, preprocessing=Preprocessing(True, reads, given.preprocessing.columns)
        )
    if columns is not None:
        if Columns.from_toml(columns).read_from_data:
            hint = "Put in what is known without looking, and delete read_from_data."
            checks.fail("columns", "[...]", "to be public, not a draft read from the data", hint)
        given = replace(given, preprocessing=replace(given.preprocessing, columns=columns))
    if tuning is None:
        return given
    checks.one_of("tuning", tuning, _TUNINGS)
    if given.tuning.kind == "declared":
        checks.fail("tuning", tuning, "not to be given for a model that `tune` chose")
    return replace(given, tuning=Tuning(tuning))


def save(
    model: Any, directory: Path, *, door: Door | None = None, sign: Sign | None = None
) -> Path:
    """Write the bundle, then tell the ledger where it lies.

    Parameters
    ----------
    model
        Fitted.
    directory
        New or empty.
    door
        Of a model that is not charged for yet: it is once its files are on the disk.
    sign
        From the certificate's bytes to a signature that is put beside it.

    Raises
    ------
    ReleaseRefused
        If the weights are not those that were released.
    CertificateError
        If the disk refuses; its text says what became of the budget and of the model.
    """
    bundle.check_target(directory)
    papers, weights = model.certificate_, bundle.weights_file(model.coef_, model.intercept_)
    if bundle.digest(weights) != papers.model.sha256:
        raise ReleaseRefused(
            "The weights are not those of the certificate: coef_ or intercept_ was changed after "
            "the release; fit again."
        )

    def record() -> None:
        if door is not None:
            model._ledger_entry = door.record()

    check_consistent(papers)  # what `load` would refuse is not written, nor charged
    signature = None if sign is None else sign(papers.to_json().encode())
    if sign is not None and (not isinstance(signature, bytes) or len(signature) != 64):
        checks.fail("sign", "[what it returned]", "to be the 64 bytes of an Ed25519 signature")
    try:
        bundle.write(directory, papers, weights, signature=signature, record=record)
    except BaseException as error:
        said = _told(error, model._ledger_entry, directory, door)
        if isinstance(error, CertificateError):
            raise CertificateError(f"{error} {said}") from error.__cause__
        if model._ledger_entry is not None:  # else, stopped while it was recorded, nobody knows
            error.add_note(said)
        raise
    if model._ledger_entry is not None:
        tell(model._ledger_entry.written, str(directory.resolve()))
    return directory


def _told(error: BaseException, entry: Entry | None, directory: Path, door: Door | None) -> str:
    """What became of the budget and of the model when writing failed; the ledger is told, too."""
    if door is None:
        kept = "The model is still in memory: save it elsewhere; another fit is another release."
        return kept if entry is None else f"{entry.spent} {kept}"
    if entry is None:
        return "Nothing was released, and no budget was spent."
    why = error.__cause__ or error
    reason = getattr(why, "strerror", None) or type(why).__name__
    tell(entry.failed, f"failed to write {directory}: {reason}")
    return entry.spent
