"""`Target`: what an audit attacks, on which pair; `sordino audit` and `assess` make it here."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino import checks
from sordino.audit import pairs
from sordino.audit.pairs import Claim
from sordino.audit.runners import fits
from sordino.audit.runners.outputs import identity
from sordino.data.dataset import Dataset
from sordino.data.preprocess import clip_rows
from sordino.data.source import Prepared, Source
from sordino.estimators.classifiers import PrivateLinearClassifier
from sordino.privacy import Relation, default_delta

_GALLERY = "gallery:"
"""What the name of a gallery's mechanism begins with."""
_CANARY, _WORST_CASE = "canary", "worst-case"
"""How the second dataset is made: a crafted record, or a synthetic pair of the same shape."""


@dataclass(frozen=True, eq=False)
class Target:
    """A mechanism, two datasets that differ in one record, and what is claimed.

    Parameters
    ----------
    mechanism, D, D_prime, claim, delta, score
        As `sordino.audit.audit` takes them.
    name, pair
        What is attacked, and the two datasets, in words.
    runs
        What the mechanism's own recipe asks for, where it has one.
    """

    mechanism: Any
    D: Any
    D_prime: Any
    claim: Claim | None
    delta: float
    name: str
    pair: str
    score: Any = "learned"
    runs: int | None = None

    @functools.cached_property
    def identity(self) -> str | None:
        """Of code and data; None where it cannot be told whether they are the same as before."""
        return identity(self.mechanism, self.D, self.D_prime)


def of_function(
    name: str,
    mechanism: Any,
    pair: tuple[Any, Any] | None,
    *,
    epsilon: float | None,
    delta: float | None = None,
    relation: Relation = Relation.REPLACE_ONE,
    source: Source | None = None,
    rows: int | None = None,
    craft: str = _CANARY,
) -> Target:
    """A user's function or estimator.

    Parameters
    ----------
    name
        Of the mechanism; whose claim it is.
    mechanism
        A class with `fit` is made with its defaults.
    pair
        Two datasets as the mechanism takes them; None crafts two (X, y) from `source`.
    epsilon, delta, relation
        The claim; None claims nothing. 1e-5 is taken for a delta that is not given.
    source, rows, craft
        Where records come from, how many of them are used, and how the pair is made of them. Rows
        are scaled into their norm, and labels are class numbers.
    """
    if isinstance(mechanism, type) and hasattr(mechanism, "fit"):
        mechanism = mechanism()
    words = "two datasets given by the user"
    if pair is None:
        assert source is not None
        prepared = source.read()
        norm = prepared.data_norm
        if source.data_norm is None and not source.is_file:
            # Of a dataset by name the intercept's 1 is in it, which a mechanism is not handed.
            norm = math.sqrt(norm**2 - 1)
        X = clip_rows(np.asarray(prepared.X, dtype=np.float64)[:rows], norm)
        codes = np.unique(np.asarray(prepared.y)[:rows], return_inverse=True)[1]
        first, second, words = _crafted(Dataset(X, codes, norm_bound=norm), craft, relation, None)
        if not isinstance(second, Dataset):
            checks.fail("relation", relation.value, "to be another", "Silent records need our SGD.")
        pair = (first.X, first.y), (second.X, second.y)
        size = f"{first.rows:,} rows of {first.features} numbers of {source.data}"
        words = f"(X, y), {size} within norm {norm:g}, labels from 0 on; one differs: {words}"
    delta = default_delta(None) if delta is None else checks.probability_below_one("delta", delta)
    claim = None if epsilon is None else Claim(epsilon, delta, relation, source=name)
    return Target(mechanism, pair[0], pair[1], claim, delta, name, words)


def of_estimator(
    name: str,
    estimator: PrivateLinearClassifier,
    prepared: Prepared,
    *,
    relation: Relation,
    craft: str = _CANARY,
    given: tuple[Dataset, Dataset, str] | None = None,
) -> Target:
    """An estimator of ours, which makes its own claim; on a crafted pair, or a given one in words.

    Raises
    ------
    InvalidArgument
        For a fixed random_state, or settings that follow from the records.
    NotApplicable
        If the fit would promise nothing.
    """
    if given is not None:
        first, second, words = given
        fit = fits.prepare(estimator, (first.X, first.y), (second.X, second.y))
        return Target(*fit, fit.claim.delta, name, words)
    mechanism, D, claim = fits.mechanism(estimator, prepared.X, prepared.y)
    l2 = fits.held_back(mechanism, D.rows)
    D, D_prime, words = _crafted(D, craft, relation, l2)
    words = f"{D.rows:,} records, {D.features} weights; {words}"
    return Target(mechanism, D, D_prime, claim, claim.delta, name, words)


def of_gallery(name: str, *, few: bool) -> Target:
    """The broken mechanism of this name; `few` runs are those of a smoke test."""
    from sordino.audit import gallery

    entry = gallery.find_entry(name)
    case = entry.case()
    if case.exact is not None:
        hint = f"A formula settles it: `sordino audit gallery {name}`."
        checks.fail("mechanism", f"{_GALLERY}{name}", "to be one that is run", hint)
    return Target(
        *(case.broken, case.D, case.D_prime, case.claim, case.claim.delta),
        name=f"{_GALLERY}{name}",
        pair=f"the pair of the gallery. {entry.fault}",
        score=case.score,
        runs=entry.smoke_runs if few else entry.runs,
    )


def _crafted(
    dataset: Dataset, craft: str, relation: Relation, l2: float | None
) -> tuple[Any, Any, str]:
    """D, D' and what they are; `l2` if it is known what holds a model back."""
    if craft == _CANARY:
        return *pairs.canary(dataset, relation=relation, l2=l2), "a crafted canary"
    if relation is not Relation.REPLACE_ONE:
        checks.fail("relation", relation.value, "to be replace-one", "Or use a canary.")
    assert dataset.norm_bound is not None
    size = dataset.rows, dataset.features, dataset.norm_bound
    D, D_prime, _ = pairs.worst_case_pair(*size, start=False, l2=l2)
    return D, D_prime, "a synthetic worst case of this shape"
