"""One guarantee for a pipeline: the composition of what its steps released, computed again by
whoever reads it, and nothing where the promises do not add up."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import sordino
from sordino import (
    InvalidArgument,
    Ledger,
    PrivacyLeakWarning,
    PrivateHead,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePCA,
    PrivateRidge,
    PrivateStandardScaler,
    certify,
)
from sordino.accounting import gaussian
from sordino.accounting.compose import compose
from sordino.privacy import Relation
from sordino.proofs.prepared import sum_moved
from sordino.release.certificate import STEPS_FITTED, CertificateError
from sordino.release.mechanism import ReleaseRefused
from sordino.release.pipeline import PipelineCertificate, PipelineStep, verify_pipeline

DELTA = 1e-5


def table(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    X = 2 + np.random.default_rng(seed).normal(size=(rows, 3)) * [1.0, 0.3, 0.1]
    return X, (X[:, 2] > 2).astype(int)


def scaler(epsilon: float = 0.2, **more: Any) -> PrivateStandardScaler:
    return PrivateStandardScaler(epsilon, **{"delta": DELTA, "bounds": (-2, 6), **more})


def model(epsilon: float = 0.8, **more: Any) -> PrivateLogisticRegression:
    given = {"delta": DELTA, "classes": [0, 1], **more}
    return PrivateLogisticRegression(epsilon, **given)


def ridge(epsilon: float = 0.8, **more: Any) -> PrivateRidge:
    how = {"delta": DELTA, "method": "statistics", "target_bounds": (0, 1), **more}
    return PrivateRidge(epsilon, **how)


def fitted(*steps: Any, seed: int = 0) -> Pipeline:
    return make_pipeline(*steps).fit(*table(seed=seed))


def checked(pipeline: Pipeline) -> PipelineCertificate:
    """Certified, read again from its file, and verified."""
    made = certify(pipeline)
    content = made.to_json().encode()
    again = PipelineCertificate.from_json(content)
    assert again == made
    assert verify_pipeline(again, content).guarantee == made.guarantee
    return made


class TestGuarantee:
    @pytest.mark.parametrize("relation", ["replace-one", "zero-out", "add-or-remove-one"])
    def test_gaussians_are_composed_by_hand(self, relation):
        how: dict[str, Any] = {"relation": relation}
        how |= {"public_rows": 300} if relation == "add-or-remove-one" else {}
        made = checked(fitted(scaler(**how), PrivatePCA(2, 0.3, DELTA, **how), ridge(**how)))
        mus = []
        for step in made.steps:
            for each in step.evidence.releases:  # type: ignore[union-attr]
                moved = sum_moved(each.what, each.norm, Relation(relation))
                mus.append(moved / each.sigma)
        assert len(mus) == 4
        numbers: Any = made.model.evidence  # type: ignore[union-attr]
        mus.append(numbers.moved / numbers.sigma)
        by_hand = gaussian.epsilon(math.hypot(*mus), DELTA)
        assert made.guarantee.epsilon == pytest.approx(by_hand, rel=1e-9)
        assert made.guarantee.epsilon < 0.2 + 0.3 + 0.8
        assert made.guarantee.relation.value == relation

    @pytest.mark.parametrize("method", ["noisy-gd", "objective", "dp-sgd", "dp-agd", "output-gd"])
    def test_other_laws_are_composed_by_their_profiles(self, method):
        pipeline = fitted(scaler(), model(method=method))
        made = checked(pipeline)
        alone = pipeline[0].evidence_.proof(), pipeline[1].certificate_.evidence.proof()
        together = compose([each.profile for each in alone])
        assert made.guarantee.epsilon == together.epsilon(DELTA)
        assert 0.8 < made.guarantee.epsilon <= 1 * (1 + 1e-9)
        assert made.guarantee.delta == DELTA
        assert made.guarantee.sampling == pipeline[1].privacy_.sampling
        assert set(alone[1].assumes) < set(made.guarantee.assumes)

    def test_a_model_or_transformers_alone(self):
        alone = fitted(model())
        assert certify(alone).guarantee.epsilon == alone[0].privacy_.epsilon
        before = fitted(scaler(), PrivatePCA(2, 0.3, DELTA))
        assert checked(before).model is None
        assert 0.3 < certify(before).guarantee.epsilon < 0.5

    def test_steps_inside_steps(self):
        union = FeatureUnion([("one", scaler()), ("two", PrivatePCA(1, 0.2, DELTA))])
        columns = ColumnTransformer([("first", scaler(), [0, 1]), ("rest", "passthrough", [2])])
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyLeakWarning)
            for step, many in (
                (union, 2),
                (columns, 1),
                (make_pipeline(Normalizer(), scaler()), 1),
            ):
                made = checked(fitted(step, model()))
                assert sum(each.kind == "private" for each in made.steps) == many
                one = gaussian.epsilon(math.sqrt(many) / gaussian.sigma(0.2, DELTA), DELTA)
                assert made.guarantee.epsilon > max(0.8, one)

    def test_a_persons_rows(self):
        three = {"max_rows_per_person": 3}
        made = checked(fitted(scaler(**three), ridge(**three)))
        assert made.guarantee.unit == "3 records of one person"
        assert any("nobody counted" in line for line in made.guarantee.assumes)

    @pytest.mark.parametrize(
        ("name", "steps"),
        [
            ("relation", (scaler(relation="zero-out"), model())),
            ("relation", (scaler(), PrivatePCA(2, 0.3, DELTA, relation="zero-out"))),
            ("unit", (scaler(max_rows_per_person=2), model())),
            ("delta", (scaler(delta=1e-6), model())),
        ],
    )
    def test_promises_that_do_not_add_up_are_refused(self, name, steps):
        with pytest.raises(InvalidArgument, match=f"Expected {name}=") as caught:
            certify(fitted(*steps))
        assert "in every step" in str(caught.value)

    def test_papers_are_the_same_for_all_data_of_one_shape(self):
        papers = []
        for seed in (1, 2):
            X, y = table(seed=seed)
            pipeline = make_pipeline(scaler(), PrivatePCA(2, 0.3, DELTA), model())
            values = json.loads(certify(pipeline.fit(X * 10 ** (2 * seed), y)).to_json())
            del values["model"]["model"]["sha256"]
            papers.append(values)
        assert papers[0] == papers[1]


class TestRefused:
    def test_what_is_no_fitted_pipeline_of_ours(self):
        X, y = table()
        with pytest.raises(InvalidArgument, match="to be a Pipeline"):
            certify(model().fit(X, y))
        with pytest.raises(NotFittedError):
            certify(make_pipeline(scaler(), model()))
        for last in (LogisticRegression(), PCA(1)):
            with pytest.raises(InvalidArgument, match="last step"):
                certify(fitted(scaler(), last))
        nothing = (PipelineStep(estimator="Normalizer", kind="public"),)
        promise = model().fit(X, y).privacy_
        with pytest.raises(InvalidArgument, match="releases anything"):
            PipelineCertificate(steps=nothing, model=None, guarantee=promise)

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_steps_without_a_promise(self):
        for steps in (
            (scaler(random_state=1), model()),
            (scaler(epsilon=math.inf), model()),
            (scaler(), model(random_state=1)),
            (scaler(), model(method="none")),
        ):
            with pytest.raises(ReleaseRefused, match="without a promise"):
                certify(fitted(*steps))


class TestLeaks:
    def test_a_step_that_is_paid_for_is_no_leak(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error", PrivacyLeakWarning)
            pipeline = fitted(Normalizer(), scaler(), PrivatePCA(2, 0.3, DELTA), model())
        assert not pipeline[-1].privacy_.not_covered
        made = checked(pipeline)
        assert not made.guarantee.not_covered
        kinds = [each.kind for each in made.steps]
        assert kinds == ["public", "private", "private"]

    def test_one_without_noise_is_named_by_every_fit_after_it(self):
        line = f"{STEPS_FITTED} StandardScaler"
        with pytest.warns(PrivacyLeakWarning, match="StandardScaler"):
            pipeline = fitted(StandardScaler(), scaler(), model())
        assert line in pipeline[1].privacy_.not_covered
        assert line in pipeline[2].privacy_.not_covered
        made = checked(pipeline)
        assert made.guarantee.not_covered == (line,)
        assert "NOT COVERED" in str(made)
        with pytest.warns(PrivacyLeakWarning, match="StandardScaler"):
            pipeline = fitted(scaler(), StandardScaler(), model())
        assert not pipeline[0].privacy_.not_covered  # that one came after it
        assert checked(pipeline).guarantee.not_covered == (line,)

    def test_one_fitted_apart_is_named_too(self):
        """Nobody saw its fit; it is there, and it learned something."""
        X, y = table()
        usual = StandardScaler().fit(X)
        own = scaler().fit(usual.transform(X))
        last = model().fit(own.transform(usual.transform(X)), y)
        assert not last.privacy_.not_covered
        made = checked(Pipeline([("a", usual), ("b", own), ("c", last)]))
        assert made.guarantee.not_covered == (f"{STEPS_FITTED} StandardScaler",)

    def test_what_the_model_declared_is_left_out_too(self):
        pipeline = fitted(scaler(), model())
        pipeline[-1].declare(preprocessing=["the columns were chosen by their means"])
        assert "the columns were chosen by their means" in checked(pipeline).guarantee.not_covered

    def test_a_head_is_a_model_and_its_map_is_taken_on_trust(self):
        head = PrivateHead(np.tanh, epsilon=0.8, delta=DELTA, classes=[0, 1])
        made = checked(fitted(scaler(), head))
        assert made.model.preprocessing.features.assumes in made.guarantee.assumes
        assert 0.8 < made.guarantee.epsilon < 1

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_without_a_promise_it_is_one(self):
        pipeline = fitted(scaler(random_state=1), model())
        assert "PrivateStandardScaler" in pipeline[-1].privacy_.not_covered[0]

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_a_search_around_it_is_seen(self):
        search = GridSearchCV(make_pipeline(scaler(), model()), {}, cv=2).fit(*table())
        for step in search.best_estimator_:
            assert any("GridSearchCV" in line for line in step.privacy_.not_covered)
        assert "GridSearchCV" in str(checked(search.best_estimator_))


class TestLedger:
    def test_every_step_is_charged_and_the_ledger_composes(self, tmp_path):
        X, y = table()
        ledger = Ledger(tmp_path / "ledger.db", dataset="people", epsilon=3, delta=DELTA)
        with ledger, warnings.catch_warnings():
            warnings.simplefilter("error")  # also that data are known under another digest
            pipeline = make_pipeline(scaler(), model(method="noisy-gd")).fit(X, y)
            made = checked(pipeline)
            spent = ledger.status().spent.epsilon
            assert spent == pytest.approx(made.guarantee.epsilon, rel=1e-6)
            assert made.ledger_entries == tuple(each.id for each in ledger.status().entries)
            assert len(made.ledger_entries) == 2
            make_pipeline(scaler(), model()).fit(X, y)
        assert len(ledger.status().entries) == 4

    def test_other_data_are_still_told_apart(self, tmp_path):
        ledger = Ledger(tmp_path / "ledger.db", dataset="people", epsilon=3, delta=DELTA)
        with ledger:
            make_pipeline(scaler(), model()).fit(*table())
            with pytest.warns(UserWarning, match="not those of its earlier"):
                make_pipeline(scaler(), model()).fit(*table(seed=1))

    def test_too_little_left_for_the_model_leaves_no_model(self, tmp_path):
        X, y = table()
        ledger = Ledger(tmp_path / "ledger.db", dataset="people", epsilon=0.5, delta=DELTA)
        pipeline = make_pipeline(scaler(), model())
        with ledger, pytest.raises(sordino.BudgetExceeded):
            pipeline.fit(X, y)
        assert not hasattr(pipeline[-1], "coef_")
        assert len(ledger.status().entries) == 1  # what the first step released, it released


@pytest.fixture(scope="module")
def papers() -> PipelineCertificate:
    return certify(fitted(Normalizer(), scaler(), model()))


class TestVerify:
    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda v: v["guarantee"].update(epsilon=0.81), "prove only"),
            (lambda v: v["guarantee"].update(epsilon=0.9), "numbers are those of"),
            (lambda v: v["guarantee"].update(unit="2 records of one person"), "unit"),
            (lambda v: v["guarantee"].update(released="all"), "released"),
            (lambda v: v["guarantee"].update(not_covered=["x"]), "not_covered"),
            (lambda v: v["guarantee"].update(theorem="none"), "theorem"),
            (lambda v: v["guarantee"]["assumes"].pop(), "assumes"),
            (lambda v: v["guarantee"].update(delta=DELTA * 1.01), "delta"),
            (lambda v: v["steps"][1]["evidence"]["releases"][0].update(sigma=1.0), "prove only"),
            (lambda v: v["steps"][1]["evidence"]["releases"][0].update(norm=99.0), "prove only"),
            (lambda v: v["steps"][1]["evidence"]["releases"][0].update(sigma=0), "sigma"),
            (lambda v: v["steps"][1]["evidence"]["releases"][0].update(what="x"), "what"),
            (lambda v: v["steps"][1]["evidence"].update(relation="zero-out"), "relation"),
            (lambda v: v["steps"][1]["evidence"].update(rows_per_person=2), "unit"),
            (lambda v: v["steps"][1].update(delta=1e-6), "delta"),
            (lambda v: v["steps"][1].update(noise="a seed"), "noise"),
            (lambda v: v["steps"][1].update(kind="public"), "evidence"),
            (lambda v: v["steps"][0].update(kind="reads-rows"), "not_covered"),
            (lambda v: v["steps"][0].update(estimator="no name"), "estimator"),
            (lambda v: v["steps"].pop(1), "numbers are those of"),
            (lambda v: v["model"]["evidence"].update(rows=10**6), "rows|records|settings|prove"),
            (lambda v: v.update(model=None), "numbers are those of"),
            (lambda v: v.update(schema="x"), "schema"),
            (lambda v: v.update(more=1), "more"),
        ],
    )
    def test_what_was_changed_is_caught(self, papers, change, says):
        values = json.loads(papers.to_json())
        change(values)
        content = (json.dumps(values, indent=2, sort_keys=True) + "\n").encode()
        with pytest.raises(CertificateError, match=says):
            verify_pipeline(PipelineCertificate.from_json(content), content)

    def test_it_is_read_to_the_letter(self, papers):
        content = papers.to_json().replace("\n", "\n ").encode()
        with pytest.raises(CertificateError, match="as sordino writes it"):
            verify_pipeline(PipelineCertificate.from_json(content), content)

    def test_a_guarantee_that_forgets_a_step_is_caught(self, papers):
        """The careless way: to publish the model's own promise for the pipeline."""
        alone = dataclasses.replace(papers, guarantee=papers.model.guarantee)
        with pytest.raises(CertificateError, match="prove only"):
            verify_pipeline(alone)

    def test_in_plain_words(self, papers):
        words = " ".join(str(papers).split())
        for part in ("of a pipeline", "Step 2: PrivateStandardScaler released", "fitted once"):
            assert part in words
        assert str(papers.model) in str(papers)


def test_a_support_vector_machine_is_a_model_too():
    made = checked(fitted(scaler(), PrivateLinearSVC(0.8, delta=DELTA, classes=[0, 1])))
    assert made.guarantee.epsilon < 1.001
