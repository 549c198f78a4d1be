"""`PublicFacts`: what the public may see of a release, which is what its certificate may show.

Nothing here is made from an `Assessment`: no accuracy, no estimate, no attack, no exact count that
the certificate does not state. What stands beside the certificate (the trade-off curve, the best
guess, what other theorems say) is computed from the certificate's evidence alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sordino import checks
from sordino.errors import InvalidArgument
from sordino.privacy import Guarantee
from sordino.report.document import text
from sordino.report.plain import (
    check_header,
    check_keys,
    fields_of,
    from_plain,
    parse,
    refuse,
    to_plain,
)
from sordino.report.stages import Bound, Curve

SCHEMA: Final = "sordino-assessment-public"
VERSION: Final = 1
CERTIFICATE_SCHEMA, CERTIFICATE_VERSION = "sordino-certificate", 1
GUARANTEE_MEANS = ("delta_means", "relation_means")
"""Sentences beside the guarantee."""
CERTIFICATE_KEYS = (
    *("schema", "version", "date", "model", "guarantee", "why_none", "method", "evidence"),
    *("facts", "noise", "preprocessing", "tuning", "dataset", "ledger_entry", "versions"),
)
"""Of version 1. A certificate is closed: what else stood in one would not be its own."""


@dataclass(frozen=True)
class PublicHeader:
    """What a document is, so that no other is taken for it."""

    schema: Literal["sordino-assessment-public"] = SCHEMA
    version: Literal[1] = VERSION
    internal: Literal[False] = False


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
    """

    tradeoff: Curve | None = None
    best_guess: float = 1.0
    bounds: tuple[PublicBound, ...] = ()


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
        """What is promised; None if nothing is, and `why_none` says why."""
        return _guarantee(self.certificate)

    @property
    def why_none(self) -> str:
        """Why nothing is promised; "" where something is."""
        return str(self.certificate["why_none"])

    @property
    def delta_means(self) -> str:
        """What delta allows, a sentence; "" where nothing is promised."""
        return self._means("delta_means")

    @property
    def relation_means(self) -> str:
        """Against which change the promise is, a sentence; "" where nothing is promised."""
        return self._means("relation_means")

    @property
    def facts(self) -> Mapping[str, str]:
        """Numbers of the proof in words, by name: "schedule", "sensitivity", "noise"."""
        return dict(self.certificate["facts"])

    @property
    def rows(self) -> int | None:
        """How many records, where the certificate states it."""
        evidence = self.certificate["evidence"]
        rows = evidence.get("rows") if isinstance(evidence, Mapping) else None
        return rows if isinstance(rows, int) else None

    def _means(self, name: str) -> str:
        guarantee = self.certificate["guarantee"]
        return "" if guarantee is None else str(guarantee[name])


def public_facts(
    certificate: str | bytes | Mapping[str, Any],
    *,
    tradeoff: Curve | None = None,
    best_guess: float = 1.0,
    bounds: Iterable[Bound | PublicBound] = (),
) -> PublicFacts:
    """What the public may see of the release that `certificate` (its JSON) is of.

    Parameters
    ----------
    tradeoff, best_guess, bounds
        Computed from the certificate's evidence alone; see `PublicComputed`. Formulas that are
        quoted and not proved are left out.

    Raises
    ------
    DocumentError
        If the certificate is none. Whether it holds up is for `mechanisms` to say.
    InvalidArgument
        If something is said to follow from a certificate that promises nothing.
    """
    parsed = parse(certificate) if isinstance(certificate, str | bytes) else dict(certificate)
    shown = tuple(_bound(each) for each in bounds if _proved(each))
    return _facts(parsed, PublicComputed(tradeoff, float(best_guess), shown))


def dumps(facts: PublicFacts) -> str:
    """JSON for the public (public.schema.json): equal facts give equal text."""
    computed = {"computed": to_plain(facts.computed)}
    return text({**to_plain(PublicHeader()), "certificate": dict(facts.certificate), **computed})


def loads(content: str | bytes) -> PublicFacts:
    """Read what `dumps` wrote.

    Raises
    ------
    DocumentError
        For anything else, with one sentence.
    """
    values = check_header(parse(content), SCHEMA, VERSION)
    header = fields_of(PublicHeader)
    check_keys(values, (*header, *fields_of(PublicFacts)), "")
    from_plain(PublicHeader, {name: values[name] for name in header})
    try:
        return _facts(values["certificate"], from_plain(PublicComputed, values["computed"]))
    except InvalidArgument as error:
        refuse("computed", f"cannot be right. {str(error).rstrip('.')}")


def _facts(certificate: object, computed: PublicComputed) -> PublicFacts:
    facts = PublicFacts(_certificate(certificate), computed)
    checks.fraction("best_guess", computed.best_guess)
    if computed.best_guess < 0.5:
        hint = "Whoever tosses a coin is right half the time."
        checks.fail("best_guess", computed.best_guess, ">= 0.5", hint)
    if facts.guarantee is None and (computed.tradeoff is not None or computed.best_guess < 1):
        hint = "The certificate promises nothing: pass no trade-off, and a best guess of 1."
        checks.fail("best_guess", computed.best_guess, "to follow from the certificate", hint)
    return facts


def _certificate(values: object) -> Mapping[str, Any]:
    found = check_header(values, CERTIFICATE_SCHEMA, CERTIFICATE_VERSION)
    check_keys(found, CERTIFICATE_KEYS, "certificate")
    _guarantee(found)
    for name in ("model", "facts", "preprocessing", "tuning", "dataset", "versions"):
        if not isinstance(found[name], dict):
            refuse(f"certificate.{name}", "is no object")
    return found


def _guarantee(certificate: Mapping[str, Any]) -> Guarantee | None:
    values = certificate["guarantee"]
    if values is None:
        return None
    check_keys(values, (*fields_of(Guarantee), *GUARANTEE_MEANS), "certificate.guarantee")
    return from_plain(Guarantee, {name: values[name] for name in fields_of(Guarantee)})


def _proved(bound: Bound | PublicBound) -> bool:
    return isinstance(bound, PublicBound) or bound.kind == "guarantee"


def _bound(bound: Bound | PublicBound) -> PublicBound:
    if isinstance(bound, PublicBound):
        return bound
    return PublicBound(bound.name, bound.epsilon, bound.theorem, bound.used, bound.reason)
