"""More than two classes: all problems of a release, trained and released as a fit does it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sordino import PrivateLogisticRegression
from sordino.audit import audit, pairs
from sordino.audit.runners import fits
from sordino.audit.runners.minimised import records_of
from sordino.audit.runners.outputs import OutputFileError, outputs
from sordino.audit.runners.trained import _TOGETHER as TOGETHER
from sordino.audit.runners.trained import TrainedProblems, is_deterministic
from sordino.audit.scores import record_losses
from sordino.data.dataset import Dataset
from sordino.errors import InvalidArgument
from sordino.estimators.fit import Randomness
from sordino.estimators.methods.training import train_together
from sordino.randomness import SeededStreams

RNG = np.random.default_rng(2)
X = RNG.standard_normal((90, 4))
Y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.4, 0.4])]
METHODS = ("noisy-gd", "dp-sgd", "rsgd-ar", "output-gd")


def fitting(method, **values):
    how = {"epsilon": 2.0, "delta": 1e-5, "classes": list("abc")}
    how |= {"multi_class": "one-vs-rest"} | values
    return PrivateLogisticRegression(method=method, **how)._prepare(X, Y)


def prepared(method, **values):
    made = fitting(method, **values)
    claim = fits.claim_of(made)
    pair = pairs.canary(fits.class_dataset(made), relation=claim.relation)
    return fits.mechanism_of(made), pair, claim


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_training_of_a_fit(method):
    """With the same streams: orders shared by all problems, noise of each problem's own."""
    plan = fitting(method).plan
    release, pair, _ = prepared(method)
    assert isinstance(release, TrainedProblems)
    streams = SeededStreams("audit 4")
    randomness = Randomness(streams, streams, streams)
    noiseless = dataclasses.replace(release, scale=0.0)
    found = outputs(noiseless, *pair, 3, seed=4)
    for world, data in zip(found, pair, strict=True):
        wanted = train_together([plan], records_of(plan, data), randomness, release.start)[0]
        np.testing.assert_allclose(world[0].reshape(wanted.shape), wanted, atol=1e-9)
    if not is_deterministic(release.spec):
        assert np.abs(found[0][1] - found[0][0]).min() > 1e-6


def test_problems_have_noise_of_their_own_and_runs_are_independent():
    release, pair, _ = prepared("noisy-gd")
    first, _ = outputs(release, *pair, 1500)
    blocks = first.reshape(1500, 3, -1)
    for column in range(blocks.shape[2]):
        apart = np.corrcoef(blocks[:, :, column].T) - np.eye(3)
        assert np.abs(apart).max() < 5 / np.sqrt(1500)
        between = np.corrcoef(blocks[:-TOGETHER, 0, column], blocks[TOGETHER:, 0, column])[0, 1]
        assert abs(between) < 5 / np.sqrt(1400)


def test_the_noise_of_the_release():
    release, pair, _ = prepared("output-gd")
    assert is_deterministic(release.spec)
    noisy = outputs(release, *pair, 400)
    plain = outputs(dataclasses.replace(release, scale=0.0), *pair, 1)
    added = [(one - other) / release.scale for one, other in zip(noisy, plain, strict=True)]
    for each in added:
        # Relative error of a deviation from 6000 numbers: 1 / sqrt(12000).
        assert each.std() == pytest.approx(1.0, rel=5 / np.sqrt(12000))
        assert np.abs(np.corrcoef(each.T) - np.eye(15)).max() < 5 / np.sqrt(400)
    assert abs(np.corrcoef(added[0].ravel(), added[1].ravel())[0, 1]) < 5 / np.sqrt(6000)


@pytest.mark.parametrize("method", ["dp-sgd", "output-gd"])
def test_one_seed_one_result_whatever_was_made_before(method, tmp_path):
    release, pair, _ = prepared(method)
    whole = outputs(release, *pair, 150, seed=2, workers=1)
    file = tmp_path / "outputs"
    outputs(release, *pair, 70, seed=2, file=file)
    going_on = outputs(release, *pair, 150, seed=2, file=file)
    for ours, theirs in zip(going_on, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    with pytest.raises(OutputFileError, match="same seed"):
        outputs(release, *pair, 150, seed=3, file=file)


def test_a_label_alone_may_differ():
    """Then one problem of three is the same in both worlds, noise and all (float64: 1e-9)."""
    release, (D, _), _ = prepared("noisy-gd")
    y = D.y.copy()
    y[5] = (y[5] + 1) % 3
    same = ({0, 1, 2} - {int(D.y[5]), int(y[5])}).pop()
    first, second = outputs(release, D, Dataset(D.X, y, D.norm_bound), 4)
    apart = np.abs(first - second).reshape(4, 3, -1).max(axis=(0, 2))
    assert apart[same] < 1e-9
    assert np.delete(apart, same).min() > 1e-6


def test_one_record_more():
    release, (D, D_prime), _ = prepared("dp-sgd", relation="add-or-remove-one", public_rows=90)
    assert D_prime.rows == 91
    both = outputs(release, D, D_prime, 3)
    for ours, theirs in zip(both, outputs(release, D_prime, D, 3)[::-1], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    assert np.abs(both[0] - both[1]).max() > 1e-6


def test_dp_agd_of_three_classes():
    mechanism, pair, _ = prepared("dp-agd", steps=3)
    assert outputs(mechanism, *pair, 2, workers=1)[0].shape == (2, 15)


def test_losses_of_the_record():
    _, pair, _ = prepared("output-gd")
    score = record_losses(*pair, 3, "logistic", 0.5)
    weights = RNG.standard_normal((6, 3, 5))
    losses = [
        np.logaddexp(0, np.where(data.y[0] == np.arange(3), -1, 1) * (weights @ data.X[0])).sum(1)
        for data in pair
    ]
    np.testing.assert_allclose(score(weights.reshape(6, 15)), losses[0] - losses[1])
    with pytest.raises(InvalidArgument, match="one record replaced"):
        record_losses(pair.D, pair.D.take(np.arange(89)), 3, "logistic", 0.5)


class TestAudit:
    @pytest.mark.parametrize("score", ["learned", "losses"])
    def test_too_little_noise_is_seen_and_enough_is_not(self, score):
        release, pair, claim = prepared("output-gd")
        judged = record_losses(*pair, 3, "logistic", 0.5) if score == "losses" else score
        how = {"claim": claim, "score": judged}
        assert not audit(release, *pair, 4000, **how).violated
        less = dataclasses.replace(release, scale=release.scale / 8)
        assert audit(less, *pair, 4000, **how).violated
