"""`sordino audit gallery`: every known broken mechanism must be caught, every correct twin pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino import _check
from sordino.cli import audit_words as words
from sordino.cli.findings import print_json
from sordino.cli.terminal import say
from sordino.privacy import rounded

if TYPE_CHECKING:
    from sordino.audit.gallery.entry import GalleryEntry
    from sordino.audit.gallery.play import Played
    from sordino.audit.game import Audit

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Entries to play. Default: all.")
]
Smoke = Annotated[bool, typer.Option("--smoke", help="Fewer runs: seconds, for CI.")]
Seed = Annotated[int, typer.Option(help="Of the attacks' randomness.")]
ListOnly = Annotated[bool, typer.Option("--list", help="Say what there is, and play nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

CONFIDENCE = 0.99


def gallery(
    names: Names = None,
    smoke: Smoke = False,
    seed: Seed = 0,
    list_only: ListOnly = False,
    json: Json = False,
) -> None:
    """Attack mechanisms that are known to be broken, and their correct twins.

    Each is sordino's own code with one thing changed: a fault that somebody shipped, or easily
    could. Each must be **caught** at 99% confidence; its twin, the code as it should be, must pass
    (a level of 1% is shared over all twins). Exit code 1 if one is missed or a twin is accused.

    `sordino audit gallery`

    `sordino audit gallery one-byte-seed --json`
    """
    from sordino.audit import gallery as room
    from sordino.audit.gallery.play import play

    entries = _chosen(room.ENTRIES, names)
    if list_only:
        for entry in entries:
            say(f"{entry.name}: {entry.fault} ({entry.source})")
        return
    played = []
    with words.bar("mechanisms") as bar:
        for number, entry in enumerate(entries):
            bar(number, len(entries))
            one = play(
                entry, confidence=CONFIDENCE, twins=len(room.ENTRIES), seed=seed, smoke=smoke
            )
            played.append(one)
            if not json:
                _print(one)
        bar(len(entries), len(entries))
    caught, passed = sum(one.caught for one in played), sum(one.passed for one in played)
    many = len(played)
    verdict = (
        f"{caught} of {many} broken mechanisms caught at {CONFIDENCE:.0%} confidence, "
        f"{passed} of {many} correct twins pass"
    )
    if json:
        print_json({"verdict": verdict, "entries": [_plain(one) for one in played]})
    else:
        say(f"Verdict: {verdict}.")
    if caught < many or passed < many:
        raise typer.Exit(1)


def _chosen(entries: tuple[GalleryEntry, ...], names: list[str] | None) -> tuple[GalleryEntry, ...]:
    known = {entry.name: entry for entry in entries}
    for name in names or ():
        _check.one_of("NAME", name, tuple(known))
    return tuple(known[name] for name in names) if names else entries


def _print(one: Played) -> None:
    mark = "caught" if one.caught else "MISSED"
    twin = "passes" if one.passed else "ACCUSED"
    shown = [
        rounded(each, up=False, digits=3) for each in (one.broken_epsilon, one.correct_epsilon)
    ]
    sign = ">= " if one.broken is not None else "exactly "
    say(
        f"{one.entry.name}: claimed epsilon {one.case.claim.epsilon:g}, found {sign}{shown[0]}: "
        f"{mark}; twin {sign}{shown[1]}: {twin} ({one.seconds:.0f} s)"
    )
    say(f"  {one.entry.fault} ({one.entry.source})")


def _plain(one: Played) -> dict[str, Any]:
    return {
        "name": one.entry.name,
        "fault": one.entry.fault,
        "claimed": words.claimed(one.case.claim),
        "observed": _observed(one, one.broken, one.broken_epsilon),
        "verdict": "caught" if one.caught else "missed",
        "twin": {
            "observed": _observed(one, one.correct, one.correct_epsilon),
            "verdict": "passes" if one.passed else "accused",
        },
        "seconds": round(one.seconds, 2),
    }


def _observed(one: Played, audit: Audit | None, epsilon: float) -> dict[str, Any]:
    """What was observed; where a formula settled it there were no trials, and no doubt."""
    if audit is not None:
        return words.observed(audit.observed)
    return {
        "epsilon": epsilon,
        "delta": one.case.claim.delta,
        "confidence": 1.0,
        "attack": "computed exactly, not attacked",
        "trials": 0,
    }
