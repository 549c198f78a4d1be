"""A reproduction as one HTML file and as Markdown: the same blocks for the report's `render`.

What they say is `Reproduction` and nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

import sordino
from sordino.report import page as engine
from sordino.report.numbers import seconds
from sordino.report.page import (
    Block,
    Bullets,
    Figure,
    Folded,
    Group,
    Heading,
    Line,
    Notice,
    Page,
    Section,
    Span,
    Table,
    Text,
    listed,
)
from sordino_papers import layout, scoreboard, words
from sordino_papers.claims import Paper, Place
from sordino_papers.results import ClaimVerdict, Picture, Reproduction, Result

STYLE = Path(__file__).parent / "templates" / "page.css"
_NOT = "it is not, and"
LOOKS = {
    ClaimVerdict.REPRODUCED: (
        "reproduced",
        "our number is within the tolerance that the claim states",
    ),
    ClaimVerdict.EXPLAINED: (
        "explained",
        f"{_NOT} a run of ours supports the reason that is given",
    ),
    ClaimVerdict.DIFFERS: ("differs", f"{_NOT} nobody knows why"),
    ClaimVerdict.NOT_RUNNABLE: (
        "not runnable",
        "it could not be judged on this machine, at this size",
    ),
}
"""In a word, which is also its class of the style sheet; and what it means."""
TITLE = "The papers' numbers beside ours"
_COUNTS = (
    *("Printed numbers within tolerance", "Differ, explained", "Differ, unexplained"),
    *("Not runnable here", "Claims in words that hold", "Machine time of its runs"),
)
_LARGE = 1_500_000
"""Bytes of a drawing, from which the smaller of its two files is taken: points by the thousand."""


def page(reproduction: Reproduction, directory: Path) -> str:
    """Everything that was found, as one self-contained HTML document.

    Parameters
    ----------
    reproduction
        What was found.
    directory
        Where the files of its pictures are.
    """

    def drawn(picture: Picture, title: str) -> Figure:
        alt, source = f"Drawn from our runs: {title}", _source(picture, Path(directory))
        markup = Markup('<img src="{}" alt="{}">').format(source, alt)
        return Figure(markup, alt, picture.says)

    style = STYLE.read_text(encoding="utf-8")
    return engine.html(_Account(reproduction, drawn, in_layout=True).page(), style)


def markdown(reproduction: Reproduction, pictures: Path | None = None) -> str:
    """The same as Markdown; the same results give the same text, but for times.

    Tables in the papers' layout are left out: the table of intervals and tolerances has all of it.

    Parameters
    ----------
    reproduction
        What was found.
    pictures
        Directory beside the text that holds the PNG files, if there is one: they are linked.
    """

    def drawn(picture: Picture, title: str) -> Figure | None:
        if pictures is None:
            return None
        return Figure("", title, picture.says, f"{pictures.name}/{Path(picture.png).name}")

    return engine.markdown(_Account(reproduction, drawn, in_layout=False).page())


@dataclass(frozen=True)
class _Account:
    """What was found, as blocks.

    Parameters
    ----------
    found
        All of it.
    drawn
        From a picture and the title of its place to what shows it; None if nothing does.
    in_layout
        Whether each place begins with its table and its sentences as in the paper.
    """

    found: Reproduction
    drawn: Callable[[Picture, str], Figure | None]
    in_layout: bool

    def page(self) -> Page:
        found, quick = self.found, self.found.quick
        note = (Span("This was a quick run.", "strong"), f" {scoreboard.QUICK}")
        made = f"Made by sordino {sordino.__version__}."
        small = " A quick run: sizes were small." if quick else ""
        again = f"{TITLE}, computed by `{scoreboard.command(found)}`; not to be edited."
        return Page(
            title=f"Quick run: {TITLE}" if quick else TITLE,
            mark="QUICK RUN: small sizes." if quick else "",
            why_marked=scoreboard.NO_GUARANTEE,
            verdict=scoreboard.headline(found),
            subtitle=f"{again} {scoreboard.counted_how(found)}".rstrip(),
            notes=(note,) if quick else (),
            sections=tuple(each for each in self._sections() if each.blocks),
            footer=f"{made}{small} {scoreboard.NO_GUARANTEE}",
            version=sordino.__version__,
            alarm=bool(found.unexplained),
            loud=quick,
            as_written=True,
        )

    def _sections(self) -> Iterator[Section]:
        yield Section("score", "The score", self._score())
        yield Section("differences", "What differs", self._differences())
        for paper in layout.papers(self.found):
            blocks = tuple(self._paper(paper))
            yield Section(paper.key, f"{paper.key}: {paper.title}", blocks)
        about = "Slips in print, each with the numbers that show it. A slip counts as shown if its "
        slips = self._ours(layout.SLIPS, f"{about}check holds.")
        yield Section("slips", "What the papers get wrong", slips)
        about = "Checks of ours, not claims of the papers: an explanation counts only while every "
        checks = self._ours(layout.CHECKS, f"{about}check it leans on holds.")
        yield Section("checks", "What explanations lean on", checks)
        yield Section("missing", "What could not be run here", tuple(self._missing()))
        yield Section("time", "Time and sizes", self._time())

    def _score(self) -> tuple[Block, ...]:
        found, papers = self.found, layout.papers(self.found)
        whole = scoreboard.total(found)
        rows = [_counts(paper.key, scoreboard.of_paper(found, paper)) for paper in papers]
        if len(papers) > 1:
            rows.append(_counts(Span("all", "total"), whole))
        caption = "By paper. A share is of the numbers that could be computed here, rounded down"
        took = (
            f"This call took {seconds(found.wall_seconds)}. All runs together took "
            f"{seconds(whole.seconds)} when they were made, in this call or an earlier one; papers "
            "share some of them, so the rows above add up to more."
        )
        legend = tuple(
            (_signed(verdict, str(verdict)), f": {meaning}")
            for verdict, (_, meaning) in LOOKS.items()
        )
        return listed(caption, ("Paper", *_COUNTS), *rows), Text(took), Bullets(legend)

    def _differences(self) -> tuple[Block, ...]:
        held = layout.differences(self.found.results.values())
        rows = []
        for result in (
            one for each in sorted(held, key=lambda one: one.explained) for one in each.results
        ):
            claim, sign = result.claim, _verdict(result)
            rows.append((_link(result), words.asked(claim), words.ours(result), result.off, sign))
        if not rows:
            return ()
        caption = "Every claim that is not within its tolerance; those without a reason first"
        return (
            Text("Reasons, and the runs they lean on, stand beside each table."),
            listed(caption, ("Claim", "Paper", "Ours", "Off", "Verdict"), *rows),
        )

    def _paper(self, paper: Paper) -> Iterator[Block]:
        held = layout.places(self.found, paper)
        if not held:
            return
        rows = [
            _counts(Span(place.title, to=place.name), scoreboard.of_place(self.found, place))
            for place in held
        ]
        yield Text(f"{paper.authors}, {paper.year}", tone="muted")
        yield listed("Tables, figures and passages", ("Place", *_COUNTS), *rows)
        for place in held:
            yield from self._place(place)

    def _place(self, place: Place) -> Iterator[Block]:
        results = self.found.of(place)
        at = f"{place.printed_at}. " if place.printed_at else ""
        yield Heading(place.title, name=place.name)
        yield Text(f"{at}Again: `sordino reproduce {place.name}`", tone="muted")
        if self.in_layout:
            table = layout.table(results)
            yield from [_in_layout(table)] if table.rows else []
            yield from (_sentence(row) for row in layout.sentences(results))
        yield from (self._difference(each) for each in layout.differences(results))
        yield from self._figures(place)
        title = "Intervals, tolerances and their reasons"
        yield Folded(title, (_every_number(layout.rows(results)),), printed=False)

    def _difference(self, each: layout.Deviation) -> Notice:
        said = "; ".join(
            f"{words.subject(result.claim)}: {words.compared(result)}" for result in each.results
        )
        lead = "Differs, explained:" if each.explained else "Differs, and nobody knows why:"
        blocks: list[Block] = [Text(f"{said}.", lead=lead)]
        if each.explanation is not None:
            would = "" if each.explained else "What would explain it: "
            blocks.append(Text(f"{would}{each.explanation.text}"))
            doubts = [result.why for result in each.results if result.why]
            blocks += [Text(f"This does not count, since {why}.") for why in doubts[:1]]
            shown = tuple(self._leans_on(name) for name in each.explanation.shown_by)
            blocks += [Text("Shown by:"), Bullets(shown)]
        return Notice(tuple(blocks), tone="explained" if each.explained else "warn")

    def _leans_on(self, name: str) -> Line:
        claim, result = layout.claims(self.found)[name], self.found.results.get(name)
        said = claim.says or claim.row
        if result is None:
            return f"{said} ({name})"
        link = Span(said.rstrip("."), to=name)
        return link, f": {words.compared(result)}. ", _verdict(result)

    def _figures(self, place: Place) -> Iterator[Figure]:
        for picture in self.found.pictures:
            if picture.place == place.name and (drawn := self.drawn(picture, place.title)):
                yield drawn

    def _ours(self, key: str, about: str) -> tuple[Block, ...]:
        """Slips or checks, with the numbers and the reasons."""
        blocks: list[Block] = []
        for paper, place in layout.called(self.found, key):
            blocks.append(Heading(f"{paper.key}: {place.title}", name=place.name))
            rows = layout.rows(self.found.of(place))
            blocks += [_sentence(row, reason=row.reason) for row in rows]
            blocks += self._figures(place)
        return (Text(about), *blocks) if blocks else ()

    def _missing(self) -> Iterator[Block]:
        held = layout.missing(self.found)
        if held and (advice := scoreboard.how_to_run(self.found)):
            yield Text(advice)
        for why, results in held.items():
            yield Heading(f"{scoreboard.counted(len(results), 'claim')}: {why}")
            yield Bullets(tuple(map(_link, results)))

    def _time(self) -> tuple[Block, ...]:
        found = self.found
        took = {name: seconds(found.seconds.get(name, 0.0)) for name in found.runs}
        by_kind: list[tuple[Line, ...]] = []
        for each in scoreboard.run_groups(found):
            runs = f"{scoreboard.counted(len(each.runs), 'run')} of {each.kind}"
            longest = f"{each.runs[0]}, {took[each.runs[0]]}"
            by_kind.append((each.paper, runs, longest, seconds(each.seconds)))
        every: list[tuple[Line, ...]] = []
        for name in scoreboard.longest_first(found, list(found.runs)):
            run = found.runs[name]
            said = f"{run.kind}: {words.settings(run, quick=found.quick)}"
            every.append((name, took[name], said))
        small = " (small: a quick run)" if found.quick else ""
        caption = "Machine time by paper and kind of run; a run stands with the paper of its file"
        return (
            listed(caption, ("Paper", "Runs", "Longest", "Time"), *by_kind),
            Folded(
                f"Every run, with its sizes and settings{small}",
                (listed("The longest first", ("Run", "Time", "Settings"), *every),),
                printed=False,
            ),
        )


def _counts(name: Line, line: scoreboard.Tally) -> tuple[Line, ...]:
    both = (line.printed, line.words)
    numbers = [sum(getattr(s, n) for s in both) for n in ("explained", "differs", "not_runnable")]
    return (
        name,
        str(line.printed),
        *(Span(str(number), "" if number else "nil") for number in numbers),
        str(line.words),
        seconds(line.seconds),
    )


def _in_layout(table: layout.PaperTable) -> Table:
    rows: list[tuple[Line, ...]] = []
    if list(table.columns) == [""]:
        for row in table.rows:
            result = row.results[""]
            name = Span(row.title, name=result.claim.name)
            printed = str(result.claim.printed)
            rows.append((name, printed, words.ours(result), _verdict(result)))
        return listed("The printed numbers.", ("Row", "Paper", "Ours", "Verdict"), *rows)
    for row in table.rows:
        pairs = {key: _pair(result) for key, result in row.results.items()}
        rows.append((row.title, *(pairs.get(key, "") for key in table.columns)))
    head = ("Row", *(heading or "Number" for heading in table.columns.values()))
    caption = "The printed numbers. In each cell the paper's number, and below it ours."
    return listed(caption, head, *rows)


def _pair(result: Result) -> Span:
    """The sign alone tells what came out as printed; anything else is said in words."""
    look, _ = LOOKS[result.verdict]
    ours = f"{words.ours(result)} " if result.found else ""
    sign = Span(words.SIGNS[result.verdict], silent=True)
    mine = Span((ours, sign, Span(f" {words.verdict(result)}", "unseen")), f"mine {look}")
    said = () if result.verdict is ClaimVerdict.REPRODUCED else (Span(look, look, silent=True),)
    paper = Span((Span("paper ", "unseen"), str(result.claim.printed)), "paper")
    return Span((paper, Span(" ours ", "unseen"), mine, *said), "pair", name=result.claim.name)


def _sentence(row: layout.PaperRow, *, reason: str = "") -> Notice:
    """A claim in words, with its numbers."""
    said, results = row.says or row.title, list(row.results.values())
    why = [Text(reason, tone="muted")] if reason else []
    if len(results) == 1:
        claim = results[0].claim
        column = f" ({claim.column})" if claim.column else ""
        return Notice((Text(f"{said}{column}"), Text(_numbers(results[0])), *why), name=claim.name)
    columns = tuple(
        Span((f"{each.claim.column}. ", _numbers(each)), name=each.claim.name) for each in results
    )
    return Notice((Text(said), Bullets(columns), *why))


def _numbers(result: Result) -> Line:
    claim, interval = result.claim, words.interval(result)
    printed = f"Printed: {claim.printed}. " if claim.printed else ""
    ours = f"Ours: {words.ours(result)}" if result.found else "Not computed"
    within = f", interval {interval}" if interval else ""
    needed = "" if claim.printed else "needed: "
    text = f"{printed}{ours}{within}; {needed}{words.tolerance(claim)}."
    return Span(text, "muted"), " ", _verdict(result)


def _every_number(rows: tuple[layout.PaperRow, ...]) -> Table:
    groups = []
    for row in rows:
        results = list(row.results.values())
        title = row.title if results[0].claim.printed else row.says
        groups.append(Group(title, tuple(map(_cells, results)), row.reason))
    head = ("Column", "Paper", "Ours", "Interval", "Tolerance", "Off", "Verdict")
    caption = "Every number of this place; intervals are 95% intervals of our own runs"
    return Table(caption, head, tuple(groups))


def _cells(result: Result) -> tuple[Line, ...]:
    claim = result.claim
    return (
        claim.column or "number",
        str(claim.printed or "in words"),
        words.ours(result),
        words.interval(result),
        words.tolerance(claim),
        result.off,
        _verdict(result),
    )


def _link(result: Result) -> Line:
    claim = result.claim
    return Span(claim.place, to=claim.name), f": {words.subject(claim)}"


def _verdict(result: Result) -> Span:
    return _signed(result.verdict, words.verdict(result))


def _signed(verdict: ClaimVerdict, said: str) -> Span:
    sign = Span(words.SIGNS[verdict], silent=True)
    return Span((sign, f"\u00a0{said}"), f"verdict {LOOKS[verdict][0]}")


def _source(picture: Picture, directory: Path) -> str:
    """A drawing as an address that holds it: ids and styles of one never reach another."""
    path, kind = directory / picture.svg, "svg+xml"
    other = directory / picture.png
    if path.stat().st_size > _LARGE and other.stat().st_size < path.stat().st_size:
        path, kind = other, "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
