"""What a guarantee does not cover, seen in the calls around a fit, and told at the user's line.

A fit is not told what it is a part of: a step of a `Pipeline` gets rows that bear no trace of who
made them, and a search hands each model to a process of its own. What there is, is the stack: the
pipeline that calls `fit` is on it, wherever that runs, and so is the search while it clones the
model. So a clone is marked with what made it, and the mark goes with it to other processes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any

from sklearn.utils import get_tags

from sordino.errors import PrivacyLeakWarning
from sordino.release.certificate import FITTED_INSIDE, STEPS_FITTED

_MARK = "_made_within"
"""Attribute of a clone until it is fitted: what was seen around the call that made it."""
_SHAPE_ONLY = {
    *("FeatureHasher", "GaussianRandomProjection", "HashingVectorizer", "PolynomialCountSketch"),
    *("PolynomialFeatures", "SkewedChi2Sampler", "SparseRandomProjection"),
}
"""Steps of scikit-learn that must be fitted, and learn no more than numbers of rows and columns."""
_BY_PARAMETERS: dict[str, Callable[[Any], bool]] = {
    "MissingIndicator": lambda step: step.features == "all",
    "OneHotEncoder": lambda step: _levels_given(step),
    "OrdinalEncoder": lambda step: _levels_given(step),
    "RBFSampler": lambda step: step.gamma != "scale",
    "SimpleImputer": lambda step: (
        step.strategy == "constant" and step.keep_empty_features and not step.add_indicator
    ),
}
"""Steps of scikit-learn that learn no more than that with some parameters."""
_PASSES_ON = {"ColumnTransformer", "FeatureUnion", "FixedThresholdClassifier", "Pipeline"}
"""Estimators of scikit-learn that fit the model inside them once, and learn nothing beside it."""

_WORKS_FOR_ALL = {"base", "pipeline", "utils", "_config", ""}
"""Rooms of scikit-learn whose functions say nothing of who fits: they clone, check and call."""

_Seen = tuple[tuple[str, str], ...]
"""Pairs of how a leak's sentence begins and the name of a class or function that it is about."""


def mark_clone(source: object, clone: object, *, promises: bool) -> None:
    """Tell a clone what makes it; warn of that if its fit would promise something."""
    seen = _around(source)
    if any(kind == FITTED_INSIDE for kind, _ in seen):  # else somebody clones, and fits it or not
        setattr(clone, _MARK, seen)
        if promises and not hasattr(source, _MARK):  # else it was said when that was made
            _warn(seen)


def hand_mark_on(outer: object, inner: object) -> None:
    """Let a model inside another one know what made that one."""
    if (said := vars(outer).pop(_MARK, ())) and not hasattr(inner, _MARK):
        setattr(inner, _MARK, said)


def leaks_around(model: object) -> tuple[str, ...]:
    """What the guarantee of the fit that runs does not cover because of who called it.

    Warns of what was not said already when the model was cloned.
    """
    said: _Seen = vars(model).pop(_MARK, ())
    seen = _around(model, said)
    _warn(tuple(each for each in seen if each not in said))
    return tuple(_leaks(tuple(dict.fromkeys(said + seen))))


