"""What an assessment's numbers do not cover, a sentence each."""

from __future__ import annotations

from sordino.assessment.subject import Subject
from sordino.report.stages import Attack, Proved, Release


def caveats(
    subject: Subject, proved: Proved, released: Release, attacks: tuple[Attack, ...]
) -> tuple[str, ...]:
    """In the order of how much they matter."""
    return (
        *_preparation(subject),
        *_promise(subject, proved),
        *_attacks(subject, attacks),
        *_numbers(subject, released),
    )


def _preparation(subject: Subject) -> list[str]:
    found = [
        f"Preparing the rows read the {what}. The guarantee does not cover what that tells."
        for what in subject.records.reads_private_data
    ]
    if subject.records.advice:
        found.append(subject.records.advice)
    return found


def _promise(subject: Subject, proved: Proved) -> list[str]:
    brief, found = subject.brief, []
    if proved.guarantee is not None:
        already = set(subject.records.reads_private_data)
        found += [
            f"Not covered by the guarantee: {what}."
            for what in proved.guarantee.not_covered
            if what not in already and "was read off the labels" not in what
        ]
    if brief.max_rows_per_person == 1:
        found.append(
            "The guarantee is for one record. Somebody with several records in the data is "
            "protected less: --max-rows-per-person says how many there may be."
        )
    found.append(
        "Tuning is not paid for: if settings were chosen by trying them on these records, the "
        "guarantee does not cover the choice (`sordino.tune` pays for it)."
    )
    found.append(
        "Every further release from the same records adds to this one. No ledger was charged "
        "here; `sordino ledger` keeps a budget across releases."
    )
    return found


def _attacks(subject: Subject, attacks: tuple[Attack, ...]) -> list[str]:
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


def _numbers(subject: Subject, released: Release) -> list[str]:
    found = []
    if released.accuracy is not None:
        found.append(
            "Exact accuracies are themselves not private, and neither are the estimates and what "
            "attacks achieved: this page is internal. `sordino report --public` leaves them out."
        )
    found.append(
        "Trainings that were measured and attacked used seeds, so that they can be repeated; the "
        "released model did not: its noise is the operating system's, and kept nowhere."
    )
    return found
