"""A reproduction as one HTML file, as Markdown, as a short summary, and as JSON for scripts.

The pages are blocks for the report's `render`. What they say is `Reproduction` and nothing else.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

import sordino
from sordino.report import page as engine
from sordino.report.numbers import seconds
from sordino.report.page import Block, Bullets, Line, Notice, Section, Span, Table, Text, listed
from sordino_papers import score, words
from sordino_papers.claims import Paper, Place
from sordino_papers.reproduction import ClaimVerdict, Picture, Reproduction, Result
from sordino_papers.score import CHECKS, SLIPS, Tally, counted, own_places

_SCHEMA = 1
"""Of the JSON document; another number means that fields changed their meaning."""
_STYLE = Path(__file__).parent / "templates" / "page.css"
_LOOKS = {
    ClaimVerdict.REPRODUCED: ("reproduced", "our number is within the claim's tolerance"),
    ClaimVerdict.EXPLAINED: ("explained", "it is not, for a reason that a run of ours supports"),
    ClaimVerdict.DIFFERS: ("differs", "it is not, and nobody knows why"),
    ClaimVerdict.NOT_RUNNABLE: ("not runnable", "it could not be judged here, at this size"),
}
"""In a word, which is also its class of the style sheet; and what it means."""
_TITLE = "The papers' numbers beside ours"
_COUNTS = (
    *("Printed numbers within tolerance", "Differ, explained", "Differ, unexplained"),
    *("Not runnable here", "Claims in words that hold", "Machine time of its runs"),
)
_LARGE = 1_500_000
"""Bytes of a drawing, from which the smaller of its two files is taken: points by the thousand."""
_Row = Mapping[str, Result]
"""A row of a table, or a sentence: one result a column; the column "" is of a row without."""


def html(reproduction: Reproduction, directory: Path) -> str:
    """Everything that was computed, as one HTML document; files of pictures are in `directory`."""

    def drawn(picture: Picture, title: str) -> engine.Figure:
        # A drawing as an address that holds it: ids and styles of one never reach another.
        path, other, kind = directory / picture.svg, directory / picture.png, "svg+xml"
        size = path.stat().st_size
        if size > _LARGE and other.stat().st_size < size:
            path, kind = other, "png"
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        alt, src = f"Drawn from our runs: {title}", f"data:image/{kind};base64,{data}"
        return engine.Figure(Markup('<img src="{}" alt="{}">').format(src, alt), alt, picture.says)

    style = _STYLE.read_text(encoding="utf-8")
    return engine.html(_Account(reproduction, drawn, in_layout=True).page(), style)


def markdown(reproduction: Reproduction, pictures: str | None = None) -> str:
    """The same as Markdown; the same results give the same text, but for times.

    Tables in the papers' layout are left out: the table of intervals and tolerances has all of it.

    Parameters
    ----------
    reproduction
        What was computed.
    pictures
        Address, seen from the text, of the directory of PNG files; without one none is linked.
    """

    def drawn(picture: Picture, title: str) -> engine.Figure | None:
        if pictures is None:
            return None
        return engine.Figure("", title, picture.says, f"{pictures}/{Path(picture.png).name}")

    return engine.markdown(_Account(reproduction, drawn, in_layout=False).page())


def summary(reproduction: Reproduction) -> str:
    """The score, and what differs and why, as a short Markdown page without times."""
    return engine.markdown(_Account(reproduction, lambda *_: None, in_layout=False).summary())


def document(reproduction: Reproduction) -> str:
    """Every claim with both numbers and its verdict as JSON; the same results give the same text.

    What JSON has no number for is null.
    """
    whole = Tally.of(reproduction)
    record = {
        "schema": _SCHEMA,
        "command": score.command(reproduction),
        "quick": reproduction.quick,
        "wall_seconds": reproduction.wall_seconds,
        "printed": asdict(whole.printed),
        "words": asdict(whole.words),
        "seconds": dict(reproduction.seconds),
        "claims": [_record(result) for result in reproduction.results.values()],
    }
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _record(result: Result) -> dict[str, Any]:
    claim, answer = result.claim, result.answer
    ends = (None, None, None) if answer is None else (answer.value, answer.low, answer.high)
    plain = [None if end is None or not math.isfinite(end) else float(end) for end in ends]
    return {
        **{name: getattr(claim, name) for name in ("name", "place", "row", "column", "says")},
        "printed": claim.printed and claim.printed.text,
        "printed_value": claim.printed and claim.printed.value,
        **dict(zip(("ours", "low", "high"), plain, strict=True)),
        "ours_text": words.ours(result),
        "tolerance": words.tolerance(claim),
        "reason": claim.reason,
        "verdict": str(result.verdict),
        "off": result.off,
        "why": result.why,
        "explanation": "" if claim.explanation is None else claim.explanation.text,
        "shown_by": [] if claim.explanation is None else list(claim.explanation.shown_by),
        "check_of_ours": claim.ours,
        "runs": list(claim.runs),
    }


def group_rows(results: Iterable[Result]) -> list[_Row]:
    """Results by row; headings may be the same in two columns, keys never are."""
    grouped: dict[str, dict[str, Result]] = {}
    for result in results:
        row, _, column = result.claim.name.removeprefix(f"{result.claim.place}/").partition("/")
        grouped.setdefault(row, {})[column] = result
    return list(grouped.values())


def merge_columns(rows: Iterable[_Row]) -> list[str]:
    """Keys of columns in the paper's order: a new one stands before the next that is known."""
    columns: list[str] = []
    for row in rows:
        keys = list(row)
        for at, key in enumerate(keys):
            if key not in columns:
                after = next((other for other in keys[at:] if other in columns), None)
                columns.insert(len(columns) if after is None else columns.index(after), key)
    return columns


