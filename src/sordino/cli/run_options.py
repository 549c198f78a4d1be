"""What `account` and `calibrate` both ask about a run, and the run it describes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from sordino import checks
from sordino.cli.options import L2_HELP, flag, option, relation
from sordino.errors import NotApplicable
from sordino.privacy import PASSES, SYNONYMS, Relation, Sampling

if TYPE_CHECKING:
    from sordino.accounting.dp_sgd import NoisySteps
    from sordino.proofs.run import Released, Run
    from sordino.sgd.spec import TrainSpec


class ReleaseName(StrEnum):
    """What leaves the building."""

    FINAL = "final"
    ALL = "all"


class LossName(StrEnum):
    """What was minimised."""

    LOGISTIC = "logistic"
    HUBER_SVM = "huber-svm"
    LEAST_SQUARES = "least-squares"
    LINEAR = "linear"
    MLP = "mlp"
    CNN = "cnn"


_NETWORKS = (LossName.MLP, LossName.CNN)
RUN = "The run"
_LAST = "The last iterate (--release final): what its theorems need to know"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options as they were given, checked together."""

    sampling: Annotated[
        str,
        option(
            RUN,
            "How batches are drawn. No default: numbers for one way are false for another. "
            "**poisson**: every record by its own coin; **fixed-size**: a random subset of fixed "
            "size; **full**: all records; **cyclic**: rows as they come, pass after pass; "
            "**permute-once**: one secret random order; **shuffle**: a new one each pass (the "
            "usual data loader).",
            metavar="HOW",
        ),
    ]
    delta: Annotated[float, option(RUN, "The chance of a worse loss; well below 1 / records.")]
    sample_rate: Annotated[float | None, option(RUN, "Batch size over records; or give both.")] = (
        None
    )
    batch_size: Annotated[int | None, option(RUN, "Records a batch.")] = None
    n: Annotated[int | None, option(RUN, "Records in the dataset.", "--n")] = None
    steps: Annotated[int | None, option(RUN, "Updates; or give epochs.")] = None
    epochs: Annotated[float | None, option(RUN, "Passes over the data, as steps.")] = None
    relation: Annotated[
        str | None,
        option(
            RUN,
            "When datasets are neighbours: **add-or-remove-one**, **replace-one** or **zero-out** "
            "(one record without effect). Default: add-or-remove-one for poisson, zero-out (the "
            "same with a public number of records) for full, replace-one for the others.",
            metavar="RELATION",
        ),
    ] = None
    release: Annotated[
        ReleaseName, option(RUN, "Only the final weights leave, or every iterate may.")
    ] = ReleaseName.FINAL
    loss: Annotated[LossName | None, option(_LAST, "What is minimised.")] = None
    l2: Annotated[float, option(_LAST, L2_HELP, "--l2")] = 0.0
    learning_rate: Annotated[float | None, option(_LAST, "Constant step size.")] = None
    max_grad_norm: Annotated[float, option(_LAST, "Clip of each record's gradient.")] = 1.0
    data_norm: Annotated[
        float, option(_LAST, "Bound on rows' norm, the constant feature included.")
    ] = 1.0
    radius: Annotated[
        float | None, option(_LAST, "Weights are projected onto a ball of this radius.")
    ] = None
    keep_last: Annotated[
        bool,
        flag(
            RUN,
            "--keep-last",
            "Passes end with a smaller batch of what is left. Without it passes are taken to be "
            "shorter, which is also right for loaders that drop it.",
        ),
    ] = False

    def __post_init__(self) -> None:
        sampling = self.sampling.lower()
        if sampling not in SYNONYMS:  # the names of the house are offered, not all that are known
            checks.one_of("sampling", sampling, list(Sampling))
        object.__setattr__(self, "sampling", Sampling(sampling))
        if self.relation is not None:  # an empty one is none either
            object.__setattr__(self, "relation", relation(self.relation).value)
        checks.probability_below_one("delta", self.delta, "Pass a small chance, such as 1e-5.")
        checks.non_negative("l2", self.l2)
        for name in ("learning_rate", "max_grad_norm", "data_norm", "radius"):
            if (value := getattr(self, name)) is not None:
                checks.positive(name, value)
        for name in ("batch_size", "n"):
            if (value := getattr(self, name)) is not None:
                checks.whole(name, value, at_least=1)
        if self.batch_size is not None and self.n is not None:
            if self.batch_size > self.n:
                checks.fail("batch_size", self.batch_size, f"<= n = {self.n}")
            rate, given = self.batch_size / self.n, self.sample_rate
            if given is not None and not math.isclose(given, rate, rel_tol=1e-6):
                hint = "Leave one of the three away."
                checks.fail("sample_rate", given, f"to be batch_size / n = {rate:.6g}", hint)

    @property
    def chosen_relation(self) -> Relation:
        """The relation given, or the usual one for this sampling."""
        if self.relation is not None:
            return Relation(self.relation)
        usual = {Sampling.POISSON: Relation.ADD_OR_REMOVE_ONE, Sampling.FULL: Relation.ZERO_OUT}
        return usual.get(Sampling(self.sampling), Relation.REPLACE_ONE)

    @property
    def rate(self) -> float:
        """The sample rate, given or from batch size and records."""
        if self.sample_rate is not None:
            hint = "It is batch size / records."
            rate = checks.fraction("sample_rate", self.sample_rate, hint, allow_zero=True)
        elif self.batch_size is not None and self.n is not None:
            rate = self.batch_size / self.n
        elif self.sampling == Sampling.FULL:
            rate = 1.0
        else:
            hint = "Pass --sample-rate 0.01, or --batch-size 100 and --n 10000."
            checks.fail("sample_rate", None, "or batch_size and n to be given", hint)
        if self.sampling == Sampling.FULL and rate != 1:
            checks.fail("sample_rate", rate, "to be 1 where batches are full")
        return rate

    @property
    def batches(self) -> int:
        """Steps an epoch: in passes, of whole batches unless the last one is kept; else rounded up.

        Each the private side: shorter passes meet a record more often, and more steps leak more.
        """
        whole = self.sampling in PASSES and not self.keep_last
        if self.batch_size is not None and self.n is not None:
            return self.n // self.batch_size if whole else -(-self.n // self.batch_size)
        rate = self.rate
        if rate == 0:
            checks.fail("sample_rate", 0, "> 0 where epochs are counted")
        return max(1, math.floor(1 / rate + 1e-9) if whole else math.ceil(1 / rate - 1e-9))

    @property
    def total_steps(self) -> int:
        """Steps, given or from epochs."""
        if (self.steps is None) == (self.epochs is None):
            hint = "Pass --steps 1000 or --epochs 10."
            both = "" if self.steps is None else ", not both"
            checks.fail("steps", self.steps, f"or epochs to be given{both}", hint)
        if self.steps is not None:
            return checks.whole("steps", self.steps)
        epochs = checks.non_negative("epochs", self.epochs or 0.0)
        return math.ceil(epochs * self.batches - 1e-9)

    def implied(self) -> list[str]:
        """The rate and the steps that other options imply, and Opacus's rate, in words."""
        said = []
        sized = self.batch_size is not None and self.n is not None and self.sample_rate is None
        if sized:
            rate = f"--batch-size {self.batch_size} / --n {self.n} is rate {self.rate:.6g}"
            theirs = 1 / self.batches
            if self.sampling == Sampling.POISSON and math.isclose(theirs, self.rate):
                rate += ", which is Opacus's 1/len(loader), too"
            elif self.sampling == Sampling.POISSON:
                rate += (
                    f"; Opacus samples at 1/len(loader) = 1/{self.batches} instead: for its runs "
                    f"pass --sample-rate {theirs:.8g} in place of --batch-size"
                )
            said.append(rate)
        if self.epochs is not None:
            passes = f"{self.total_steps:,} steps, {self.batches:,} a pass"
            said.append(f"--epochs {self.epochs:g} is {passes}")
        return said

    def assumes(self) -> list[str]:
        """What the answer takes for granted about the training, in words."""
        said = [
            f"noise of that size on every sum of clipped gradients, batches really drawn as "
            f"{self.sampling}, settings chosen without looking at these data"
        ]
        if self.chosen_relation is Relation.ADD_OR_REMOVE_ONE:
            said.append(
                "steps, sample rate and the divisor of gradients are public numbers, not made from "
                "the number of records (where they are: --relation zero-out)"
            )
        if self.loss not in (None, *_NETWORKS) and self.release == "final":
            said.append(
                f"for the last iterate also: rows of norm at most {self.data_norm:g}, the constant "
                "feature included (--data-norm); plain SGD without momentum at a constant learning "
                "rate; sums divided by a constant; the l2 term outside the clip; only the last "
                "weights leave"
            )
        return said

    def inputs(self, *, partial: bool = False) -> dict[str, Any]:
        """Everything that was given or concluded, for the JSON output."""
        concluded = {"relation": self.chosen_relation.value}
        if partial:  # some of it is sought
            return {**asdict(self), **concluded}
        return {**asdict(self), **concluded, "sample_rate": self.rate, "steps": self.total_steps}

    def run(self, noise_multiplier: float, steps: int | None = None) -> Run:
        """The run as plain numbers."""
        from sordino.accounting.dp_sgd import NoisySteps
        from sordino.proofs.run import Run

        noisy = NoisySteps(
            noise_multiplier=noise_multiplier,
            sample_rate=self.rate,
            steps=self.total_steps if steps is None else steps,
            sampling=self.sampling,
            relation=self.chosen_relation,
            steps_per_epoch=self.batches if self.sampling in PASSES and self.rate else None,
        )
        released: Released = "all" if self.release is ReleaseName.ALL else "final"
        if self.loss is None:
            more = {"--learning-rate 0.5": self.learning_rate, "--n 10000": self.n}
            missing = " ".join(flag for flag, value in more.items() if value is None)
            why = f"For a linear model say what is minimised: --loss logistic --l2 0.001 {missing}"
            return Run(noisy, released, NotApplicable(why.rstrip() + "."))
        return self._run_with_loss(noisy, released)

    def _run_with_loss(self, noisy: NoisySteps, released: Released) -> Run:
        from sordino import proofs
        from sordino.accounting.last_iterate.hidden_state import HiddenState
        from sordino.proofs.run import Run

        if self.loss == "linear":
            if self.l2:
                hint = "With it gradients depend on the weights."
                checks.fail("l2", self.l2, "to be 0 for a linear loss", hint)
            size = (self.batch_size or 1) / (self.learning_rate or 1.0)
            state = HiddenState(1.0, self.max_grad_norm / size, self._diameter)
            # The last iterate is a sum of gradients only if nothing is projected on the way.
            return Run(noisy, released, state, linear=self.radius is None)
        if self.sampling == Sampling.FIXED_SIZE:
            why = "No usable bound is proved for the last iterate with batches of fixed size."
            return Run(noisy, released, NotApplicable(why))
        needed = {"learning_rate": self.learning_rate, "n": self.n}
        missing = [name for name, value in needed.items() if value is None]
        if missing and self.loss not in _NETWORKS:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
            return Run(noisy, released, NotApplicable(f"Its theorems also need {flags}."))
        whole = self.n is not None and abs(self.rate * self.n % 1 - 0.5) > 0.5 - 1e-6
        if self.sampling in PASSES and self.batch_size is None and not whole:
            why = "Its theorems also need --batch-size, where records are met in passes."
            if self.loss not in _NETWORKS:
                return Run(noisy, released, NotApplicable(why))
        spec, records = self._spec(noisy)
        constants = spec.objective.constants(self.data_norm)
        run = proofs.run_of(spec, constants, records, self.chosen_relation, released)
        # Of the training only what the loss adds is taken: the worth of the noise, the last
        # iterate. The rest is as given (a training has a step and whole records, these may not).
        worth = run.steps.noise_multiplier
        return replace(run, steps=replace(noisy, noise_multiplier=worth))

    @property
    def _diameter(self) -> float:
        return math.inf if self.radius is None else 2 * self.radius

    def _spec(self, noisy: NoisySteps) -> tuple[TrainSpec, int]:
        """The training these options describe, and on how many records."""
        from sordino.models.constants import ObjectiveSpec
        from sordino.sgd.spec import TrainSpec

        assert self.loss is not None
        records = 1_000_000 if self.n is None else self.n
        batch = records if self.sampling == Sampling.FULL else self.batch_size
        network = self.loss in _NETWORKS
        spec = TrainSpec(
            # The bound given counts the constant feature, so none is added to it.
            ObjectiveSpec(self.loss, l2=self.l2, intercept=network),
            learning_rate=1.0 if self.learning_rate is None else self.learning_rate,
            batch_size=batch or max(1, round(noisy.sample_rate * records)),
            steps=max(noisy.steps, 1),
            order=Sampling.CYCLIC if self.sampling == Sampling.FULL else self.sampling,
            sample_rate=noisy.sample_rate or 1.0 if self.sampling == Sampling.POISSON else None,
            max_grad_norm=self.max_grad_norm,
            noise_multiplier=noisy.noise_multiplier,
            radius=self.radius,
            drop_last=self.sampling in PASSES and not self.keep_last,
        )
        return spec, records
