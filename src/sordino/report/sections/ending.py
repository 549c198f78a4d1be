"""How the page ends: caveats, where the numbers come from, how to get them again, three words."""

from __future__ import annotations

from sordino.report import words
from sordino.report.assessment import STAGES, Assessment, Provenance, Question
from sordino.report.blocks import Block, Bullets, Code, Facts, Folded, Section, Text
from sordino.report.words_numbers import seconds, settings, versions

GLOSSARY = (
    (
        "Proved",
        "an upper bound that follows from a theorem whose conditions were checked: no attack, "
        "known or not, learns more, up to delta. What nobody can check is named as trusted.",
    ),
    (
        "Estimated",
        "what the randomness of the release, added and SGD's own, seems to hide, measured over "
        "many trainings. It promises nothing: other pairs of records may stand out more.",
    ),
    (
        "Observed",
        "a lower bound that an attack won: the true epsilon is at least this, with the confidence "
        "beside it. A better attack may observe more.",
    ),
    (
        "Epsilon",
        "how much one record can change what comes out. The odds of any belief about it change by "
        "a factor of at most e (2.718...) to the power of epsilon. 0: not at all.",
    ),
    (
        "Delta",
        "the small chance that the promise leaves out: nobody learns more about a person than from "
        "a release that keeps to epsilon but, with this chance, gives the person's records away.",
    ),
)


def caveats(assessment: Assessment) -> Section:
    """What the guarantee does not cover, and what else to know."""
    blocks: list[Block] = []
    leaks, records = words.not_covered(assessment), assessment.records
    advice = "" if records is None else records.advice
    if leaks:
        lead = "The guarantee does not cover what was read off the records beforehand:"
        blocks.append(Text(f"{'; '.join(leaks)}. {advice}".strip(), lead=lead, tone="warn"))
    said = (*leaks, *([advice] if leaks and advice else []))
    others = [each for each in assessment.caveats if not any(part in each for part in said)]
    if others:
        blocks.append(Bullets(tuple(others)))
    if not blocks:
        blocks.append(Text("None was recorded."))
    return Section("caveats", "Caveats", tuple(blocks))


def provenance(assessment: Assessment) -> Section:
    """Versions, fingerprint, trainings, time."""
    found = assessment.provenance
    facts = (
        ("Date", found.date),
        ("Machine", found.machine),
        ("Versions", versions(found.versions)),
        ("Time", _times(found)),
    )
    blocks: list[Block] = [Facts(facts), *_settings(assessment.question)]
    if found.fingerprint:
        label = "Fingerprint of the records (SHA-256), which lets somebody test a guess of them all"
        blocks.append(Code(found.fingerprint, label))
    if found.specs:
        specs = tuple(Code(spec, name) for name, spec in found.specs.items())
        title = f"The trainings, letter by letter ({len(specs)})"
        blocks.append(Folded(title, specs, printed=False))
    release = assessment.release
    if release is not None and release.certificate:
        certificate = Code(release.certificate)
        blocks.append(Folded("The certificate of the release", (certificate,), printed=False))
    return Section("provenance", "Where the numbers come from", tuple(blocks))


def _settings(question: Question) -> list[Block]:
    """What was asked; what was not, by name alone."""
    given = question.settings
    left_out = ", ".join(name.replace("_", " ") for name, each in given.items() if each is None)
    pairs = settings({name: each for name, each in given.items() if each is not None})
    pairs += (("left to sordino", left_out),)
    return [Folded(f"What was asked ({len(given)} settings)", (Facts(pairs),))] * bool(given)


def rerun(assessment: Assessment) -> Section:
    """The command."""
    command = assessment.question.rerun
    blocks: list[Block] = [
        Text(
            "The same command on the same records gives the same estimates and attacks, up to "
            "the last digits on another machine. It also makes another release of the same "
            "records: together the two tell more than either."
            if not assessment.question.mechanism
            else "The same command attacks the same mechanism again."
        )
    ]
    if command:
        blocks.append(Code(command))
    return Section("rerun", "How to run it again", tuple(blocks))


def glossary(*, only_proved: bool = False) -> Section:
    """The words; `only_proved` where nothing else is shown."""
    left_out = ("Estimated", "Observed") if only_proved else ()
    pairs = tuple(pair for pair in GLOSSARY if pair[0] not in left_out)
    return Section("words", "The words", (Facts(pairs),))


def _times(found: Provenance) -> str:
    known = [stage for stage in STAGES if stage in found.seconds]
    order = [*known, *(stage for stage in found.seconds if stage not in STAGES)]
    each = [f"{STAGES.get(stage, stage)} {seconds(found.seconds[stage])}" for stage in order]
    total = seconds(sum(found.seconds.values()))
    return f"{total} together: {'; '.join(each)}" if each else ""
