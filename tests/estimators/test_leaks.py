"""What a private model is told of who fits it: steps before it, searches and other estimators."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.utils import all_estimators

import sordino
from sordino import InvalidArgument, PrivacyLeakWarning
from sordino import PrivateLogisticRegression as Logistic
from sordino.estimators import leaks
from sordino.release import bundle
from sordino.release.certificate import FITTED_INSIDE, STEPS_FITTED
from sordino.release.verify import verify

ROWS, COLUMNS = 60, 6


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Records of one shape, unlike in everything else; not negative, as some steps want them."""
    rng = np.random.default_rng(seed)
    X = seed * np.abs(rng.normal(size=(ROWS, COLUMNS)))
    X[rng.random(X.shape) < 0.2] = 0.0
    return X, rng.integers(0, 2, ROWS)


def model(**changed: Any) -> Logistic:
    given = {"epsilon": 2.0, "delta": 1e-6, "classes": [0, 1], "method": "noisy-gd", "steps": 1}
    return Logistic(**{**given, **changed})


def told(fit: Any) -> list[str]:
    """What a fit warned of, without the words before and the advice after it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    about = [str(each.message) for each in caught if each.category is PrivacyLeakWarning]
    assert all(
        Path(each.filename) == Path(__file__)
        for each in caught
        if each.category is PrivacyLeakWarning
    )
    return [line.removeprefix("Not private: ") for line in about]


def steps_told(step: Any, X: Any = None, y: Any = None) -> set[str]:
    """Names of the steps that a model behind this one warns of."""
    X, y = rows(1) if X is None else (X, y)
    behind = make_pipeline(step, "passthrough", model())
    lines = told(lambda: behind.fit(X, y))
    assert all(line.startswith(STEPS_FITTED) for line in lines)
    (guarantee,) = [behind[-1].privacy_]
    assert [line.partition(";")[0] for line in lines] == list(guarantee.not_covered)
    return {name for line in guarantee.not_covered for name in line.split(": ")[1].split(", ")}


# Not steps of a pipeline over rows: of labels only, of one column, of square matrices, of images;
# without a transform; or of other estimators, which decide.
OTHERS = {
    *("LabelBinarizer", "LabelEncoder", "MultiLabelBinarizer", "IsotonicRegression"),
    *("KernelCenterer", "PatchExtractor", "TSNE", "MDS", "SpectralEmbedding", "ClassicalMDS"),
    *("ColumnTransformer", "FeatureUnion", "Pipeline", "FrozenEstimator"),
}
GROUPS = ("Stacking", "Voting")
GIVEN: dict[str, dict[str, Any]] = {
    **{name: {"estimator": LinearRegression()} for name in ("RFE", "RFECV", "SelectFromModel")},
    "SequentialFeatureSelector": {"estimator": LinearRegression(), "cv": 2},
    "SparseCoder": {"dictionary": np.eye(COLUMNS)},
    **{f"{kind}Classifier": {"estimators": [("one", LogisticRegression())]} for kind in GROUPS},
    **{f"{kind}Regressor": {"estimators": [("one", LinearRegression())]} for kind in GROUPS},
    **{f"{kind}RandomProjection": {"n_components": 2} for kind in ("Gaussian", "Sparse")},
    **{name: {"n_components": 1} for name in ("CCA", "PLSCanonical", "PLSRegression", "PLSSVD")},
    "MiniBatchKMeans": {"max_iter": 2, "n_init": 1},
    "RandomTreesEmbedding": {"n_estimators": 3},
    "DictionaryLearning": {"max_iter": 3},
    "MiniBatchDictionaryLearning": {"max_iter": 3},
    "OneHotEncoder": {"handle_unknown": "ignore"},
    "RadiusNeighborsTransformer": {"radius": 100.0},
    "Nystroem": {"n_components": 5},
}


def step_of(kind: type, **given: Any) -> Any:
    step = kind(**{**GIVEN.get(kind.__name__, {}), **given})
    names = step.get_params()
    return step.set_params(random_state=0) if "random_state" in names else step


def input_of(name: str, seed: int) -> tuple[Any, np.ndarray]:
    X, y = rows(seed)
    if name in ("DictVectorizer", "FeatureHasher"):
        return [{f"word {value:.1f}": 1.0} for value in X[:, 0]], y
    if "Vectorizer" in name:
        return [" ".join(f"word{value:.0f}" for value in row * 10) for row in X], y
    if name == "MissingIndicator":
        X[0, seed] = np.nan
    return X, y


def learns(step: Any, one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """The referee: a step that learns is another after other rows of the same shape."""
    states = []
    for X, y in (one, other):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            states.append(joblib.hash(vars(clone(step).fit(X, y))))
    return states[0] != states[1]


class TestSteps:
    def transformers(self) -> dict[str, type]:
        found = dict(all_estimators(type_filter="transformer"))
        return {name: kind for name, kind in found.items() if name not in OTHERS}

    def disagreements(self) -> dict[str, bool]:
        """Steps of scikit-learn that learn and are not told of, or the other way round."""
        wrong = {}
        for name, kind in self.transformers().items():
            step = step_of(kind)
            truth = learns(step, input_of(name, 1), input_of(name, 2))
            fitted = clone(step)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted.fit(*input_of(name, 1))
            if leaks.reads_rows(fitted) != truth:
                wrong[name] = truth
        return wrong

    def test_every_transformer_of_scikit_learn(self) -> None:
        assert len(self.transformers()) > 60
        assert self.disagreements() == {}

    @pytest.mark.parametrize("name", ["StandardScaler", "PCA", "SimpleImputer", "SelectKBest"])
    def test_the_referee_catches_a_list_that_is_too_long(
        self, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        kind = self.transformers()[name]
        monkeypatch.setattr(self, "transformers", lambda: {name: kind}, raising=False)
        assert self.disagreements() == {}
        monkeypatch.setitem(leaks._BY_PARAMETERS, name, lambda _: True)
        assert self.disagreements() == {name: True}

    @pytest.mark.parametrize(
        "step",
        [
            *(OneHotEncoder(categories=[[1, 2, 3]] * COLUMNS), OrdinalEncoder()),
            OrdinalEncoder(categories=[[1, 2, 3]] * COLUMNS),
            OneHotEncoder(categories=[[1, 2, 3]] * COLUMNS, min_frequency=20),
            OneHotEncoder(categories=[[1, 2, 3]] * COLUMNS, max_categories=2),
            SimpleImputer(strategy="constant", keep_empty_features=True),
            SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True),
            SimpleImputer(strategy="median"),
            *(MissingIndicator(features="all"), MissingIndicator()),
            *(RBFSampler(gamma="scale", random_state=0), RBFSampler(gamma=2.0, random_state=0)),
        ],
        ids=repr,
    )
    def test_what_depends_on_the_parameters(self, step: Any) -> None:
        """Whole numbers as levels, others in the other rows, whose gap is in another column."""
        X, y = np.where(rows(1)[0] > 0.5, 2.0, 1.0), rows(1)[1]
        other = np.where(X + rows(2)[0] > 1.5, 3.0, 2.0)
        if isinstance(step, MissingIndicator | SimpleImputer):
            X[3, 1] = other[4, 2] = np.nan
        fitted = clone(step).fit(X, y)
        assert leaks.reads_rows(fitted) == learns(step, (X, y), (other, y)), step

    @pytest.mark.parametrize(
        ("step", "names"),
        [
            (StandardScaler(), {"StandardScaler"}),
            (make_pipeline(Normalizer(), PCA(2)), {"PCA"}),
            (FeatureUnion([("a", PCA(2)), ("b", SelectKBest(k=2))]), {"PCA", "SelectKBest"}),
            (
                ColumnTransformer(
                    [("a", StandardScaler(), [0]), ("b", "passthrough", [1]), ("c", "drop", [2])],
                    remainder=make_pipeline(TargetEncoder()),
                ),
                {"StandardScaler", "TargetEncoder"},
            ),
            (ColumnTransformer([("a", Normalizer(), [0, 1])], remainder="passthrough"), set()),
            (Normalizer(), set()),
            (FunctionTransformer(np.sqrt), set()),
            (FrozenEstimator(StandardScaler().fit(rows(5)[0])), set()),
            (FrozenEstimator(PCA(2).fit(rows(5)[0])), set()),
        ],
    )
    def test_pipelines(self, step: Any, names: set[str]) -> None:
        assert steps_told(step) == names

    def test_a_cache_changes_nothing(self, tmp_path: Path) -> None:
        X, y = rows(1)
        behind = make_pipeline(StandardScaler(), model(), memory=str(tmp_path))
        for _ in range(2):
            assert len(told(lambda: behind.fit(X, y))) == 1


class Doubled(TransformerMixin, BaseEstimator):
    """A step of somebody's own that learns nothing, and says nothing of itself."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        return 2 * X


