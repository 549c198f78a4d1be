"""`sordino release`: train a private model, write its bundle, print its certificate."""

from __future__ import annotations

import json as json_text
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from sordino import checks
from sordino.cli import options
from sordino.cli.options import OUTPUT, PROMISE, flag, from_fields, option
from sordino.cli.promise import Promise
from sordino.cli.terminal import (
    ask,
    block,
    busy,
    errors,
    kept,
    line,
    plain_warnings,
    print_json,
    say,
)
from sordino.data.source import Prepared, Source
from sordino.privacy import rounded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sordino.cli.screen import Screen
    from sordino.privacy import Guarantee
    from sordino.release.certificate import Certificate
    from sordino.release.ledger import Ledger


class TuningName(StrEnum):
    """What was tried on the same records before."""

    NONE = "none"
    UNKNOWN = "unknown"


_TUNINGS = {TuningName.NONE: "none declared", TuningName.UNKNOWN: "unknown"}


@dataclass(frozen=True)
class Preview:
    """The public facts of a release that did not happen.

    Parameters
    ----------
    model, method
        What would be trained, and how.
    guarantee
        What would be promised.
    noise
        How much noise would be added, in words.
    not_covered
        What the guarantee would say nothing about.
    left
        What would be left in the ledger, in words; empty without one.
    """

    model: str
    method: str
    guarantee: Guarantee
    noise: str
    not_covered: tuple[str, ...]
    left: str

    @classmethod
    def of(cls, estimator: Any, prepared: Prepared, book: Ledger | None) -> Preview:
        """Ask for a release of these records, and the open ledger for its budget.

        Raises
        ------
        BudgetExceeded
            If too little is left.
        """
        from sordino.estimators.job import Door

        # The first half of `fit`; `estimator.preview` does this too, but tells the guarantee only.
        job = estimator._prepare(prepared.X, prepared.y)
        door = Door.of(job, estimator)
        left = ""
        if book is not None and door.charge is not None:
            left = f"{book.dataset!r} would have {book.status().after(door.charge).left}"
        guarantee = job.proof.guarantee(job.plan.task.delta)
        return cls(
            model=type(estimator).__name__,
            method=job.plan.method,
            guarantee=guarantee,
            noise=job.plan.evidence.facts()["noise"],
            not_covered=(*guarantee.not_covered, *prepared.reads_private_data),
            left=left,
        )

    def lines(self) -> list[str]:
        """It in words."""
        promise = self.guarantee
        epsilon, delta = rounded(promise.epsilon), rounded(promise.delta)
        return [
            "DRY RUN: nothing was trained, recorded or written.",
            f"Model: {self.model}, by method {self.method}",
            f"Promise: epsilon <= {epsilon} at delta = {delta}",
            f"For whom: {promise.unit}, {promise.relation.value}",
            f"Noise: {self.noise}",
            *(f"NOT COVERED: {what}" for what in self.not_covered),
            f"Ledger: {self.left or 'none is charged'}",
        ]

    def to_dict(self) -> dict[str, object]:
        """The same for a program."""
        promise = self.guarantee
        return {
            "dry_run": True,
            "model": self.model,
            "method": self.method,
            "epsilon": promise.epsilon,
            "delta": promise.delta,
            "relation": promise.relation.value,
            "unit": promise.unit,
            "noise": self.noise,
            "not_covered": list(self.not_covered),
            "ledger": self.left or None,
        }


