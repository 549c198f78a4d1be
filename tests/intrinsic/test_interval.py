"""The two-way bootstrap: as wide as theory says, honest about what it cannot do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sordino.errors import InvalidArgument
from sordino.intrinsic.interval import Interval, bootstrap, percentile
from sordino.randomness import stream

SEEDS, NEIGHBOURS = 60, 40


def two_way(rng, by_seed=1.0, by_neighbour=0.5, by_run=0.3):
    """Values with an effect of the seed, of the neighbour, and of neither."""
    return (
        by_seed * rng.standard_normal((SEEDS, 1))
        + by_neighbour * rng.standard_normal((1, NEIGHBOURS))
        + by_run * rng.standard_normal((SEEDS, NEIGHBOURS))
    )


def mean_of(values):
    return lambda seeds, neighbours: values[np.ix_(seeds, neighbours)].mean()


def test_the_width_is_that_of_a_mean_of_rows_and_columns():
    values = two_way(stream("test", "interval"))
    found = bootstrap(mean_of(values), SEEDS, NEIGHBOURS, stream=stream("b"), draws=2000)
    assert found.value == pytest.approx(values.mean())
    rows, columns = values.mean(axis=1).std(), values.mean(axis=0).std()
    width = 2 * 1.96 * math.hypot(rows / SEEDS**0.5, columns / NEIGHBOURS**0.5)
    # 2,000 draws know a 2.5 % quantile to about 4 % of the width; runs taken for independent
    # would give a width 6 times smaller.
    assert found.high - found.low == pytest.approx(width, rel=0.12)


def test_one_stream_gives_one_interval():
    values = two_way(stream("test", "interval"))
    one, two, other = (
        bootstrap(mean_of(values), SEEDS, NEIGHBOURS, stream=stream(name), draws=50)
        for name in ("a", "a", "b")
    )
    assert one == two
    assert one != other


def test_with_one_neighbour_only_seeds_are_resampled():
    values = two_way(stream("test", "interval"))[:, :1]
    found = bootstrap(mean_of(values), SEEDS, 1, stream=stream("b"), draws=2000)
    width = 2 * 1.96 * float(values.std()) / SEEDS**0.5
    assert found.high - found.low == pytest.approx(width, rel=0.12)


def test_a_maximum_is_never_exceeded_so_its_interval_means_nothing():
    """What the docstring warns of, as a fact."""
    values = stream("test", "max").standard_normal((SEEDS, NEIGHBOURS))
    found = bootstrap(
        lambda seeds, neighbours: values[np.ix_(seeds, neighbours)].max(),
        *(SEEDS, NEIGHBOURS),
        stream=stream("b"),
    )
    assert found.high == found.value


def test_an_interval_holds_its_value_also_where_draws_are_biased_or_infinite():
    assert percentile(5.0, np.arange(100.0) / 100, 0.95).high == 5.0
    assert percentile(-1.0, np.arange(100.0) / 100, 0.95).low == -1.0
    found = percentile(math.inf, np.full(100, math.inf), 0.95)
    assert found.low == found.high == math.inf


def test_nonsense_is_refused():
    with pytest.raises(InvalidArgument, match=r"value=3 in its interval"):
        Interval(3, 0, 1, 0.95)
    with pytest.raises(InvalidArgument, match="value=nan"):
        Interval(math.nan, 0, 1, 0.95)
    with pytest.raises(InvalidArgument, match=r"level=95 in \(0, 1\)"):
        Interval(0.5, 0, 1, 95)
    with pytest.raises(InvalidArgument, match="seeds=1 >= 2"):
        bootstrap(lambda seeds, neighbours: 0.0, 1, 5, stream=stream("b"))


@pytest.mark.slow
def test_coverage_of_a_mean():
    covered = 0
    for trial in range(300):
        values = two_way(stream("coverage", trial))
        found = bootstrap(mean_of(values), SEEDS, NEIGHBOURS, stream=stream("b", trial))
        covered += found.low <= 0 <= found.high
    # 95 % of 300 is 285; four standard errors are 15.
    assert covered >= 270
