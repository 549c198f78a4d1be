"""`Attacked`: what an audit is of, and on which pair of datasets; from a command's options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import checks
from sordino.cli import options
from sordino.cli.audit_thing import named
from sordino.cli.options import PROMISE, RECORDS, ModelName, option
from sordino.cli.promise import Promise
from sordino.data.source import Source
from sordino.privacy import Relation, default_delta

if TYPE_CHECKING:
    from sordino.audit.claim import Claim
    from sordino.data import Dataset
    from sordino.data.source import Prepared

COMMANDS = ("power", "worst-case", "gallery", "run")
SCORES = ("learned", "likelihood", "loss")


class Neighbour(StrEnum):
    """How the second dataset is made."""

    CANARY = "canary"
    WORST_CASE = "worst-case"


@dataclass(frozen=True, eq=False)
class Game:
    """Ready to be played."""

    mechanism: Any
    D: Any
    D_prime: Any
    claim: Claim | None
    delta: float
    score: Any
    said: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Attacked(options.RecordOptions):
    """The options that say what is attacked and where; checked before any record is read."""

    mechanism: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:NAME]",
            help="Your own: a function (data, generator) -> numbers, or a scikit-learn estimator, "
            "as package.module:name or file.py:name. Else a method of sordino's is attacked.",
        ),
    ] = None
    pair: Annotated[
        str | None,
        option(
            RECORDS,
            "Instead of --data: a function that returns the two datasets, each (X, y), or whatever "
            "your mechanism takes.",
            metavar="MODULE:NAME",
        ),
    ] = None
    neighbour: Annotated[
        Neighbour,
        option(
            RECORDS,
            "The record that differs: a crafted **canary** (extreme within the norm, mislabelled), "
            "or a synthetic **worst-case** pair of the data's shape.",
        ),
    ] = Neighbour.CANARY
    study: Annotated[
        str | None,
        option(
            RECORDS,
            "Instead: the worst pair of a study that `sordino measure` made of the same data. Its "
            "seeds chose the pair; the audit draws others.",
            metavar="DIR",
        ),
    ] = None
    rows: Annotated[int | None, option(RECORDS, "Use the first so many records only: faster.")] = (
        None
    )
    model: options.Model = ModelName.LOGISTIC
    method: options.Method = "auto"
    l2: options.L2 = 0.001
    epsilon: Annotated[
        float | None,
        option(
            PROMISE,
            "The claimed epsilon. A method of sordino's is calibrated to it; of your own mechanism "
            "nothing is claimed without it.",
        ),
    ] = None
    delta: options.Delta = None
    relation: options.RelationOption = Relation.REPLACE_ONE.value
    public_rows: options.PublicRows = None

    @cached_property
    def source(self) -> Source | None:
        """Where records come from; options about them mean nothing without --data."""
        records = (self.target, self.columns, self.classes, self.data_norm)
        if self.data is not None:
            return Source(self.data, *records, self.data_dir)
        if any(each is not None for each in records):  # a directory of raw files does no harm
            hint = "--target, --columns, --classes and --data-norm are about it."
            checks.fail_missing("--data NAME|FILE", "with these options", hint)
        return None

    def __post_init__(self) -> None:
        self.source  # noqa: B018 -- checked first
        if self.mechanism is not None and ":" not in self.mechanism:
            checks.one_of("command", self.mechanism, (*COMMANDS, "MODULE:NAME"))
        if self.rows is not None:
            checks.whole("--rows", self.rows, at_least=2)
        if self.source is None and self.pair is None:
            hint = "`sordino data list` shows names; --pair names a function that returns two."
            checks.fail_missing("--data NAME or --pair MODULE:NAME", "", hint)
        if self.source is not None and self.pair is not None:
            checks.fail("--pair", self.pair, "to be left out where --data is given")
        object.__setattr__(self, "relation", options.relation(self.relation, "--relation").value)
        if self.mechanism is None:
            self._check_own()
        if self.study is not None and self.relation != "replace-one":
            hint = "In a study's datasets one record stands in the place of another."
            checks.fail("--relation", self.relation, "to be replace-one with --study", hint)
        if self.mechanism is not None:
            self._check_foreign()

    def _check_foreign(self) -> None:
        """What would be ignored is refused."""
        hint = "It is about methods of sordino's own, and you named a mechanism."
        if self.method != "auto":
            checks.fail("--method", self.method, "to be left out", hint)
        if self.public_rows is not None:
            checks.fail("--public-rows", self.public_rows, "to be left out", hint)
        if self.pair is not None and self.neighbour is not Neighbour.CANARY:
            hint = "The pair is given already."
            checks.fail("--neighbour", self.neighbour.value, "to be left out with --pair", hint)
        if self.pair is not None and self.rows is not None:
            checks.fail("--rows", self.rows, "to be left out with --pair", "The pair is given.")
        if self.study is not None:
            hint = "It chooses a pair for a method of sordino's; pass --pair for your own."
            checks.fail("--study", self.study, "to be left out here", hint)

    def _check_own(self) -> None:
        if self.epsilon is None:
            hint = "Methods of sordino's are calibrated to it; or name a mechanism of your own."
            checks.fail_missing("--epsilon E", "", hint)
        if self.source is None:
            hint = "A pair of your own goes with a mechanism of your own (MODULE:NAME)."
            checks.fail("--pair", self.pair, "to be left out without a mechanism", hint)
        self._promise()

    def _promise(self) -> Promise:
        assert self.epsilon is not None
        same = ("model", "epsilon", "delta", "relation", "method", "l2", "public_rows")
        return Promise(**{name: getattr(self, name) for name in same})

    @property
    def _relation(self) -> Relation:
        return Relation(self.relation)

    def read(self, score: str) -> Game:
        """Read the records, make the pair and load what is the user's own.

        Parameters
        ----------
        score
            The option: a name, or that of a function.
        """
        judged = score if score in SCORES else self._score(score)
        thing = None if self.mechanism is None else self._thing()
        given = None if self.pair is None else given_pair(self.pair)
        prepared = None if self.source is None else self._few(self.source.read())
        if thing is not None:
            return self._foreign(thing, given, prepared, judged)
        assert prepared is not None
        return self._own(prepared, judged)

    @staticmethod
    def _score(text: str) -> Any:
        if ":" not in text:
            checks.one_of("--score", text, (*SCORES, "MODULE:NAME"))
        score = named("--score", text)
        if not callable(score):
            hint = "It is given outputs [run, number] and returns scores [run]."
            checks.fail("--score", text, "to name a function", hint)
        return score

    def _thing(self) -> Any:
        """The user's mechanism; a class with `fit` is made with its defaults."""
        assert self.mechanism is not None
        thing = named("MODULE:NAME", self.mechanism)
        if isinstance(thing, type) and hasattr(thing, "fit"):
            return thing()
        return thing

    def _few(self, prepared: Prepared) -> Prepared:
        if self.rows is None:
            return prepared
        rows = slice(0, self.rows)
        X = prepared.X.iloc[rows] if hasattr(prepared.X, "iloc") else prepared.X[rows]
        return replace(prepared, X=X, y=prepared.y[rows])

    def _own(self, prepared: Prepared, score: Any) -> Game:
        from sordino.audit import own

        estimator = self._promise().estimator(prepared)
        mechanism: Any
        pair: list[Any]
        if self.study is not None:
            first, second, words = self._worst()
            found = own.prepare(estimator, (first.X, first.y), (second.X, second.y))
            mechanism, *pair, claim = found
        else:
            mechanism, D, claim = own.mechanism(estimator, prepared.X, prepared.y)
            *pair, words = self._near(D, own.held_back(mechanism, D.rows))
        assert self.source is not None
        title = f"{self.method} at epsilon {self.epsilon:g}, {self.model.value}, {self.source.data}"
        size = f"{pair[0].rows:,} records, {pair[0].features} weights"
        said = f"Attacking {title}: {size}; pair: {words}."
        return Game(mechanism, pair[0], pair[1], claim, claim.delta, score, said, title)

    def _near(self, dataset: Dataset, l2: float | None = None) -> tuple[Any, Any, str]:
        """A crafted pair, and what it is; `l2` if it is known what holds a model back."""
        from sordino.audit import neighbour

        if self.neighbour is Neighbour.CANARY:
            words = "a crafted canary (at the norm bound, mislabelled, in a quiet direction)"
            return *neighbour.canary(dataset, relation=self._relation, l2=l2), words
        if self._relation is not Relation.REPLACE_ONE:
            hint = "The synthetic pair has one record replaced; use --neighbour canary."
            checks.fail("--relation", self.relation, "to be replace-one", hint)
        assert dataset.norm_bound is not None
        size = dataset.rows, dataset.features, dataset.norm_bound
        D, D_prime, _ = neighbour.worst_case_pair(*size, start=False, l2=l2)
        return D, D_prime, "a synthetic worst case of this shape"

    def _worst(self) -> tuple[Dataset, Dataset, str]:
        """The worst pair of a study, which its seeds chose and the audit's do not."""
        from sordino.audit import neighbour
        from sordino.data import Dataset
        from sordino.intrinsic.grid import load
        from sordino.intrinsic.training import TrainedModel, Training

        assert self.study is not None
        assert self.source is not None
        training = Training(TrainedModel.LOGISTIC, None, False, None, None, 0.0)
        dataset: Dataset = training.read(self.source).train
        found = neighbour.worst_of_grid(load(self.study), dataset)
        words = (
            f"the worst of {self.study} (without records {found.records[0]} and "
            f"{found.records[1]}; {len(found.seeds)} other seeds chose it)"
        )
        first, second = found.pair
        assert isinstance(second, Dataset)
        return first, second, words

    def _foreign(
        self, thing: Any, given: tuple[Any, Any] | None, prepared: Prepared | None, score: Any
    ) -> Game:
        from sordino.audit.claim import Claim

        assert self.mechanism is not None
        said = f"Attacking {self.mechanism}."
        if given is None:
            assert prepared is not None
            given = self._crafted(prepared)
            rows, columns = given[0][0].shape
            said = (
                f"Attacking {self.mechanism}, which is given (X, y): {rows:,} rows of {columns} "
                f"numbers within norm {prepared.data_norm:g}, and labels from 0 on; pair: "
                f"{self.neighbour.value}."
            )
        delta = default_delta(None)
        if self.delta is not None:
            delta = checks.probability_below_one("delta", self.delta)
        claim = None
        if self.epsilon is not None:
            epsilon = checks.non_negative("epsilon", self.epsilon)
            claim = Claim(epsilon, delta, self._relation, source=self.mechanism)
        return Game(thing, given[0], given[1], claim, delta, score, said, self.mechanism)

    def _crafted(self, prepared: Prepared) -> tuple[Any, Any]:
        """Rows and labels with and without a canary; rows scaled into the norm."""
        from sordino.assessment.stages.attack import rows
        from sordino.data import Dataset

        dataset = rows(prepared)
        D, D_prime, _ = self._near(dataset)
        if not isinstance(D_prime, Dataset):
            hint = "A silent record is only known to sordino's own SGD."
            checks.fail("--relation", self.relation, "to be another one here", hint)
        return (D.X, D.y), (D_prime.X, D_prime.y)


def given_pair(name: str) -> tuple[Any, Any]:
    """The two datasets that the user's function returns."""
    made = named("--pair", name)
    try:
        made = made() if callable(made) else made
    except Exception as error:  # whatever the user's function does
        hint = f"It is called without arguments, and raised {type(error).__name__}: {error}"
        checks.fail("--pair", name, "to give two datasets", hint)
    if not isinstance(made, tuple | list) or len(made) != 2:
        checks.fail("--pair", name, "to give two datasets", "Return (D, D_prime).")
    return made[0], made[1]
