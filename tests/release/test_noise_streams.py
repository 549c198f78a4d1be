"""The two sources that make their own normals: `CryptoNormals` and `SeededNoise`."""

from __future__ import annotations

import copy
import hashlib
import math
import os
import pickle
import time

import numpy as np
import pytest
from scipy import stats

from sordino.errors import InvalidArgument
from sordino.models.kernels import normals
from sordino.release import CryptoNormals, SeededNoise, noise

FAR = 6.0  # standard errors: a sound source fails once in 10^9 tests


def _looks_normal(x: np.ndarray) -> None:
    n = x.size
    assert abs(x.mean()) * math.sqrt(n) < FAR
    assert abs(x.var() - 1) * math.sqrt(n / 2) < FAR
    assert abs(stats.skew(x.ravel())) * math.sqrt(n / 6) < FAR
    assert abs(stats.kurtosis(x.ravel())) * math.sqrt(n / 24) < FAR
    assert stats.kstest(x.ravel(), "norm").pvalue > 1e-9


# The keystream


def test_keystream_normals_are_normal_and_independent() -> None:
    x = CryptoNormals().stream("x").standard_normal((4000, 50))
    _looks_normal(x)
    assert abs(np.corrcoef(x.ravel()[:-1], x.ravel()[1:])[0, 1]) * math.sqrt(x.size) < FAR
    off = np.corrcoef(x.T)[np.triu_indices(50, 1)] * math.sqrt(4000)
    assert np.abs(off).max() < FAR + 1


def test_the_two_halves_of_a_pair_are_independent_beyond_correlation() -> None:
    # Cosine and sine share their radius: squares would tell if it did not cancel out.
    x = CryptoNormals().stream("x").standard_normal((300, 2, normals.TILE)) ** 2
    cosine, sine = x[:, 0].ravel(), x[:, 1].ravel()
    assert abs(np.corrcoef(cosine, sine)[0, 1]) * math.sqrt(cosine.size) < FAR


@pytest.mark.slow
def test_keystream_normals_hold_to_the_tails() -> None:
    x = CryptoNormals().stream("x").standard_normal((10_000_000,))
    _looks_normal(x)
    for out in (3.0, 4.0, 4.5):
        expected = stats.norm.sf(out) * x.size
        for side in (x, -x):
            beyond = np.count_nonzero(side > out)
            assert abs(beyond - expected) < FAR * math.sqrt(expected)


class _Words(noise._Keystream):
    """A keystream that gives the words it is told to."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value

    def _draw(self, words: np.ndarray) -> None:
        words[:] = self.value


@pytest.mark.parametrize("value", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_the_most_extreme_words_give_finite_numbers(value: int) -> None:
    stream = _Words(value)
    assert np.isfinite(stream.standard_normal((7,))).all()
    assert np.isfinite(stream.gumbel((7,))).all()
    uniforms = stream.uniforms((7,))
    assert ((uniforms > 0) & (uniforms < 1)).all()


def test_the_tails_reach_beyond_what_53_bits_allow() -> None:
    # Each summand goes to sqrt(2 ln 2^65) = 9.49, their sum over 2 to twice that.
    assert np.abs(_Words(0).standard_normal((2,))).max() > 18.9
    assert _Words(0).gumbel((1,))[0] > 44
    assert _Words(2**63).gumbel((1,))[0] < -3.8


class _Counted(noise._Keystream):
    """A keystream whose words are those of a generator, and are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(5)
        self.given: list[np.ndarray] = []

    def _draw(self, words: np.ndarray) -> None:
        words[:] = self.generator.integers(2**64, size=len(words), dtype=np.uint64)
        self.given.append(words.copy())


