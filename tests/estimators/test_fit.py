"""What leaves with a fitted model: its certificate, its bundle, its entry in the ledger."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier

import sordino
from sordino import BudgetExceeded, InvalidArgument, Ledger, NotApplicable, PrivateLinearSVC
from sordino import PrivateLogisticRegression as Logistic
from sordino.estimators import methods
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.release import bundle, signature
from sordino.release.certificate import Certificate, CertificateError, salted
from sordino.release.ledger import LedgerError
from sordino.release.mechanism import ReleaseRefused
from sordino.release.verify import verify_certificate

PRIVATE = [name for name in methods.METHODS if name not in ("none", "majority")]


def table(rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(rows, 4)) / 3
    return X, (X[:, 0] + 0.2 * draw.normal(size=rows) > 0).astype(int)


def fitted(seed: int = 0, **params: Any) -> Logistic:
    X, y = table(seed=seed)
    return Logistic(**{"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1], **params}).fit(X, y)


class TestCertificate:
    @pytest.mark.parametrize("method", PRIVATE)
    def test_every_method_has_one_that_is_verified(self, method: str) -> None:
        model = fitted(method=method)
        papers = model.certificate_
        again = Certificate.from_json(papers.to_json())
        assert again == papers
        assert again.guarantee == model.privacy_
        assert again.method == method
        verify_certificate(again)
        text = str(papers)
        assert "epsilon" in text
        assert "What is not covered" in text or "NOT COVERED" in text.upper()

    @pytest.mark.parametrize("method", PRIVATE)
    def test_it_tells_nothing_of_the_records(self, method: str) -> None:
        """Two tables of one shape: only the digest of the (noisy) weights may differ."""
        one, other = (
            json.loads(fitted(seed=seed, method=method).certificate_.to_json()) for seed in (1, 2)
        )
        assert one["model"].pop("sha256") != other["model"].pop("sha256")
        assert one == other

    def test_a_private_number_of_records_is_not_in_it(self) -> None:
        X, y = table(rows=413)
        for method in ("objective", "dp-sgd"):
            model = Logistic(
                epsilon=1.0,
                relation="add-or-remove-one",
                public_rows=400,
                method=method,
                classes=[0, 1],
            )
            assert "413" not in _without_digest(model.fit(X, y).certificate_)

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    @pytest.mark.parametrize(
        ("params", "why"),
        [
            ({"random_state": 7}, "random_state"),
            ({"data_norm": None}, "data_norm"),
            ({"epsilon": np.inf}, "infinite"),
            ({"method": "none"}, "adds no noise"),
        ],
    )
    def test_without_a_guarantee_it_says_so(self, params: dict[str, Any], why: str) -> None:
        papers = fitted(**params).certificate_
        assert papers.guarantee is None
        assert papers.evidence is None
        assert why in papers.why_none
        assert "NOTHING IS PROMISED" in str(papers)
        assert Certificate.from_json(papers.to_json()) == papers

    def test_the_unit_is_recorded(self) -> None:
        papers = fitted(max_rows_per_person=3, method="output-gd").certificate_
        assert papers.guarantee is not None
        assert papers.guarantee.unit == "3 records of one person"
        assert "3 records of one person" in str(papers)

    def test_classes_read_off_the_labels_are_not_covered(self) -> None:
        with pytest.warns(sordino.PrivacyLeakWarning):
            papers = fitted(classes=None).certificate_
        assert "which classes there are was read off the labels" in str(papers)

    def test_declarations(self) -> None:
        model = fitted()
        assert not model.certificate_.preprocessing.declared
        model.declare(preprocessing=["the mean of every column"], tuning="unknown")
        assert "the mean of every column" in str(model.certificate_)
        assert model.certificate_.tuning.kind == "unknown"
        model.declare(preprocessing=[])
        assert model.certificate_.preprocessing.declared
        with pytest.raises(InvalidArgument, match="tuning"):
            model.declare(tuning="a little")
        with pytest.raises(InvalidArgument, match="preprocessing"):
            model.declare(preprocessing="the mean")


def _without_digest(papers: Certificate) -> str:
    values = json.loads(papers.to_json())
    del values["model"]["sha256"]
    del values["versions"]
    return json.dumps(values)


class TestPreview:
    def test_it_promises_what_fit_does_and_leaves_no_trace(self, tmp_path: Path) -> None:
        X, y = table()
        model = Logistic(epsilon=1.0, delta=1e-6, classes=[0, 1])
        with Ledger(tmp_path / "b.db", dataset="d", epsilon=1.2, delta=1e-6) as ledger:
            promised = model.preview(X, y)
            assert not hasattr(model, "n_features_in_")
            assert ledger.status().entries == ()
            assert model.fit(X, y).privacy_ == promised
            with pytest.raises(BudgetExceeded):
                model.preview(X, y)
            assert len(ledger.status().entries) == 1

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_nothing_to_promise(self) -> None:
        X, y = table()
        with pytest.raises(NotApplicable, match="random_state"):
            Logistic(classes=[0, 1], random_state=1).preview(X, y)

    def test_too_large_a_delta_is_in_the_certificate(self) -> None:
        with pytest.warns(sordino.PrivacyLeakWarning, match="rows"):
            papers = fitted(delta=0.1).certificate_
        assert "delta = 0.1 is above 0.1 / rows" in str(papers)


class TestSaving:
    def test_a_loaded_model_predicts_the_same(self, tmp_path: Path) -> None:
        X, y = table()
        names = ["age", "height", "weight", "dose"]
        frame, labels = pd.DataFrame(X, columns=names), np.array(["no", "yes"])[y]
        model = PrivateLinearSVC(epsilon=2.0, classes=["no", "yes"]).fit(frame, labels)
        where = model.save(tmp_path / "model", preprocessing=[])
        assert sorted(path.name for path in where.iterdir()) == [
            "certificate.json",
            "model.safetensors",
        ]
        again = sordino.load(where)
        assert type(again) is PrivateLinearSVC
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(
            again.decision_function(frame), model.decision_function(frame)
        )
        assert again.privacy_ == model.privacy_
        assert again.certificate_ == model.certificate_
        assert again.get_params()["epsilon"] == 2.0
        assert list(again.feature_names_in_) == names
        again.save(tmp_path / "copy")
        assert (tmp_path / "copy/certificate.json").read_bytes() == (
            where / "certificate.json"
        ).read_bytes()

    @pytest.mark.parametrize("labels", [[0, 1, 2], [1.0, 2.0, 4.0], ["a", "b", "c"]])
    def test_several_classes_without_intercept(self, tmp_path: Path, labels: list[Any]) -> None:
        X, _ = table()
        y = np.array(labels)[np.arange(len(X)) % 3]
        model = Logistic(classes=labels, fit_intercept=False, method="noisy-gd").fit(X, y)
        model.save(tmp_path / "m")
        again = sordino.load(tmp_path / "m")
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert again.classes_.dtype == model.classes_.dtype

    def test_changed_weights_are_not_saved(self, tmp_path: Path) -> None:
        model = fitted()
        model.coef_[0, 0] += 1e-9
        with pytest.raises(ReleaseRefused, match="changed after the release"):
            model.save(tmp_path / "m")
        assert not (tmp_path / "m").exists()

    def test_a_full_directory_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(InvalidArgument):
            fitted().save(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]

    def test_a_claim_that_does_not_follow_is_not_loaded(self, tmp_path: Path) -> None:
        fitted().save(tmp_path / "m")
        papers = tmp_path / "m/certificate.json"
        values = json.loads(papers.read_text())
        values["guarantee"]["epsilon"] = 0.1
        papers.write_text(json.dumps(values))
        with pytest.raises(CertificateError, match=r"0\.1"):
            sordino.load(tmp_path / "m")

    def test_whose_signature_it_must_carry(self, tmp_path: Path) -> None:
        where = fitted().save(tmp_path / "m")
        signature.new_key(tmp_path / "me.pem", tmp_path / "public.pem")
        with pytest.raises(CertificateError, match="not signed"):
            sordino.load(where, key=tmp_path / "public.pem")
        key = signature.load_private(tmp_path / "me.pem")
        bundle.write_signature(where, signature.sign(bundle.read(where).certificate_bytes, key))
        assert sordino.load(where, key=tmp_path / "public.pem").privacy_ is not None

    @pytest.mark.parametrize("name", ["epsilon__x", "self", "random_state", "classes", "surprise"])
    def test_settings_that_are_none_are_refused(self, tmp_path: Path, name: str) -> None:
        fitted().save(tmp_path / "m")
        papers = tmp_path / "m/certificate.json"
        values = json.loads(papers.read_text())
        values["model"]["settings"][name] = 7
        papers.write_text(json.dumps(values))
        with pytest.raises(CertificateError):
            sordino.load(tmp_path / "m")

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"method": "noisy-gd"', '"method": "dp-sgd-with-magic"'),
            ("PrivateLogisticRegression", "PrivateLinearSVC"),
            ('"epsilon": 1.0', '"epsilon": 0.5'),
        ],
    )
    def test_what_is_shown_must_fit_the_proof(self, tmp_path: Path, old: str, new: str) -> None:
        fitted(method="noisy-gd").save(tmp_path / "m")
        papers = tmp_path / "m/certificate.json"
        text = papers.read_text()
        assert old in text
        papers.write_text(text.replace(old, new))
        with pytest.raises(CertificateError):
            sordino.load(tmp_path / "m")

    def test_only_our_estimators_are_made(self, tmp_path: Path) -> None:
        fitted().save(tmp_path / "m")
        papers = tmp_path / "m/certificate.json"
        papers.write_text(papers.read_text().replace("PrivateLogisticRegression", "os.system"))
        with pytest.raises(CertificateError, match=r"os\.system"):
            sordino.load(tmp_path / "m")


class TestLedger:
    def test_fits_are_charged_until_nothing_is_left(self, tmp_path: Path) -> None:
        X, y = table()
        file = tmp_path / "budget.db"
        model = Logistic(epsilon=1.0, delta=1e-6, classes=[0, 1], method="noisy-gd")
        with Ledger(file, dataset="patients", epsilon=2.0, delta=2e-6) as ledger:
            model.fit(X, y)
            first = ledger.status().spent.epsilon
            assert first <= 1.0
            model.fit(X, y)
            assert first < ledger.status().spent.epsilon <= 2.0
            model.fit(X, y)  # sqrt(3) times one is still below 2
            kept = model.coef_
            with pytest.raises(BudgetExceeded, match="Left: epsilon"):
                model.fit(X, y)
        assert model.coef_ is kept  # a refused fit leaves the estimator as it was
        model.fit(X, y)  # without a ledger nobody asks

    def test_an_empty_ledger_refuses_before_training(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def never(*_: object) -> None:
            raise AssertionError("trained")

        monkeypatch.setattr(PrivateLinearClassifier, "_train", never)
        with (
            Ledger(tmp_path / "b.db", dataset="d", epsilon=0.1, delta=1e-6),
            pytest.raises(BudgetExceeded),
        ):
            fitted()

    def test_entries_tell_what_became_of_the_model(self, tmp_path: Path) -> None:
        ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=3.0, delta=1e-5)
        with ledger:
            model = fitted()
            assert [entry.status for entry in ledger.status().entries] == ["returned"]
        where = model.save(tmp_path / "m")
        (entry,) = ledger.status().entries
        assert entry.status == "written"
        assert str(where) in entry.place
        assert model.certificate_.ledger_entry == entry.id
        assert model.certificate_.dataset.name == "d"

    def test_a_failed_release_stays_spent(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*_: object) -> None:
            raise ReleaseRefused("not finite")

        monkeypatch.setattr(PrivateLinearClassifier, "_release", fails)
        ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=3.0, delta=1e-5)
        with ledger, pytest.raises(ReleaseRefused):
            fitted()
        (entry,) = ledger.status().entries
        assert entry.status == "failed"
        assert entry.epsilon == pytest.approx(1.0, rel=1e-4)  # law 6
        assert ledger.status().spent.epsilon > 0

    def test_the_fingerprint_fits_the_data_and_nothing_else(self, tmp_path: Path) -> None:
        X, y = table()
        with Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5) as ledger:
            model = Logistic(delta=1e-6, classes=[0, 1])
            prints = [model.fit(X, y).certificate_.dataset.fingerprint for _ in range(2)]
            salts = [entry.salt for entry in ledger.status().entries]
        assert prints[0] != prints[1]  # two certificates cannot be linked
        digest = model._prepare(X, y).content_digest()
        assert [salted(digest, salt) for salt in salts] == prints
        X[0, 0] += 1e-9
        assert salted(model._prepare(X, y).content_digest(), salts[0]) != prints[0]
        assert all(salt not in model.certificate_.to_json() for salt in salts)

    def test_without_a_ledger_there_is_no_fingerprint(self) -> None:
        papers = fitted().certificate_
        assert papers.dataset.fingerprint is None
        assert papers.ledger_entry is None

    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    @pytest.mark.parametrize(
        "params", [{"random_state": 1}, {"epsilon": np.inf}, {"method": "none"}]
    )
    def test_what_promises_nothing_is_refused(self, tmp_path: Path, params: dict[str, Any]) -> None:
        ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5)
        with ledger, pytest.raises(ReleaseRefused, match="no guarantee"):
            fitted(**params)
        assert ledger.status().entries == ()

    def test_relations_and_units_are_not_mixed(self, tmp_path: Path) -> None:
        with Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5):
            fitted()
            with pytest.raises((LedgerError, InvalidArgument), match="zero-out"):
                fitted(relation="zero-out")
            with pytest.raises((LedgerError, InvalidArgument), match="2"):
                fitted(max_rows_per_person=2, method="output-gd")

    def test_a_search_is_charged_fold_by_fold(self, tmp_path: Path) -> None:
        X, y = table()
        ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=90.0, delta=1e-4)
        model = Logistic(epsilon=0.5, delta=1e-6, classes=[0, 1], method="noisy-gd")
        with ledger, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # every fold has a fingerprint of its own
            GridSearchCV(model, {"l2": [0.01, 0.1]}, cv=2).fit(X, y)
        assert len(ledger.status().entries) == 5

    def test_a_fit_in_another_thread_is_not_free(self, tmp_path: Path) -> None:
        with (
            Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5),
            ThreadPoolExecutor(1) as pool,
            pytest.raises(LedgerError, match="thread"),
        ):
            pool.submit(fitted).result()

    def test_an_estimator_sent_away_stays_marked(self, tmp_path: Path) -> None:
        """A pool of processes that was started before knows of the ledger by this alone."""
        model = Logistic(classes=[0, 1], method="noisy-gd")
        with Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5):
            sent = pickle.dumps(GridSearchCV(model, {"l2": [0.1]}))
            kept = [copy.copy(model), copy.deepcopy(model), clone(model)]
        X, y = table()
        for one in kept:
            one.fit(X, y)  # nothing was sent anywhere
        away = pickle.loads(sent).estimator  # noqa: S301, our own bytes
        for one in (away, clone(away), clone(clone(OneVsRestClassifier(away))).estimator):
            with pytest.raises(LedgerError, match="sent here"):
                one.fit(X, y)
        with Ledger(tmp_path / "b.db", dataset="d") as ledger:
            away.fit(X, y)
            assert len(ledger.status().entries) == 1

    @pytest.mark.slow  # every process of the pool loads the engine anew
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
    @pytest.mark.filterwarnings("ignore::sordino.PrivacyLeakWarning")
    def test_a_pool_started_before_is_not_free_either(self, tmp_path: Path) -> None:
        """joblib keeps its worker processes, which never heard of a ledger opened since."""
        X, y = table()
        model = Logistic(epsilon=0.5, delta=1e-6, classes=[0, 1], method="noisy-gd")
        many = Logistic(epsilon=0.5, delta=1e-6, method="noisy-gd", classes=[0, 1])
        with Parallel(n_jobs=2) as pool:
            pool(delayed(abs)(-1) for _ in range(4))  # now its processes run
            ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5)
            with ledger:
                with pytest.raises(LedgerError):
                    pool(delayed(model.fit)(X, y) for _ in range(2))
                with pytest.raises(LedgerError):
                    OneVsRestClassifier(many, n_jobs=2).fit(X, np.arange(len(y)) % 3)
                with pytest.raises(ValueError, match="fits failed"):
                    cross_val_score(GridSearchCV(model, {"l2": [0.1]}), X, y, cv=2, n_jobs=2)
            assert ledger.status().entries == ()
        # Those started meanwhile believe in the ledger as long as they live: not in later tests.
        get_reusable_executor().shutdown(wait=True)

    @pytest.mark.parametrize(
        "odd",
        [
            {"l2": Fraction(1, 1000)},
            {"epsilon": Decimal(1)},
            {"epsilon": np.array(1.0)},
        ],
    )
    def test_what_no_certificate_can_hold_costs_nothing(
        self, tmp_path: Path, odd: dict[str, Any]
    ) -> None:
        ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5)
        with ledger, pytest.raises(InvalidArgument, match=next(iter(odd))):
            fitted(**odd)
        assert ledger.status().entries == ()

    def test_settings_do_not_change_the_fingerprint(self, tmp_path: Path) -> None:
        with Ledger(tmp_path / "b.db", dataset="d", epsilon=9.0, delta=1e-5):
            fitted()
            fitted(fit_intercept=False, data_norm=2.0)  # else a warning, which is an error here