def group_differences(results: Iterable[Result], *, by_place: bool = True) -> list[list[Result]]:
    """What differs, by explanation; of each that has none, one by itself."""
    grouped: dict[tuple[str, str, bool], list[Result]] = {}
    for result in results:
        explained = result.verdict is ClaimVerdict.EXPLAINED
        if explained or result.verdict is ClaimVerdict.DIFFERS:
            explanation, place = result.claim.explanation, result.claim.place
            text = result.claim.name if explanation is None else explanation.text
            key = (place if by_place else "", text, explained)
            grouped.setdefault(key, []).append(result)
    return list(grouped.values())


@dataclass(frozen=True)
class _Account:
    """What was computed, as blocks.

    Parameters
    ----------
    whole
        All of it.
    drawn
        From a picture and the title of its place to what shows it; None if nothing does.
    in_layout
        Whether each place begins with its table and its sentences as in the paper.
    """

    whole: Reproduction
    drawn: Callable[[Picture, str], engine.Figure | None]
    in_layout: bool

    def page(self) -> engine.Page:
        note = (Span("This was a quick run.", "strong"), f" {score.QUICK}")
        slips = self._ours(SLIPS, "Each with the numbers that show it.")
        checks = self._ours(CHECKS, "An explanation counts only while all of its checks hold.")
        sections = [
            Section("score", "The score", self._score()),
            Section("differences", "What differs", self._differences()),
            *(
                Section(paper.key, f"{paper.key}: {paper.title}", tuple(self._paper(paper)))
                for paper in self.whole.asked_papers
            ),
            Section("slips", "What the papers get wrong", slips),
            Section("checks", "What explanations lean on", checks),
            Section("missing", "What could not be run here", tuple(self._missing())),
            Section("time", "Time and sizes", self._time()),
        ]
        footer = f"Made by sordino {sordino.__version__}. {score.NO_GUARANTEE}"
        return self._framed(sections, (note,) if self.whole.quick else (), footer)

    def summary(self) -> engine.Page:
        legend = "The command writes the full page, and this one with `--summary FILE`."
        sections = [
            Section("score", "The score", (Text(legend), self._by_paper(-1))),
            Section("differences", "What differs", tuple(self._reasons())),
            Section("missing", "What could not be run here", tuple(self._missing(brief=True))),
        ]
        return self._framed(sections, (), score.NO_GUARANTEE)

    def _framed(self, sections: list[Section], notes: tuple[Line, ...], footer: str) -> engine.Page:
        whole, quick = self.whole, self.whole.quick
        again = f"{_TITLE}, computed by `{score.command(whole)}`; not to be edited."
        return engine.Page(
            title=f"Quick run: {_TITLE}" if quick else _TITLE,
            mark="QUICK RUN: small sizes." if quick else "",
            why_marked=score.NO_GUARANTEE,
            verdict=score.headline(whole),
            subtitle=f"{again} {score.how_counted(whole)}".rstrip(),
            sections=tuple(each for each in sections if each.blocks),
            version=sordino.__version__,
            alarm=bool(whole.unexplained),
            loud=quick,
            as_written=True,
            notes=notes,
            footer=footer,
        )

    def _by_paper(self, last: int | None = None) -> Table:
        """Scores by paper; up to the `last` column."""
        whole, papers = self.whole, self.whole.asked_papers
        rows = [
            _counts(paper.key, Tally.of(whole, [r for p in paper.places for r in whole.of(p)]))
            for paper in papers
        ]
        if len(papers) > 1:
            rows.append(_counts(Span("all", "total"), Tally.of(whole)))
        caption = "By paper. A share is of the numbers that could be computed here, rounded down"
        return listed(caption, ("Paper", *_COUNTS)[:last], *(row[:last] for row in rows))

    def _score(self) -> tuple[Block, ...]:
        now, all_runs = seconds(self.whole.wall_seconds), seconds(sum(self.whole.seconds.values()))
        took = f"This call took {now}; all runs, which papers share, {all_runs} when made."
        legend = tuple(
            (_signed(verdict, str(verdict)), f": {meaning}")
            for verdict, (_, meaning) in _LOOKS.items()
        )
        return self._by_paper(), Text(took), Bullets(legend)

    def _differences(self) -> tuple[Block, ...]:
        rows = [
            (_link(r), words.wanted(r.claim), words.ours(r), r.off, _verdict(r))
            for r in self._unexplained_first()
        ]
        caption = "Every claim that is not within its tolerance; those without a reason first"
        head = ("Claim", "Paper", "Ours", "Off", "Verdict")
        return (listed(caption, head, *rows),) if rows else ()

    def _unexplained_first(self) -> list[Result]:
        groups = group_differences(self.whole.results.values())
        return [r for group in sorted(groups, key=_is_explained) for r in group]

    def _reasons(self) -> Iterator[Block]:
        """For the summary: without a reason, with both numbers; then each reason once."""
        open_ones = [r for r in self._unexplained_first() if not _is_explained([r])]
        if open_ones:
            rows = [(r.claim.name, words.wanted(r.claim), words.ours(r)) for r in open_ones]
            yield listed("Differs, and nobody knows why", ("Claim", "Paper", "Ours"), *rows)
        groups = group_differences(self.whole.results.values(), by_place=False)
        reasons: list[Line] = []
        for group in filter(_is_explained, groups):
            explanation = group[0].claim.explanation
            assert explanation is not None
            names: dict[str, list[str]] = {}
            for result in group:
                cell = result.claim.name.removeprefix(f"{result.claim.place}/")
                names.setdefault(result.claim.place, []).append(cell)
            where = "; ".join(f"{place}: {', '.join(cells)}" for place, cells in names.items())
            reasons.append((Span(where, "strong"), f". {explanation.text}"))
        if reasons:
            yield Text("For a reason that a run of ours supports:")
            yield Bullets(tuple(reasons))

    def _paper(self, paper: Paper) -> Iterator[Block]:
        places = own_places(self.whole, paper)
        if not places:
            return
        rows = [
            _counts(Span(place.title, to=place.name), Tally.of(self.whole, self.whole.of(place)))
            for place in places
        ]
        yield Text(f"{paper.authors}, {paper.year}", tone="muted")
        yield listed("Tables, figures and passages", ("Place", *_COUNTS), *rows)
        for place in places:
            yield from self._place(place)

    def _place(self, place: Place) -> Iterator[Block]:
        results = self.whole.of(place)
        at = f"{place.printed_at}. " if place.printed_at else ""
        yield engine.Heading(place.title, name=place.name)
        yield Text(f"{at}Again: `sordino reproduce {place.name}`", tone="muted")
        if self.in_layout:
            rows = group_rows(r for r in results if r.claim.printed is not None)
            yield from [_in_layout(rows)] if rows else []
            yield from map(_sentence, group_rows(r for r in results if r.claim.printed is None))
        yield from map(self._difference, group_differences(results))
        yield from self._figures(place)
        groups = []
        for row in group_rows(results):
            claim, cells = _first(row).claim, tuple(map(_cells, row.values()))
            name = claim.row if claim.printed else claim.says
            groups.append(engine.Group(name, cells, claim.reason))
        head = ("Column", "Paper", "Ours", "Interval", "Tolerance", "Off", "Verdict")
        table = Table("Intervals are 95% intervals of our own runs", head, tuple(groups))
        yield engine.Folded("Intervals, tolerances and their reasons", (table,), printed=False)

    def _difference(self, group: list[Result]) -> Notice:
        explained, explanation = _is_explained(group), group[0].claim.explanation
        numbers = "; ".join(f"{words.title(r.claim)}: {words.compared(r)}" for r in group)
        lead = "Differs, explained:" if explained else "Differs, and nobody knows why:"
        blocks: list[Block] = [Text(f"{numbers}.", lead=lead)]
        if explanation is not None:
            would = "" if explained else "What would explain it: "
            blocks.append(Text(f"{would}{explanation.text}"))
            doubts = [result.why for result in group if result.why]
            blocks += [Text(f"This does not count, since {why}.") for why in doubts[:1]]
            shown = tuple(self._leans_on(name) for name in explanation.shown_by)
            blocks += [Text("Shown by:"), Bullets(shown)]
        return Notice(tuple(blocks), tone="explained" if explained else "warn")

    def _leans_on(self, name: str) -> Line:
        result = self.whole.results.get(name)
        everything = (claim for paper in self.whole.papers for claim in paper.claims)
        claim = next(claim for claim in everything if claim.name == name)
        says = claim.says or claim.row
        if result is None:
            return f"{says} ({name})"
        return Span(says.rstrip("."), to=name), f": {words.compared(result)}. ", _verdict(result)

    def _figures(self, place: Place) -> Iterator[engine.Figure]:
        for picture in self.whole.pictures:
            if picture.place == place.name and (drawn := self.drawn(picture, place.title)):
                yield drawn

    def _ours(self, key: str, about: str) -> tuple[Block, ...]:
        """Slips or checks, with the numbers and the reasons."""
        blocks: list[Block] = []
        for paper in self.whole.asked_papers:
            for place in paper.places:
                if place.key == key and (results := self.whole.of(place)):
                    blocks.append(engine.Heading(f"{paper.key}: {place.title}", name=place.name))
                    blocks += [_sentence(row, reason=True) for row in group_rows(results)]
                    blocks += self._figures(place)
        return (Text(about), *blocks) if blocks else ()

    def _missing(self, *, brief: bool = False) -> Iterator[Block]:
        """By what is missing; `brief` counts claims, and does not list them."""
        if advice := score.how_to_run(self.whole):
            yield Text(advice)
        for why, results in self.whole.missing.items():
            line = f"{counted(len(results), 'claim')}: {why}"
            yield Text(line) if brief else engine.Heading(line)
            if not brief:
                yield Bullets(tuple(map(_link, results)))

    def _time(self) -> tuple[Block, ...]:
        whole = self.whole
        took = {name: whole.seconds.get(name, 0.0) for name in whole.runs}
        names = sorted(whole.runs, key=lambda name: -took[name])
        grouped: dict[tuple[str, str], list[str]] = {}
        for name in names:
            run = whole.runs[name]
            kind = ", ".join(filter(None, [run.kind, run.settings.get("model", "")]))
            grouped.setdefault((name.partition("/")[0], kind), []).append(name)
        totals = {key: sum(took[name] for name in held) for key, held in grouped.items()}
        order, by_kind = [paper.key for paper in whole.papers], []
        for paper, kind in sorted(grouped, key=lambda key: (order.index(key[0]), -totals[key])):
            held = grouped[paper, kind]
            runs, longest = f"{counted(len(held), 'run')} of {kind}", seconds(took[held[0]])
            by_kind.append((paper, runs, f"{held[0]}, {longest}", seconds(totals[paper, kind])))
        every = [
            (name, seconds(took[name]), f"{run.kind}: {words.settings(run, quick=whole.quick)}")
            for name, run in ((name, whole.runs[name]) for name in names)
        ]
        caption = "Machine time by paper and kind of run; a run stands with the paper of its file"
        table = listed("The longest first", ("Run", "Time", "Settings"), *every)
        return (
            listed(caption, ("Paper", "Runs", "Longest", "Time"), *by_kind),
            engine.Folded("Every run, with its sizes and settings", (table,), printed=False),
        )


