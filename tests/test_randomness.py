from __future__ import annotations

import itertools

import numpy as np
import pytest

from sordino.randomness import Name, OsStreams, SeededStreams, stream

NAMES: list[tuple[Name, ...]] = [
    (),
    ("a", 1),
    ("a1",),
    ("a", "1"),
    ("a", 1, ""),
    ("a", 11),
    ("a", -1),
    (1, "a"),
    ("a,1",),
    ('a","1',),
    ("a", 2**70),
    ("ä", 1),
    ("a\u0308", 1),
]


def _raw(generator: np.random.Generator, count: int = 4) -> list[int]:
    return [int(word) for word in generator.bit_generator.random_raw(count)]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # python -c "import hashlib, numpy as np; d = hashlib.sha256(b'[\"sordino\",\"order\",17]');
        #   print(np.random.PCG64(int.from_bytes(d.digest(), 'big')).random_raw(3))"
        (("order", 17), [1648777557868614471, 10922835874142173653, 17158301633363987664]),
        # the same with b'["sordino"]'
        ((), [13178944371374275149, 4817416039102989690, 10907617498629906238]),
        # the same with b'["sordino","gr\\u00f6\\u00dfe",-1]'
        (("größe", -1), [16392135247960593836, 12824045296955226887, 612556545104420608]),
    ],
)
def test_streams_never_change_between_versions(name: tuple[Name, ...], words: list[int]) -> None:
    assert _raw(stream(*name), 3) == words
    assert _raw(SeededStreams().stream(*name), 3) == words
    assert _raw(SeededStreams("sordino").stream(*name), 3) == words


def test_what_a_generator_draws_follows_its_raw_words() -> None:
    # A float64 in [0, 1) is the top 53 bits of one word.
    words = _raw(stream("order", 17), 5)
    assert stream("order", 17).random(5).tolist() == [(word >> 11) / 2**53 for word in words]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(NAMES, 2)))
def test_different_names_give_different_streams(
    one: tuple[Name, ...], other: tuple[Name, ...]
) -> None:
    assert not set(_raw(stream(*one))) & set(_raw(stream(*other)))


def test_neighbouring_seeds_give_unrelated_numbers() -> None:
    draws = np.stack([stream("noise", seed).standard_normal(2000) for seed in range(40)])
    correlations = np.corrcoef(draws)[np.triu_indices(40, 1)]
    # 780 correlations of independent streams, each about N(0, 1/2000): 5 standard errors.
    assert np.abs(correlations).max() < 5 / np.sqrt(2000)
    assert abs(draws.mean()) < 5 / np.sqrt(draws.size)
    assert draws.std() == pytest.approx(1, abs=5 / np.sqrt(2 * draws.size))


def test_a_stream_does_not_depend_on_what_was_used_before() -> None:
    streams = SeededStreams()
    alone = _raw(streams.stream("b"))
    streams.stream("a").random(1000)
    held = streams.stream("b")
    streams.stream("b").random(7)
    assert _raw(held) == alone
    assert _raw(streams.stream("b")) == alone
    backwards = {name: _raw(streams.stream(*name)) for name in reversed(NAMES)}
    assert backwards == {name: _raw(SeededStreams().stream(*name)) for name in NAMES}


def test_the_global_generator_plays_no_part() -> None:
    before = np.random.get_state()[1]  # noqa: NPY002
    _raw(stream("a"))
    _raw(OsStreams().stream("a"))
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_the_root_tells_experiments_apart() -> None:
    roots: tuple[Name, ...] = ("sordino", "other", "", 1, "1")
    first = [_raw(SeededStreams(root).stream("order", 17)) for root in roots]
    assert len(set(itertools.chain(*first))) == 4 * len(roots)
    assert _raw(SeededStreams("x").stream("y")) != _raw(SeededStreams("y").stream("x"))


def test_the_operating_system_never_repeats() -> None:
    streams = OsStreams()
    words = [word for _ in range(500) for word in _raw(streams.stream("order", 17))]
    words += [word for _ in range(500) for word in _raw(OsStreams().stream("order", 17))]
    assert len(set(words)) == len(words)


def test_the_operating_system_draws_fair_numbers() -> None:
    draws = OsStreams().stream("noise").standard_normal(10_000)
    # False alarm once in about 2 billion runs (6 standard errors).
    assert abs(draws.mean()) < 6 / np.sqrt(draws.size)