class Centred(Doubled):
    def fit(self, X: Any, y: Any = None) -> Any:
        self._mean = X.mean(axis=0)
        return self


class CentredOnTheWay(Doubled):
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return X - X.mean(axis=0)


class SaysItReads(Doubled):
    reads_private_data = ("the largest row",)


class SaysItDoesNot(Centred):
    reads_private_data = ()


class Duck:
    """Without scikit-learn's base class nothing is known of it."""

    def fit(self, X: Any, y: Any = None) -> Any:
        return self

    transform = Doubled.transform

    def __sklearn_tags__(self) -> Any:
        return Doubled().__sklearn_tags__()


class TestSomebodysOwn:
    @pytest.mark.parametrize("step", [Doubled(), SaysItDoesNot()], ids=repr)
    def test_learned_nothing(self, step: Any) -> None:
        assert steps_told(step) == set()
        assert steps_told(make_pipeline(step)) == set()

    @pytest.mark.parametrize("step", [Centred(), CentredOnTheWay(), SaysItReads(), Duck()])
    def test_may_have_learned(self, step: Any) -> None:
        assert steps_told(step) == {type(step).__name__}

    def test_an_estimator_around(self) -> None:
        class Around(BaseEstimator):
            def fit(self, X: Any, y: Any) -> Any:
                self.model_ = model().fit(X, y)
                return self

        class OnlyAround(Around):
            reads_private_data = ()

        (line,) = told(lambda: Around().fit(*rows(1)))
        assert line.startswith(f"{FITTED_INSIDE} Around,")
        assert told(lambda: OnlyAround().fit(*rows(1))) == []


