"""The order of examples: permutations, batches cut from them, and Poisson sampling."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sordino.errors import InvalidArgument
from sordino.models.constants import ObjectiveSpec
from sordino.randomness import SeededStreams
from sordino.sgd.batches import (
    AllocationSampler,
    _bernoulli_hits,
    _shuffle,
    draw_permutation,
    epochs,
)
from sordino.sgd.spec import TrainSpec

NOTHING = 999


def make(batch_size, order="shuffle", **more):
    return TrainSpec(ObjectiveSpec("logistic"), 0.5, batch_size, steps=1, order=order, **more)


def draw(spec, slots, seeds, many, streams=None):
    """The first `many` epochs."""
    streams = SeededStreams() if streams is None else streams
    return list(itertools.islice(epochs(spec, slots, seeds, streams, NOTHING), many))


def batches(epoch, run):
    """Slot lists of one run; what stands after the last slot must be padding, nothing else."""
    out = []
    for row, width in zip(epoch.index[run], epoch.width, strict=True):
        slots = row[row != NOTHING].tolist()
        assert row[: len(slots)].tolist() == slots  # padding at the end only
        assert len(slots) <= width
        out.append(slots)
    return out


# Permutations -----------------------------------------------------------------------------


@pytest.mark.parametrize(("slots", "size"), [(20, 5), (23, 5), (5, 5), (7, 1), (9, 8)])
def test_each_epoch_of_a_shuffle_is_a_new_permutation(slots, size):
    drawn = draw(make(size), slots, [0, 1, 2], 4)
    seen = set()
    for epoch in drawn:
        assert epoch.index.shape == (3, -(-slots // size), size)
        assert epoch.index.dtype == np.int32
        last = slots - (len(epoch.width) - 1) * size
        assert epoch.width.tolist() == [size] * (len(epoch.width) - 1) + [last]
        for run in range(3):
            cut = batches(epoch, run)
            assert [len(b) for b in cut] == epoch.width.tolist()
            flat = list(itertools.chain(*cut))
            assert sorted(flat) == list(range(slots))
            seen.add(tuple(flat))
    # 12 permutations; with 5 slots two of them agree once in two, with 7 once in 76.
    assert len(seen) == 12 or slots < 9


def test_drop_last_leaves_out_the_small_batch_and_nothing_else():
    ragged = draw(make(5), 23, [3], 3)
    dropped = draw(make(5, drop_last=True), 23, [3], 3)
    for whole, cut in zip(ragged, dropped, strict=True):
        assert cut.index.shape == (1, 4, 5)
        assert cut.width.tolist() == [5, 5, 5, 5]
        np.testing.assert_array_equal(cut.index, whole.index[:, :4])
    even = draw(make(5, drop_last=True), 20, [3], 1)[0]
    assert even.width.tolist() == [5, 5, 5, 5]


def test_permute_once_cycles_its_first_permutation():
    once = draw(make(4, "permute-once"), 22, [0, 5], 4)
    for epoch in once:
        np.testing.assert_array_equal(epoch.index, once[0].index)
    assert sorted(itertools.chain(*batches(once[0], 1))) == list(range(22))
    assert not np.array_equal(once[0].index[0], once[0].index[1])
    # It is the shuffle's first: the same stream, drawn from once.
    np.testing.assert_array_equal(once[0].index, draw(make(4), 22, [0, 5], 1)[0].index)


def test_a_fixed_order_is_rows_as_they_come_for_every_seed():
    for epoch in draw(make(4, "fixed"), 10, [0, 5], 3):
        for run in (0, 1):
            assert batches(epoch, run) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("order", ["shuffle", "permute-once", "poisson", "allocation"])
def test_an_order_belongs_to_its_seed_whoever_else_is_in_the_chunk(order):
    spec = make(5, order)
    together = draw(spec, 23, [8, 3, 8, 1], 4)
    for run, seed in enumerate([8, 3, 8, 1]):
        alone = draw(spec, 23, [seed], 4)
        for one, many in zip(alone, together, strict=True):
            assert batches(one, 0) == batches(many, run)
    different = [batches(epoch, run) for epoch in together[:1] for run in (0, 1, 3)]
    assert different[0] != different[1] != different[2] != different[0]


@pytest.mark.parametrize("order", ["shuffle", "permute-once", "poisson", "allocation"])
def test_another_root_of_the_streams_is_another_experiment(order):
    one = draw(make(5, order), 23, [0], 1)[0]
    other = draw(make(5, order), 23, [0], 1, SeededStreams("other"))[0]
    assert batches(one, 0) != batches(other, 0)


def test_part_is_some_steps_of_the_epoch():
    epoch = draw(make(5), 23, [0, 1], 1)[0]
    part = epoch.part(slice(2, 5))
    np.testing.assert_array_equal(part.index, epoch.index[:, 2:5])
    assert part.width.tolist() == [5, 5, 3]


def test_the_order_of_seed_0_is_written_down():
    """A change here changes every study. Made with:

    python -c "from sordino.randomness import stream; from sordino.sgd.batches import *;
    order = np.empty(20, np.int32); draw_permutation(order, stream('order', 0));
    print(order[:8].tolist())"
    """
    epoch = draw(make(4), 20, [0], 1)[0]
    assert epoch.index[0].ravel()[:8].tolist() == GOLDEN


GOLDEN = [16, 11, 17, 2, 10, 4, 13, 8]


# Uniformity -------------------------------------------------------------------------------


def test_every_permutation_of_four_is_equally_likely():
    generator = SeededStreams().stream("test", "permutations of four")
    order = np.empty(4, dtype=np.int32)
    counts = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(24_000):
        draw_permutation(order, generator)
        counts[tuple(order.tolist())] += 1
    observed = np.array(list(counts.values()))
    # 1000 expected of each. A fair shuffle passes this limit once in a million streams; one that
    # swaps every place with any place gives 15/256 to 8/256 where 1/24 is due: chi-square 1,500.
    assert stats.chisquare(observed).pvalue > 1e-6


def test_every_slot_comes_to_every_place():
    """Means over 4000 orders of 30: each place's slot is uniform, and places are unrelated."""
    generator = SeededStreams().stream("test", "places")
    order = np.empty(30, dtype=np.int32)
    table = np.zeros((30, 30))
    for _ in range(4000):
        draw_permutation(order, generator)
        table[np.arange(30), order] += 1
    # 900 cells of mean 133 with margins fixed: 29^2 degrees of freedom.
    chi = np.square(table - 4000 / 30).sum() / (4000 / 30) * 29 / 30
    assert stats.chi2.sf(chi, 29**2) > 1e-6
    assert stats.chi2.cdf(chi, 29**2) > 1e-6


