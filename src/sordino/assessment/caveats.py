"""What an assessment's numbers do not cover, a sentence each."""

from __future__ import annotations

import json

from sordino.assessment.plan import AssessmentPlan
from sordino.assessment.stages.attack import repeatable
from sordino.report.stages import Attack, Proved, Release


def caveats(
    subject: AssessmentPlan, proved: Proved, released: Release, attacks: tuple[Attack, ...]
) -> tuple[str, ...]:
    """In the order of how much they matter."""
    return (
        *_preparation(subject),
        *_promise(subject, proved, released),
        *_attacks(subject, attacks),
        *_numbers(subject, released),
    )


def _preparation(subject: AssessmentPlan) -> list[str]:
    found = [
        f"Read off the records beforehand: {what}. The guarantee does not cover what that tells."
        for what in subject.records.reads_private_data
    ]
    if subject.recipe is None and not subject.prepared.description:
        found.append(
            "Whoever gets the model cannot prepare rows for it: bounds and levels that were read "
            "off the records are not in its certificate."
        )
    if subject.records.advice:
        found.append(subject.records.advice)
    return found


def _promise(subject: AssessmentPlan, proved: Proved, released: Release) -> list[str]:
    request, found = subject.request, []
    if proved.guarantee is not None:
        already = set(subject.records.reads_private_data)
        found += [
            f"Not covered by the guarantee: {what}."
            for what in proved.guarantee.not_covered
            if what not in already
        ]
    if request.max_rows_per_person == 1:
        found.append(
            "The guarantee is for one record. Somebody with several records in the data is "
            "protected less: --max-rows-per-person says how many there may be."
        )
    found.append(
        "Tuning is not paid for: if settings were chosen by trying them on these records, the "
        "guarantee does not cover the choice (`sordino.tune` pays for it)."
    )
    found.append(_further(released))
    return found


def _attacks(subject: AssessmentPlan, attacks: tuple[Attack, ...]) -> list[str]:
    weak = [each for each in attacks if each.claimed is not None and each.reach <= 0]
    found = [
        "An attack that finds little shows only that this attack found little. The record it "
        "looks for was crafted to stand out; real ones mostly stand out less, and theorems cover "
        "all of them.",
        "The estimate promises nothing: it covers the records and directions that were tried, and "
        "takes the noise for Gaussian.",
    ]
    if weak:
        found.append(
            f"{weak[0].runs:,} runs a side are too few to refute the claim without a hypothesis; "
            "--thorough or --audit-runs makes more."
        )
    if len(subject.records.classes) > 2:
        found.append(
            "SGD's own noise was measured for one class against the rest: "
            f"{subject.records.classes[subject.problem]!r}."
        )
    return found


def _numbers(subject: AssessmentPlan, released: Release) -> list[str]:
    found = []
    if released.accuracy is not None:
        found.append(
            "Exact accuracies and scores are themselves not private, and neither are the estimates "
            "and what attacks achieved: this page is internal. `sordino report --public` leaves "
            "them out."
        )
    found.append(_seeds(subject))
    return found


def _further(released: Release) -> str:
    """Other releases from the same records."""
    adds = "Every further release from the same records adds to this one."
    entry = json.loads(released.certificate)["ledger_entry"] if released.certificate else None
    if entry is not None:
        return f"{adds} This one was charged to a ledger (entry {entry})."
    return f"{adds} No ledger was charged here; `sordino ledger` keeps a budget across releases."


def _seeds(subject: AssessmentPlan) -> str:
    """Where randomness came from."""
    repeated = "Trainings that were measured and attacked used seeds, so that they can be repeated"
    if subject.job is None:
        return f"{repeated}; so did those that were scored: none of these models may leave."
    if not repeatable(subject.job.plan):
        return (
            "The attack on the release drew its noise from the operating system, as a release "
            "does: it cannot be repeated number by number."
        )
    return (
        f"{repeated}; the released model did not: its noise is the operating system's, and kept "
        "nowhere."
    )
