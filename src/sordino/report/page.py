"""The page a person reads: one HTML file without scripts or anything to fetch, or Markdown.

What it says is made in `sections`, as blocks; how it looks is in `templates`. Every text is
escaped: names of columns, files and mechanisms are somebody else's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from sordino._shown import printable
from sordino.report import drawing, words
from sordino.report.assessment import Assessment
from sordino.report.blocks import Section
from sordino.report.drawing import palette
from sordino.report.public import PublicFacts
from sordino.report.sections import certificate, ending
from sordino.report.sections.attack import attacks
from sordino.report.sections.noise import noise
from sordino.report.sections.numbers import numbers, three_numbers
from sordino.report.sections.proof import proof
from sordino.report.sections.protection import protection
from sordino.report.sections.release import release
from sordino.report.words_numbers import typeset

CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What a browser may do for a page: show it. Whatever a stranger's text smuggled in stays dead."""
TEMPLATES = Path(__file__).parent / "templates"
PAPER = {"light": "#f6f7f9", "dark": "#0e1013"}
"""The ground of the page; drawings and boxes lie on the palette's panel."""

_WHY_INTERNAL = (
    "Do not publish this page: exact accuracies, estimates and what attacks achieved were computed "
    "from the records, and no guarantee covers them."
)
_CODE = re.compile(r"`([^`]+)`|(?<![\w-])(--[a-z]+(?:-[a-z]+)*)\b")
"""Commands between backticks, and options of the program."""
_WHOLE_CODE = 30
"""Letters of code that fit on a line of a phone, and so are never broken at a hyphen."""
_MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&#])")
_LIST = re.compile(r"^(\d*)([-+=.)])(?=\s|$|[-=])")
"""At the start of a line "-", "+" and "1." would begin a list, and "---" end a paragraph."""


@dataclass(frozen=True)
class Page:
    """What the templates show.

    Parameters
    ----------
    mark, why_marked
        "INTERNAL" or "PUBLIC", and a sentence.
    verdict, alarm
        The first line; `alarm` is "BROKEN" or "".
    notes
        What must be known with the verdict.
    """

    title: str
    mark: str
    why_marked: str
    verdict: str
    alarm: str
    subtitle: str
    notes: tuple[str, ...]
    sections: tuple[Section, ...]
    footer: str
    version: str


def page(assessment: Assessment) -> str:
    """The whole assessment as one self-contained HTML document. INTERNAL."""
    return _html(_internal(assessment))


def markdown(assessment: Assessment) -> str:
    """The same content as Markdown, with descriptions instead of pictures. INTERNAL."""
    return _markdown(_internal(assessment))


def public_page(facts: PublicFacts) -> str:
    """What a certificate may show, as one self-contained HTML document."""
    return _html(_public(facts))


def public_markdown(facts: PublicFacts) -> str:
    """The same as Markdown."""
    return _markdown(_public(facts))


def fragment(assessment: Assessment) -> str:
    """A box for notebooks: verdict, axis and table, in styles that stay inside it. INTERNAL."""
    style = palette.css(".sordino-box") + "\n" + _file("fragment.css")
    return (
        _environment()
        .get_template("fragment.html.j2")
        .render(
            style=style,
            verdict=words.verdict(assessment),
            notes=words.notes(assessment),
            axis=drawing.axis(assessment),
            numbers=three_numbers(assessment),
        )
    )


def _internal(assessment: Assessment) -> Page:
    question, found = assessment.question, assessment.provenance
    alarm = "BROKEN" if assessment.broken else ""
    version = found.versions.get("sordino", "")
    return Page(
        title=": ".join(filter(None, [alarm, f"How private is {question.title}?"])),
        mark="INTERNAL",
        why_marked=_WHY_INTERNAL,
        verdict=words.verdict(assessment),
        alarm=alarm,
        subtitle=f"How private is {question.title}? Assessed on {found.date}.",
        notes=tuple(words.notes(assessment)),
        sections=tuple(_sections(assessment)),
        footer=f"Made by sordino {version}. INTERNAL: do not publish this page.",
        version=version,
    )


