"""What the study asks: data, methods, budgets, and the settings that the oracles choose from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from sordino.estimators.task import Settings, Task

L2 = 0.001
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
KINDS = {"logistic": "logistic", "svm": "huber-svm"}
FOLDS = 5

AUTO, REFERENCES = "auto", ("none", "majority")
PRIVATE = (
    *("objective", "noisy-gd", "rsgd-ar", "nsgd", "bolt-on"),
    *("output-gd", "dp-sgd", "sgd-ma", "dp-agd"),
)
METHODS = (AUTO, *PRIVATE, *REFERENCES)
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
        Whether oracles are tuned, on repeat 0.
    """

    name: str
    data: str
    form: str | None = "erm"
    rows: int | None = None
    delta: float = 1e-8
    epsilons: tuple[float, ...] = EPSILONS
    losses: tuple[str, ...] = ("logistic", "svm")
    methods: tuple[str, ...] = METHODS
    repeats: tuple[int, ...] = (1, 2, 3, 4)
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
    peer_repeats: tuple[int, ...] = ()


WHOLE = Source(
    "kddcup99, whole",
    "kddcup99",
    delta=1e-12,
    epsilons=(0.1, 1.0),
    losses=("logistic",),
    methods=("auto", "rsgd-ar", "none", "majority"),
    repeats=(1,),
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
    peer_repeats=(1, 2),
)
_FEW = {"epsilons": (0.1, 1.0), "repeats": (1,)}
QUICK = Size(
    sources=(
        Source("adult", "adult", rows=16_000, **_FEW),
        Source("bank", "bank", rows=16_000, **_FEW),
        Source("kddcup99", "kddcup99", rows=16_000, delta=1e-12, **_FEW),
    ),
    timing=(10_000, 20_000),
    peer_repeats=(1,),
)
SMOKE = Size(
    sources=(
        Source("breast-cancer", "breast-cancer", form=None, epsilons=(1.0, 10.0), repeats=(1,)),
    ),
    timing=(200, 400),
    timing_data="breast-cancer",
)


def task(source: Source, loss: str, rows: int, columns: int, epsilon: float) -> Task:
    """One fit, as the estimators would state it: replace-one, rows of norm 1, intercept in them."""
    return Task(
        kind=KINDS[loss],
        l2=L2,
        rows=rows,
        columns=columns,
        norm=1.0,
        epsilon=epsilon,
        delta=source.delta,
    )


def estimator_method(method: str) -> str:
    """The estimators' name of a method: SGD-MA is DP-SGD with the moments accountant."""
    return "dp-sgd" if method == "sgd-ma" else method


def default(method: str, rows: int) -> Settings:
    """What is set by hand in a run at public defaults: for SGD-MA what the paper says."""
    if method == "sgd-ma":
        return Settings(accountant="moments", batch_size=root(rows))
    return Settings()


def root(rows: int) -> int:
    """The paper's batch for SGD-MA."""
    return max(1, round(math.sqrt(rows)))


# Grids -----------------------------------------------------------------------------------

LENGTHS = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
L2_TIMES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 16.0, 32.0)
RATES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
CLIPS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08)


def grid(method: str, loss: str, rows: int) -> tuple[Settings, ...]:
    """Settings that the oracle of a method chooses from: the same for every epsilon."""
    return tuple(_GRIDS[method](0.25 if loss == "logistic" else 1.0, rows))


def _objective(curvature: float, rows: int) -> Iterator[Settings]:
    yield from (Settings(l2=L2 * times) for times in L2_TIMES)


def _descent(curvature: float, rows: int) -> Iterator[Settings]:
    """Total lengths rate * steps, in steps of about 1 / smoothness."""
    for length in LENGTHS:
        steps = math.ceil(length * (curvature + L2))
        yield Settings(steps=steps, learning_rate=length / steps)


def _rsgd_ar(curvature: float, rows: int) -> Iterator[Settings]:
    for epochs, every in ((2, 2), (10, 10), (20, 10)):
        for settings in _passes(curvature, rows, epochs):
            yield dataclasses.replace(settings, average_every=every)


def _nsgd(curvature: float, rows: int) -> Iterator[Settings]:
    yield from _passes(curvature, rows, 2)
    yield from _passes(curvature, rows, 10)


def _passes(curvature: float, rows: int, epochs: int) -> Iterator[Settings]:
    largest = 2 / (curvature + L2) * (1 - 1e-9)  # steps above 2 / smoothness do not contract
    for share in RATES:
        yield Settings(epochs=epochs, batch_size=min(4000, rows), learning_rate=largest * share)


def _bolt_on(curvature: float, rows: int) -> Iterator[Settings]:
    """Their strongly convex schedule (no rate given), and constant rates."""
    for batch, epochs in ((50, 5), (50, 20), (500, 1), (500, 5), (500, 20)):
        yield Settings(epochs=epochs, batch_size=min(batch, rows))
    for rate in (0.1, 0.5, 1.9):
        for epochs in (1, 5):
            yield Settings(epochs=epochs, batch_size=min(500, rows), learning_rate=rate)


def _dp_sgd(curvature: float, rows: int) -> Iterator[Settings]:
    for batch in (root(rows), min(2000, rows // 4)):
        yield from _steps(rows, batch, 5)


def _sgd_ma(curvature: float, rows: int) -> Iterator[Settings]:
    for epochs in (1, 5):
        for settings in _steps(rows, root(rows), epochs):
            yield dataclasses.replace(settings, accountant="moments")


def _steps(rows: int, batch: int, epochs: int) -> Iterator[Settings]:
    steps = epochs * -(-rows // batch)
    for length in (8.0, 32.0, 128.0, 512.0):
        yield Settings(steps=steps, batch_size=batch, learning_rate=length / steps)


def _dp_agd(curvature: float, rows: int) -> Iterator[Settings]:
    yield from (Settings(max_grad_norm=clip) for clip in CLIPS)


_GRIDS = {
    "objective": _objective,
    "noisy-gd": _descent,
    "output-gd": _descent,
    "rsgd-ar": _rsgd_ar,
    "nsgd": _nsgd,
    "bolt-on": _bolt_on,
    "dp-sgd": _dp_sgd,
    "sgd-ma": _sgd_ma,
    "dp-agd": _dp_agd,
}

GRIDS_IN_WORDS = {
    "objective": "regulariser l2 x {1, 1.5, 2, 3, 4, 6, 10, 16, 32}",
    "noisy-gd": "total length rate x steps in {4, 8, 16, ..., 1024}, steps of about 1/smoothness",
    "output-gd": "as noisy-gd",
    "rsgd-ar": "rate 2/smoothness x {1/32, 1/16, ..., 1}, each with 2 epochs (averaged once), 10 "
    "(once) and 20 (every 10); batch 4,000",
    "nsgd": "rate 2/smoothness x {1/32, ..., 1}, each with 2 and 10 epochs; batch 4,000",
    "bolt-on": "the strongly convex schedule with batch 50 (5 and 20 epochs) and 500 (1, 5, 20); "
    "constant rates 0.1, 0.5, 1.9 with 1 and 5 epochs, batch 500",
    "dp-sgd": "batch sqrt(n) and 2,000, 5 epochs, rate x steps in {8, 32, 128, 512}",
    "sgd-ma": "batch sqrt(n), 1 and 5 epochs, rate x steps in {8, 32, 128, 512}",
    "dp-agd": "clip 1, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08",
}
