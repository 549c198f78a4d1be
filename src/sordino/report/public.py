"""`PublicFacts`: what the public may see of a release, which is what its certificate may show.

Nothing here is made from an `Assessment`: no accuracy, no estimate, no attack, no exact count that
the certificate does not state. What stands beside the certificate (the trade-off curve, the best
guess, what other theorems say) is computed from the certificate's evidence alone. `page` is the
public page.

JSON Schemas of the documents, made from the dataclasses, their types and their docstrings.

`python -m sordino.report.public` writes them beside this file. A test fails while a written schema
is not the one made here: then also ask whether the document's version must grow.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino import checks
from sordino.errors import InvalidArgument, printable
from sordino.privacy import Guarantee
from sordino.report import result, sections, words
from sordino.report.numbers import name_list, upper, versions
from sordino.report.page import Block, Bullets, Code, Facts, Folded, Page, Section, Text
from sordino.report.result import Bound, Curve, Proved
from sordino.serialize import Schema, closed, fields_of, summary

_HEADER = {"schema": "sordino-assessment-public", "version": 1, "internal": False}
CERTIFICATE = {"schema": "sordino-certificate", "version": 1}
_GUARANTEE_MEANS = ("delta_means", "relation_means")
"""Sentences beside the guarantee."""
CERTIFICATE_KEYS = (
    *("date", "model", "guarantee", "why_none", "method", "evidence", "facts", "noise"),
    *("preprocessing", "tuning", "dataset", "ledger_entry", "versions"),
)
"""Of version 1. A certificate is closed: what else stood in one would not be its own."""


@dataclass(frozen=True)
class PublicBound:
    """What one theorem says of the release, from the certificate's numbers alone.

    Parameters
    ----------
    name
        Short, for an axis.
    epsilon
        Proved at the guarantee's delta; None where the theorem does not apply.
    theorem
        The statement, with its source.
    used
        Whether the certificate rests on this one.
    reason
        Why it does not apply; "" where it does.
    """

    name: str
    epsilon: float | None
    theorem: str
    used: bool = False
    reason: str = ""


@dataclass(frozen=True)
class PublicComputed:
    """What follows from the certificate.

    Parameters
    ----------
    tradeoff
        Least false-negative rate (y) of any test with false-positive rate x; None if nothing is
        promised.
    best_guess
        The largest probability with which anybody guesses right whose record it was, if both are
        equally likely beforehand.
    bounds
        Every theorem that was asked.
    asked
        In words the risk that was asked for, and epsilon follows from; "" where epsilon was.
    """

    tradeoff: Curve | None = None
    best_guess: float = 1.0
    bounds: tuple[PublicBound, ...] = ()
    asked: str = field(default="", metadata=result.ADDED)


@dataclass(frozen=True)
class PublicFacts:
    """A certificate and what follows from it; `public_facts` makes one.

    Parameters
    ----------
    certificate
        The certificate itself, as parsed from its JSON.
    computed
        What follows from it.
    """

    certificate: Mapping[str, Any]
    computed: PublicComputed

    @functools.cached_property
    def guarantee(self) -> Guarantee | None:
        """What is promised; None if nothing is, and the certificate's "why_none" says why."""
        values = self.certificate["guarantee"]
        if values is None:
            return None
        names = fields_of(Guarantee)
        result.check_keys(values, (*names, *_GUARANTEE_MEANS), "certificate.guarantee")
        return result.from_plain(Guarantee, {name: values[name] for name in names})

    @property
    def rows(self) -> int | None:
        """How many records, where the certificate states it."""
        evidence = self.certificate["evidence"]
        rows = evidence.get("rows") if isinstance(evidence, Mapping) else None
        return rows if isinstance(rows, int) else None

    @property
    def leaks(self) -> tuple[str, ...]:
        """What was read off the records beforehand."""
        from_proof = () if self.guarantee is None else self.guarantee.not_covered
        reads = [str(what) for what in self.certificate["preprocessing"].get("reads", ())]
        return words.each_once(*reads, *from_proof)


def public_facts(
    certificate: str | bytes | Mapping[str, Any],
    *,
    tradeoff: Curve | None = None,
    best_guess: float = 1.0,
    bounds: Iterable[Bound] = (),
    asked: str = "",
) -> PublicFacts:
    """What the public may see of the release that `certificate` (its JSON) is of.

    Parameters
    ----------
    tradeoff, best_guess, bounds, asked
        Computed from the certificate's evidence alone; see `PublicComputed`. Formulas that are
        quoted and not proved are left out.

    Raises
    ------
    DocumentError
        If the certificate is none. Whether it holds up is for `release.verify` to say.
    InvalidArgument
        If something is said to follow from a certificate that promises nothing.
    """
    made = dict(certificate) if isinstance(certificate, Mapping) else result.parse(certificate)
    shown = tuple(
        PublicBound(each.name, each.epsilon, each.theorem, each.used, each.reason)
        for each in bounds
        if each.kind == "guarantee"
    )
    return _facts(made, PublicComputed(tradeoff, float(best_guess), shown, asked))