def _sections(assessment: Assessment) -> Iterator[Section]:
    yield numbers(assessment)
    if not assessment.question.mechanism:  # else there is an attack and nothing more
        yield from (part(assessment) for part in (protection, release, proof, noise))
    yield attacks(assessment)
    yield ending.caveats(assessment)
    yield ending.provenance(assessment)
    yield ending.rerun(assessment)
    yield ending.glossary()


def _public(facts: PublicFacts) -> Page:
    version = str(facts.certificate["versions"].get("sordino", ""))
    return Page(
        title=certificate.title(facts),
        mark="PUBLIC",
        why_marked=(
            "This page shows what the certificate of the model says and what follows from it, and "
            "nothing else that was computed from the records."
        ),
        verdict=certificate.verdict(facts),
        alarm="",
        subtitle=f"{certificate.title(facts)} Released on {facts.certificate['date']}.",
        notes=certificate.notes(facts),
        sections=certificate.sections(facts),
        footer=f"Made by sordino {version} from the certificate alone.",
        version=version,
    )


def _html(page: Page) -> str:
    style = colours() + "\n" + _file("page.css")
    template = _environment().get_template("page.html.j2")
    return template.render(page=page, style=style, csp=CSP) + "\n"


def _markdown(page: Page) -> str:
    text = _environment(plain=True).get_template("page.md.j2").render(page=page)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


@functools.cache
def _environment(*, plain: bool = False) -> Environment:
    """Templates of HTML are escaped by themselves, those of plain text by the filter `md`."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"),
        autoescape=not plain,
        finalize=None if plain else _shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "trusted": Markup,
        "prose": _prose,
        "lines": _lines,
        "md": _in_markdown,
        "indented": _indented,
    }
    environment.filters.update(filters)
    return environment


def _shown(value: object) -> object:
    """Every value on its way into a template: what nobody could see is written out."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _whole(value)
    return value


def _whole(text: str) -> str:
    """`text` as it is printed; no line ends within a power of ten."""
    return typeset(printable(text)).replace(" × 10", "\u00a0×\u00a010")


def _prose(text: str) -> Markup:
    """A sentence, escaped, in which commands look like commands."""
    parts, end = [], 0
    for found in _CODE.finditer(text := _whole(text)):
        parts += [escape(text[end : found.start()]), _code(found[1] or found[2])]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def _code(text: str) -> Markup:
    look = Markup(' class="whole"') if len(text) <= _WHOLE_CODE else ""
    return Markup("<code{}>{}</code>").format(look, text)


def _lines(text: str) -> Markup:
    """Several lines, escaped."""
    return Markup("\n").join(escape(printable(line)) for line in text.splitlines())


def _in_markdown(text: str) -> str:
    """`text` on one line, with what Markdown or HTML would act on escaped."""
    line = _MARKDOWN.sub(r"\\\1", typeset(printable(text.strip())))
    return _LIST.sub(r"\1\\\2", line)


def _indented(text: str) -> str:
    """A block of code: nothing in it is acted on."""
    return "\n".join(f"    {printable(line)}" for line in text.splitlines())


def colours() -> str:
    """The palette as CSS: light, dark and printed."""
    light = "".join(f"--{name}: {colour}; " for name, colour in palette.LIGHT.items())
    return (
        f"{palette.css()}\n"
        f":root {{ --paper: {PAPER['light']}; {_strip(palette.LIGHT['ink'])} }}\n"
        "@media (prefers-color-scheme: dark) "
        f"{{ :root {{ --paper: {PAPER['dark']}; {_strip(palette.DARK['grid'])} }} }}\n"
        f"@media print {{ :root {{ {light}--paper: #ffffff; }} }}"
    )


def _strip(ground: str) -> str:
    """The line on top of the page: light letters on a dark ground, on light pages and dark ones."""
    return f"--strip: {ground}; --strip-ink: #ffffff;"


@functools.cache
def _file(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