@pytest.mark.parametrize("count", [1, 6, 8191, 8192, 8193, 20_000])
def test_sums_of_four_have_exactly_this_formula(count: int) -> None:
    stream = _Counted()
    drawn = stream.standard_normal((count,))
    words = np.concatenate(stream.given).reshape(-1, 4, 2, normals.TILE)
    radius = np.sqrt(-2 * np.log((words[:, :, 0] + 0.5) / 2.0**64))
    angle = 2 * math.pi * words[:, :, 1] / 2.0**64
    pairs = [(radius * np.cos(angle)).sum(axis=1) / 2, (radius * np.sin(angle)).sum(axis=1) / 2]
    assert drawn == pytest.approx(np.stack(pairs, axis=1).ravel()[:count], abs=1e-12)


def test_no_two_streams_share_anything() -> None:
    source = CryptoNormals()
    draws = [source.stream("same", 1).standard_normal((50,)) for _ in range(20)]
    assert len(np.unique(draws)) == 20 * 50


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])  # noqa: S301
def test_a_stream_cannot_be_duplicated(copied: object) -> None:
    stream = CryptoNormals().stream("x")
    with pytest.raises(TypeError):
        copied(stream)  # type: ignore[operator]


def test_a_shallow_copy_goes_on_and_repeats_nothing() -> None:
    stream = CryptoNormals().stream("x")
    stream.standard_normal((5,))
    other = copy.copy(stream)
    drawn = [s.standard_normal((5,)) for s in (stream, other, stream, other)]
    assert len(np.unique(drawn)) == 20