def dumps(facts: PublicFacts) -> str:
    """JSON for the public (public.schema.json): equal facts give equal text."""
    values = {"certificate": dict(facts.certificate), "computed": result.to_plain(facts.computed)}
    return result.text({**_HEADER, **values}) + "\n"


def loads(content: str | bytes) -> PublicFacts:
    """Read what `dumps` wrote.

    Raises
    ------
    DocumentError
        For anything else, with one sentence.
    """
    values = result.check_document(result.parse(content), _HEADER, tuple(fields_of(PublicFacts)))
    try:
        return _facts(values["certificate"], result.from_plain(PublicComputed, values["computed"]))
    except InvalidArgument as error:
        result.refuse("computed", f"cannot be right. {str(error).rstrip('.')}")


def _facts(certificate: object, computed: PublicComputed) -> PublicFacts:
    found = result.check_document(certificate, CERTIFICATE, CERTIFICATE_KEYS, "certificate")
    for name in ("model", "facts", "preprocessing", "tuning", "dataset", "versions"):
        if not isinstance(found[name], dict):
            result.refuse(f"certificate.{name}", "is no object")
    facts = PublicFacts({**CERTIFICATE, **found}, computed)
    checks.fraction("best_guess", computed.best_guess)
    if computed.best_guess < 0.5:
        checks.fail("best_guess", computed.best_guess, ">= 0.5, as of a coin")
    if facts.guarantee is None and (computed.tradeoff is not None or computed.best_guess < 1):
        hint = "It promises nothing."
        checks.fail("best_guess", computed.best_guess, "to follow from the certificate", hint)
    return facts


# --- The public page


def page(facts: PublicFacts) -> Page:
    """The whole certificate as blocks, for `page.html` or `page.markdown`."""
    paper, proved = facts.certificate, facts.guarantee
    version = str(paper["versions"].get("sordino", ""))
    title = f"How private is this {paper['model'].get('estimator', 'model')}?"
    verdict = "Nothing is promised: treat this model like the records themselves"
    if proved is not None and math.isfinite(proved.epsilon):
        unit = "record" if proved.unit == "one record" else f"person ({proved.unit})"
        verdict = (
            f"Whoever gets this model {words.learns(proved, f'any one {unit}', facts.rows)}: "
            f"epsilon is at most {upper(proved.epsilon)} at delta = {upper(proved.delta)} (proved)"
        )
        if facts.leaks:
            verdict += words.NOT_COVERED
    notes = [f"Not covered by the guarantee: {what}." for what in facts.leaks]
    if proved is None:
        notes = [f"Why nothing is promised: {paper['why_none']}"]
    computed = facts.computed
    parts = Proved(
        proved,
        str(paper["why_none"]),
        tuple(Bound(**vars(each)) for each in computed.bounds),
        computed.tradeoff,
        computed.best_guess,
        {str(name): str(words) for name, words in paper["facts"].items()},
    )
    return Page(
        title=title,
        mark="PUBLIC.",
        why_marked="This page shows the model's certificate and what follows from it.",
        verdict=printable(f"{verdict}."),
        subtitle=f"{title} Released on {paper['date']}.",
        notes=tuple(notes),
        sections=(
            Section("protection", "What is promised, and to whom", tuple(_promise(facts, parts))),
            Section("training", "How it was trained", tuple(_training(paper))),
            Section("proof", "How it was proved", tuple(sections.theorems(parts))),
            Section("caveats", "What is not covered", (Bullets(tuple(_not_covered(facts))),)),
            Section("papers", "The papers", tuple(_papers(paper))),
            Section("words", "The words", tuple(sections.glossary())),
        ),
        footer=f"Made by sordino {version} from the certificate alone.",
        version=version,
    )


def _promise(facts: PublicFacts, parts: Proved) -> Iterator[Block]:
    proved = parts.guarantee
    if proved is None:
        yield Text(parts.why_none, lead="Nothing.", tone="warn")
        return
    means = str(facts.certificate["guarantee"]["relation_means"])
    asked = facts.computed.asked
    pairs = (
        ("Promised", f"epsilon at most {upper(proved.epsilon)} at delta = {upper(proved.delta)}"),
        ("Asked for", asked and words.asked(asked, proved)),
        ("Released", sections.released(proved)),
        ("Protected", proved.unit),
        sections.change(proved.relation, proved.unit != "one record", means),
        ("Delta", sections.delta_means(proved)),
    )
    yield Facts(pairs)
    yield from sections.attacker(parts, proved)