def warn_of_leak(what: str) -> None:
    """Warn that `what` is not private, as if from the code that called the estimator."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(f"Not private: {what}.", PrivacyLeakWarning, stacklevel=level)


def _ours(module: str) -> bool:
    # Pipelines and cross-validation are not where the user can change anything.
    return module.partition(".")[0] in ("sordino", "sklearn", "joblib")


def _warn(seen: _Seen) -> None:
    for leak, instead in _leaks(seen).items():
        warn_of_leak(f"{leak}; {instead}")


def _leaks(seen: _Seen) -> dict[str, str]:
    """What a guarantee of one fit does not cover, a sentence each, and what to do instead."""
    steps = ", ".join(name for kind, name in seen if kind == STEPS_FITTED)
    fitters = ", ".join(name for kind, name in seen if kind == FITTED_INSIDE)
    leaks = {}
    if steps:
        leaks[f"{STEPS_FITTED} {steps}"] = "use public numbers, or fit the step to other rows"
    if fitters:
        searched = "which may fit many to these rows, score them and choose without noise"
        leak = f"{FITTED_INSIDE} {fitters}, {searched}: the guarantee is for this one fit alone"
        leaks[leak] = "sordino.tune pays for choosing"
    return leaks


def _around(model: object, said: _Seen = ()) -> _Seen:
    """What the stack shows, the outermost first, beside what was `said` when it was cloned."""
    seen, helpers = list[tuple[str, str]](), list[tuple[str, str]]()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        seen[:0] = _in_frame(frame, model)
        helpers += _helpers(frame)
        frame = frame.f_back
    if not any(kind == FITTED_INSIDE for kind, _ in (*said, *seen)):
        # In another process: what called the function that fits did not come along.
        seen[:0] = helpers[-1:]
    return tuple(dict.fromkeys(seen))


def _helpers(frame: FrameType) -> list[tuple[str, str]]:
    """The function of scikit-learn, not a method, that this is; it works for some estimator."""
    code, module = frame.f_code, str(frame.f_globals.get("__name__", ""))
    method = code.co_argcount and code.co_varnames[0] == "self"
    room, _, inner = module.partition(".")
    if room != "sklearn" or method or inner.partition(".")[0] in _WORKS_FOR_ALL:
        return []
    return [(FITTED_INSIDE, f"{module}.{code.co_name}")]


def _in_frame(frame: FrameType, model: object) -> list[tuple[str, str]]:
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    if code.co_argcount and code.co_varnames[0] == "self":
        caller: Any = frame.f_locals.get("self")
        kinds = _kinds(caller)
        if "Pipeline" in kinds:
            read = (step for step in _before(caller, model) if reads_rows(step))
            return [(STEPS_FITTED, type(step).__name__) for step in read]
        foreign = "BaseEstimator" in kinds and type(caller) is not type(model)
        foreign = foreign and code.co_name != "__sklearn_clone__"  # that is cloned, not fitted
        if foreign and not kinds & _PASSES_ON and getattr(caller, "reads_private_data", True):
            return [(FITTED_INSIDE, type(caller).__name__)]
    elif module.startswith("sklearn.model_selection.") and code.co_name[0] not in "_<":
        return [(FITTED_INSIDE, code.co_name)]  # cross_val_score and its like
    return []


def _kinds(thing: object) -> set[str]:
    """The classes of scikit-learn that it is one of, by name: nothing is imported to ask."""
    classes = type(thing).__mro__
    return {c.__name__ for c in classes if str(c.__module__).partition(".")[0] == "sklearn"}


def _before(pipeline: Any, model: object) -> Iterator[Any]:
    """The steps whose rows a step gets; of one that is not found, all but the last."""
    for step in leaves([pipeline[:-1]]):
        if step is model:
            return
        yield step


def noisy_steps_before(model: object) -> bool:
    """Whether rows come from a step of a pipeline that was fitted to them with noise of its own.

    Such rows differ from fit to fit of the same records.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        caller = frame.f_locals.get("self") if code.co_varnames[:1] == ("self",) else None
        if caller is not None and "Pipeline" in _kinds(caller):
            steps = _before(caller, model)
            if any(getattr(step, "releases_sums", False) for step in steps):
                return True
        frame = frame.f_back
    return False


def leaves(steps: Iterable[Any]) -> Iterator[Any]:
    """The steps inside pipelines, unions and column transformers."""
    for step in steps:
        kinds = _kinds(step)
        if "Pipeline" in kinds:
            yield from leaves(inner for _, inner in step.steps)
        elif "FeatureUnion" in kinds:
            yield from leaves(inner for _, inner in step.transformer_list)
        elif "ColumnTransformer" in kinds:
            fitted = getattr(step, "transformers_", step.transformers)
            yield from leaves(inner for _, inner, *_ in fitted)
        elif step is not None and not isinstance(step, str):  # "passthrough", "drop"
            yield step


def reads_rows(step: Any) -> bool:
    """Whether a fitted step learned more of the rows than how many there are, as far as it shows.

    A step of the user's own may say it, as those of `sordino.data.preprocess` do.
    """
    said = getattr(step, "reads_private_data", None)
    if said is not None:
        return bool(said)
    name, kinds = type(step).__name__, _kinds(step)
    if "FrozenEstimator" in kinds:  # fitted elsewhere
        return False
    if "BaseEstimator" not in kinds:
        return True
    if not get_tags(step).requires_fit:
        return False
    if type(step).__module__.startswith("sklearn."):
        return not _BY_PARAMETERS.get(name, lambda _: name in _SHAPE_ONLY)(step)
    # Somebody's own: it learned nothing if nothing stayed with it. A `fit_transform` of its own
    # could have used the rows on the way.
    shape = {"n_features_in_", "feature_names_in_", *step.get_params(deep=False)}
    kept = [each for each in vars(step) if each not in shape and not each.startswith("_sklearn")]
    classes = type(step).__mro__
    outside = (vars(c) for c in classes if not str(c.__module__).startswith("sklearn."))
    return bool(kept) or any("fit_transform" in names for names in outside)


def _levels_given(encoder: Any) -> bool:
    rare = encoder.min_frequency, encoder.max_categories
    return not isinstance(encoder.categories, str) and rare == (None, None)
