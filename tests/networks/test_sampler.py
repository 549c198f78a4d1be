"""Batches are drawn as they are accounted: by Poisson sampling or allocation, from a secret key."""

from __future__ import annotations

import hashlib
import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats
from trainings import network, training, weights

from sordino.errors import InvalidArgument
from sordino.networks.sampler import StepSampler
from sordino.privacy import Sampling

POISSON, ALLOCATION = Sampling.POISSON, Sampling.ALLOCATION
RARE = 1e-9
"""How often a test fails that asks about one number of a sound sampler."""
KEY = bytes(range(32))


def members(batches: StepSampler, steps: int) -> np.ndarray:
    """Whether [step, record] is in."""
    found = np.zeros((steps, batches.records), dtype=bool)
    for step in range(steps):
        places = batches.of(step)
        assert (np.diff(places) > 0).all()
        found[step, places] = True
    return found


# Poisson


@pytest.mark.parametrize("rate", [0.003, 0.1, 1 / 3, 0.5, 0.97])
def test_every_record_and_every_step_has_the_rate(rate):
    found = members(StepSampler(POISSON, 250, rate), 400)
    for axis, many in ((0, 400), (1, 250), (None, 100_000)):
        counts = np.atleast_1d(found.sum(axis))
        low, high = stats.binom.interval(1 - RARE, many, rate)
        assert counts.min() >= low
        assert counts.max() <= high


def test_steps_and_records_are_independent():
    found = members(StepSampler(POISSON, 300, 0.3), 600)
    # Of neighbouring steps, of neighbouring records, and of steps a power of two apart.
    pairs = [(found[:-1], found[1:]), (found[:, :-1], found[:, 1:]), (found[:-256], found[256:])]
    for first, second in pairs:
        table = np.array([[(first == a)[second == b].sum() for b in (0, 1)] for a in (0, 1)])
        assert stats.chi2_contingency(table, correction=False).pvalue > RARE
    # The size of a batch has the variance of independent records.
    sizes = found.sum(1)
    spread = ((sizes - 90) ** 2).sum() / 63
    assert stats.chi2.ppf(RARE / 2, 600) < spread < stats.chi2.ppf(1 - RARE / 2, 600)


def test_many_records_are_drawn_in_pieces_and_none_is_left_out():
    many = (1 << 20) + 5000
    batches = StepSampler(POISSON, many, 0.5)
    places = batches.of(0)
    late = places[places >= 1 << 20]
    low, high = stats.binom.interval(1 - RARE, 5000, 0.5)
    assert low <= len(late) <= high
    # The second piece does not repeat the first.
    assert not np.array_equal(late - (1 << 20), places[: len(late)])


def test_a_rate_of_one_takes_all():
    assert StepSampler(POISSON, 7, 1.0).of(3).tolist() == list(range(7))


def test_the_rate_is_kept_to_the_last_bit():
    # A record is in where a 64-bit word is below rate * 2^64: words of a known key say where.
    batches = StepSampler(POISSON, 50, 0.25, key=KEY)
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    cipher = Cipher(algorithms.ChaCha20(KEY, bytes(4) + (9).to_bytes(12, "little")), mode=None)
    words = np.frombuffer(cipher.encryptor().update(bytes(400)), dtype="<u8")
    assert batches.of(9).tolist() == np.flatnonzero(words < 2**62).tolist()


# Allocation


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 64])
def test_each_record_is_in_one_step_of_every_epoch(steps):
    found = members(StepSampler(ALLOCATION, 500, steps_per_epoch=steps), 3 * steps)
    assert (found.reshape(3, steps, 500).sum(1) == 1).all()


def test_allocated_steps_are_uniform_and_drawn_anew():
    steps, epochs, records = 5, 200, 100
    found = members(StepSampler(ALLOCATION, records, steps_per_epoch=steps), steps * epochs)
    chosen = found.reshape(epochs, steps, records).argmax(1)
    assert stats.chisquare(np.bincount(chosen.ravel(), minlength=steps)).pvalue > RARE
    # One epoch tells nothing of the next, one record nothing of another.
    for first, second in ((chosen[:-1], chosen[1:]), (chosen[:, :-1], chosen[:, 1:])):
        table = np.zeros((steps, steps))
        np.add.at(table, (first.ravel(), second.ravel()), 1)
        assert stats.chi2_contingency(table).pvalue > RARE
    # Sizes vary as those of independent records do: no partition into equal parts.
    sizes = found.sum(1)
    assert sizes.std() > 0.5 * math.sqrt(records / steps * (1 - 1 / steps))


def test_an_epoch_may_be_asked_for_again():
    batches = StepSampler(ALLOCATION, 30, steps_per_epoch=3)
    first = [batches.of(step).tolist() for step in range(9)]
    assert [batches.of(step).tolist() for step in (8, 0, 4)] == [first[8], first[0], first[4]]


# The key


@pytest.mark.parametrize("sampling", [POISSON, ALLOCATION])
def test_the_key_says_it_all(sampling):
    def drawn(key: bytes) -> list[list[int]]:
        batches = StepSampler(sampling, 60, 0.2, 5, key)
        return [batches.of(step).tolist() for step in range(10)]

    assert drawn(KEY) == drawn(KEY)
    assert drawn(KEY) != drawn(KEY[::-1])
    assert len({str(each) for each in drawn(KEY)}) == 10


def test_keys_come_from_the_operating_system_and_are_not_shown():
    batches = StepSampler(POISSON, 10, 0.5, key=KEY)
    shown = f"{batches!r} {batches!s}"
    assert repr(KEY) not in shown
    assert KEY.hex() not in shown
    assert "key" not in shown
    assert len({StepSampler(POISSON, 10).key for _ in range(20)}) == 20


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ({"records": 0}, "records"),
        ({"sample_rate": 0.0}, "sample_rate"),
        ({"sample_rate": 1.5}, "sample_rate"),
        ({"steps_per_epoch": 0}, "steps_per_epoch"),
    ],
)
def test_impossible_numbers_are_refused(how, named):
    with pytest.raises(InvalidArgument, match=rf"^Expected {named}="):
        StepSampler(POISSON, **{"records": 5, **how})


# Empty batches


@pytest.mark.parametrize("sampling", ["poisson", "allocation"])
def test_empty_batches_happen_and_get_noise(sampling):
    rare = {"sample_rate": 1e-10} if sampling == "poisson" else {"steps_per_epoch": 10**10}
    module = network()
    trainer = training(module, sampling=sampling, batch_size=1, steps=3, **rare)
    seen = [weights(module)]
    for batch in trainer:
        # 40 records: each step is empty but for a chance of 4e-9.
        assert trainer._batches.of(batch.step).size == 0
        trainer.step(batch)
        seen.append(weights(module))
    moves = torch.stack([b - a for a, b in pairwise(seen)])
    assert (moves != 0).all()
    digests = {hashlib.sha256(each.numpy().tobytes()).digest() for each in moves}
    assert len(digests) == 3
