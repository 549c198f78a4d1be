"""docs/reproduction.md: the scoreboard, every number, what differs and why, what it took."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sordino._shown import printable
from sordino.report.words_numbers import seconds
from sordino_papers import effort, layout, scoreboard, words
from sordino_papers.claims import Place
from sordino_papers.results import Reproduction, Result

_ACTED_ON = re.compile(r"([\\*_\[\]<>|~#])")
_CODE = re.compile(r"(`[^`]+`)")
_COLUMNS = ("row", "column", "paper", "ours", "interval", "tolerance", "verdict")


def markdown(reproduction: Reproduction, pictures: Path | None = None) -> str:
    """The whole account as Markdown; the same results give the same text, but for times.

    Parameters
    ----------
    reproduction
        What was found.
    pictures
        Directory beside the text that holds the PNG files, if there is one: they are linked.
    """
    parts = [
        *_opening(reproduction),
        *_score(reproduction),
        *_differences(reproduction),
        *_ours(reproduction, layout.SLIPS, "What the papers get wrong"),
        *_missing(reproduction),
        *_every_number(reproduction, pictures),
        *_ours(reproduction, layout.CHECKS, "What explanations lean on"),
        *_time(reproduction),
    ]
    return "\n\n".join(parts) + "\n"


def _opening(found: Reproduction) -> Iterator[str]:
    yield "# The papers' numbers beside ours"
    yield f"**{_text(scoreboard.headline(found))}**"
    if how := scoreboard.counted_how(found):
        yield _text(how)
    if found.quick:
        yield f"**QUICK RUN.** {_text(scoreboard.QUICK)}"
    yield (
        f"Made by `{scoreboard.command(found)}`; do not edit. {_text(scoreboard.NO_GUARANTEE)} "
        "Every tolerance stands in the paper's file (`src/sordino_papers/*.toml`) with its "
        "reason, and is shown below."
    )
    legend = "; ".join(f"{sign} {verdict}" for verdict, sign in words.SIGNS.items())
    yield f"Signs: {legend}."


def _score(found: Reproduction) -> Iterator[str]:
    yield "## The score"
    head = (
        *("paper", "printed numbers within tolerance", "differ, explained", "differ, unexplained"),
        *("not runnable here", "claims in words that hold", "machine time of its runs"),
    )
    lines = [scoreboard.of_paper(found, paper) for paper in layout.papers(found)]
    yield _table(head, [_counts(line) for line in (*lines, scoreboard.total(found))])
    yield (
        f"This call took {seconds(found.wall_seconds)}; all runs together took "
        f"{seconds(sum(found.seconds.values()))} when they were made. A share is of the numbers "
        "that could be computed, rounded down. Papers share runs, so their times add up to more."
    )


def _counts(line: scoreboard.Line) -> list[str]:
    both = (line.printed, line.words)
    return [
        line.name,
        str(line.printed),
        *(str(sum(getattr(s, n) for s in both)) for n in ("explained", "differs", "not_runnable")),
        str(line.words),
        seconds(line.seconds),
    ]


def _differences(found: Reproduction) -> Iterator[str]:
    yield "## What differs, and why"
    held = layout.differences(found.results.values())
    if not held:
        yield "Nothing."
    for each in sorted(held, key=lambda one: one.explained):
        yield "\n".join(_difference(found, each))


def _difference(found: Reproduction, each: layout.Difference) -> Iterator[str]:
    for result in each.results:
        claim = result.claim
        yield (
            f"- **{_text(claim.place)}**, {_text(words.subject(claim))}: "
            f"{_text(words.compared(result))}. {_verdict(result)}."
        )
    if each.explanation is None:
        ours = each.results[0].claim.ours
        yield "  A check of ours, not a claim of the paper's." if ours else "  Nobody knows why."
        return
    doubt = each.results[0].why
    said = (
        "Why" if each.explained else f"Not explained, since {_text(doubt)}. What would explain it"
    )
    yield f"  {said}: {_text(each.explanation.text)}"
    claims = layout.claims(found)
    for name in each.explanation.shown_by:
        claim = claims[name]
        shown = found.results.get(name)
        numbers = "" if shown is None else f" {_begun(words.compared(shown))}. {_verdict(shown)}."
        yield f"  - Shown by {_text(name)}: {_text(claim.says or claim.row)}{numbers}"


def _ours(found: Reproduction, key: str, title: str) -> Iterator[str]:
    """Slips or checks, one sentence each, with the numbers."""
    held = layout.called(found, key)
    if held:
        yield f"## {title}"
    for paper, place in held:
        yield f"### {paper.key}: {_text(paper.title)}"
        yield "\n".join(_sentence(result) for result in found.of(place))


def _sentence(result: Result) -> str:
    claim = result.claim
    said = claim.says or claim.row
    column = f" ({_text(claim.column)})" if claim.column else ""
    interval = words.interval(result)
    where = f", interval {interval}" if interval else ""
    numbers = _begun(words.compared(result) + where)
    return f"- {_text(said)}{column} {numbers}. {_verdict(result)}."


def _missing(found: Reproduction) -> Iterator[str]:
    held = layout.missing(found)
    if not held:
        return
    yield "## What could not be run here"
    if advice := scoreboard.how_to_run(found):
        yield _text(advice)
    lines = []
    for why, results in held.items():
        names = list(dict.fromkeys(result.claim.place for result in results))
        many = scoreboard.counted(len(results), "claim")
        lines.append(f"- {_text(why.rstrip('.'))}: {many} of {_text(', '.join(names))}.")
    yield "\n".join(lines)


def _every_number(found: Reproduction, pictures: Path | None) -> Iterator[str]:
    for paper in layout.papers(found):
        held = layout.places(found, paper)
        if held:
            yield f"## {paper.key}: {_text(paper.title)}"
            yield f"{_text(paper.authors)}, {paper.year}."
        for place in held:
            yield from _place(found, place, pictures)


def _place(found: Reproduction, place: Place, pictures: Path | None) -> Iterator[str]:
    results = found.of(place)
    yield f"### {_text(place.title)}"
    line = scoreboard.of_place(found, place)
    at = f"{_text(place.printed_at)}. " if place.printed_at else ""
    yield f"{at}`sordino reproduce {place.name}`; its runs took {seconds(line.seconds)}."
    for picture in found.pictures:
        if pictures is not None and picture.place == place.name:
            file = f"{pictures.name}/{Path(picture.png).name}"
            yield f"![{_text(picture.says)}]({file})"
    yield _table(_COLUMNS, [_cells(result) for result in results])
    yield "\n".join(["Tolerances:", "", *_reasons(results)])


def _cells(result: Result) -> list[str]:
    claim = result.claim
    return [
        claim.row if claim.printed else claim.says,
        claim.column,
        str(claim.printed) if claim.printed else "(in words)",
        words.ours(result),
        words.interval(result),
        words.tolerance(claim),
        _verdict(result),
    ]


def _reasons(results: Sequence[Result]) -> list[str]:
    """Rows of one reason together: many differ in nothing but what they are about."""
    held: dict[str, list[str]] = {}
    for row in layout.rows(results):
        first = next(iter(row.results.values())).claim
        title = row.title if first.printed else row.says.rstrip(".")
        held.setdefault(row.reason, []).append(title)
    return [f"- {_text('; '.join(rows))}: {_text(reason)}" for reason, rows in held.items()]


def _time(found: Reproduction) -> Iterator[str]:
    yield "## Time and sizes"
    rows = [
        [each.paper, each.kind, str(len(each.runs)), each.runs[0], seconds(each.seconds)]
        for each in effort.efforts(found)
    ]
    yield _table(("paper", "kind of run", "runs", "the longest", "machine time"), rows)
    yield f"Every run, with its {'quick ' if found.quick else ''}settings:"
    listed = [
        [
            name,
            run.kind,
            words.settings(run, quick=found.quick),
            seconds(found.seconds.get(name, 0.0)),
        ]
        for name, run in sorted(found.runs.items())
    ]
    yield _table(("run", "kind", "settings", "machine time"), listed)


def _verdict(result: Result) -> str:
    return f"{words.SIGNS[result.verdict]} {words.verdict(result)}"


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *([_text(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _begun(phrase: str) -> str:
    """A phrase as the beginning of a sentence."""
    return _text(phrase[:1].upper() + phrase[1:])


def _text(text: str) -> str:
    """On one line, with what Markdown would act on escaped, but for commands in backticks."""
    pieces = _CODE.split(printable(" ".join(text.split())))
    return "".join(
        piece.replace("|", "\\|") if at % 2 else _ACTED_ON.sub(r"\\\1", piece)
        for at, piece in enumerate(pieces)
    )
