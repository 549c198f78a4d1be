"""The public page: what a certificate says, and what follows from it, and nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from sordino.errors import printable
from sordino.privacy import Guarantee
from sordino.report import words
from sordino.report.blocks import Block, Bullets, Code, Facts, Folded, Page, Section, Text
from sordino.report.public import PublicFacts
from sordino.report.sections import ending, promise
from sordino.report.stages import Bound, Proved
from sordino.report.words_numbers import chance, count, named, settings, upper, versions


def page(facts: PublicFacts) -> Page:
    """The whole certificate as blocks."""
    version = str(facts.certificate["versions"].get("sordino", ""))
    title = f"How private is this {facts.certificate['model'].get('estimator', 'model')}?"
    return Page(
        title=title,
        mark="PUBLIC.",
        why_marked=(
            "This page shows what the certificate of the model says and what follows from it, and "
            "nothing else that was computed from the records."
        ),
        verdict=verdict(facts),
        subtitle=f"{title} Released on {facts.certificate['date']}.",
        notes=notes(facts),
        sections=(
            _promise(facts),
            _training(facts),
            promise.theorems(_proved(facts)),
            Section("caveats", "What is not covered", (Bullets(tuple(_not_covered(facts))),)),
            _papers(facts),
            ending.glossary(only_proved=True),
        ),
        footer=f"Made by sordino {version} from the certificate alone.",
        version=version,
    )


def verdict(facts: PublicFacts) -> str:
    """One sentence."""
    proved = facts.guarantee
    if proved is None or math.isinf(proved.epsilon):
        return "Nothing is promised about this model: treat it like the records themselves."
    unit = "any one record" if proved.unit == "one record" else f"any one person ({proved.unit})"
    sentence = (
        f"Whoever gets this model {words.learned(proved, unit, facts.rows)}: epsilon is at most "
        f"{upper(proved.epsilon)} at delta = {upper(proved.delta)} (proved)"
    )
    if _reads(facts):
        sentence += "; but the guarantee does not cover what was read off the records beforehand"
    return printable(f"{sentence}.")


def notes(facts: PublicFacts) -> tuple[str, ...]:
    """What must be known with it."""
    if facts.guarantee is None:
        return (f"Why nothing is promised: {facts.why_none}",)
    return tuple(f"Not covered by the guarantee: {what.rstrip('.')}." for what in _reads(facts))


def _promise(facts: PublicFacts) -> Section:
    proved = facts.guarantee
    name, title = "protection", "What is promised, and to whom"
    if proved is None:
        return Section(name, title, (Text(facts.why_none, lead="Nothing.", tone="warn"),))
    change = promise.each_of(proved.unit != "one record") + facts.relation_means
    pairs = (
        ("Promised", f"epsilon at most {upper(proved.epsilon)} at delta = {upper(proved.delta)}"),
        ("Released", promise.released(proved)),
        ("Protected", proved.unit),
        ("Against which change", f"{change} ({proved.relation.value})"),
        ("Delta", f"{chance(proved.delta)}: {facts.delta_means}"),
    )
    attacker = promise.at_most(_proved(facts), proved)
    return Section(name, title, (Facts(pairs), *attacker))


def _training(facts: PublicFacts) -> Section:
    paper = facts.certificate
    model, before, tuning = paper["model"], paper["preprocessing"], paper["tuning"]
    pairs = (
        ("Model", str(model.get("estimator", ""))),
        ("Features", count(int(model.get("features", 0)))),
        ("Labels", named([str(label) for label in model.get("labels", ())])),
        ("Method", str(paper["method"])),
        ("Source of the noise", str(paper["noise"])),
        ("Preparation", _preparation(before)),
        ("Tuning", _tuning(tuning)),
    )
    blocks: list[Block] = [Facts(pairs)]
    if given := settings(model.get("settings", {})):
        blocks.append(Folded(f"Settings ({len(given)})", (Facts(given),)))
    return Section("training", "How it was trained", tuple(blocks))


def _papers(facts: PublicFacts) -> Section:
    paper = facts.certificate
    dataset = paper["dataset"]
    mark, keyed = dataset.get("fingerprint"), "(keyed by a secret that stays with the owner)"
    pairs = (
        ("Date", str(paper["date"])),
        ("Dataset", dataset.get("name") or "not named"),
        ("Ledger", paper["ledger_entry"] or "not recorded in one"),
        ("Versions", versions(paper["versions"])),
        ("Fingerprint", f"{mark} {keyed}" if mark else ""),
    )
    text = json.dumps(paper, indent=2, sort_keys=True)
    digest = str(paper["model"].get("sha256", ""))
    blocks: list[Block] = [Facts(pairs)]
    if digest:
        blocks.append(Code(digest, "SHA-256 of model.safetensors"))
    blocks += [
        Code("sordino certificate verify MODEL", "To check a copy of the model:"),
        Text(
            "Without a signature that was checked, only accidents are detected, not forgers: "
            "whoever can change the files can change all of them together."
        ),
        Folded("The certificate, letter by letter", (Code(text),), printed=False),
    ]
    return Section("papers", "The papers", tuple(blocks))


def _proved(facts: PublicFacts) -> Proved:
    """What follows from the certificate, as the proof's section takes it."""
    computed = facts.computed
    bounds = tuple(
        Bound(bound.name, bound.epsilon, bound.theorem, bound.used, bound.reason)
        for bound in computed.bounds
    )
    return Proved(
        guarantee=facts.guarantee,
        why_none=facts.why_none,
        bounds=bounds,
        tradeoff=computed.tradeoff,
        best_guess=computed.best_guess,
        facts={str(name): str(text) for name, text in facts.facts.items()},
    )


def _reads(facts: PublicFacts) -> tuple[str, ...]:
    proved = facts.guarantee
    from_proof = () if proved is None else proved.not_covered
    reads = [str(what) for what in facts.certificate["preprocessing"].get("reads", ())]
    return words.leaks(*reads, *from_proof)


def _not_covered(facts: PublicFacts) -> Iterator[str]:
    proved = facts.guarantee
    if proved is None:
        yield "Everything: nothing is promised."
    for what in _reads(facts):
        yield f"Read off the records beforehand: {what}."
    if not facts.certificate["preprocessing"].get("declared", False):
        yield "How the rows were prepared: nobody declared it."
    yield from {
        "none declared": ["Tuning on the same records, if there was any: none was declared."],
        "unknown": ["Tuning on the same records: the guarantee holds for this one training only."],
    }.get(str(facts.certificate["tuning"].get("kind")), [])
    yield _others(proved)
    yield "Other releases from the same records."
    yield (
        "Whether what is written here is true: the noise is taken on trust, nobody can see it in "
        "the weights."
    )
    yield "Side channels, such as how long the training took."


def _others(proved: Guarantee | None) -> str:
    if proved is None or proved.unit == "one record":
        return "All records of one person together, if somebody has more than one."
    return f"Somebody with more records than the unit counts ({proved.unit})."


def _preparation(before: dict[str, object]) -> str:
    if not before.get("declared"):
        return "nobody declared how the rows were prepared"
    if before.get("reads"):
        return "it read more from the records than each row itself: see what is not covered"
    return "declared to have read nothing from the records but each row itself"


def _tuning(tuning: dict[str, object]) -> str:
    if tuning.get("kind") == "declared":
        return (
            f"declared, {tuning.get('candidates')} candidates; the model is the best of "
            f"{tuning.get('runs')}, and the guarantee already pays for that"
        )
    return str(tuning.get("kind", ""))
