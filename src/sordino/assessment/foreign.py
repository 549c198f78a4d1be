"""A foreign mechanism, assessed by audit alone: nothing can be proved of code that is only run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sordino import checks
from sordino.assessment.brief import Brief
from sordino.audit import game, target
from sordino.audit.target import GALLERY, Target
from sordino.report.result import Assessment, Question

if TYPE_CHECKING:
    from sordino.assessment.run import Stages


def target_of(brief: Brief, mechanism: Any, pair: tuple[Any, Any] | None) -> Target:
    """What is to be attacked, from what was asked.

    Runs that the attack would refuse later are refused here, before anything is written.

    Parameters
    ----------
    brief
        Names it (`brief.mechanism`), its claim and, without a pair, the data.
    mechanism
        The function or estimator itself; None for one of the gallery ("gallery:NAME").
    pair
        Two datasets as it takes them; None crafts two (X, y) from the data.
    """
    name = brief.mechanism or ""
    if mechanism is not None:
        made = target.of_function(
            *(name, mechanism, pair),
            epsilon=brief.epsilon,
            delta=brief.delta_and_reason(None)[0],
            source=None if pair is not None else brief.source(),
        )
    elif name.startswith(GALLERY):
        made = target.of_gallery(name.removeprefix(GALLERY), few=brief.effort == "quick")
    else:
        hint = "Pass the function itself, or gallery:NAME."
        checks.fail("mechanism", name, "to be something that can be run", hint)
    game.check(_runs(brief, made), 1, delta=made.delta, confidence=brief.confidence)
    return made


def _runs(brief: Brief, found: Target) -> int:
    """Runs in each world: as asked, as its recipe says, or what the effort affords."""
    return brief.audit_runs or found.runs or brief.most_audit_runs


def attacked(brief: Brief, found: Target, stages: Stages) -> Assessment:
    """The whole assessment: one attack."""
    from sordino.assessment import attacking
    from sordino.assessment.run import provenance, rerun
    from sordino.report.result import Attack

    attack = stages.do(
        "attack_mechanism",
        Attack,
        lambda work, tell: attacking.attack_mechanism(
            *(found.mechanism, found.D, found.D_prime),
            claim=found.claim,
            score=found.score,
            confidence=brief.confidence,
            runs=_runs(brief, found),
            pair=found.pair,
            directory=work,
            progress=tell,
        ),
        # Code that cannot be told from other code may have changed: what was found is not of it.
        again=found.identity is None,
    )
    return Assessment(
        question=_question(brief, found, rerun(brief, stages.directory.root)),
        records=None,
        proved_parts=None,
        release=None,
        release_estimated=None,
        own_noise=None,
        attacks=(attack,),
        caveats=(
            "Nothing is proved of a mechanism that is only run: an attack that finds little shows "
            "only that this attack found little.",
        ),
        provenance=provenance(found.identity or "", stages),
    )


def _question(brief: Brief, found: Target, again: str) -> Question:
    assert found.claim is not None
    reason = "As claimed."
    if brief.delta is None and not found.name.startswith(GALLERY):
        reason = "Nobody named a delta: that of the claim was taken to be 1e-5."
    return Question(
        title=f"the mechanism {found.name}",
        data="" if brief.pair else brief.data,
        target=brief.target,
        model="",
        method="",
        epsilon=found.claim.epsilon,
        delta=found.claim.delta,
        delta_reason=reason,
        relation=found.claim.relation,
        effort=brief.effort,
        mechanism=found.name,
        settings=brief.settings(),
        rerun=again,
    )
