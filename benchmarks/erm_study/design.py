"""What the study asks: data, methods, budgets, and the settings that the oracles choose from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sordino.estimators.fit import Settings
from sordino_papers.erm.study import AUTO, TUNED
from sordino_papers.erm.timing import SCIKIT_LEARN

L2 = 0.001
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
LOSSES = ("logistic", "svm")
FOLDS = 5

REFERENCES = ("none", "majority")
PRIVATE = (
    *("objective", "noisy-gd", "rsgd-ar", "nsgd", "bolt-on"),
    *("output-gd", "dp-sgd", "sgd-ma", "dp-agd"),
)
METHODS = (AUTO, *PRIVATE, *REFERENCES)
TIMED = (AUTO, *PRIVATE, "none", SCIKIT_LEARN)
PEER = "diffprivlib"


@dataclass(frozen=True)
class Source:
    """One column of the figures.

    Parameters
    ----------
    name
        How it is called in the table.
    data, form, rows
        Which rows: of this dataset in this form, at most so many (a seeded sample).
    delta, epsilons, losses, methods
        What is asked of them.
    repeats
        Repeats of the five folds that are scored.
    tuned
        Whether oracles are tuned, on one more repeat.
    """

    name: str
    data: str
    form: str | None = "erm"
    rows: int = 0
    delta: float = 1e-8
    epsilons: tuple[float, ...] = EPSILONS
    losses: tuple[str, ...] = LOSSES
    methods: tuple[str, ...] = METHODS
    repeats: int = 4
    tuned: bool = True

    @property
    def oracles(self) -> tuple[str, ...]:
        """Methods that are also tuned."""
        return tuple(m for m in self.methods if m in PRIVATE) if self.tuned else ()

    @property
    def shown(self) -> bool:
        """Whether it is a column of the figures; the whole kdd file is two points of a table."""
        return self.tuned


@dataclass(frozen=True)
class Size:
    """How much is run: everything, minutes of it, or seconds for CI."""

    sources: tuple[Source, ...]
    timing: tuple[int, ...] = ()
    timing_data: str = "kddcup99"
    ratio: bool = False
    peer: bool = True


WHOLE = Source(
    "kddcup99-whole",
    "kddcup99",
    delta=1e-12,
    epsilons=(0.1, 1.0),
    losses=("logistic",),
    methods=("auto", "rsgd-ar", "none", "majority"),
    repeats=1,
    tuned=False,
)
FULL = Size(
    sources=(
        Source("adult", "adult"),
        Source("bank", "bank"),
        Source("kddcup99", "kddcup99", rows=50_000, delta=1e-12),
        WHOLE,
    ),
    timing=(50_000, 100_000, 150_000, 200_000, 250_000),
    ratio=True,
)
_FEW = {"epsilons": (0.1, 1.0), "repeats": 1}
QUICK = Size(
    sources=(
        Source("adult", "adult", rows=10_000, **_FEW),
        Source("bank", "bank", rows=10_000, **_FEW),
        Source("kddcup99", "kddcup99", rows=10_000, delta=1e-12, **_FEW),
    ),
    timing=(10_000, 20_000),
)
SMOKE = Size(
    sources=(Source("breast-cancer", "breast-cancer", form=None, epsilons=(1.0, 10.0), repeats=1),),
    timing=(200, 400),
    timing_data="breast-cancer",
    peer=False,
)


def settings(source: Source, loss: str, rows: int) -> dict[str, Any]:
    """A run of kind "erm" (`sordino_papers.erm.settings`); `rows` is the size of the sample."""
    training = rows - -(-rows // FOLDS)
    tuning = FOLDS if source.tuned else 0
    return {
        "data": source.data,
        "form": source.form,
        "rows": source.rows,
        "constant": "one",
        "loss": loss,
        "l2": L2,
        "delta": source.delta,
        "epsilons": list(source.epsilons),
        "methods": [*source.methods, *(oracle(method) for method in source.oracles)],
        "folds": FOLDS,
        "tuning": tuning,
        "scored": tuning + FOLDS * source.repeats,
        "draws": 8,
        "fits": {"else": 1},
        "orders": 32,
        "tried": {method: grid(method, loss, training) for method in source.oracles},
    }


def times(size: Size) -> dict[str, Any]:
    """A run of kind "erm-timing": single fits at defaults, all cores."""
    return {
        "data": size.timing_data,
        "form": None if size.timing_data == "breast-cancer" else "erm",
        "rows": list(size.timing),
        "methods": list(TIMED),
        "epsilon": 1.0,
        "delta": 1e-12,
        "l2": L2,
        "repeats": {"else": 1},
        "accurate": 0.01,
        "wall": True,
    }


def oracle(method: str) -> str:
    """How the study calls the best of a grid."""
    return f"{method}{TUNED}"


def _root(rows: int) -> int:
    """The paper's batch for SGD-MA."""
    return max(1, round(math.sqrt(rows)))


