"""`PrivateHead`: a private linear model on public features that are never trained on its rows."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sordino import checks
from sordino.estimators import saved
from sordino.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators.fit import SENT
from sordino.estimators.leaks import hand_mark_on, mark_clone
from sordino.estimators.model import PrivateLinearModel
from sordino.models import frozen
from sordino.models.feature_cache import FeatureCache
from sordino.models.frozen import Frozen
from sordino.privacy import Guarantee, Relation
from sordino.release.certificate import Certificate, CertificateError, FeatureMap
from sordino.release.ledger import is_open
from sordino.types import Array

_LOSSES = {each._kind: each for each in (PrivateLogisticRegression, PrivateLinearSVC)}
_OF_MODEL = (
    *("epsilon", "delta", "target", "relation", "method", "l2", "classes", "fit_intercept"),
    *("max_rows_per_person", "public_rows", "random_state"),
)
"""Parameters that are those of the linear model inside."""
_Pathlike = str | os.PathLike[str]


def _model_has(name: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(self._kind_of_model(), name)


class PrivateHead(BaseEstimator):  # type: ignore[misc]
    """Fit a linear model, privately, on features that a frozen public map makes of raw inputs.

    Most of what a network knows of images or texts can be learned from public ones; what is private
    is the last layer. That layer is convex, so the proofs and methods for linear models hold, which
    ask for far less noise than a private training of the whole network. Rows of features are
    divided by their norm, each by its own: the bound that the proof needs holds by construction.

    A proof about rows of features is one about records only if a row's features depend on its
    record alone, and if the map was made without the protected records. The first is tried before
    any private row is shown to the map, on `public_examples` or made-up inputs of the same shape;
    a map that normalises over a batch, attends across it, draws at random, keeps a state or is in
    training mode is refused. The second nobody can see: the certificate states it as an assumption.

    Parameters
    ----------
    features
        A function of a batch of inputs, an object with `transform` that was fitted to PUBLIC data,
        or a torch module in evaluation mode. It returns one row of numbers for each input.
    model
        The private linear model to fit, unfitted. None takes that of `loss`.
    loss
        "logistic" (`PrivateLogisticRegression`) or "huber-svm" (`PrivateLinearSVC`).
    epsilon, delta, target, relation, method, l2, classes, fit_intercept, max_rows_per_person,
    public_rows, random_state
        As in `PrivateLogisticRegression`; those of `model` where one is given. An intercept is
        left out by default: its constant 1 would take half of each row's squared norm. Classes of
        very different sizes need it.
    batch_size_features
        Inputs that the map gets at once, at most.
    public_examples
        PUBLIC inputs, at least two, to try the map on where it cannot do with made-up ones.
    cache
        A directory for features that were made before. It is private: INTERNAL, mode 0700.

    Attributes
    ----------
    model_
        The linear model, fitted; its `coef_`, `intercept_`, `classes_`, `privacy_`, `certificate_`,
        `method_`, `settings_`, `sigma_` and `noise_` are also attributes here.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sordino.estimators import OrientedEdges, PrivateHead
    >>> X, y = load_digits(return_X_y=True)
    >>> head = PrivateHead(OrientedEdges((8, 8)), epsilon=2.0, classes=range(10)).fit(X, y)
    >>> head.privacy_.epsilon <= 2.0, head.predict(X[:3]).shape
    (True, (3,))
    >>> head.certificate_.preprocessing.features.name
    'OrientedEdges'
    """

    reads_private_data = False
    """What is learned of the rows, the model inside pays for (`leaks`)."""
    model_: PrivateLinearModel
    _map: Frozen

    def __init__(
        self,
        features: Any,
        model: PrivateLinearModel | None = None,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float | None = None,
        target: str | None = None,
        relation: Relation | str = "replace-one",
        method: str = "auto",
        l2: float = 0.001,
        classes: Any = None,
        fit_intercept: bool = False,
        max_rows_per_person: int = 1,
        public_rows: int | None = None,
        batch_size_features: int = 256,
        public_examples: Any = None,
        cache: _Pathlike | None = None,
        random_state: Any = None,
    ) -> None:
        for name, value in locals().items():
            if name != "self":
                setattr(self, name, value)

    # Fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, **more: Any) -> Self:
        """Try the map on public inputs, make the features, and fit the model to them.

        Parameters
        ----------
        X
            Raw inputs, one a record: an array or tensor of any shape, a table, a list of texts.
        y
            Labels.
        **more
            What the model's own `fit` takes, such as `persons`.

        Returns
        -------
        self

        Raises
        ------
        InvalidArgument
            Also for a map that breaks the contract; the estimator is as it was before.
        NotApplicable, BudgetExceeded
            As by the model's own `fit`.
        """
        made, rows = self._prepared(X)
        made.model_.fit(rows, y, **more)
        self._become(made)
        return self

    def fit_and_save(self, X: Any, y: Any, directory: _Pathlike, **more: Any) -> Path:
        """`fit`, then `save`; a ledger is charged between writing the files and naming them."""
        made, rows = self._prepared(X)
        try:
            return made.model_.fit_and_save(rows, y, directory, **more)
        finally:  # also where only the writing failed: what was paid for is kept
            if hasattr(made.model_, "certificate_"):
                self._become(made)

    def preview(self, X: Any, y: Any, **more: Any) -> Guarantee:
        """What `fit` would promise, asked of the ledger that is open; nothing is trained."""
        made, rows = self._prepared(X)
        return made.model_.preview(rows, y, **more)

    def _prepared(self, X: Any) -> tuple[Self, Array]:
        """A copy whose map was tried and whose model is ready to be fitted, and the rows for it."""
        made = copy.copy(self)
        made.model_ = self._unfitted()
        inputs = _inputs(X)
        made._map = Frozen(self.features)
        made._map.check(self._examples(inputs), self._batch_size())
        seen = made._map.fingerprint
        made.model_._feature_map = FeatureMap(made._map.name, seen.sha256, seen.unseen)
        rows = made._rows(inputs)
        hand_mark_on(self, made.model_)
        if hasattr(self, SENT):
            setattr(made.model_, SENT, True)
        return made, rows

    def _become(self, made: Self) -> None:
        self.model_, self._map = made.model_, made._map

    def _unfitted(self) -> PrivateLinearModel:
        """The model to fit, as the parameters say."""
        if self.model is None:
            kind = _LOSSES[checks.one_of("loss", self.loss, tuple(_LOSSES))]
            return kind(**{name: getattr(self, name) for name in _OF_MODEL})
        if not isinstance(self.model, PrivateLinearModel):
            hint = "Pass PrivateLogisticRegression(...), say, unfitted."
            checks.fail("model", f"[{type(self.model).__name__}]", "to be one of sordino's", hint)
        for name, parameter in inspect.signature(type(self)).parameters.items():
            if name not in (*_OF_MODEL, "loss"):
                continue
            given, default = getattr(self, name), parameter.default
            if given is not default and (default is None or not np.array_equal(given, default)):
                checks.fail(name, "[given]", "to be left out beside model=...", "Set it there.")
        fresh: PrivateLinearModel = clone(self.model)
        return fresh

    def _kind_of_model(self) -> Any:
        """A model or class that can do what the fitted one can."""
        return self.__dict__.get("model_", self.model) or _LOSSES.get(self.loss)

    def _batch_size(self) -> int:
        return checks.whole("batch_size_features", self.batch_size_features, at_least=1)

    def _examples(self, inputs: Any) -> Any:
        """Public inputs to try the map on: those given, or made up by the shape of private ones."""
        if self.public_examples is not None:
            return _inputs(self.public_examples, "public_examples")
        examples = frozen.made_up(inputs)
        if examples is None:
            hint = "Pass at least two public ones, to try the map on."
            checks.fail("public_examples", None, "to be given for inputs of this kind", hint)
        return examples

    def _rows(self, inputs: Any) -> Array:
        """Features of each input, divided by their norm; from the cache if they are there."""
        with frozen.unquoted(0, 0):
            features, many = self._map, frozen.count(inputs)
        cache = None if self.cache is None else FeatureCache(self.cache, features)
        place = None if cache is None else cache.place(inputs)
        if cache is not None and place is not None:
            known = cache.read(place, (many, features.width))
            if known is not None:
                return known
        rows, step = np.zeros((0, features.width)), self._batch_size()
        for start in range(0, many, step):
            with frozen.unquoted(start, min(start + step, many) - 1):
                given = frozen.part(inputs, start, start + step)
            batch = features.of_private(given, start)
            if start == 0:
                rows = np.empty((many, features.width), dtype=batch.dtype)
            rows[start : start + step] = unit_rows(batch)
        features.check_unchanged()
        if cache is not None and place is not None:
            cache.keep(place, rows)
        return rows

    # Predicting ---------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """What the model says of each input's features."""
        return np.asarray(self._fitted().predict(self._seen(X)))

    @available_if(_model_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Array:
        """As of the model."""
        return np.asarray(self._fitted().decision_function(self._seen(X)))

    @available_if(_model_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """As of the model."""
        return np.asarray(self._fitted().predict_proba(self._seen(X)))

    @available_if(_model_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """As of the model."""
        return np.asarray(self._fitted().predict_log_proba(self._seen(X)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As of the model: mean accuracy, of a classifier."""
        return float(self._fitted().score(self._seen(X), y, sample_weight))

    def features_of(self, X: Any) -> Array:
        """The rows that the model sees: features, divided by their norm."""
        check_is_fitted(self)
        return self._seen(X)

    def _seen(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._rows(_inputs(X))

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self.model_

    # What was released --------------------------------------------------------------------

    @property
    def privacy_(self) -> Guarantee | None:
        """The `Guarantee`: that of the model, for the map does not see what it is not told."""
        found: Guarantee | None = self._fitted().privacy_
        return found

    @property
    def certificate_(self) -> Certificate:
        """That of the model, with the map's name and digest under `preprocessing`."""
        found: Certificate = self._fitted().certificate_
        return found

    @property
    def classes_(self) -> Array:
        """The labels there can be."""
        return np.asarray(self._fitted().classes_)

    @property
    def coef_(self) -> Array:
        """Weights of the features."""
        return np.asarray(self._fitted().coef_)

    @property
    def intercept_(self) -> Array:
        """0 where none was fitted."""
        return np.asarray(self._fitted().intercept_)

    @property
    def method_(self) -> str:
        """What was done."""
        return str(self._fitted().method_)

    @property
    def settings_(self) -> dict[str, Any]:
        """With what, all of it from public facts."""
        return dict(self._fitted().settings_)

    @property
    def sigma_(self) -> float:
        """Standard deviation of the noise that protects."""
        return float(self._fitted().sigma_)

    @property
    def noise_(self) -> str:
        """The same in words, and from which source the noise came."""
        return str(self._fitted().noise_)

    def declare(self, **declared: Any) -> Self:
        """Add to the certificate what `fit` could not see; as of the model."""
        self._fitted().declare(**declared)
        return self

    def save(self, directory: _Pathlike, **declared: Any) -> Path:
        """Write the linear model and its certificate; the map stays where it is.

        `PrivateHead.load` reads it, given the same map.
        """
        return Path(self._fitted().save(directory, **declared))

    @classmethod
    def load(
        cls,
        directory: _Pathlike,
        *,
        features: Any,
        key: _Pathlike | None = None,
        batch_size_features: int = 256,
        cache: _Pathlike | None = None,
    ) -> Self:
        """Read a saved head, ready to predict, given the map that it was fitted on.

        Parameters
        ----------
        directory, key
            As of `sordino.load`, which checks the model.
        features
            The map itself: bundles hold no code. Another one than the certificate names by its
            digest is refused.
        batch_size_features, cache
            As of the class.

        Raises
        ------
        CertificateError
            If the model does not hold up, or was fitted on other features, or on none.
        """
        model = saved.load(directory, key=key, on_features=True)
        recorded, given = model._feature_map, Frozen(features)
        if recorded is None:
            raise CertificateError("The certificate names no feature map: use sordino.load.")
        if given.fingerprint.sha256 != recorded.sha256:
            one = f"{recorded.name} (SHA-256 {recorded.sha256})"
            other = f"{given.name} (SHA-256 {given.fingerprint.sha256})"
            raise CertificateError(f"The model was fitted on features of {one}, not of {other}.")
        given.width = int(model.n_features_in_)
        made = cls(features, clone(model), batch_size_features=batch_size_features, cache=cache)
        made.model_, made._map = model, given
        return made

    # Copies -------------------------------------------------------------------------------

    def __sklearn_clone__(self) -> Self:
        """An unfitted head with the very same map: to clone a fitted transformer is to lose it."""
        made = type(self)(**self.get_params(deep=False))
        if hasattr(self, SENT):
            setattr(made, SENT, True)
        if isinstance(self.model, PrivateLinearModel):
            made.model = clone(self.model)  # which is marked, and warned of, by itself
        else:
            promises = False
            with suppress(Exception):  # parameters that no fit will accept
                promises = not self._unfitted()._why_none()
            mark_clone(self, made, promises=promises)
        return made

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, SENT: True} if is_open() else state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        given = isinstance(self.model, PrivateLinearModel)
        kind = _LOSSES.get(self.loss, PrivateLogisticRegression)
        inner = get_tags(self.model if given else kind())
        tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags = replace(
            inner.input_tags, three_d_array=True, string=True, allow_nan=True, sparse=False
        )
        return tags


def unit_rows(rows: Array) -> Array:
    """Each row divided by its Euclidean norm; rows of zeros stay so.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [1e300, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ],
           [1. , 0. ]])
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1)  # its square neither overflows nor vanishes
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.asarray(rows / np.where(norms > 0, norms, 1))


def _inputs(X: Any, name: str = "X") -> Any:
    """Inputs that can be cut into batches; nested lists of numbers become an array."""
    if isinstance(X, list | tuple):
        with suppress(Exception):
            array = np.asarray(X)
            if array.dtype.kind in "fiub":
                return array
        return X
    if hasattr(X, "__array__") and not hasattr(X, "shape"):
        X = np.asarray(X)
    if isinstance(X, np.ndarray) and X.dtype.kind == "c":
        checks.fail(name, f"[{X.dtype}]", "to hold no complex numbers")
    if isinstance(X, str | bytes | dict) or not (hasattr(X, "shape") or hasattr(X, "__len__")):
        kind = f"[{type(X).__name__}]"
        checks.fail(name, kind, "to be inputs one by one: an array, tensor, table or list")
    if not hasattr(X, "__getitem__"):
        checks.fail(name, f"[{type(X).__name__}]", "to be something that can be cut into batches")
    if getattr(X, "shape", (1,)) == ():
        checks.fail(name, "[one number]", "to be inputs one by one")
    return X