def _is_explained(group: list[Result]) -> bool:
    return group[0].verdict is ClaimVerdict.EXPLAINED


def _counts(name: Line, tally: Tally) -> tuple[Line, ...]:
    both = (tally.printed, tally.words)
    numbers = [sum(getattr(s, n) for s in both) for n in ("explained", "differs", "not_runnable")]
    marked = (Span(str(number), "" if number else "nil") for number in numbers)
    return name, str(tally.printed), *marked, str(tally.words), seconds(tally.seconds)


def _in_layout(table: list[_Row]) -> Table:
    """The printed numbers in the paper's rows and columns."""
    columns = merge_columns(table)
    rows: list[tuple[Line, ...]] = []
    if columns == [""]:
        for result in (row[""] for row in table):
            name = Span(result.claim.row, name=result.claim.name)
            rows.append((name, str(result.claim.printed), words.ours(result), _verdict(result)))
        return listed("The printed numbers.", ("Row", "Paper", "Ours", "Verdict"), *rows)
    headings = {key: result.claim.column for row in table for key, result in row.items()}
    for row in table:
        pairs = {key: _pair(result) for key, result in row.items()}
        rows.append((_first(row).claim.row, *(pairs.get(key, "") for key in columns)))
    caption = "The printed numbers. In each cell the paper's number, and below it ours."
    return listed(caption, ("Row", *(headings[key] or "Number" for key in columns)), *rows)