def _training(paper: Mapping[str, Any]) -> Iterator[Block]:
    model, before, tuning = paper["model"], paper["preprocessing"], paper["tuning"]
    prepared = "not declared"
    if before.get("declared"):
        prepared = "read the records" if before.get("reads") else "read each row by itself alone"
    tuned = str(tuning.get("kind", ""))
    if tuned == "declared":
        best = f"the best of {tuning.get('runs')}, which the guarantee pays for"
        tuned = f"declared, {tuning.get('candidates')} candidates; {best}"
    made = before.get("features")
    made = made if isinstance(made, dict) else {}
    pairs = (
        ("Model", str(model.get("estimator", ""))),
        ("Features", f"{int(model.get('features', 0)):,}"),
        ("Feature map", str(made.get("name", ""))),
        ("Labels", name_list([str(label) for label in model.get("labels", ())])),
        ("Method", str(paper["method"])),
        ("Source of the noise", str(paper["noise"])),
        ("Preparation", prepared),
        ("Tuning", tuned),
    )
    yield Facts(pairs)
    yield sections.folded_settings("Settings", model.get("settings", {}))


def _papers(paper: Mapping[str, Any]) -> Iterator[Block]:
    dataset, mark = paper["dataset"], paper["dataset"].get("fingerprint")
    pairs = (
        ("Date", str(paper["date"])),
        ("Dataset", dataset.get("name") or "not named"),
        ("Ledger", paper["ledger_entry"] or "not recorded in one"),
        ("Versions", versions(paper["versions"])),
        ("Fingerprint", f"{mark} (keyed by the owner's secret)" if mark else ""),
    )
    yield Facts(pairs)
    yield Code(str(paper["model"].get("sha256", "")), "SHA-256 of model.safetensors")
    yield Code("sordino certificate verify MODEL", "To check a copy of the model:")
    yield Text("Only a checked signature detects forgers.")
    whole = Code(json.dumps(paper, indent=2, sort_keys=True))
    yield Folded("The certificate, letter by letter", (whole,), printed=False)


def _not_covered(facts: PublicFacts) -> Iterator[str]:
    paper, proved = facts.certificate, facts.guarantee
    if proved is None:
        yield "Everything: nothing is promised."
    yield from (f"Read off the records beforehand: {what}." for what in facts.leaks)
    if not paper["preprocessing"].get("declared", False):
        yield "How the rows were prepared, which nobody declared."
    if paper["preprocessing"].get("features"):
        yield "The feature map, if it was made from the protected records."
    if str(paper["tuning"].get("kind")) in ("none declared", "unknown"):
        yield "Tuning on the same records, if there was any."
    many = "one record" if proved is None else proved.unit
    if (paper["evidence"] or {}).get("persons_counted") is True:
        many = "one id"
    yield f"Somebody with more than {many}."
    yield "Other releases from the same records."
    yield "Whether the noise was drawn as stated: weights do not show it."
    yield "Side channels, such as how long the training took."


def schemas() -> dict[str, str]:
    """The text of each schema, by the name of its file: of `result.dumps` and `public.dumps`."""
    used: dict[str, Any] = {}
    parts = {
        "summary": result.FORMS.of(result.Summary).schema(used),
        **result.FORMS.record(result.Assessment).properties(used),
    }
    about = "Everything that one page says about one release. INTERNAL: made from the records."
    internal = _document(about, result.HEADER, parts, used)
    used = {}
    computed = result.FORMS.of(PublicComputed).schema(used)
    parts = {"computed": computed, "certificate": _certificate(used)}
    about = "What the public may see of a release: its certificate, and what follows from it."
    shown = _document(about, _HEADER, parts, used)
    made = (json.dumps(each, indent=2, ensure_ascii=False) + "\n" for each in (internal, shown))
    return dict(zip(("assessment.schema.json", "public.schema.json"), made, strict=True))


def _document(about: str, header: Mapping[str, Any], parts: Schema, used: dict[str, Any]) -> Schema:
    constant = {name: {"const": value} for name, value in header.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{header['schema']}, version {header['version']}",
        "description": about,
        **closed({**constant, **parts}),
        "$defs": dict(sorted(used.items())),
    }


def _certificate(used: dict[str, Any]) -> Schema:
    text = {"type": "string"}
    means = dict.fromkeys(_GUARANTEE_MEANS, text)
    guarantee = closed({**result.FORMS.record(Guarantee).properties(used), **means})
    promise = {"description": summary(Guarantee), **guarantee}
    known: dict[str, Schema] = {
        "guarantee": {"anyOf": [promise, {"type": "null"}]},
        **{key: {"type": "object", "additionalProperties": text} for key in ("facts", "versions")},
        **dict.fromkeys(("date", "why_none", "method", "noise"), text),
        "ledger_entry": {"type": ["string", "null"]},
        "evidence": {"type": ["object", "null"]},
    }
    about = "The certificate, to the letter; `sordino certificate verify` says whether it holds."
    constant = {name: {"const": value} for name, value in CERTIFICATE.items()}
    keys = {name: known.get(name, {"type": "object"}) for name in CERTIFICATE_KEYS}
    return {"description": about, **closed({**constant, **keys})}


if __name__ == "__main__":
    for name, schema in schemas().items():
        Path(__file__).with_name(name).write_text(schema, encoding="utf-8")
