"""The page of a reproduction: whole, by itself, and with nothing hidden."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import re
from html.parser import HTMLParser

import pytest
from sample_reproduction import DRAWING, sample

from sordino_papers import words
from sordino_papers.page import _LARGE, page
from sordino_papers.results import ClaimVerdict

VOID = {"meta", "br", "img"}


class Document(HTMLParser):
    """Tags, and the text inside those that have an id; fails where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.inside = [], [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), "an attribute is given twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("id")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.inside[name] = self.inside.get(name, "") + data

    def all(self, name):
        return [attributes for tag, attributes in self.tags if tag == name]


@pytest.fixture(scope="module", params=[False, True], ids=["full", "quick"])
def found(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("page")
    reproduction = sample(directory, quick=request.param)
    text = page(reproduction, directory)
    return reproduction, text, Document(text)


def test_it_is_one_file_that_fetches_and_runs_nothing(found):
    _, text, document = found
    names = {tag for tag, _ in document.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for _, attributes in document.tags:
        assert not [key for key in attributes if key.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
        assert (attributes.get("src") or "data:image/").startswith("data:image/")
    assert "@import" not in text
    assert not re.search(r"https?://|url\(", text)


def test_a_browser_is_told_to_run_and_fetch_nothing(found):
    from sordino.report.page import CSP

    _, text, _ = found
    assert text.count(f'content="{CSP}">'.replace("'", "&#39;")) == 1
    assert "<script" not in text


def test_a_picture_is_inside_and_has_a_name(found):
    _, _, document = found
    (image,) = document.all("img")
    kind, _, content = image["src"].partition(";base64,")
    assert kind == "data:image/svg+xml"
    assert base64.b64decode(content).decode() == DRAWING
    assert image["alt"] == "Drawn from our runs: Table 3: sensitivity, sigma and epsilon"


def test_a_huge_drawing_is_shown_by_its_smaller_file(tmp_path):
    reproduction = sample(tmp_path)
    (picture,) = reproduction.pictures
    (tmp_path / picture.svg).write_text(DRAWING + " " * _LARGE)
    (tmp_path / picture.png).write_bytes(b"small")
    (image,) = Document(page(reproduction, tmp_path)).all("img")
    assert image["src"] == f"data:image/png;base64,{base64.b64encode(b'small').decode()}"


def test_it_can_be_used_without_eyes_or_mouse(found):
    _, _, document = found
    (root,) = document.all("html")
    assert root["lang"] == "en"
    assert len(document.all("h1")) == len(document.all("main")) == len(document.all("nav")) == 1
    levels = [int(tag[1]) for tag, _ in document.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert len(document.all("table")) == len(document.all("caption"))
    assert all(head.get("scope") for head in document.all("th"))


def test_every_link_has_its_target(found):
    _, _, document = found
    ids = [attributes["id"] for _, attributes in document.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    targets = {link["href"].removeprefix("#") for link in document.all("a")}
    assert targets <= set(ids)
    assert {"one/checks/root", "one/table-3/sigma/c", "two/figure-1", "slips"} <= targets


def test_every_claim_stands_with_both_numbers_and_its_verdict(found):
    reproduction, _, document = found
    for name, result in reproduction.results.items():
        said = document.inside[name].replace("\u00a0", " ")
        if result.claim.printed is not None:
            assert str(result.claim.printed) in said
        if result.found is not None:
            assert words.ours(result) in said
        assert words.SIGNS[result.verdict] in said
        assert words.verdict(result) in said


def test_a_table_has_the_papers_columns_and_empty_cells(found):
    _, text, _ = found
    start = text.index('id="one/table-3"')
    table = text[text.index("<table", start) : text.index("</table>", start)]
    heads = re.findall(r'scope="col">([^<]*)<', table)
    assert heads == ["Row", "CIFAR2", "MNIST-binary", "Adult"]
    for row in table.split("<tr")[2:]:
        assert len(re.findall("<td", row)) == 3
    assert table.count('class="empty"') == 2


def test_the_score_and_the_time_come_first(found):
    reproduction, _, document = found
    first = document.inside["score"]
    assert "19 of 22 (86.3%)" in first
    assert "16 min 2 s" in first
    sections = [each["id"] for each in document.all("section")]
    assert sections == [
        *("score", "differences", "one", "two", "slips", "checks", "missing", "time")
    ]
    assert "15 min 1 s" in document.inside["time"]
    assert ("seeds 16," if reproduction.quick else "seeds 171,") in document.inside["time"]


def test_reasons_and_what_they_lean_on_stand_beside_the_table(found):
    _, text, document = found
    said = " ".join(document.inside["one"].split())
    assert "Differs, explained: sigma_i(D), logistic regression, Adult: paper 0.110" in said
    assert "The paper forgot to divide by sqrt(2)." in said
    assert '<code class="whole">sqrt(2)</code>' in text
    assert "This does not count, since its explanation leans on one/checks/maximum" in said
    assert "SORDINO_DATA" in document.inside["missing"]


def test_markup_in_a_claim_stays_text(found):
    _, text, _ = found
    assert "<script" not in text
    assert "factor &lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_no_epsilon_is_taken_for_a_guarantee_and_a_quick_run_is_loud(found):
    reproduction, text, _ = found
    assert "None of them is a guarantee." in text
    assert ("QUICK RUN" in text) == reproduction.quick
    assert ("This was a quick run." in text) == reproduction.quick


def test_sections_without_content_are_left_out(tmp_path):
    whole = sample(tmp_path)
    kept = {
        name: each
        for name, each in whole.results.items()
        if name.startswith("one/table") and each.verdict is ClaimVerdict.REPRODUCED
    }
    document = Document(page(dataclasses.replace(whole, results=kept, pictures=()), tmp_path))
    assert [each["id"] for each in document.all("section")] == ["score", "one", "time"]


def test_an_explanation_may_lean_on_what_was_not_asked(tmp_path):
    whole = sample(tmp_path)
    kept = {name: each for name, each in whole.results.items() if "/table-3/" in name}
    document = Document(page(dataclasses.replace(whole, results=kept), tmp_path))
    assert "one/checks/root" in document.inside["one"]
    assert "#one/checks/root" not in {link["href"] for link in document.all("a")}
