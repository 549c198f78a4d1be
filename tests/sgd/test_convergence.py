"""The papers' stop rule, on score lists made by hand and on a small real problem."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.data import Dataset, load
from sordino.errors import InvalidArgument
from sordino.models import ObjectiveSpec, build
from sordino.sgd import DivergenceWarning, TrainSpec, convergence_point, train
from sordino.sgd.convergence import stop_position


@pytest.mark.parametrize(
    ("scores", "patience", "stop"),
    [
        ([], 3, None),
        ([0.5], 1, None),
        ([0.1, 0.2, 0.3, 0.4, 0.5], 1, None),
        # The third failure in a row, at the best or below it.
        ([0.5, 0.4, 0.4, 0.4], 3, 3),
        ([0.5, 0.4, 0.4], 3, None),
        # A tie with the best is a failure: "improve" means strictly above.
        ([0.5, 0.5, 0.5, 0.5], 3, 3),
        ([0.5, 0.5], 1, 1),
        # Rising again, but not above the best, does not count either.
        ([0.5, 0.1, 0.2, 0.3], 3, 3),
        # An improvement starts the count again.
        ([0.5, 0.4, 0.4, 0.6, 0.5, 0.5, 0.5], 3, 6),
        ([0.5, 0.4, 0.4, 0.6, 0.5, 0.5], 3, None),
        ([0.1, 0.0, 0.2, 0.1, 0.3, 0.2], 2, None),
        # The first stop counts, whatever comes after.
        ([0.5, 0.4, 0.4, 0.4, 0.9, 0.9], 3, 3),
        ([0.5, 0.4, 0.9], 1, 1),
        # Losses are scored negative; the start is never a failure.
        ([-3.0, -2.0, -2.5, -2.5], 2, 3),
        # A score that is no number never improves, and nothing finite is lost to it.
        ([0.5, math.nan, math.nan, math.nan], 3, 3),
        ([math.nan, 0.5, 0.4, 0.6], 2, None),
    ],
)
def test_stop_after_so_many_failures_in_a_row(scores, patience, stop):
    assert stop_position(scores, patience) == stop


def test_patience_is_three_as_in_the_papers():
    assert stop_position([1.0, 0.0, 0.0, 0.0]) == 3


@pytest.mark.parametrize("patience", [0, -1, 1.5, True])
def test_patience_is_a_whole_number(patience):
    with pytest.raises(InvalidArgument, match="Expected patience="):
        stop_position([1.0], patience)


@pytest.fixture(scope="module")
def cancer():
    return load("breast-cancer")


SPEC = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=300)


@pytest.mark.parametrize("score", ["accuracy", "loss"])
@pytest.mark.parametrize("patience", [1, 3])
def test_the_point_is_what_the_rule_says_of_the_weights_at_each_check(cancer, score, patience):
    found = convergence_point(
        SPEC,
        cancer.train,
        cancer.validation,
        seeds=[0, 4],
        every=20,
        patience=patience,
        score=score,
    )
    checks = list(found.steps)
    assert checks == list(range(20, checks[-1] + 1, 20))
    assert checks[-1] <= 300
    assert found.converged or checks[-1] == 300  # all steps are taken before giving up
    weights = train(SPEC, cancer.train, [0, 4], checkpoints=checks)[:, 0]
    objective = build(SPEC.objective, cancer.train.features)
    X, y = cancer.validation.X, cancer.validation.y
    scores = []
    for i in range(len(checks)):
        if score == "accuracy":
            scores.append(objective.accuracy(weights[:, i], X, y).mean())
        else:
            scores.append(-objective.loss(weights[:, i], X, y).mean())
    np.testing.assert_array_equal(found.scores, scores)
    # The rule again, in other words: the first check whose last `patience` are all at most the
    # best before them.
    stops = [
        i for i in range(patience, len(checks))
        if max(scores[i - patience + 1 : i + 1]) <= max(scores[: i - patience + 1])
    ]  # fmt: skip
    assert found.converged is bool(stops)
    at = stops[0] if stops else len(checks) - 1
    assert found.step == checks[at]
    assert found.best_step == checks[int(np.argmax(scores[: at + 1]))]
    assert found.step % 20 == 0
    if found.converged:
        # Scores may tie with the best, so the best is at least `patience` checks back.
        assert found.step - found.best_step >= 20 * patience


def test_accuracy_converges_here_and_the_loss_does_not(cancer):
    """Both ways out are met: logistic loss on this problem still falls after 300 steps."""
    by_accuracy = convergence_point(SPEC, cancer.train, cancer.validation, every=20)
    assert by_accuracy.converged
    assert by_accuracy.step < 300
    by_loss = convergence_point(
        SPEC, cancer.train, cancer.validation, every=70, patience=3, score="loss"
    )
    assert not by_loss.converged
    assert by_loss.step == by_loss.best_step == 280  # the last check, not the last step
    assert by_loss.steps == (70, 140, 210, 280)
    assert all(a < b for a, b in zip(by_loss.scores, by_loss.scores[1:], strict=False))


def test_epochs_bound_the_search_as_steps_do(cancer):
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 100, epochs=3)
    total = spec.total_steps(cancer.train.rows)
    found = convergence_point(spec, cancer.train, cancer.validation, every=1, patience=total + 1)
    assert found.steps == tuple(range(1, total + 1))
    assert found.step == total
    assert not found.converged


def test_the_engines_arguments_pass_through(cancer):
    seen = []
    spec = TrainSpec(ObjectiveSpec("logistic"), 0.5, 32, steps=20, init="given")
    found = convergence_point(
        spec,
        cancer.train,
        cancer.validation,
        every=20,
        initial_weights=np.zeros(cancer.train.features + 1),
        threads=1,
        progress=seen.append,
    )
    assert seen
    assert found.steps == (20,)


def test_a_network_is_scored_on_images():
    digits = load("digits")
    spec = TrainSpec(ObjectiveSpec("cnn", hidden=4), 0.1, 64, steps=6)
    found = convergence_point(spec, digits.train, digits.validation, every=2, patience=1)
    assert len(found.scores) == 3
    assert all(0 <= s <= 1 for s in found.scores)


def _must_not_train(_):
    pytest.fail("trained before the argument was refused")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"every": 0}, "every=0 >= 1"),
        ({"every": 2.5}, "every=2.5 to be a whole number"),
        ({"every": 301}, "every=301 <= 300, the number of steps"),
        ({"score": "acuracy"}, "score=acuracy to be one of accuracy, loss. Did you mean accuracy"),
        ({"seeds": []}, "seeds=.* at least one"),
        ({"patience": 0}, "patience=0 >= 1"),
    ],
)
def test_bad_arguments_are_refused_before_training(cancer, arguments, sentence):
    with pytest.raises(InvalidArgument, match=f"Expected {sentence}"):
        convergence_point(
            SPEC, cancer.train, cancer.validation, progress=_must_not_train, **arguments
        )


def test_least_squares_has_no_accuracy_to_stop_by(cancer):
    spec = TrainSpec(ObjectiveSpec("least-squares"), 0.01, 32, steps=20)
    with pytest.raises(InvalidArgument, match="to be a classifier"):
        convergence_point(spec, cancer.train, cancer.validation, every=10)


def test_a_training_that_blows_up_is_not_best_where_it_is_no_number():
    X = np.array([[1.0], [2.0], [-1.0], [0.5]])
    data = Dataset(X, X[:, 0])
    spec = TrainSpec(ObjectiveSpec("least-squares"), 1e100, 4, steps=6, dtype="float64")
    with np.errstate(all="ignore"), pytest.warns(DivergenceWarning):
        found = convergence_point(spec, data, data, every=1, score="loss", patience=6)
    assert any(math.isnan(s) for s in found.scores)
    best = found.scores[found.steps.index(found.best_step)]
    assert best == np.nanmax(found.scores)