def _first(row: _Row) -> Result:
    return next(iter(row.values()))


def _pair(result: Result) -> Span:
    """The sign alone tells what came out as printed; anything else is said in words."""
    look, _ = _LOOKS[result.verdict]
    ours = f"{words.ours(result)} " if result.answer else ""
    sign = Span(words.SIGNS[result.verdict], silent=True)
    mine = Span((ours, sign, Span(f" {words.verdict(result)}", "unseen")), f"mine {look}")
    beside = () if result.verdict is ClaimVerdict.REPRODUCED else (Span(look, look, silent=True),)
    paper = Span((Span("paper ", "unseen"), str(result.claim.printed)), "paper")
    return Span((paper, Span(" ours ", "unseen"), mine, *beside), "pair", name=result.claim.name)


def _sentence(row: _Row, *, reason: bool = False) -> Notice:
    """A claim in words, with its numbers."""
    results, claim = list(row.values()), _first(row).claim
    says = claim.says or claim.row
    why = [Text(claim.reason, tone="muted")] if reason and claim.reason else []
    if len(results) == 1:
        column = f" ({claim.column})" if claim.column else ""
        return Notice((Text(f"{says}{column}"), Text(_numbers(results[0])), *why), name=claim.name)
    columns = tuple(Span((f"{r.claim.column}. ", _numbers(r)), name=r.claim.name) for r in results)
    return Notice((Text(says), Bullets(columns), *why))


def _numbers(result: Result) -> Line:
    claim, interval = result.claim, words.interval(result)
    printed = f"Printed: {claim.printed}. " if claim.printed else ""
    ours = f"Ours: {words.ours(result)}" if result.answer else "Not computed"
    within = f", interval {interval}" if interval else ""
    needed = "" if claim.printed else "needed: "
    text = f"{printed}{ours}{within}; {needed}{words.tolerance(claim)}."
    return Span(text, "muted"), " ", _verdict(result)


def _cells(result: Result) -> tuple[Line, ...]:
    claim = result.claim
    texts = words.ours(result), words.interval(result), words.tolerance(claim), result.off
    return claim.column or "number", str(claim.printed or "in words"), *texts, _verdict(result)


def _link(result: Result) -> Line:
    claim = result.claim
    return Span(claim.place, to=claim.name), f": {words.title(claim)}"


def _verdict(result: Result) -> Span:
    return _signed(result.verdict, words.verdict(result))


def _signed(verdict: ClaimVerdict, text: str) -> Span:
    sign = Span(words.SIGNS[verdict], silent=True)
    return Span((sign, f"\u00a0{text}"), f"verdict {_LOOKS[verdict][0]}")
