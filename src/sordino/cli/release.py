"""`sordino release`: train a private model, write its bundle, print its certificate."""

from __future__ import annotations

import json as json_text
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from sordino import checks
from sordino.cli import options, terminal
from sordino.cli.options import OUTPUT, PROMISE, Promise, RecordOptions, from_fields, option
from sordino.cli.tables import pick
from sordino.cli.terminal import block, busy, line, print_json, say
from sordino.data.source import Prepared
from sordino.privacy import rounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from sordino.release.ledger import Ledger


class _TuningName(StrEnum):
    """What was tried on the same records before."""

    NONE = "none"
    UNKNOWN = "unknown"


@from_fields
def release(
    records: RecordOptions,
    promise: Promise,
    person: Annotated[str | None, options.PERSON] = None,
    target_bounds: Annotated[str | None, options.TARGET_BOUNDS] = None,
    out: Annotated[str | None, option(OUTPUT, "Bundle, a new directory.", metavar="DIR")] = None,
    tuning: Annotated[_TuningName, option(PROMISE, "Tried on the records.")] = _TuningName.NONE,
    ledger: options.LedgerFile = None,
    dataset: options.DatasetName = None,
    sign_with: Annotated[str | None, option(OUTPUT, "Ed25519, to sign it.", metavar="KEY")] = None,
    dry_run: Annotated[bool, option(OUTPUT, "Only say what would be.", "--dry-run")] = False,
    json: options.Json = False,
) -> None:
    """Train a private model, write it with its certificate, and say in words what is promised.

    All arguments are checked before the records are read. The budget is spent when the model is on
    the disk, before it gets its name: a disk that is full costs nothing. What the guarantee does
    not cover is said on standard error and in the certificate: so is what is read off the rows of
    a file, its bounds, levels and classes, unless `--columns` describes them. A missing number
    counts as the middle of its bounds, and a missing or unknown level is zero in all of the level's
    columns. Exit code 1 if the budget does not allow it.

    `sordino release --data breast-cancer --epsilon 2 --out model`

    `sordino release --data breast-cancer --advantage 0.05 --out model` promises that nobody guesses
    membership more than 0.05 better than by chance; epsilon follows.

    `sordino release --data wages.csv --target wage --target-bounds 0,200 --model ridge --epsilon 1
    --out model` predicts a number; values beyond the bounds count as the nearer one.

    `sordino data describe patients.csv --target ill > columns.toml`, edit that, and then
    `sordino release --data patients.csv --columns columns.toml --epsilon 1 --out model
    --ledger budgets.db --dataset patients-2026`
    """
    from sordino.release import bundle

    if out is None and not dry_run:
        checks.fail_missing("--out DIR", "", "Or pass --dry-run.")
    place = None if out is None else bundle.check_target(out, "--out")
    sign = _signer(sign_with)
    source = records.source(person, target_bounds)
    if source is None:
        checks.fail_missing("--data NAME|FILE", "", options.LIST)
    promise.check_target(source)
    from sordino.assessment import history

    console = terminal.errors()
    with terminal.plain_warnings(console), promise.ledger(ledger, dataset) or nullcontext() as book:
        with busy(console, f"Reading {source.data}"):
            prepared = source.read(persons=True, numbers=True)
        history.warn(source)
        estimator = promise.estimator(prepared)
        if dry_run:
            _preview(estimator, prepared, book, as_json=json)
            return
        assert place is not None
        with busy(console, f"Training on {source.data}"):
            estimator.fit_and_save(
                *(prepared.X, prepared.y, place),
                persons=prepared.persons,
                sign=sign,
                preprocessing=prepared.reads_private_data,
                columns=prepared.description,
                tuning="none declared" if tuning is _TuningName.NONE else "unknown",
            )
        history.add(source)
        # What the person at the keyboard should know, and nobody else.
        evidence = estimator.certificate_.evidence
        about = evidence.about_persons if evidence is not None and source.is_file else ()
        for note in (*prepared.made, *about):
            line(console, f"Note: {note}.")
        if (test := prepared.test) is not None:
            how_good = f"accuracy {estimator.score(test.X, test.y):.4f}"
            if prepared.target_bounds is not None:
                error = float(((estimator.predict(test.X) - test.y) ** 2).mean()) ** 0.5
                how_good = f"R^2 {estimator.score(test.X, test.y):.4f}, RMSE {error:.4g}"
            line(console, f"INTERNAL, not covered: {how_good} on {test.rows:,} held-out rows.")
        if book is not None:
            line(console, f"Ledger: of the budget of {book.dataset!r}, {book.status().left}.")
    certificate, signed = estimator.certificate_, sign is not None
    with terminal.add_note(f"The model was released: {place}."):
        if json:
            papers = json_text.loads(certificate.to_json())
            print_json({"directory": str(place), "signed": signed, "certificate": papers})
        else:
            block(f"{certificate}\n")
            say("", f"The bundle{', signed' if signed else ''}: {place}")
    if prepared.advice:
        line(console, f"Note: {prepared.advice}")


def _signer(path: str | None) -> Callable[[bytes], bytes] | None:
    """What signs the certificate; a passphrase is asked for now, not after the training."""
    if path is None:
        return None
    from sordino.release import signature

    key = signature.load_private(path, lambda: terminal.ask(f"Passphrase of {path}"))
    return lambda content: signature.sign(content, key)


def _preview(estimator: Any, prepared: Prepared, book: Ledger | None, *, as_json: bool) -> None:
    """Print the public facts of a release that does not happen.

    Raises
    ------
    BudgetExceeded
        If too little is left in the ledger.
    """
    # The first half of `fit`; `estimator.preview` does this too, but tells the guarantee only.
    fitting = estimator._prepare(prepared.X, prepared.y, prepared.persons)
    payment = fitting.payment(estimator)
    left = None
    if book is not None and payment.charge is not None:
        left = f"{book.dataset!r} would have {book.status().after(payment.charge).left}"
    guarantee = fitting.proof.guarantee(fitting.plan.task.delta)
    target = estimator._target()
    asked = None if target is None else target.words
    model, noise = type(estimator).__name__, fitting.plan.evidence.facts()["noise"]
    not_covered = [*guarantee.not_covered, *prepared.reads_private_data]
    (persons,) = fitting.plan.evidence.about_persons
    if as_json:
        promise = pick(guarantee, "epsilon", "delta", "relation", "unit")
        promise["relation"] = guarantee.relation.value
        first = {"dry_run": True, "model": model, "method": fitting.plan.method, **promise}
        first["asked_for"] = asked
        last = {"persons": persons, "not_covered": not_covered, "ledger": left}
        print_json({**first, "noise": noise, **last})
        return
    say(
        "DRY RUN: nothing was trained, recorded or written.",
        f"Model: {model}, by method {fitting.plan.method}",
        f"Promise: epsilon <= {rounded(guarantee.epsilon)} at delta = {rounded(guarantee.delta)}",
        *[f"Asked for: {asked}, which gives this epsilon"] * (asked is not None),
        f"For whom: {guarantee.unit}, {guarantee.relation.value}",
        f"Noise: {noise}",
        f"Persons: {persons}",
        *(f"NOT COVERED: {what}" for what in not_covered),
        f"Ledger: {left or 'none is charged'}",
    )
