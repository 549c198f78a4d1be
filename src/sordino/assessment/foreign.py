"""A foreign mechanism, assessed by audit alone: nothing can be proved of code that is only run."""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sordino import checks
from sordino.assessment.request import Request
from sordino.audit import game as audit_game
from sordino.audit import neighbour
from sordino.audit.claim import Claim
from sordino.audit.worlds import identity
from sordino.data import Dataset
from sordino.data.preprocess import clip_rows
from sordino.data.source import Prepared
from sordino.privacy import Relation
from sordino.report.assessment import Assessment, Question

if TYPE_CHECKING:
    from sordino.assessment.run import Stages

GALLERY = "gallery:"


@dataclass(frozen=True, eq=False)
class ForeignGame:
    """A mechanism, two datasets that differ in one record, and what is claimed.

    `runs` is what the mechanism's own recipe asks for, where it has one.
    """

    mechanism: Any
    D: Any
    D_prime: Any
    claim: Claim
    name: str
    pair: str
    score: Any = "learned"
    runs: int | None = None

    @functools.cached_property
    def identity(self) -> str | None:
        """Of code and data; None where it cannot be told whether they are the same as before."""
        return identity(self.mechanism, self.D, self.D_prime)

    def runs_for(self, request: Request) -> int:
        """Runs in each world: as asked, as its recipe says, or what the effort affords."""
        return request.audit_runs or self.runs or request.most_audit_runs

    def check(self, request: Request) -> None:
        """Refuse, before anything is written, runs that the attack would refuse later."""
        delta, confidence = self.claim.delta, request.confidence
        audit_game.check(self.runs_for(request), 1, delta=delta, confidence=confidence)


def game(request: Request, mechanism: Any, pair: tuple[Any, Any] | None) -> ForeignGame:
    """What is to be attacked, from what was asked.

    Parameters
    ----------
    request
        Names it (`request.mechanism`), its claim and, without a pair, the data.
    mechanism
        The function or estimator itself; None for one of the gallery ("gallery:NAME").
    pair
        Two datasets as it takes them; None crafts two (X, y) from the data.
    """
    name = request.mechanism or ""
    if mechanism is None:
        if not name.startswith(GALLERY):
            hint = "Pass the function itself, or gallery:NAME."
            checks.fail("mechanism", name, "to be something that can be run", hint)
        return _of_gallery(name.removeprefix(GALLERY), few=request.effort == "quick")
    if isinstance(mechanism, type) and hasattr(mechanism, "fit"):
        mechanism = mechanism()
    words = "two datasets given by the user"
    if pair is None:
        source = request.source()
        prepared = source.read()
        if request.data_norm is None and not source.is_file:
            # Of a dataset by name the intercept's 1 is in it, which a mechanism is not handed.
            norm = math.sqrt(prepared.data_norm**2 - 1)
            prepared = dataclasses.replace(prepared, data_norm=norm)
        D = rows(prepared)
        first, second = neighbour.canary(D)
        assert isinstance(second, Dataset)
        pair = (first.X, first.y), (second.X, second.y)
        words = (
            f"{D.rows:,} rows (X, y) of {request.data}; one record differs: crafted, within "
            f"norm {prepared.data_norm:g} (entries may be negative), mislabelled, in a quiet "
            "direction"
        )
    delta, _ = request.delta_and_reason(None)
    claim = Claim(request.epsilon, delta, Relation.REPLACE_ONE, source=name)
    return ForeignGame(mechanism, pair[0], pair[1], claim, name, words)


def rows(prepared: Prepared) -> Dataset:
    """Rows scaled into their norm, and labels from 0 on."""
    X = np.asarray(prepared.X, dtype=np.float64)
    codes = np.unique(prepared.y, return_inverse=True)[1]
    return Dataset(clip_rows(X, prepared.data_norm), codes, norm_bound=prepared.data_norm)


def _of_gallery(name: str, *, few: bool) -> ForeignGame:
    from sordino.audit import gallery

    entry = gallery.named(name)
    case = entry.case()
    if case.exact is not None:
        hint = f"A formula settles it, without runs: `sordino audit gallery {name}`."
        checks.fail("mechanism", f"{GALLERY}{name}", "to be something that can be run", hint)
    return ForeignGame(
        *(case.broken, case.D, case.D_prime, case.claim),
        name=f"{GALLERY}{name}",
        pair=f"the pair of the gallery. {entry.fault}",
        score=case.score,
        runs=entry.smoke_runs if few else entry.runs,
    )


def attacked(request: Request, found: ForeignGame, stages: Stages) -> Assessment:
    """The whole assessment: one attack."""
    from sordino.assessment.run import provenance, rerun
    from sordino.assessment.stages import attack
    from sordino.report.stages import Attack

    outcome = stages.do(
        "attack_mechanism",
        Attack,
        lambda work, tell: attack.attack_mechanism(
            *(found.mechanism, found.D, found.D_prime),
            claim=found.claim,
            score=found.score,
            confidence=request.confidence,
            runs=found.runs_for(request),
            pair=found.pair,
            directory=work,
            progress=tell,
        ),
        # Code that cannot be told from other code may have changed: what was found is not of it.
        again=found.identity is None,
    )
    return Assessment(
        question=_question(request, found, rerun(request, stages.directory.root)),
        records=None,
        proved_parts=None,
        release=None,
        release_estimated=None,
        own_noise=None,
        attacks=(outcome,),
        caveats=(
            "Nothing is proved of a mechanism that is only run: an attack that finds little shows "
            "only that this attack found little.",
        ),
        provenance=provenance(found.identity or "", stages),
    )


def _question(request: Request, found: ForeignGame, again: str) -> Question:
    reason = "As claimed."
    if request.delta is None and not found.name.startswith(GALLERY):
        reason = "Nobody named a delta: that of the claim was taken to be 1e-5."
    return Question(
        title=f"the mechanism {found.name}",
        data="" if request.pair else request.data,
        target=request.target,
        model="",
        method="",
        epsilon=found.claim.epsilon,
        delta=found.claim.delta,
        delta_reason=reason,
        relation=found.claim.relation,
        effort=request.effort,
        mechanism=found.name,
        settings=request.settings(),
        rerun=again,
    )