def test_a_key_is_changed_before_its_counter_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_BYTES_A_KEY", len(noise._ZEROS))
    stream = noise._Keystream()
    first = stream._key
    stream.words(len(noise._ZEROS) // 8)
    assert stream._key is first
    stream.words(1)
    assert stream._key is not first
    _looks_normal(stream.standard_normal((50_000,)))


def test_a_shallow_copy_counts_what_both_drew_with_one_key() -> None:
    stream = noise._Keystream()
    other = copy.copy(stream)
    stream.words(3)
    other.words(5)
    assert stream.positions == other.positions
    assert stream.positions[0].used == 64


# Several threads


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> int:
    """Three threads for 999 numbers and more, on any machine."""
    monkeypatch.setattr(normals, "THREADS", 3)
    monkeypatch.setattr(noise, "_LEAST_A_THREAD", 333)
    return 3


@pytest.mark.parametrize("count", [0, 1, 665, 666, 998, 999, 1000, 30_001, 100_003])
def test_threads_fill_every_place_with_noise_of_their_own(threads: int, count: int) -> None:
    stream = noise._Keystream()
    drawn = stream.standard_normal((count,))
    assert len(np.unique(drawn)) == count
    assert (drawn != 0).all()
    assert len(stream.positions) == max(1, min(threads, count // 333))
    assert len({each.key for each in stream.positions}) == len(stream.positions)
    used = sum(each.used for each in stream.positions)
    # Whole tiles, of 2 * TILE numbers of 32 bytes, at the end of each thread's part.
    assert 32 * count <= used < 32 * (count + 2 * normals.TILE * len(stream.positions))


def test_parts_of_threads_are_normal_and_independent(threads: int) -> None:
    x = noise._Keystream().standard_normal((threads, 40_000))
    _looks_normal(x)
    for row in x:
        _looks_normal(row)
    off = np.corrcoef(x)[np.triu_indices(threads, 1)] * math.sqrt(x.shape[1])
    assert np.abs(off).max() < FAR


def test_blocks_are_independent() -> None:
    x = noise._Keystream().standard_normal((40, noise._BLOCK))
    off = np.corrcoef(x)[np.triu_indices(40, 1)] * math.sqrt(noise._BLOCK)
    assert np.abs(off).max() < FAR + 1


@pytest.mark.usefixtures("threads")
def test_keys_end_in_the_middle_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_BYTES_A_KEY", len(noise._ZEROS) + 4096)
    keys = []

    class Key(noise._Key):
        def __init__(self) -> None:
            super().__init__()
            keys.append(self)

    monkeypatch.setattr(noise, "_Key", Key)
    drawn = noise._Keystream().standard_normal((20 * noise._BLOCK,))
    assert len(keys) >= 20
    assert all(each.used <= len(noise._ZEROS) + 4096 for each in keys)
    assert len({each.fingerprint for each in keys}) == len(keys)
    assert len(np.unique(drawn)) == drawn.size
    _looks_normal(drawn)


@pytest.mark.usefixtures("threads")
def test_a_thread_that_fails_fails_the_request() -> None:
    class Failing(noise._Keystream):
        def _draw(self, words: np.ndarray) -> None:
            raise MemoryError

    stream = noise._Keystream()
    stream._others = [Failing(), Failing()]
    with pytest.raises(MemoryError):
        stream.standard_normal((5000,))


# How far a stream is


def test_positions_count_every_byte_and_do_not_tell_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = []
    monkeypatch.setattr(os, "urandom", lambda count: given.append(bytes(range(count))) or given[-1])
    stream = CryptoNormals().stream("x")
    [(key, used)] = stream.positions
    assert used == 0
    assert key == hashlib.sha256(b"sordino keystream" + given[0]).hexdigest()[:32]
    assert given[0].hex()[:32] not in key
    stream.uniforms((3,))
    assert stream.positions == ((key, 24),)
    stream.standard_normal((1,))
    assert stream.positions == ((key, 24 + 8 * normals.words_for(1)),)


def test_positions_tell_streams_apart_and_say_nothing_of_seeds() -> None:
    source = CryptoNormals()
    keys = {source.stream("x").positions[0].key for _ in range(100)}
    assert len(keys) == 100
    assert SeededNoise(1).stream("x").positions == ()


@pytest.mark.slow
def test_five_million_normals_a_second() -> None:
    stream = CryptoNormals().stream("x")
    best = math.inf
    for _ in range(5):
        start = time.perf_counter()
        stream.standard_normal((1_000_000,))
        best = min(best, time.perf_counter() - start)
    assert best < 0.2


def test_gumbel_argmax_is_softmax() -> None:
    scores = np.array([0.0, 1.0, 2.5])
    drawn = CryptoNormals().stream("x").gumbel((50_000, 3))
    counts = np.bincount((scores + drawn).argmax(axis=1), minlength=3)
    expected = np.exp(scores) / np.exp(scores).sum() * 50_000
    assert stats.chisquare(counts, expected).pvalue > 1e-9


# Seeded noise


def test_a_seed_repeats_everything() -> None:
    one, other = SeededNoise(7), SeededNoise(7)
    values = np.arange(4.0)
    for _ in range(2):
        assert np.array_equal(one.perturb(values, 2.0), other.perturb(values, 2.0))
    for draw in ("standard_normal", "uniforms", "gumbel"):
        first, second = (getattr(s.stream("a", 1), draw)((5,)) for s in (one, other))
        assert np.array_equal(first, second)


def test_seeded_noise_never_changes_between_versions() -> None:
    # python -c "import hashlib, numpy as np
    # d = int.from_bytes(hashlib.sha256(b'[\"stream\", \"noise\", 0]').digest(), 'big')
    # print(np.random.PCG64(np.random.SeedSequence([7, d])).random_raw(2))": the top 52 bits
    drawn = SeededNoise(7).stream("noise", 0).uniforms((2,))
    assert drawn.tolist() == [0.42003842922574075, 0.7868280831378142]


def test_seeds_and_names_are_independent() -> None:
    names: list[tuple[str | int, ...]] = [(), ("a", 1), ("a1",), ("a", "1"), (1, "a"), ("perturb",)]
    streams = [SeededNoise(root).stream(*name) for root in (0, 1) for name in names]
    drawn = [stream.standard_normal((3,)) for stream in streams]
    drawn += [SeededNoise(root).perturb(np.zeros(3), 1.0) for root in (0, 1)]
    assert len(np.unique(drawn)) == 3 * len(drawn)


@pytest.mark.parametrize("root", [-1, 1.5, "a", True, None])
def test_a_seed_is_a_whole_number(root: object) -> None:
    with pytest.raises(InvalidArgument, match="root"):
        SeededNoise(root)  # type: ignore[arg-type]