GRID = {"l2": [0.1, 0.01]}
SEARCHES: dict[str, Any] = {
    "GridSearchCV": lambda one, X, y: GridSearchCV(one, GRID, cv=2).fit(X, y),
    "RandomizedSearchCV": lambda one, X, y: RandomizedSearchCV(one, GRID, n_iter=1, cv=2).fit(X, y),
    "cross_val_score": lambda one, X, y: cross_val_score(one, X, y, cv=2),
    "cross_validate": lambda one, X, y: cross_validate(one, X, y, cv=2),
    "cross_val_predict": lambda one, X, y: cross_val_predict(one, X, y, cv=2),
    "learning_curve": lambda one, X, y: learning_curve(one, X, y, cv=2, train_sizes=[0.5]),
    "CalibratedClassifierCV": lambda one, X, y: CalibratedClassifierCV(one, cv=2).fit(X, y),
    "VotingClassifier": lambda one, X, y: VotingClassifier([("one", one)]).fit(X, y),
    "OneVsRestClassifier": lambda one, X, y: OneVsRestClassifier(one).fit(X, y),
}


def whole_parts(whole: Any) -> list[Any]:
    return [whole, *whole.get_params().values()]


class TestSearches:
    @pytest.mark.parametrize("name", SEARCHES)
    def test_each_says_it(self, name: str) -> None:
        lines = told(lambda: SEARCHES[name](model(), *rows(1)))
        assert {line.partition(",")[0] for line in lines} == {f"{FITTED_INSIDE} {name}"}

    @pytest.mark.parametrize("name", SEARCHES)
    @pytest.mark.parametrize("other", [{"epsilon": np.inf}, {"method": "none", "steps": None}])
    def test_what_promises_nothing_says_only_that(self, name: str, other: dict[str, Any]) -> None:
        lines = told(lambda: SEARCHES[name](model(**other), *rows(1)))
        assert lines
        assert not [line for line in lines if line.startswith(FITTED_INSIDE)]

    @pytest.mark.parametrize("name", SEARCHES)
    def test_other_models_say_nothing(self, name: str) -> None:
        behind = make_pipeline(StandardScaler(), LogisticRegression())
        grid = {"logisticregression__C": [1.0]}
        if "Search" in name:
            assert told(lambda: GridSearchCV(behind, grid, cv=2).fit(*rows(1))) == []
        else:
            assert told(lambda: SEARCHES[name](behind, *rows(1))) == []

    def test_a_fit_alone_says_nothing(self) -> None:
        assert told(lambda: model().fit(*rows(1))) == []
        assert told(lambda: FixedThresholdClassifier(model()).fit(*rows(1))) == []

    @pytest.mark.parametrize(
        "whole",
        [model(), make_pipeline(StandardScaler(), model()), GridSearchCV(model(), GRID)],
        ids=lambda whole: type(whole).__name__,
    )
    def test_a_clone_alone_says_nothing(self, whole: Any) -> None:
        made = []
        assert told(lambda: made.append(clone(whole))) == []
        (inner,) = (one for one in whole_parts(made[0]) if isinstance(one, Logistic))
        assert told(lambda: inner.fit(*rows(1))) == []

    def test_a_search_is_not_remembered_longer_than_its_fits(self) -> None:
        with pytest.warns(PrivacyLeakWarning):
            best = GridSearchCV(model(), GRID, cv=2).fit(*rows(1)).best_estimator_
        assert best.privacy_.not_covered
        for one in (clone(best), best):  # whose records these are, nobody knows
            assert one.fit(*rows(2)).privacy_.not_covered == ()

    def test_threads(self) -> None:
        behind = make_pipeline(StandardScaler(), model())
        with joblib.parallel_backend("threading", n_jobs=2), pytest.warns(PrivacyLeakWarning):
            done = cross_validate(behind, *rows(1), cv=2, return_estimator=True)
        self._check(done["estimator"])

    @pytest.mark.slow  # every process loads the package anew
    def test_processes(self) -> None:
        behind = make_pipeline(StandardScaler(), model())
        done: dict[str, Any] = {}
        how = {"cv": 2, "return_estimator": True, "n_jobs": 2}
        lines = told(lambda: done.update(cross_validate(behind, *rows(1), **how)))
        # Said here, where somebody looks, not only in the other processes.
        assert {line.split()[0] for line in lines} == {STEPS_FITTED.split()[0], "this"}
        self._check(done["estimator"])
        with pytest.warns(PrivacyLeakWarning, match="inside GridSearchCV"):
            GridSearchCV(model(), GRID, cv=2, n_jobs=2).fit(*rows(1))

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")  # it is said over there
    @pytest.mark.parametrize("made", [OneVsRestClassifier, OneVsOneClassifier])
    def test_what_clones_in_another_process_is_seen_there(self, made: Any) -> None:
        X, _ = rows(1)
        classes = np.digitize(X[:, 0], np.quantile(X[:, 0], [0.4, 0.7]))
        fitted = made(model(), n_jobs=2).fit(X, classes)
        for one in fitted.estimators_:
            assert [each.startswith(FITTED_INSIDE) for each in one.privacy_.not_covered] == [True]

    def _check(self, pipelines: Any) -> None:
        assert len(pipelines) == 2
        for one in pipelines:
            steps, within = one[-1].privacy_.not_covered
            assert steps == f"{STEPS_FITTED} StandardScaler"
            assert within.startswith(f"{FITTED_INSIDE} cross_validate,")


