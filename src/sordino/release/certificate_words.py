"""A certificate in plain words, for whoever has to decide whether the model may leave."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sordino.errors import filled, printable
from sordino.privacy import RELATIONS, Guarantee, rounded

if TYPE_CHECKING:
    from sordino.release.certificate import Certificate

CLASSES_READ = "which classes there are was read off the labels"
"""Among `not_covered`, where nobody said which there can be."""
STEPS_FITTED = "steps before this model in a pipeline were fitted to the same rows, without noise:"
FITTED_INSIDE = "this model was fitted inside"
"""How lines among `not_covered` begin where `fit` saw that it was called so."""

WIDTH = 92
_LABELS_SHOWN = 10

SIGNATURES = (
    "Without a signature that was checked, only accidents are detected, not forgers: whoever can "
    "change the files can change all of them together."
)


def delta_means(delta: float) -> str:
    """What delta allows, in a sentence. Part of the schema, as `RELATIONS`.

    P(S) <= e^epsilon Q(S) + delta for every event S. That is weaker than "the loss exceeds epsilon
    with probability at most delta", and the same as being no worse, for the two datasets at hand,
    than a release that keeps to epsilon and with probability delta tells them apart (Kairouz, Oh &
    Viswanath 2015).
    """
    if delta == 0:
        return "the bound on epsilon holds without exception"
    return (
        "nobody learns more about a person than from a release that keeps to epsilon but, with "
        "probability delta, gives that person's records away; at delta = 1 / rows this would "
        "allow publishing one record at random, so delta must be far below that"
    )


def in_words(certificate: Certificate) -> str:
    """The whole certificate, a few headed paragraphs."""
    parts: list[tuple[str, Iterable[str]]] = [
        ("", _title(certificate)),
        *_promise(certificate),
        ("HOW IT WAS TRAINED", _training(certificate)),
        ("BEFORE THE TRAINING", _before(certificate)),
        ("WHAT IS NOT COVERED", (f"- {line}" for line in not_covered(certificate))),
    ]
    if certificate.guarantee is not None and certificate.guarantee.assumes:
        assumes = (f"- {line}" for line in certificate.guarantee.assumes)
        parts.append(("WHAT IT ASSUMES", assumes))
    parts.append(("THE PAPERS", _papers(certificate)))
    return "\n\n".join(_paragraph(heading, lines) for heading, lines in parts)


def not_covered(certificate: Certificate) -> tuple[str, ...]:
    """What the guarantee says nothing about, a line each."""
    guarantee = certificate.guarantee
    lines = ["everything: nothing is promised"] if guarantee is None else [*guarantee.not_covered]
    before = certificate.preprocessing
    lines += [f"what preparing the rows read from the records: {what}" for what in before.reads]
    if not before.declared:
        lines.append("how the rows were prepared: nobody declared it")
    lines += {
        "declared": [],
        "none declared": ["tuning on the same records, if there was any: none was declared"],
        "unknown": ["tuning on the same records: the guarantee holds for this one training only"],
    }[certificate.tuning.kind]
    if guarantee is not None and guarantee.unit == "one record":
        lines.append("all records of one person together, if somebody has more than one")
    elif guarantee is not None:
        lines.append(f"somebody with more records than the unit counts ({guarantee.unit})")
    others = "other releases from the same records"
    if certificate.ledger_entry is not None:
        others += ", beside those that the ledger adds up"
    return (
        *lines,
        others,
        "whether what is written here is true: the noise is taken on trust, nobody can see it in "
        "the weights",
        "side channels, such as how long the training took",
    )


def _title(certificate: Certificate) -> Iterator[str]:
    model = certificate.model
    yield f"PRIVACY CERTIFICATE of {model.estimator}, released {certificate.date}"
    shown = ", ".join(str(label) for label in model.labels[:_LABELS_SHOWN])
    more = ", ..." if len(model.labels) > _LABELS_SHOWN else ""
    guarantee = certificate.guarantee
    drafted = any("which classes there are" in each for each in certificate.preprocessing.reads)
    if guarantee is None or drafted or CLASSES_READ in guarantee.not_covered:  # may be cells
        shown, more = "not shown, since they may be of the records; certificate.json has them", ""
    yield (
        f"The model: {model.features:,} features{' and an intercept' if model.intercept else ''}, "
        f"{len(model.labels)} labels ({shown}{more})"
    )


def _promise(certificate: Certificate) -> list[tuple[str, Iterable[str]]]:
    if certificate.guarantee is None:
        lines = (
            certificate.why_none,
            "This model may give single records away. Treat it like the records themselves.",
        )
        return [("NOTHING IS PROMISED", lines)]
    return [("WHAT IS PROMISED", _guarantee(certificate.guarantee))]


def _guarantee(guarantee: Guarantee) -> Iterator[str]:
    what = "the final model" if guarantee.released == "final" else "the model and all iterates"
    epsilon, delta = rounded(guarantee.epsilon), rounded(guarantee.delta)
    yield f"epsilon <= {epsilon} at delta = {delta}, for {what}"
    yield f"For whom: {guarantee.unit}"
    each = "" if guarantee.unit == "one record" else "for each of these records, "
    change = f"{each}{RELATIONS[guarantee.relation]} ({guarantee.relation.value})"
    yield f"Against which change: {change}"
    if guarantee.epsilon < 20:  # beyond, the factor says nothing to anybody
        factor = rounded(math.exp(guarantee.epsilon))
        yield (
            f"epsilon = {epsilon}: whatever somebody concludes from the model is at most {factor} "
            "times as likely as it would be after that change of the data, up to delta"
        )
    yield f"delta = {delta}: {delta_means(guarantee.delta)}"
    yield f"Proved by: {guarantee.theorem}"


def _training(certificate: Certificate) -> Iterator[str]:
    yield f"Method: {certificate.method}"
    if certificate.guarantee is not None:
        yield f"Batches: {certificate.guarantee.sampling}"
    for name in sorted(certificate.facts, key=_order):
        yield f"{name.capitalize()}: {certificate.facts[name]}"
    yield f"Source of the noise: {certificate.noise}"
    settings = dict(sorted(certificate.model.settings.items()))
    if certificate.tuning.kind == "declared" and "epsilon" in settings:
        settings["epsilon of one training"] = settings.pop("epsilon")
    chosen = [f"{name} {value}" for name, value in settings.items() if value is not None]
    if chosen:
        yield f"Settings: {', '.join(chosen)}"


def _order(name: str) -> tuple[int, str]:
    known = ("schedule", "sensitivity", "noise")
    return (known.index(name) if name in known else len(known), name)


def _before(certificate: Certificate) -> Iterator[str]:
    before, tuning = certificate.preprocessing, certificate.tuning
    if not before.declared:
        yield "Preparation: nobody declared how the rows were prepared"
    elif before.reads:
        yield f"Preparation read from the records, NOT COVERED: {'; '.join(before.reads)}"
    else:
        yield "Preparation: declared to have read nothing from the records but each row itself"
    if before.columns:
        yield (
            "Columns: by the public description in the certificate (preprocessing.columns, TOML); "
            "numbers as 0 to 1 between their bounds, missing ones as the middle; levels as 0 or 1, "
            "missing and unknown ones as 0 in all"
        )
    model, norm = certificate.model, certificate.model.settings.get("data_norm")
    if norm is not None and certificate.method != "majority":
        one = ", the intercept's constant 1 counted and scaled with it," if model.intercept else ""
        yield (
            f"Rows: one that is longer than {norm}{one} was scaled down to that norm; whoever "
            "predicts with the weights must do the same first (sordino does)"
        )
    if tuning.kind == "declared":
        yield (
            f"Tuning: declared, {tuning.candidates} candidates; the model is the best of "
            f"{tuning.runs}, and the guarantee already pays for that"
        )
    elif tuning.kind == "unknown":
        yield (
            "Tuning: UNKNOWN; the guarantee holds for this one training only, and tuning on the "
            "same records is not covered"
        )
    else:
        yield "Tuning: none declared"
    dataset = certificate.dataset
    yield f"Dataset: {dataset.name if dataset.name is not None else 'not named'}"
    if dataset.fingerprint is not None:
        yield (
            f"Fingerprint: {dataset.fingerprint} (keyed by a secret that stays with the owner; "
            "without it, it tells nothing about the records)"
        )


def _papers(certificate: Certificate) -> Iterator[str]:
    entry = certificate.ledger_entry
    yield f"Ledger: {'not recorded in one' if entry is None else f'entry {entry}'}"
    yield f"SHA-256 of model.safetensors: {certificate.model.sha256}"
    listed = sorted(certificate.versions.items(), key=lambda item: (item[0] != "sordino", item))
    yield f"Versions: {', '.join(f'{name} {version}' for name, version in listed)}"
    yield f"Signature: {SIGNATURES}"


def _paragraph(heading: str, lines: Iterable[str]) -> str:
    indent = "  " if heading else ""
    wrapped = (
        filled(printable(line), WIDTH, first=indent, then=indent + "    ", cut=False)
        for line in lines
    )
    return "\n".join(([heading] if heading else []) + list(wrapped))
