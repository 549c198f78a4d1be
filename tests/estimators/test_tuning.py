"""Tuning that is paid for: one budget, one entry, one certificate."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sordino
from sordino import BudgetExceeded, InvalidArgument, Ledger, NotApplicable
from sordino import PrivateLogisticRegression as Logistic
from sordino.estimators import tuning
from sordino.proofs.evidence import SelectionEvidence
from sordino.release.mechanism import ReleaseRefused
from sordino.release.verify import verify_certificate


def table() -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(400, 4)) / 3
    return X, (X[:, 0] > 0).astype(int)


def candidates(**params: Any) -> list[Logistic]:
    given = {"classes": [0, 1], "method": "noisy-gd", **params}
    return [Logistic(steps=steps, **given) for steps in (4, 16)]


def tune(score: Any = lambda model: 0.0, **changed: Any) -> Any:
    X, y = table()
    values = {
        "candidates": candidates(),
        "epsilon": 2.0,
        "delta": 1e-6,
        "mean_runs": 4.0,
        **changed,
    }
    return sordino.tune(values.pop("candidates"), X, y, score=score, **values)


def always(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "draw_runs", lambda *_: many)


@pytest.mark.parametrize("shape", [math.inf, 1.0])
def test_the_whole_keeps_the_promise(
    shape: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    always(3, monkeypatch)
    model = tune(shape=shape)
    assert 1.98 < model.privacy_.epsilon <= 2.0  # 99 % of it is used, and no more than all
    papers = model.certificate_
    assert papers.tuning.kind == "declared"
    assert papers.tuning.candidates == 2
    evidence = papers.evidence
    assert isinstance(evidence, SelectionEvidence)
    each = [one.proof().guarantee(1e-6).epsilon for one in evidence.candidates]
    assert each == pytest.approx([model.epsilon] * 2, rel=1e-4)  # law 6
    assert model.epsilon < 1.6  # and not all of it for one training
    verify_certificate(papers)
    assert sordino.load(model.save(tmp_path / "m")).privacy_ == model.privacy_


def test_the_best_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    always(12, monkeypatch)
    seen = []

    def score(model: Logistic) -> float:
        seen.append(model)
        return float(model.coef_[0, 0])

    model = tune(score)
    assert len(seen) == 12
    assert {one.steps for one in seen} == {4, 16}  # fails by chance once in 2,048 runs
    assert model.coef_[0, 0] == max(one.coef_[0, 0] for one in seen)
    assert model.certificate_.evidence.candidates[
        model.certificate_.evidence.selected
    ].spec.steps == (model.steps)


def test_a_ledger_is_charged_once_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(3, monkeypatch)
    with Ledger(tmp_path / "b.db", dataset="d", epsilon=2.5, delta=1e-6) as ledger:
        model = tune()
        (entry,) = ledger.status().entries
        assert ledger.status().spent.epsilon == pytest.approx(model.privacy_.epsilon)
        assert model.certificate_.ledger_entry == entry.id
        monkeypatch.setattr(tuning._Candidates, "best", None)  # would fail if it came to training
        with pytest.raises(BudgetExceeded):
            tune()
        assert len(ledger.status().entries) == 1


def test_it_is_recorded_before_anybody_sees_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    always(1, monkeypatch)
    seen = []
    with Ledger(tmp_path / "b.db", dataset="d", epsilon=2.5, delta=1e-6) as ledger:
        tune(lambda model: seen.append(ledger.status().entries) or 0.0)
    assert [entry.status for entry in seen[0]] == ["recorded"]


def test_no_training_is_no_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(0, monkeypatch)
    ledger = Ledger(tmp_path / "b.db", dataset="d", epsilon=2.5, delta=1e-6)
    with ledger, pytest.raises(ReleaseRefused, match="came out as 0"):
        tune()
    (entry,) = ledger.status().entries
    assert entry.status == "failed"


def test_what_cannot_be_paid_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    always(2, monkeypatch)
    with pytest.raises(InvalidArgument, match="random_state"):
        tune(candidates=candidates(random_state=3))
    with pytest.raises(InvalidArgument, match="target"):
        tune(candidates=candidates(target="advantage<=0.1"))
    with pytest.raises(InvalidArgument, match="at least one"):
        tune(candidates=[])
    with pytest.raises(InvalidArgument, match="estimators"):
        tune(candidates=["logistic"])
    with pytest.raises(InvalidArgument, match="score"):
        tune(lambda model: math.nan)
    with pytest.raises(NotApplicable, match="adds no noise"):
        tune(candidates=[Logistic(method="none", classes=[0, 1])])
    with pytest.raises(NotApplicable, match="fewer mean_runs"):
        tune(mean_runs=1e100, epsilon=0.01)


def test_a_chosen_model_keeps_its_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    always(1, monkeypatch)
    with pytest.raises(InvalidArgument, match="tune"):
        tune().declare(tuning="none declared")


def test_what_is_scored_has_no_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A score that saves its models would hand out bundles that promise too little."""
    always(2, monkeypatch)

    def score(model: Logistic) -> float:
        assert model.privacy_ is None
        assert not hasattr(model, "certificate_")
        with pytest.raises(ReleaseRefused):
            model.save(tmp_path / "m")
        return 0.0

    assert tune(score).save(tmp_path / "m").exists()


def test_candidates_of_one_kind_only(monkeypatch: pytest.MonkeyPatch) -> None:
    always(2, monkeypatch)
    sizes = [
        Logistic(
            classes=[0, 1], relation="add-or-remove-one", public_rows=rows, method="dp-sgd", steps=5
        )
        for rows in (300, 500)
    ]
    with pytest.raises(InvalidArgument, match="delta"):
        tune(candidates=sizes, delta=None)
    units = [Logistic(classes=[0, 1], method="output-gd", max_rows_per_person=k) for k in (1, 2)]
    with pytest.raises(InvalidArgument, match="rows_per_person"):
        tune(candidates=units)


def test_what_any_candidate_read_is_not_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    always(1, monkeypatch)
    reads, knows = candidates()
    reads.set_params(classes=None)
    with pytest.warns(sordino.PrivacyLeakWarning, match="classes"):
        model = tune(candidates=[reads, knows])
    assert model.privacy_.not_covered == ("which classes there are was read off the labels",)
