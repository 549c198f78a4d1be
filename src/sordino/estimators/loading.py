"""`load`: a bundle back into the estimator it was saved from, after checking its papers."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sordino._shown import printable
from sordino.estimators.base import PrivateLinearClassifier
from sordino.estimators.logistic import PrivateLogisticRegression
from sordino.estimators.svm import PrivateLinearSVC
from sordino.mechanisms import bundle
from sordino.mechanisms.certificate import CertificateError, Model
from sordino.mechanisms.signature import load_public
from sordino.mechanisms.verify import verify

ESTIMATORS = {each.__name__: each for each in (PrivateLinearSVC, PrivateLogisticRegression)}


def load(
    directory: str | os.PathLike[str], *, key: str | os.PathLike[str] | None = None
) -> PrivateLinearClassifier:
    """Read a saved model, ready to predict.

    The digest of the weights is checked and the guarantee computed again from the certificate's
    numbers; a claim that does not follow is refused. Nothing in the files can run code. Whether the
    certificate is from whom it seems to be, only a signature tells: pass whose it must carry.

    Parameters
    ----------
    directory
        As `save` wrote it.
    key
        File with the public Ed25519 key that the bundle must be signed with (PEM or OpenSSH).

    Raises
    ------
    CertificateError
        If a file is missing, damaged or changed, or the claim does not follow.
    """
    public = None if key is None else load_public(key)
    found = bundle.read(Path(directory))
    for finding in verify(found, public_key=public).findings:
        if finding.startswith("Note"):
            warnings.warn(printable(finding), stacklevel=2)
    papers = found.certificate
    model: PrivateLinearClassifier = _empty(papers.model)
    model.classes_ = papers.model.classes()
    model.coef_, model.intercept_ = found.coef, found.intercept
    model.n_features_in_ = papers.model.features
    if papers.model.feature_names is not None:
        model.feature_names_in_ = np.array(papers.model.feature_names, dtype=object)
    model.privacy_, model.certificate_ = papers.guarantee, papers
    model.method_, model.noise_ = papers.method, papers.noise
    model._scaling = model._scaled_as()
    model._ledger_entry = None
    return model


def _empty(described: Model) -> Any:
    """An estimator with the parameters of the certificate, not fitted; `verify` knows both."""
    norm = described.settings.get("data_norm")
    if norm is not None and not (type(norm) in (int, float) and 0 < norm < math.inf):
        raise CertificateError("The certificate's data_norm is no number above 0.")
    model = ESTIMATORS[described.estimator](data_norm=None)  # what is not named scales no row
    for name, value in described.settings.items():
        setattr(model, name, math.inf if value == "inf" else value)
    return model