class TestPapers:
    def test_text_certificate_and_verdict_say_it(self, tmp_path: Path) -> None:
        behind = make_pipeline(StandardScaler(), model())
        grid = {"privatelogisticregression__l2": [0.01]}
        with pytest.warns(PrivacyLeakWarning):
            fitted = GridSearchCV(behind, grid, cv=2).fit(*rows(1)).best_estimator_[-1]
        steps, within = f"{STEPS_FITTED} StandardScaler", f"{FITTED_INSIDE} GridSearchCV"
        for said in (str(fitted.privacy_), *self._papers(fitted, tmp_path / "bundle")):
            flat = " ".join(said.split())
            assert steps in flat
            assert within in flat
        assert fitted.certificate_.tuning.kind == "unknown"

    def _papers(self, fitted: Logistic, place: Path) -> tuple[str, ...]:
        fitted.save(place)
        loaded = sordino.load(place)
        assert loaded.privacy_ == fitted.privacy_
        read = bundle.read(place)
        return str(read.certificate), str(verify(read))

    def test_a_declaration_cannot_deny_it(self) -> None:
        with pytest.warns(PrivacyLeakWarning):
            fitted = make_pipeline(StandardScaler(), model()).fit(*rows(1))[-1]
        with pytest.raises(InvalidArgument, match="StandardScaler"):
            fitted.declare(preprocessing=[])
        fitted.declare(preprocessing=["mean and deviation of every column"])
        assert fitted.certificate_.preprocessing.declared

    def test_without_a_step_that_read_nothing_is_denied(self) -> None:
        fitted = make_pipeline(Normalizer(), model()).fit(*rows(1))[-1].declare(preprocessing=[])
        assert fitted.certificate_.tuning.kind == "none declared"