def words(*values):
    return np.array(values, dtype=np.uint32)


def test_the_shuffle_follows_its_words():
    """Word w picks j = w * bound >> 32. For 3 slots: bound 3, then 2."""
    order = np.empty(3, dtype=np.int32)
    for j2, j1 in itertools.product(range(3), range(2)):
        # The middle of each third and each half, where nothing is rejected.
        first = int((j2 + 0.5) / 3 * 2**32)
        second = int((j1 + 0.5) / 2 * 2**32)
        assert _shuffle(order, words(first, second))
        want = [0, 1, 2]
        want[2], want[j2] = want[j2], want[2]
        want[1], want[j1] = want[j1], want[1]
        assert order.tolist() == want


def test_a_word_that_would_favour_a_slot_is_rejected():
    """2^32 = 1 mod 3, so one word of 2^32 is too many: word 0, whose low product is 0 < 1."""
    order, clean = np.empty(3, dtype=np.int32), np.empty(3, dtype=np.int32)
    good = (1 << 31, 1 << 30)
    assert _shuffle(clean, words(*good))
    assert _shuffle(order, words(0, 0, 0, *good))
    assert order.tolist() == clean.tolist()
    # With 2 or 4 slots nothing is ever rejected: word 0 picks slot 0.
    pair = np.empty(2, dtype=np.int32)
    assert _shuffle(pair, words(0))
    assert pair.tolist() == [1, 0]


