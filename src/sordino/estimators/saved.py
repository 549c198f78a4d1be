"""`load`: a saved model, checked and ready to predict."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path

import numpy as np

from sordino.errors import printable
from sordino.estimators.classifiers import (
    PrivateLinearClassifier,
    PrivateLinearSVC,
    PrivateLogisticRegression,
)
from sordino.estimators.preparation import Coordinates
from sordino.proofs.settings import PREPARING, PUBLIC
from sordino.release import bundle
from sordino.release.certificate import (
    CertificateError,
)
from sordino.release.signature import load_public
from sordino.release.verify import verify

_Pathlike = str | os.PathLike[str]


def load(
    directory: _Pathlike, *, key: _Pathlike | None = None, on_features: bool = False
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
    on_features
        Whether it is known that a `PrivateHead` takes rows of features; else a warning says so.

    Raises
    ------
    CertificateError
        If a file is missing, damaged or changed, or the claim does not follow.

    Examples
    --------
    >>> load("no such directory")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ...
    InvalidArgument: Expected a directory.
    """
    public = None if key is None else load_public(key)
    files = bundle.read(Path(directory))
    for finding in verify(files, public_key=public).findings:
        if finding.startswith("Note"):
            warnings.warn(printable(finding), stacklevel=2)
    papers, described = files.certificate, files.certificate.model
    norm = described.settings.get("data_norm")
    if norm is not None and not (type(norm) in (int, float) and 0 < norm < math.inf):
        raise CertificateError("The certificate's data_norm is no number above 0.")
    # What is not named scales no row. `verify` knows estimator and settings.
    kinds = {each.__name__: each for each in (PrivateLinearSVC, PrivateLogisticRegression)}
    model: PrivateLinearClassifier = kinds[described.estimator](data_norm=None)
    for name, value in described.settings.items():
        if name not in PREPARING or value != PUBLIC:  # these are in the model's file
            setattr(model, name, math.inf if value == "inf" else value)
    model.classes_ = described.classes()
    model.coef_, model.intercept_ = files.coef, files.intercept
    model.n_features_in_ = described.features
    if described.feature_names is not None:
        model.feature_names_in_ = np.array(described.feature_names, dtype=object)
    model.privacy_, model.certificate_ = papers.guarantee, papers
    model.method_, model.noise_ = papers.method, papers.noise
    model._coordinates = None
    if arrays := files.arrays:
        model._coordinates = Coordinates.of_arrays(arrays, math.inf if norm is None else norm)
        for name in PREPARING:
            if described.settings.get(name) == PUBLIC:
                setattr(model, name, model._coordinates.given(name))
    model._scaling, model._ledger_entry = model._scaled_as(), None
    model._feature_map = papers.preprocessing.features
    if model._feature_map is not None and not on_features:
        made = f"features made by {printable(model._feature_map.name)}, each of norm 1"
        warnings.warn(f"This model takes {made}: PrivateHead.load makes them.", stacklevel=2)
    return model
