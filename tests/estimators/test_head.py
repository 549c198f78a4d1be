"""`PrivateHead`: a public feature map, held to its contract, below a private linear model."""

from __future__ import annotations

import functools
import json
import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score
from torch import nn

import sordino
from sordino import InvalidArgument, PrivateLinearSVC, PrivateLogisticRegression
from sordino.estimators import OrientedEdges, PrivateHead, head
from sordino.models.fingerprint import Fingerprint
from sordino.models.frozen import Frozen
from sordino.release import bundle
from sordino.release.certificate import Certificate, CertificateError, Preprocessing
from sordino.release.verify import verify

SECRET = 98765.4321


def raised(call: Callable[[], Any]) -> str:
    """What is said, with all that hangs on it, and no cell of the rows in it."""
    with pytest.raises(InvalidArgument) as caught:
        call()
    error: BaseException | None = caught.value
    told = []
    while error is not None:
        told.append(str(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert "98765" not in " ".join(told)
    return told[0]


def images(rows: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, y = rng.random((rows, 6, 6)), rng.integers(0, 2, rows)
    X[:, 2:4] += y[:, None, None]
    return X, y


def network(seed: int = 0, *more: nn.Module) -> nn.Module:
    torch.manual_seed(seed)
    layers = (nn.Flatten(), nn.Linear(36, 12), nn.ReLU(), *more)
    return nn.Sequential(*layers).eval()


def flat(batch: Any) -> np.ndarray:
    return np.asarray(batch).reshape(len(batch), -1)


def small(features: Any = flat, **how: Any) -> PrivateHead:
    return PrivateHead(features, **{"epsilon": 2.0, "classes": [0, 1], **how})


# The contract -------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Rows of a batch attend to each other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        return torch.softmax(x @ x.T / 6, dim=1) @ x


class NoGradients(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert not x.requires_grad
        return x


class Running(nn.Module):
    """A buffer follows what it sees, in evaluation mode, too; its outputs do not show it yet."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.shape[0]
        return x.flatten(1)


class Counting:
    """The first calls are honest."""

    def __init__(self, honest: int) -> None:
        self.left = [honest]

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.left[0] -= 1
        return flat(batch) + (self.left[0] < 0)


def quantised(batch: np.ndarray) -> np.ndarray:
    """As dynamic quantisation does it: the step follows from the largest of the batch."""
    step = max(np.abs(batch).max(), 5.0) / 127
    return np.round(flat(batch) / step) * step


def norm_of_training() -> nn.Module:
    class Normal(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.batch_norm(x.flatten(1), None, None, training=True)

    return Normal().eval()


def always_dropping(batch: np.ndarray) -> torch.Tensor:
    return nn.functional.dropout(torch.as_tensor(flat(batch)), 0.5, training=True)


BROKEN: dict[str, tuple[Callable[[], Any], str]] = {
    "normalises over the batch": (norm_of_training, "others of its batch"),
    "attends across the batch": (lambda: Attention().eval(), "others of its batch"),
    "subtracts the batch's mean": (lambda: lambda b: flat(b) - flat(b).mean(0), "others of its"),
    "scales by the batch's largest": (lambda: quantised, "others of its batch"),
    "sorts the batch": (lambda: lambda b: np.sort(flat(b), axis=0), "others of its batch"),
    "looks at its neighbour": (lambda: lambda b: flat(b) + np.roll(flat(b), 1, 0), "others of"),
    "adds the place": (lambda: lambda b: flat(b) + np.arange(len(b))[:, None], "wherever a row"),
    "adds the size": (lambda: lambda b: flat(b) + len(b), "smaller batches"),
    "mixes large batches only": (
        lambda: lambda b: flat(b) + (len(b) > 20) * flat(b).mean(),
        "full batches",
    ),
    "drops at random": (lambda: always_dropping, "draws at random"),
    "draws noise": (
        lambda: lambda b: flat(b) + np.random.default_rng().random(),
        "draws at random",
    ),
    "is in training mode": (lambda: network().train(), r"Call .eval\(\)"),
    "has one layer in training mode": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3), nn.Dropout().train()).requires_grad_(
            False
        ),
        "training mode",
    ),
    "closes over one in training mode": (
        lambda: (lambda net: lambda b: net(torch.as_tensor(b)))(Attention().train()),
        "training mode",
    ),
    "keeps statistics": (lambda: Running().eval(), "something of it changed"),
    "keeps a counter": (lambda: Counting(3), "later|for the same rows"),
    "gives no number": (lambda: lambda b: flat(b) * np.nan, "finite"),
    "gives words": (lambda: lambda b: np.full((len(b), 2), "a"), "to be numbers"),
    "gives too few rows": (lambda: lambda b: flat(b)[1:], "rows of some features"),
    "gives images": (lambda: lambda b: b, "Flatten"),
    "gives nothing": (lambda: lambda b: flat(b)[:, :0], "at least one feature"),
    "fails for one row": (lambda: lambda b: flat(b).squeeze(), "rows of"),
    "raises": (lambda: lambda b: flat(b) @ np.ones((3, 1)), "ValueError on public inputs"),
    "is no function": (lambda: 3, "to turn inputs into rows"),
    "is a class": (lambda: OrientedEdges, "not its class"),
    "is not fitted": (PCA, "NotFittedError"),
}


class TestContract:
    @pytest.mark.parametrize("name", BROKEN)
    def test_a_map_that_breaks_it_is_refused_before_it_sees_a_row(self, name: str) -> None:
        make, why = BROKEN[name]
        X, y = images()
        X[3] = SECRET
        made = small(make())
        before = dict(vars(made))
        with pytest.raises(InvalidArgument, match=why):
            made.fit(X, y)
        assert vars(made) == before

    def test_no_private_row_is_shown_to_a_map_that_is_refused(self) -> None:
        seen: list[float] = []

        def spying(batch: np.ndarray) -> np.ndarray:
            seen.append(float(batch.max()))
            return flat(batch) - flat(batch).mean()

        X, y = images()
        with pytest.raises(InvalidArgument):
            small(spying).fit(X + SECRET, y)
        assert seen
        assert max(seen) < SECRET / 2

    @pytest.mark.parametrize(
        "features",
        [
            flat,
            network(),
            network(0, nn.BatchNorm1d(12), nn.Dropout(), nn.LayerNorm(12)),
            functools.partial(np.reshape, shape=(-1, 36)),
            OrientedEdges((6, 6), windows=3),
            network().double(),
            network().forward,
        ],
        ids=lambda each: type(each).__name__,
    )
    def test_honest_maps_pass(self, features: Any) -> None:
        X, y = images()
        if isinstance(features, type(network().forward)):
            X = torch.as_tensor(X, dtype=torch.float32)
        model = small(features).fit(X, y)
        assert model.privacy_ is not None
        assert model.predict(X).shape == (60,)

    @pytest.mark.parametrize("kind", ["int64", "int32", "uint16", "float32"])
    @pytest.mark.parametrize("held", [np.asarray, torch.as_tensor, pd.DataFrame])
    @pytest.mark.parametrize("least", [1, 20, 1000])
    def test_dividing_by_the_largest_of_a_batch_is_refused_on_numbers_of_every_kind(
        self, kind: str, held: Any, least: int
    ) -> None:
        if held is torch.as_tensor and kind == "uint16":
            pytest.skip("torch has few operations for it")
        rows = held(np.random.default_rng(0).integers(0, 9, (40, 5)).astype(kind))

        def scaled(batch: Any) -> np.ndarray:
            found = np.asarray(batch, dtype=np.float64)
            return found / max(least, found.max())

        told = raised(lambda: small(scaled).fit(rows, np.arange(40) % 2))
        assert "of each row alone" in told

    def test_private_rows_may_break_what_public_ones_did_not(self) -> None:
        X, y = images()
        X[7] = SECRET

        def breaks(batch: np.ndarray) -> np.ndarray:
            if batch.max() > 1000:
                raise ValueError(f"cannot use {batch.max()}")
            return flat(batch)

        def overflows(batch: np.ndarray) -> np.ndarray:
            return np.where(flat(batch) > 1000, np.nan, flat(batch))

        told = raised(lambda: small(breaks, batch_size_features=5).fit(X, y))
        assert told.startswith("The features raised ValueError on rows 5 to 9")
        assert "of row 7" in raised(lambda: small(overflows, batch_size_features=5).fit(X, y))

    def test_a_state_that_only_private_rows_change_is_noticed(self) -> None:
        class Late(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("largest", torch.zeros(()), persistent=False)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                if x.max() > 500_000:
                    self.largest += 1
                return x.flatten(1)

        X, y = images()
        small(Late().eval()).fit(X, y)
        X[7] = 1e9  # far beyond what was made up
        assert "something of it changed" in raised(lambda: small(Late().eval()).fit(X, y))

    @settings(max_examples=30, deadline=None)
    @given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 99))
    def test_twins_of_one_record_differ_in_one_row_within_the_norm(
        self, rows: int, batch_size: int, seed: int
    ) -> None:
        """What the proof needs: the sensitivity of any sum of rows is at most 2."""
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((rows, 6, 6)) * 10.0 ** rng.integers(-30, 30, (rows, 1, 1))
        twin, row = X.copy(), int(rng.integers(rows))
        twin[row] = rng.standard_normal((6, 6)) * 10.0 ** rng.integers(-30, 30)
        for features in (network(), OrientedEdges((6, 6), windows=2), flat):
            made = small(features, batch_size_features=batch_size)
            made._map = Frozen(features)
            made._map.width = made._map(X[:1]).shape[1]
            one, two = made._rows(X), made._rows(twin)
            assert np.delete(one, row, 0).tobytes() == np.delete(two, row, 0).tobytes()
            assert np.linalg.norm(one.astype(float), axis=1).max() <= 1 + 1e-6
            assert np.linalg.norm(one[row].astype(float) - two[row]) <= 2 + 1e-6

    def test_what_is_refused_would_break_the_bound(self) -> None:
        """One record moves all rows of its batch, and their sum by far more than 2."""

        def centred(batch: np.ndarray) -> np.ndarray:
            return flat(batch) - flat(batch).mean(axis=0)

        X, _ = images()
        twin = X.copy()
        twin[0] = 1e4
        made = small(centred)
        made._map = Frozen(centred)
        made._map.width = 36
        assert np.linalg.norm((made._rows(X) - made._rows(twin)).sum(axis=0)) > 20
        with pytest.raises(InvalidArgument, match="others of its batch"):
            made._map.check(X, 60)

    @pytest.mark.parametrize("batch_size", [1, 7, 59, 60, 1000])
    def test_batches_of_all_sizes_give_the_same(self, batch_size: int) -> None:
        X, y = images()
        for features in (network(), OrientedEdges((6, 6), windows=3)):
            whole = small(features).fit(X, y).features_of(X)
            other = small(features, batch_size_features=batch_size).fit(X, y).features_of(X)
            np.testing.assert_allclose(whole, other, atol=1e-6)

    def test_rows_have_norm_1_and_zeros_stay(self) -> None:
        X, y = images()
        X[4], X[5] = 0, 1e-30
        rows = small().fit(X, y).features_of(X)
        norms = np.linalg.norm(rows, axis=1)
        assert norms[4] == 0
        np.testing.assert_allclose(np.delete(norms, 4), 1, rtol=1e-12)

    def test_a_module_is_left_as_it_was_and_keeps_no_gradient(self) -> None:
        net = network(0, NoGradients())
        before = {name: value.clone() for name, value in net.state_dict().items()}
        X, y = images()
        small(net).fit(X, y)
        small(lambda batch: net(torch.as_tensor(batch).float())).fit(X, y)
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        assert all(each.grad is None for each in net.parameters())


class TestInputs:
    def test_texts_tables_tensors_and_sparse_rows(self) -> None:
        _, y = images()
        rng = np.random.default_rng(0)
        words = HashingVectorizer(n_features=64)
        texts = [f"record {k} says {'yes' if label else 'no'}" for k, label in enumerate(y)]
        table = pd.DataFrame(rng.random((60, 3)), columns=["age", "height", "weight"])
        kinds: list[tuple[Any, Any]] = [
            (words, texts),
            (words, np.array(texts)),
            (words, np.array(texts, dtype=object)),
            (words, pd.Series(texts)),
            (lambda column: column.to_numpy()[:, None], table["age"]),
            (lambda frame: frame[["age", "weight"]].to_numpy(), table),
            (PCA(2).fit(rng.random((20, 3))), table.to_numpy()),
            (FrozenEstimator(PCA(2).fit(rng.random((20, 3)))), table.to_numpy()),
            (lambda rows: rows, sparse.csr_matrix(rng.random((60, 4)))),
            (lambda rows: rows, torch.as_tensor(rng.random((60, 4)))),
            (lambda rows: rows, torch.as_tensor(rng.random((60, 4))).half()),
            (lambda rows: rows, [[float(k), 1.0] for k in range(60)]),
            (lambda rows: rows[:, None] / 255, rng.integers(0, 256, 60).astype(np.uint8)),
            (nn.Sequential(nn.Embedding(2, 3), nn.Flatten()).eval(), rng.integers(0, 2, (60, 5))),
        ]
        for features, X in kinds:
            model = small(features).fit(X, y)
            assert model.predict_proba(X).shape == (60, 2)

    def test_where_no_input_can_be_made_up_somebody_has_to_say_one(self) -> None:
        X, y = images()
        records = [{"pixels": each} for each in X]

        def pixels(batch: Any) -> np.ndarray:
            return np.array([each["pixels"].ravel() for each in batch])

        assert "public_examples" in raised(lambda: small(pixels).fit(records, y))
        public = [{"pixels": each} for each in np.random.default_rng(1).random((3, 6, 6))]
        assert small(pixels, public_examples=public).fit(records, y).score(records, y) > 0
        told = raised(lambda: small(pixels, public_examples=public[:1]).fit(records, y))
        assert "at least two" in told

    @pytest.mark.parametrize("X", [3, "text", {"a": 1}, iter([1]), np.array(3.0)])
    def test_what_is_no_list_of_inputs_is_refused(self, X: Any) -> None:
        assert "inputs" in raised(lambda: small().fit(X, [0, 1]))

    @pytest.mark.parametrize(
        "how",
        [
            {"batch_size_features": 0},
            {"batch_size_features": 2.5},
            {"loss": "hinge"},
            {"epsilon": -1},
            {"model": "logistic"},
            {"model": PrivateLogisticRegression, "classes": None, "epsilon": 1.0},
            {"model": PrivateLogisticRegression(), "classes": None},
            {"model": PrivateLogisticRegression(), "epsilon": 1.0},
        ],
    )
    def test_bad_settings_leave_nothing_half_fitted(self, how: dict[str, Any]) -> None:
        X, y = images()
        made = small(**how)
        before = dict(vars(made))
        raised(lambda: made.fit(X, y))
        assert vars(made) == before
        with pytest.raises(NotFittedError):
            made.predict(X)

    def test_labels_of_another_number_are_refused(self) -> None:
        X, y = images()
        assert "inconsistent numbers" in raised(lambda: small().fit(X, y[1:]))


# The promise --------------------------------------------------------------------------------------


class TestPromise:
    @pytest.mark.parametrize("loss", ["logistic", "huber-svm"])
    @pytest.mark.parametrize("how", [{}, {"method": "noisy-gd", "max_rows_per_person": 2}])
    def test_it_is_that_of_the_linear_model(self, loss: str, how: dict[str, Any]) -> None:
        X, y = images()
        model = small(loss=loss, **how).fit(X, y)
        kind = {"logistic": PrivateLogisticRegression, "huber-svm": PrivateLinearSVC}[loss]
        alone = kind(epsilon=2.0, classes=[0, 1], fit_intercept=False, **how)
        rows = head.unit_rows(flat(X))
        assert model.privacy_ == alone.fit(rows, y).privacy_ == model.preview(X, y)
        assert (model.settings_, model.sigma_) == (alone.settings_, alone.sigma_)
        given_whole = PrivateHead(flat, alone).fit(X, y)
        assert given_whole.privacy_ == model.privacy_

    def test_nothing_of_the_rows_decides_a_setting(self) -> None:
        rng = np.random.default_rng(1)
        for features in (flat, network()):
            found = []
            for scale in (1e-9, 1.0, 1e9):
                X, y = scale * rng.standard_normal((50, 6, 6)), rng.integers(0, 2, 50)
                model = small(features, method="noisy-gd").fit(X, y)
                plain = json.loads(model.certificate_.to_json())
                plain["model"].pop("sha256")
                found.append(plain)
            assert found[0] == found[1] == found[2]

    def test_the_certificate_names_the_map_and_what_it_assumes(self, tmp_path: Path) -> None:
        X, y = images()
        net = network()
        model = small(net).fit(X, y)
        papers = model.certificate_
        made = papers.preprocessing.features
        assert made is not None
        assert (made.name, made.sha256) == ("Sequential", Fingerprint.of(net).sha256)
        assert not made.unseen
        assert Certificate.from_json(papers.to_json()) == papers
        assert made.assumes in papers.assumes
        assert made.sha256 in "".join(str(papers).split())
        assert made.assumes in " ".join(str(papers).split())
        model.save(tmp_path / "saved", preprocessing=[])
        assert model.certificate_.preprocessing == Preprocessing(True, (), features=made)
        said = verify(bundle.read(tmp_path / "saved")).findings
        assert any(made.assumes in each and made.sha256 in each for each in said)

    def test_models_without_a_map_have_the_certificates_they_had(self) -> None:
        X, y = images()
        plain = PrivateLogisticRegression(classes=[0, 1]).fit(flat(X), y).certificate_.to_json()
        assert set(json.loads(plain)["preprocessing"]) == {"declared", "reads", "columns"}

    @pytest.mark.parametrize(
        "forged",
        [
            {"name": "", "sha256": "0" * 64, "unseen": []},
            {"name": "two\nlines", "sha256": "0" * 64, "unseen": []},
            {"name": "a", "sha256": "0" * 63, "unseen": []},
            {"name": "a", "sha256": "0" * 64, "unseen": "b"},
            {"name": "a", "sha256": "0" * 64},
            {"name": "a", "sha256": "0" * 64, "unseen": [], "more": 1},
            "edges",
        ],
    )
    def test_a_forged_map_is_refused(self, forged: Any) -> None:
        X, y = images()
        plain = json.loads(small().fit(X, y).certificate_.to_json())
        plain["preprocessing"]["features"] = forged
        with pytest.raises(CertificateError):
            Certificate.from_json(json.dumps(plain, indent=2, sort_keys=True) + "\n")

    def test_a_ledger_is_charged_once(self, tmp_path: Path) -> None:
        X, y = images()
        with sordino.Ledger(tmp_path / "l.db", dataset="images", epsilon=2.5, delta=1e-6):
            model = small(delta=1e-6).fit(X, y)
            assert model.certificate_.ledger_entry is not None
            with pytest.raises(sordino.BudgetExceeded):
                small(delta=1e-6).fit(X, y)

    def test_persons_are_counted(self) -> None:
        X, y = images()
        model = small(max_rows_per_person=2).fit(X, y, persons=np.arange(60) // 4)
        assert model.certificate_.evidence is not None
        assert model.certificate_.evidence.persons_counted

    def test_being_searched_over_is_told_and_the_head_itself_is_no_search(self) -> None:
        X, y = images()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = small().fit(X, y)
        assert model.privacy_ is not None
        assert not model.privacy_.not_covered
        with pytest.warns(sordino.PrivacyLeakWarning, match="cross_val_score"):
            cross_val_score(small(), X, y, cv=2)
        made = small(model=PrivateLogisticRegression(classes=[0, 1]), classes=None, epsilon=1.0)
        with pytest.warns(sordino.PrivacyLeakWarning, match="cross_val_score"):
            cross_val_score(made, X, y, cv=2)

    def test_a_clone_is_unfitted_and_keeps_the_very_map(self) -> None:
        X, y = images()
        fitted = PCA(2).fit(flat(X))
        model = small(fitted).fit(flat(X), y)
        again = clone(model)
        assert again.features is fitted
        assert not hasattr(again, "model_")
        assert again.get_params(deep=False) == model.get_params(deep=False)
        assert clone(small(network())).fit(X, y).privacy_ is not None


# What is saved ------------------------------------------------------------------------------------


class TestSaved:
    def test_a_loaded_head_predicts_alike(self, tmp_path: Path) -> None:
        X, y = images()
        net = network()
        model = small(net).fit(X, y)
        model.save(tmp_path / "head")
        assert sorted(os.listdir(tmp_path / "head")) == ["certificate.json", "model.safetensors"]
        loaded = PrivateHead.load(tmp_path / "head", features=network())
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert loaded.privacy_ == model.privacy_
        loaded.save(tmp_path / "again")
        again = small(net).fit_and_save(X, y, tmp_path / "third", preprocessing=[])
        assert PrivateHead.load(again, features=net).score(X, y) >= 0

    def test_other_features_are_refused(self, tmp_path: Path) -> None:
        X, y = images()
        small(network()).fit(X, y).save(tmp_path / "head")
        tuned = network()
        with torch.no_grad():
            next(iter(tuned.parameters()))[0, 0] += 1e-7
        wider = nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.Tanh()).eval()
        wider[1].load_state_dict(network()[1].state_dict())
        for other in (tuned, wider, flat, network(1)):
            with pytest.raises(CertificateError, match="fitted on features of Sequential"):
                PrivateHead.load(tmp_path / "head", features=other)
        with pytest.raises(InvalidArgument, match="training mode"):
            PrivateHead.load(tmp_path / "head", features=network().train())

    def test_a_model_of_other_rows_is_no_head_and_a_head_alone_warns(self, tmp_path: Path) -> None:
        X, y = images()
        PrivateLogisticRegression(classes=[0, 1]).fit(flat(X), y).save(tmp_path / "plain")
        with pytest.raises(CertificateError, match="names no feature map"):
            PrivateHead.load(tmp_path / "plain", features=flat)
        model = small().fit(X, y)
        model.save(tmp_path / "head")
        with pytest.warns(UserWarning, match="takes features made by flat"):
            alone = sordino.load(tmp_path / "head")
        rows = model.features_of(X)
        np.testing.assert_array_equal(alone.predict(rows), model.predict(X))

    def test_a_digest_that_was_changed_is_noticed(self, tmp_path: Path) -> None:
        X, y = images()
        small().fit(X, y).save(tmp_path / "head")
        papers = tmp_path / "head" / "certificate.json"
        papers.write_text(papers.read_text().replace(Fingerprint.of(flat).sha256, "0" * 64))
        with pytest.raises(CertificateError, match="features of flat"):
            PrivateHead.load(tmp_path / "head", features=flat)


# The digest ---------------------------------------------------------------------------------------


def _closing(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: rows @ weights


WEIGHTS = np.eye(3)


def _with_attribute(weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    def features(rows: np.ndarray) -> np.ndarray:
        return rows * features.weights  # type: ignore[attr-defined]

    features.weights = weights  # type: ignore[attr-defined]
    return features


class _Slots:
    __slots__ = ("weights",)


class _Slotted(_Slots):
    def __init__(self, weights: np.ndarray) -> None:
        self.weights, self.name = weights, "beside the slots"


def _by_global(rows: np.ndarray) -> np.ndarray:
    return rows @ WEIGHTS


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
class TestFingerprint:
    @pytest.mark.parametrize(
        "make",
        [
            lambda k: network(k),
            lambda k: _closing(np.full(3, k)),
            lambda k: functools.partial(_closing, k),
            lambda k: OrientedEdges((6, 6), windows=2 + k),
            lambda k: PCA(2).fit(np.random.default_rng(k).random((9, 3))),
            lambda k: Counting(k),
            lambda k: Counting(k).__call__,
            lambda k: {"a": {1, k + 5}, "b": torch.arange(3 + k).bfloat16()},
            lambda k: nn.Sequential(nn.Conv2d(1, 1, 3, stride=1 + k)).requires_grad_(False),
            lambda k: torch.jit.script(nn.Linear(2, 2 + k)),
            lambda k: np.full(3, k).dot,
            lambda k: sparse.csr_matrix(np.eye(3) * (k + 1)),
            lambda k: eval(f"lambda rows: rows + {k}"),
            lambda k: torch.no_grad()(_closing(np.full(3, k))),
            lambda k: _with_attribute(np.full(3, k)),
            lambda k: _Slotted(np.full(3, k)),
        ],
    )
    def test_equal_things_have_equal_ones_and_others_not(self, make: Any) -> None:
        torch.manual_seed(0)
        one, again = Fingerprint.of(make(0)), None
        torch.manual_seed(0)
        again = Fingerprint.of(make(0))
        assert one == again
        assert one.sha256 != Fingerprint.of(make(1)).sha256
        assert not one.unseen

    @pytest.mark.slow
    def test_it_is_the_same_in_another_process(self) -> None:
        """Nothing of it may depend on addresses or on how texts are hashed there."""
        code = """
import numpy as np, torch
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.ensemble import RandomTreesEmbedding
from sordino.estimators import OrientedEdges
from sordino.models.fingerprint import Fingerprint
rows = np.random.default_rng(0).random((20, 6))
torch.manual_seed(0)
things = [
    torch.nn.TransformerEncoderLayer(6, 2, 12), torch.jit.script(torch.nn.Linear(3, 4)),
    PCA(2).fit(rows), RandomTreesEmbedding(2, random_state=0).fit(rows), OrientedEdges((8, 8)),
    HashingVectorizer(stop_words=["a", "b"]), {"x", "y", "z"}, rows.dot,
]
print([Fingerprint.of(each).sha256 for each in things])
"""
        found = set()
        for seed in ("1", "2"):
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            run = [sys.executable, "-W", "ignore", "-c", code]
            done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
            found.add(done.stdout)
        assert len(found) == 1

    def test_globals_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        before = Fingerprint.of(_by_global)
        monkeypatch.setitem(_by_global.__globals__, "WEIGHTS", 2 * np.eye(3))
        assert Fingerprint.of(_by_global) != before

    def test_what_it_cannot_look_into_is_told(self, tmp_path: Path) -> None:
        import threading

        lock = threading.Lock()

        def locked(batch: np.ndarray) -> np.ndarray:
            with lock:
                return flat(batch)

        X, y = images()
        papers = small(locked).fit(X, y).certificate_
        assert papers.preprocessing.features is not None
        assert papers.preprocessing.features.unseen == ("_thread.lock",)
        assert "cannot cover" in str(papers)
        told = raised(lambda: small(locked, cache=tmp_path / "cache").fit(X, y))
        assert "_thread.lock" in told


# The cache ----------------------------------------------------------------------------------------


class TestCache:
    def test_it_is_hit_by_the_same_inputs_and_map_alone(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []
        real = Frozen.of_private

        def counted(self: Frozen, batch: Any, start: int) -> np.ndarray:
            asked.append(len(batch))
            return real(self, batch, start)

        monkeypatch.setattr(Frozen, "of_private", counted)
        X, y = images()
        place = tmp_path / "cache"
        made = small(network(), cache=place).fit(X, y)
        assert asked == [60]
        whole = made.features_of(X)
        small(network(), cache=place).fit(X, y)
        assert asked == [60]
        np.testing.assert_array_equal(small(network()).fit(X, y).features_of(X), whole)
        made.features_of(X[:-1])
        X[0, 0, 0] += 1e-9
        made.features_of(X)
        small(network(1), cache=place).fit(X, y)
        assert len(list(place.iterdir())) == 4

    def test_it_is_inside_and_holds_no_pickle(self, tmp_path: Path) -> None:
        X, y = images()
        small(cache=tmp_path / "cache").fit(X, y)
        assert stat.S_IMODE(os.stat(tmp_path / "cache").st_mode) == 0o700
        (file,) = (tmp_path / "cache").iterdir()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_bytes()[32:38] == b"\x93NUMPY"

    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other", "directory"])
    def test_a_damaged_one_is_made_anew(self, tmp_path: Path, damage: str) -> None:
        X, y = images()
        made = small(cache=tmp_path / "cache").fit(X, y)
        whole = made.features_of(X)
        (file,) = (tmp_path / "cache").iterdir()
        content = bytearray(file.read_bytes())
        if damage == "flipped":
            content[-3] ^= 1
        cut = {"cut": bytes(content[:-1]), "empty": b"", "other": b"\x93NUMPY" * 9}
        file.write_bytes(cut.get(damage, bytes(content)))
        if damage == "directory":
            file.unlink()
            file.mkdir()
            assert "cache" in raised(lambda: made.features_of(X))
            return
        np.testing.assert_array_equal(made.features_of(X), whole)
        assert len(file.read_bytes()) == len(content)

    def test_a_place_that_others_may_read_is_refused(self, tmp_path: Path) -> None:
        X, y = images()
        place = tmp_path / "cache"
        place.mkdir(mode=0o755)
        assert "chmod 700" in raised(lambda: small(cache=place).fit(X, y))
        (tmp_path / "file").write_text("")
        raised(lambda: small(cache=tmp_path / "file").fit(X, y))
        raised(lambda: small(cache=tmp_path / "none" / "cache").fit(X, y))

    def test_tables_and_texts_are_told_apart(self, tmp_path: Path) -> None:
        _, y = images()
        table = pd.DataFrame({"a": np.arange(60.0), "b": np.ones(60)})
        made = small(lambda frame: frame.to_numpy(), cache=tmp_path / "cache").fit(table, y)
        made.features_of(table.rename(columns={"a": "c"}))
        made.features_of(table.astype("float32"))
        words = small(HashingVectorizer(n_features=8), cache=tmp_path / "cache")
        words.fit([f"text {k}" for k in range(60)], y)
        assert len(list((tmp_path / "cache").iterdir())) == 4


# The use of it ------------------------------------------------------------------------------------


class TestOrientedEdges:
    @pytest.mark.parametrize("shape", [(8, 8), (5, 9), (8, 8, 3)])
    def test_flat_and_whole_images_are_alike(self, shape: tuple[int, ...]) -> None:
        X = np.random.default_rng(0).random((7, *shape))
        edges = OrientedEdges(shape, windows=3, brightness=0.5, power=0.5)
        np.testing.assert_array_equal(edges(X), edges(X.reshape(7, -1)))
        assert edges(X).shape == (7, 3 * 3 * 5)

    def test_what_it_says_of_plain_images(self) -> None:
        """The referee is a step: light at the right, so that the gradient points there."""
        X = np.zeros((3, 8, 8))
        X[0, :, 4:], X[1, 4:, :], X[2, :, :4] = 1, 1, 1
        inside = OrientedEdges((8, 8), windows=1)
        right, down, left = inside(X).reshape(3, 4)  # cos t, sin t, cos 2t, sin 2t
        # The dark outside of a picture is a step, too: what is told apart is the rest.
        assert right[0] == pytest.approx(-left[0], abs=1e-5)
        assert right[0] == pytest.approx(down[1], abs=1e-5)
        assert right[2] == pytest.approx(left[2], abs=1e-5)
        assert right[2] == pytest.approx(-down[2], abs=1e-5)

    def test_brighter_pictures_have_the_same_rows(self) -> None:
        X = np.random.default_rng(0).random((7, 8, 8))
        edges = OrientedEdges((8, 8))
        one, two = head.unit_rows(edges(X)), head.unit_rows(edges(7 * X))
        np.testing.assert_allclose(one, two, atol=1e-5)

    @pytest.mark.parametrize(
        "how",
        [
            {"shape": (8,)},
            {"shape": (1, 8)},
            {"shape": (8, 8), "windows": 0},
            {"shape": (8, 8), "windows": 9},
            {"shape": (8, 8), "harmonics": ()},
            {"shape": (8, 8), "harmonics": (0,)},
            {"shape": (8, 8), "power": 0},
            {"shape": (8, 8), "brightness": -1},
        ],
    )
    def test_what_cannot_be_is_refused(self, how: dict[str, Any]) -> None:
        raised(lambda: OrientedEdges(**how))

    def test_other_images_are_refused(self) -> None:
        raised(lambda: OrientedEdges((8, 8))(np.ones((3, 63))))


def digits_network() -> nn.Module:
    """Trained, without privacy, on the digits 0 to 4, which are public here.

    Its last layer centres and scales by public statistics: what all rows share would only take up
    their norm.
    """
    X, y = load_digits(return_X_y=True)
    public = y < 5
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.BatchNorm1d(256, affine=False)),
    )
    top = nn.Linear(256, 5)
    rows, labels = torch.as_tensor(X[public] / 16).float(), torch.as_tensor(y[public])
    optimiser = torch.optim.Adam([*net.parameters(), *top.parameters()], lr=0.005)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(top(net(rows)), labels).backward()
        optimiser.step()
    return net.eval().requires_grad_(False)


def share(features: Any, classes: range, epsilon: float = 2.0, fits: int = 3) -> float:
    """Of held-out digits that are told right, in the mean of some fits."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, list(classes))
    X, y = X[chosen] / 16, y[chosen]
    train = np.arange(len(y)) % 4 > 0
    made = (PrivateHead(features, epsilon=epsilon, classes=classes) for _ in range(fits))
    found = [each.fit(X[train], y[train]).score(X[~train], y[~train]) for each in made]
    return float(np.mean(found))


def test_a_network_of_public_digits_helps_with_private_ones() -> None:
    private = range(5, 10)
    helped, alone = share(digits_network(), private, 1.0), share(flat, private, 1.0)
    assert helped > alone + 0.02, (helped, alone)


@pytest.mark.slow
def test_oriented_edges_help_on_all_digits() -> None:
    for epsilon in (1.0, 2.0):
        helped = share(OrientedEdges((8, 8)), range(10), epsilon)
        alone = share(flat, range(10), epsilon)
        assert helped > alone + 0.02, (epsilon, helped, alone)


@pytest.mark.slow
def test_attacks_see_no_more_than_is_claimed() -> None:
    from sordino.audit import Claim, audit, pairs
    from sordino.data.dataset import Dataset

    X, y = images(40)
    data = Dataset(head.unit_rows(flat(X)), y, norm_bound=1.0)
    D, other = pairs.canary(data)
    model = PrivateLogisticRegression(epsilon=1.0, delta=1e-5, classes=[0, 1], method="objective")
    made = PrivateHead(flat, model)
    promised = made.preview(D.X, D.y)
    claim = Claim(promised.epsilon, promised.delta, promised.relation, source="its own")
    found = audit(made, (D.X, D.y), (other.X, other.y), runs=100, claim=claim, workers=1)
    assert not found.violated