def test_the_rejection_threshold_is_exact():
    """Bound 6: 2^32 mod 6 = 4, so low products 0..3 are rejected and 4 is the first kept."""
    order = np.empty(6, dtype=np.int32)
    enough = [(1 << 31) + 12345] * 5  # kept at every bound
    inverse = pow(3, -1, 2**31)
    for low in (0, 2, 4, 6):  # 6 w is even: w = low / 6 mod 2^31 has low product `low`
        word = (low // 2 * inverse) % 2**31
        assert (word * 6) % 2**32 == low
        # One word more than needed: it is used only if `word` was rejected.
        assert _shuffle(order, words(word, *enough))
        assert _shuffle(order, words(word, *enough[:4])) is (low >= 4)


def test_running_out_of_words_is_said_and_never_guessed():
    order = np.empty(3, dtype=np.int32)
    assert not _shuffle(order, words())
    assert not _shuffle(order, words(0, 0, 0))  # all rejected
    assert not _shuffle(order, words(0, 1 << 31))  # none left for the second place
    assert _shuffle(np.empty(1, dtype=np.int32), words())  # one slot needs no word


def test_a_second_round_starts_from_fresh_words():
    class Unlucky:
        rounds = 0

        def integers(self, low, high, size, dtype):
            assert (low, high, dtype) == (0, 1 << 32, np.uint32)
            self.rounds += 1
            value = 0 if self.rounds < 3 else 1 << 31  # word 0 is rejected at bound 3
            return np.full(size, value, dtype=dtype)

    generator, order = Unlucky(), np.empty(3, dtype=np.int32)
    draw_permutation(order, generator)
    assert generator.rounds == 3
    assert order.tolist() == [0, 2, 1]  # 2 <-> 1, then 1 <-> 1


# Poisson ----------------------------------------------------------------------------------


def inclusion(drawn, slots):
    """[seed, step, slot] as booleans, over all epochs; a slot twice in a batch is an error."""
    out = []
    for epoch in drawn:
        many, steps, _ = epoch.index.shape
        table = np.zeros((many, steps, slots), dtype=bool)
        counts = np.zeros((many, steps), dtype=int)
        for run in range(many):
            for t, batch in enumerate(batches(epoch, run)):
                assert len(set(batch)) == len(batch)
                assert all(0 <= slot < slots for slot in batch)
                table[run, t, batch] = True
                counts[run, t] = len(batch)
        # Exactly as wide as the fullest batch of the step, and of the epoch.
        assert epoch.width.tolist() == np.maximum(counts.max(axis=0), 1).tolist()
        assert epoch.index.shape[2] == max(1, counts.max())
        out.append(table)
    return np.concatenate(out, axis=1)


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(
    slots=st.integers(1, 40),
    batch=st.integers(1, 40),
    rate=st.none() | st.sampled_from([1e-12, 1e-3, 0.1, 0.5, 0.9, 0.999999, 1.0]),
    seeds=st.lists(st.integers(0, 2**64), min_size=1, max_size=4),
)
def test_poisson_batches_hold_each_slot_at_most_once(slots, batch, rate, seeds):
    spec = make(min(batch, slots), "poisson", sample_rate=rate)
    table = inclusion(draw(spec, slots, seeds, 2), slots)
    assert table.shape == (len(seeds), 2 * spec.batches_per_epoch(slots), slots)
    if (rate is None and batch >= slots) or rate == 1.0:
        assert table.all()


@pytest.fixture(scope="module")
def table():
    """40 seeds, 200 steps, 50 slots at rate 1/10: 8000 batches, 400,000 draws."""
    return inclusion(draw(make(5, "poisson"), 50, range(40), 20), 50)


RATE, STEPS, SLOTS = 0.1, 8000, 50
SPREAD = math.sqrt(RATE * (1 - RATE))


def test_every_slot_is_in_every_batch_with_the_same_probability(table):
    assert table.shape == (40, 200, SLOTS)
    # 5 standard errors; the largest of 50 slots or 10 steps of an epoch stays within 5 too.
    assert abs(table.mean() - RATE) < 5 * SPREAD / math.sqrt(table.size)
    by_slot = table.mean(axis=(0, 1))
    assert np.abs(by_slot - RATE).max() < 5 * SPREAD / math.sqrt(STEPS)
    by_step = table.reshape(40, 20, 10, SLOTS).mean(axis=(0, 1, 3))
    assert np.abs(by_step - RATE).max() < 5 * SPREAD / math.sqrt(40 * 20 * SLOTS)


def test_the_size_of_a_poisson_batch_is_binomial(table):
    """A batch of fixed size would have no spread at all."""
    sizes = table.sum(axis=2).ravel()
    # The variance of 8000 sizes has a standard error of sqrt(2/8000) = 1.6%.
    assert sizes.var() / (SLOTS * SPREAD**2) == pytest.approx(1, abs=5 * math.sqrt(2 / STEPS))
    bins = np.arange(14)
    expected = stats.binom.pmf(bins, SLOTS, RATE) * STEPS
    observed = np.array([(sizes == k).sum() for k in bins])
    expected[-1] += stats.binom.sf(bins[-1], SLOTS, RATE) * STEPS
    observed[-1] += (sizes > bins[-1]).sum()
    assert stats.chisquare(observed, expected * STEPS / expected.sum()).pvalue > 1e-6


def correlation(a, b):
    return float(((a - RATE) * (b - RATE)).mean() / SPREAD**2)


def test_slots_steps_and_seeds_are_drawn_independently(table):
    flat = table.reshape(STEPS, SLOTS).astype(float)
    pairs = np.corrcoef(flat.T)[np.triu_indices(SLOTS, 1)]
    # 1225 correlations, each about N(0, 1/8000): the largest passes 5.5 once in 20,000 streams.
    assert np.abs(pairs).max() < 5.5 / math.sqrt(STEPS)
    numbers = table.astype(float)
    for lag in (1, 2, 9, 10, 11):  # an epoch is 10 steps
        a, b = numbers[:, :-lag], numbers[:, lag:]
        assert abs(correlation(a, b)) < 5 / math.sqrt(a.size)
    in_a_row = numbers.reshape(40, -1)  # the end of one step and the start of the next
    for lag in (1, 2, 3, 49, 51):
        a, b = in_a_row[:, :-lag], in_a_row[:, lag:]
        assert abs(correlation(a, b)) < 5 / math.sqrt(a.size)
    for a, b in itertools.pairwise(numbers):
        assert abs(correlation(a, b)) < 5 / math.sqrt(a.size)


def test_the_rate_is_batch_over_n_unless_it_is_given():
    by_batch = draw(make(5, "poisson"), 50, [2], 3)
    given_same = draw(make(5, "poisson", sample_rate=0.1), 50, [2], 3)
    for one, other in zip(by_batch, given_same, strict=True):
        np.testing.assert_array_equal(one.index, other.index)
    wide = inclusion(draw(make(5, "poisson", sample_rate=0.6), 50, range(20), 10), 50)
    assert wide.shape == (20, 100, 50)  # epochs stay n / batch_size steps long
    assert wide.mean() == pytest.approx(0.6, abs=5 * 0.49 / math.sqrt(wide.size))


def test_rate_one_is_everything_every_time():
    for epoch in draw(make(4, "poisson", sample_rate=1.0), 9, [0, 1], 2):
        assert epoch.index.shape == (2, 3, 9)
        assert (epoch.index == np.arange(9)).all()


def test_a_tiny_rate_gives_empty_batches():
    for epoch in draw(make(4, "poisson", sample_rate=1e-15), 100, [0, 1], 3):
        assert epoch.index.shape == (2, 25, 1)
        assert (epoch.index == NOTHING).all()
        assert epoch.width.tolist() == [1] * 25


# Allocation -------------------------------------------------------------------------------


@settings(derandomize=True, max_examples=60, deadline=None, database=None)
@given(
    slots=st.integers(1, 40),
    batch=st.integers(1, 40),
    steps=st.none() | st.integers(1, 60),
    seeds=st.lists(st.integers(0, 2**64), min_size=1, max_size=4),
)
def test_allocation_puts_each_slot_in_one_batch_of_every_epoch(slots, batch, steps, seeds):
    spec = make(min(batch, slots), "allocation", steps_per_epoch=steps)
    table = inclusion(draw(spec, slots, seeds, 3), slots)
    per_epoch = steps or -(-slots // min(batch, slots))
    assert table.shape == (len(seeds), 3 * per_epoch, slots)
    assert (table.reshape(len(seeds), 3, per_epoch, slots).sum(axis=2) == 1).all()


ALLOCATED_STEPS, ALLOCATED_SLOTS = 8, 30


@pytest.fixture(scope="module")
def allocated():
    """The step of each slot, [seed, epoch, slot]: 50 seeds, 200 epochs of 8 steps, 30 slots."""
    spec = make(4, "allocation", steps_per_epoch=ALLOCATED_STEPS)
    steps = np.full((50, 200, ALLOCATED_SLOTS), -1)
    for number, epoch in enumerate(draw(spec, ALLOCATED_SLOTS, range(50), 200)):
        seed, step, place = np.nonzero(epoch.index != NOTHING)
        steps[seed, number, epoch.index[seed, step, place]] = step
    return steps


def uniform(cells, many):
    """The p-value that these cell numbers 0..many-1 are equally likely."""
    return stats.chisquare(np.bincount(np.ravel(cells), minlength=many)).pvalue


def test_every_slot_is_in_every_step_with_the_same_probability(allocated):
    assert uniform(allocated, ALLOCATED_STEPS) > 1e-4
    for slot in range(ALLOCATED_SLOTS):
        assert uniform(allocated[..., slot], ALLOCATED_STEPS) > 1e-5


def test_a_slots_step_tells_nothing_of_another_slot_epoch_or_seed(allocated):
    """What the proof needs, and what a shuffled loader does not have."""
    many = ALLOCATED_STEPS**2
    pairs = [(a, b) for a in range(3) for b in range(a + 1, ALLOCATED_SLOTS)]
    for a, b in pairs:
        assert uniform(ALLOCATED_STEPS * allocated[..., a] + allocated[..., b], many) > 1e-6
    for one, other in (
        (allocated[:, :-1], allocated[:, 1:]),  # epochs
        (allocated[:-1], allocated[1:]),  # seeds
        (allocated[..., :-1], allocated[..., 1:]),
    ):
        assert uniform(ALLOCATED_STEPS * one + other, many) > 1e-4
    order = np.random.default_rng(0).permuted(np.tile(np.arange(16), (5_000, 1)), axis=1) // 2
    shuffled = order[:, 0] * ALLOCATED_STEPS + order[:, 1]
    assert uniform(shuffled, many) < 1e-6


def test_the_size_of_an_allocated_batch_is_binomial(allocated):
    sizes = (allocated[..., None] == np.arange(ALLOCATED_STEPS)).sum(axis=2)[..., 0].ravel()
    law = stats.binom(ALLOCATED_SLOTS, 1 / ALLOCATED_STEPS)
    bins = np.arange(11)
    expected = np.append(law.pmf(bins[:-1]), law.sf(bins[-2]))
    counted = np.bincount(np.minimum(sizes, bins[-1]), minlength=len(bins))
    assert stats.chisquare(counted, expected * len(sizes)).pvalue > 1e-4
    assert counted[0] > 0  # empty batches stay in


def test_the_allocation_of_seed_0_is_written_down():
    """A change here changes every study with it: stream("order", seed), one integer a slot."""
    spec = make(4, "allocation", steps_per_epoch=5)
    first, second = draw(spec, 12, [0], 2)
    generator = SeededStreams().stream("order", 0)
    for epoch in (first, second):
        steps = generator.integers(5, size=12).tolist()
        assert batches(epoch, 0) == [[s for s in range(12) if steps[s] == t] for t in range(5)]
    assert batches(first, 0) == ALLOCATED


ALLOCATED = [[1, 6, 11], [0, 4, 5, 10], [2, 8, 9], [3, 7], []]


def test_hits_do_not_depend_on_how_many_were_drawn_at_once():
    """Draws stop a little past the end; every block must go on where the last one stopped."""

    class Stingy:
        """An exponential source that is always late: every gap is one trial."""

        calls = 0

        def standard_exponential(self, many):
            self.calls += 1
            return np.full(many, 1e-12)

    source = Stingy()
    np.testing.assert_array_equal(_bernoulli_hits(source, 1000, 0.01), np.arange(1000))
    assert source.calls > 5


@pytest.mark.parametrize("rate", [0.003, 0.2, 0.97])
def test_gaps_between_hits_are_geometric(rate):
    generator = SeededStreams().stream("test", "gaps")
    hits = _bernoulli_hits(generator, int(20_000 / rate), rate)
    gaps = np.diff(hits, prepend=-1)
    assert gaps.min() == 1
    # About 20,000 gaps of mean 1/p and standard deviation sqrt(1-p)/p: 5 standard errors.
    assert gaps.mean() == pytest.approx(1 / rate, abs=5 / rate / math.sqrt(len(gaps)))
    for k in (1, 2, 3):
        want = (1 - rate) ** k
        assert (gaps > k).mean() == pytest.approx(
            want, abs=5 * math.sqrt(want * (1 - want) / len(gaps))
        )


class TestAllocationSampler:
    """Batches for loaders of others; 1e-9 is the chance of a failure of each chi-square test."""

    def test_every_record_is_in_one_batch_of_an_epoch(self):
        sampler = AllocationSampler(records=57, steps_per_epoch=10)
        drawn = [list(sampler) for _ in range(3)]
        for epoch in drawn:
            assert len(epoch) == len(sampler) == 10
            assert sorted(index for batch in epoch for index in batch) == list(range(57))
            assert all(type(index) is int for batch in epoch for index in batch)
        assert drawn[0] != drawn[1] != drawn[2]
        assert sampler.epoch == 3

    @pytest.mark.parametrize("steps", [1, 2, 3, 7, 8])
    def test_places_are_uniform_and_independent_of_other_records_and_epochs(self, steps):
        epochs = 2_000
        places = np.empty((epochs, 2), dtype=int)
        sampler = AllocationSampler(2, steps)
        for row in places:
            for step, batch in enumerate(sampler):
                row[batch] = step
        for pair in (places, np.stack([places[:-1, 0], places[1:, 0]], axis=1)):
            counts = np.bincount(pair @ (steps, 1), minlength=steps**2)
            expected = len(pair) / steps**2
            statistic = ((counts - expected) ** 2 / expected).sum()
            assert statistic <= stats.chi2.isf(1e-9, max(steps**2 - 1, 1))

    @pytest.mark.parametrize("bad", [(0, 5), (5, 0), (5, 1.5), ("5", 2), (True, 1)])
    def test_what_is_no_number_is_refused(self, bad):
        with pytest.raises(InvalidArgument):
            AllocationSampler(*bad)