# Grids -----------------------------------------------------------------------------------

LENGTHS = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
SAMPLED_LENGTHS = (16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
L2_TIMES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 16.0, 32.0)


def grid(method: str, loss: str, rows: int) -> list[dict[str, Any]]:
    """Settings that the oracle of a method chooses from beside its default: for every epsilon."""
    smooth = (0.25 if loss == "logistic" else 1.0) + L2
    return [each.given for each in _GRIDS[method](smooth, rows)]


def _objective(smooth: float, rows: int) -> Iterator[Settings]:
    yield from (Settings(l2=L2 * times) for times in L2_TIMES)


def _noisy_gd(smooth: float, rows: int) -> Iterator[Settings]:
    yield from (_descent(length, 1.9 / smooth) for length in LENGTHS)


def _output_gd(smooth: float, rows: int) -> Iterator[Settings]:
    yield from (_descent(length, 1 / smooth) for length in LENGTHS)


def _descent(length: float, at_most: float) -> Settings:
    steps = math.ceil(length / at_most)
    return Settings(steps=steps, learning_rate=length / steps)


def _rsgd_ar(smooth: float, rows: int) -> Iterator[Settings]:
    batch = min(4000, rows)
    for epochs, shares in ((4, (1 / 8, 1 / 4, 1 / 2, 1)), (12, (1 / 2, 1)), (36, (1 / 2, 1))):
        for share in shares:
            yield Settings(
                epochs=epochs, batch_size=batch, average_every=4, learning_rate=share / smooth
            )
    yield Settings(epochs=100, batch_size=batch, average_every=4, learning_rate=1 / smooth)


def _nsgd(smooth: float, rows: int) -> Iterator[Settings]:
    batch = max(1, rows // 200)
    harmonic = math.fsum(1 / h for h in range(1, 9))
    for length in (8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1000.0):
        rate = length / (rows // batch * harmonic)
        yield Settings(epochs=8, batch_size=batch, learning_rate=rate)


def _bolt_on(smooth: float, rows: int) -> Iterator[Settings]:
    for epochs in (2, 8):
        for times in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
            yield Settings(epochs=epochs, batch_size=max(1, rows // 200), l2=L2 * times)


def _dp_sgd(smooth: float, rows: int) -> Iterator[Settings]:
    for length in SAMPLED_LENGTHS:
        yield _sampled(rows, _root(rows), 5 * -(-rows // _root(rows)), length)
    for length in SAMPLED_LENGTHS:
        yield _sampled(rows, rows // 10, min(300, max(40, math.ceil(length * smooth))), length)


def _sgd_ma(smooth: float, rows: int) -> Iterator[Settings]:
    for epochs in (2, 5):
        for length in SAMPLED_LENGTHS:
            yield _sampled(rows, _root(rows), epochs * -(-rows // _root(rows)), length)


def _sampled(rows: int, batch: int, steps: int, length: float) -> Settings:
    return Settings(steps=steps, batch_size=batch, learning_rate=length / steps)


def _dp_agd(smooth: float, rows: int) -> Iterator[Settings]:
    for rounds in (5, 12, 30, 60):
        for longest in (2.0, 6.0):
            yield Settings(steps=rounds, learning_rate=longest)


_GRIDS = {
    "objective": _objective,
    "noisy-gd": _noisy_gd,
    "output-gd": _output_gd,
    "rsgd-ar": _rsgd_ar,
    "nsgd": _nsgd,
    "bolt-on": _bolt_on,
    "dp-sgd": _dp_sgd,
    "sgd-ma": _sgd_ma,
    "dp-agd": _dp_agd,
}

GRIDS_IN_WORDS = {
    "objective": "regulariser l2 x {1, 1.5, 2, 3, 4, 6, 10, 16, 32}",
    "noisy-gd": "rate x steps in {4, 8, 16, ..., 1024}, in steps of at most 1.9/smoothness",
    "output-gd": "rate x steps in {4, 8, 16, ..., 1024}, in steps of at most 1/smoothness",
    "rsgd-ar": "batch 4,000, averages of 4 epochs; rate 1/smoothness x {1/8, 1/4, 1/2, 1} for 4 "
    "epochs, x {1/2, 1} for 12 and 36, x 1 for 100",
    "nsgd": "200 batches an epoch, 8 epochs, sum of rates in {8, 16, 32, 64, 128, 256, 512, 1000}",
    "bolt-on": "200 batches an epoch, 2 and 8 epochs, each with l2 x {1, 2, 4, 8, 16, 32}",
    "dp-sgd": "rate x steps in {16, 32, 64, ..., 512}, each with batch sqrt(n) for 5 epochs and "
    "batch n/10 for 40 to 300 steps",
    "sgd-ma": "batch sqrt(n), 2 and 5 epochs, each with rate x steps in {16, 32, ..., 512}",
    "dp-agd": "5, 12, 30 and 60 rounds, each with a longest step of 2 and 6",
}