@from_fields
def release(
    data: options.Data,
    promise: Promise,
    out: Annotated[
        str | None,
        option(OUTPUT, "New directory for the bundle; needed unless --dry-run.", metavar="DIR"),
    ] = None,
    target: options.Target = None,
    columns: options.ColumnsFile = None,
    classes: options.Classes = None,
    data_norm: options.DataNorm = None,
    data_dir: options.DataDir = None,
    tuning: Annotated[
        TuningName,
        option(
            PROMISE,
            "Whether settings were tried on these records before: **none**, or **unknown**.",
        ),
    ] = TuningName.NONE,
    ledger: options.LedgerFile = None,
    dataset: options.DatasetName = None,
    sign_with: Annotated[
        str | None,
        option(OUTPUT, "Ed25519 private key to sign the certificate.", metavar="KEY"),
    ] = None,
    dry_run: Annotated[
        bool,
        flag(
            OUTPUT,
            "--dry-run",
            "Say what would be released and what would be left in the ledger; nothing is trained, "
            "recorded or written. Exit code 1 if the budget does not allow it.",
        ),
    ] = False,
    json: options.Json = False,
) -> None:
    """Train a private model, write it with its certificate, and say in words what is promised.

    All arguments are checked before the records are read. The budget is spent when the model is on
    the disk, before it gets its name: a disk that is full costs nothing. What the guarantee does
    not cover is said on standard error and in the certificate. In a file, a missing number counts
    as the middle of its bounds, and a missing or unknown level is zero in all of the level's
    columns.

    `sordino release --data breast-cancer --epsilon 2 --out model`

    `sordino data describe patients.csv --target ill > columns.toml`, edit that, and then
    `sordino release --data patients.csv --columns columns.toml --epsilon 1 --out model
    --ledger budgets.db --dataset patients-2026`
    """
    place, sign = _place(out, needed=not dry_run), _signer(sign_with)
    source = Source(data, target, columns, classes, data_norm, data_dir)
    from sordino.assessment import history

    console = errors()
    with plain_warnings(console), promise.ledger(ledger, dataset) or nullcontext() as book:
        with busy(console, f"Reading {data}"):
            prepared = source.read()
        history.warn(source)
        estimator = promise.estimator(prepared)
        if dry_run:
            found = Preview.of(estimator, prepared, book)
            if json:
                print_json(found.to_dict())
            else:
                say(*found.lines())
            return
        assert place is not None
        with busy(console, f"Training on {data}"):
            estimator.fit_and_save(
                *(prepared.X, prepared.y, place),
                sign=sign,
                preprocessing=prepared.reads_private_data,
                columns=prepared.description,
                tuning=_TUNINGS[tuning],
            )
        history.add(source)
        _say(console, prepared, estimator, book)
    with kept(f"The model was released, and its bundle is in {place}."):
        _print(estimator.certificate_, place, signed=sign is not None, as_json=json)
    if prepared.advice:
        line(console, f"Note: {prepared.advice}")


def _place(out: str | None, *, needed: bool) -> Path | None:
    """Where the bundle goes."""
    from sordino.release import bundle

    if out is None and needed:
        checks.fail_missing("--out DIR", "", "Pass a new directory for the bundle, or --dry-run.")
    return None if out is None else bundle.check_target(out, "--out")


def _signer(path: str | None) -> Callable[[bytes], bytes] | None:
    """What signs the certificate; a passphrase is asked for now, not after the training."""
    if path is None:
        return None
    from sordino.release import signature

    key = signature.load_private(path, lambda: ask(f"Passphrase of {path}"))
    return lambda content: signature.sign(content, key)


def _say(console: Screen, prepared: Prepared, fitted: Any, book: Ledger | None) -> None:
    """What the person at the keyboard should know, and nobody else."""
    for note in prepared.notes:
        line(console, f"Note: {note}.")
    if prepared.test is not None:
        accuracy, rows = fitted.score(prepared.test.X, prepared.test.y), prepared.test.rows
        line(
            console,
            f"INTERNAL, do not publish: accuracy {accuracy:.4f} on {rows:,} held-out rows; "
            "the guarantee does not cover it.",
        )
    if book is not None:
        line(console, f"Ledger: of the budget of {book.dataset!r}, {book.status().left}.")


def _print(certificate: Certificate, place: Path, *, signed: bool, as_json: bool) -> None:
    if as_json:
        papers = json_text.loads(certificate.to_json())
        print_json({"directory": str(place), "signed": signed, "certificate": papers})
        return
    block(f"{certificate}\n")
    say("", f"The bundle{', signed' if signed else ''}: {place}")
