"""What holds of every picture of the page."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sample_assessment as samples

from sordino.report import canvas
from sordino.report.drawing import axis, curves
from sordino.report.numbers import lower, upper
from sordino.report.page import Figure
from sordino.report.result import Assessment, Curve, Proved

SVG = "{http://www.w3.org/2000/svg}"
SAMPLE = samples.release_sample()


def everything(assessment: Assessment) -> list[Figure]:
    """All pictures of one page."""
    found: list[Figure | None] = [axis.axis(assessment), axis.estimates(assessment)]
    if assessment.proved_parts is not None:
        found.append(curves.tradeoff(assessment.proved_parts))
    if assessment.release is not None and assessment.release.accuracy is not None:
        accuracy = assessment.release.accuracy
        found.append(curves.accuracy(accuracy, assessment.question.epsilon))
    if assessment.own_noise is not None:
        found.append(curves.distances(assessment.own_noise))
    found += [curves.roc(attack) for attack in assessment.attacks]
    return [each for each in found if each is not None]


@functools.cache
def pictures() -> list[Figure]:
    """Seven: one attack is on the release, one on un-noised SGD."""
    return everything(SAMPLE)


def texts(drawn: Figure) -> str:
    """All words that are to be seen."""
    root = ElementTree.fromstring(drawn.markup)
    return " | ".join("".join(each.itertext()) for each in root.iter(f"{SVG}text"))


def test_ids_of_one_page_never_meet_and_references_find_theirs() -> None:
    assert len(pictures()) == 7
    page = "".join(drawn.markup for drawn in pictures())
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert [name for name, times in Counter(ids).items() if times > 1] == []
    for drawn in pictures():
        own = set(re.findall(r'\bid="([^"]+)"', drawn.markup))
        used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', drawn.markup)
        labels = re.findall(r'aria-(?:labelledby|describedby)="([^"]+)"', drawn.markup)
        assert {found for pair in used for found in pair if found} | set(labels) == own


def test_every_colour_is_the_pages_and_has_a_fallback() -> None:
    for drawn in pictures():
        root = ElementTree.fromstring(drawn.markup)
        paints = [
            paint.strip()
            for element in root.iter()
            for paint in re.findall(r"(?:fill|stroke):([^;]+)", element.get("style", ""))
        ]
        allowed = {f"var(--{name}, {colour})" for name, colour in canvas.LIGHT.items()} | {"none"}
        assert set(paints) <= allowed
        assert len(set(paints)) >= 3
        assert re.findall(r"(?<!, )#[0-9a-fA-F]{6}|rgb\(", drawn.markup) == []
        # What sets no colour is black, on a dark page too.
        for text in root.iter(f"{SVG}text"):
            assert "fill:" in text.get("style", "")


def test_a_picture_stands_in_a_page() -> None:
    for drawn in pictures():
        assert drawn.markup.startswith("<svg ")
        assert not re.search(r"<\?|<!|<style|<metadata|xlink|font-family|<image", drawn.markup)
        root = ElementTree.fromstring(drawn.markup)
        assert root.get("width") is None
        assert root.get("height") is None
        left, top, width, height = (float(each) for each in root.attrib["viewBox"].split())
        assert (left, top) == (0, 0)
        assert width == pytest.approx(317, abs=1)
        assert 100 < height < 700
        assert root.get("role") == "img"
        title, description = root[0], root[1]
        # A name that is read out at once; a description for whoever asks, of two or three lines.
        assert root.get("aria-labelledby") == title.get("id")
        assert root.get("aria-describedby") == description.get("id")
        assert description.text == drawn.alt
        assert title.text is not None
        assert 10 < len(title.text) < 60
        assert 40 < len(drawn.alt) < 450
        assert drawn.caption.endswith(".")


def test_text_stays_text_and_can_be_read_on_a_phone() -> None:
    for drawn in pictures():
        root = ElementTree.fromstring(drawn.markup)
        sizes = [
            float(re.search(r"font-size: ([\d.]+)px", text.get("style", ""))[1])  # type: ignore[index]
            for text in root.iter(f"{SVG}text")
        ]
        assert len(sizes) >= 6
        assert min(sizes) >= 9


def test_the_same_values_give_the_same_bytes_in_another_process() -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[1:]; import test_curves;"
        "print('\\n'.join(each.markup for each in test_curves.pictures()))"
    )
    places = [str(Path(each).parent) for each in (samples.__file__, __file__)]
    command = [sys.executable, "-c", program, *places]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert ran.stdout == "\n".join(each.markup for each in pictures()) + "\n"


def test_nothing_is_drawn_before_somebody_draws() -> None:
    program = "import sys, sordino.report.drawing.curves; print('matplotlib' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"


@pytest.mark.parametrize("colours", [canvas.LIGHT, canvas.DARK])
def test_words_stand_out_from_their_ground(colours: dict[str, str]) -> None:
    def brightness(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    ground = brightness(colours["panel"])
    for name in ("ink", "muted", "proved", "estimated", "observed", "warn"):
        lighter, darker = sorted((brightness(colours[name]), ground), reverse=True)
        # WCAG 2.2, success criterion 1.4.3: 4.5 for ordinary text.
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, name


def test_tradeoff_says_the_best_guess_and_the_least_errors() -> None:
    parts = SAMPLE.proved_parts
    assert parts is not None
    drawn = curves.tradeoff(parts)
    assert "right at most 54.6%" in texts(drawn)
    assert "54.6%" in drawn.alt
    # Points that are given are hit; between them no more is said than a convex curve must have.
    line = Proved(None, tradeoff=Curve((0.0, 0.5, 1.0), (0.8, 0.25779, 0.0)), best_guess=0.625)
    assert "at 50% false positives 25.7%" in curves.tradeoff(line).alt
    assert "at 10% false positives 46.4%" in curves.tradeoff(line).alt  # the chord says 69.1%


def test_without_a_proof_no_error_is_ruled_out() -> None:
    drawn = curves.tradeoff(Proved(None, why_none="no noise"))
    assert "Nothing is proved" in drawn.alt
    assert "right at most 100.0%" in texts(drawn)


def test_accuracy_marks_the_release_among_its_like() -> None:
    assert SAMPLE.release is not None
    found = SAMPLE.release.accuracy
    assert found is not None
    drawn = curves.accuracy(found, 1.0)
    for words in ("without privacy: 90.2%", "50.5%", "this release, at epsilon 1: 88.4%"):
        assert words in texts(drawn)
    assert "On average 71.0% at epsilon 0.1, 89.9% at epsilon 10." in drawn.alt
    assert "where 95% of releases fall" in texts(drawn)
    assert "432 test rows" in drawn.alt
    bare = dataclasses.replace(found, curve=(), after=None)
    assert "releases at epsilon 1: 88.4%" in texts(curves.accuracy(bare, 1.0))
    nowhere = curves.accuracy(bare, float("inf"))
    assert "88.4%" not in texts(nowhere)
    assert "88.4%" in nowhere.alt


@pytest.mark.parametrize("bound", [None, 0.0, float("inf"), 0.1189])
def test_distances_show_a_bound_that_has_a_place(bound: float | None) -> None:
    assert SAMPLE.own_noise is not None
    own = dataclasses.replace(SAMPLE.own_noise, bound=bound)
    drawn = curves.distances(own)
    assert ("at most 0.119" in texts(drawn)) == (bound == 0.1189)
    assert ("no bound is proved" in drawn.alt) == (bound is None)
    assert "seen: one record moved them 0.0301" in texts(drawn)
    for number in ("2,500", "0.0301", "0.012", "0.24"):
        assert number in drawn.alt


def test_distances_of_no_runs_are_an_empty_picture() -> None:
    assert SAMPLE.own_noise is not None
    nothing = Curve((), ())
    own = dataclasses.replace(SAMPLE.own_noise, by_data=nothing, by_seed=nothing, bound=None)
    assert "another seed" in texts(curves.distances(own))


def test_roc_says_what_was_counted_and_tested() -> None:
    attack = SAMPLE.attack
    assert attack is not None
    assert attack.tested_point is not None
    drawn = curves.roc(attack)
    assert "ruled out by epsilon 1" in texts(drawn)
    assert "4,000 test runs" in drawn.alt
    false, missed = attack.tested_point
    assert f"at most {upper(false)} false and at least {lower(1 - missed)} true" in drawn.alt
    bare = dataclasses.replace(attack, tested_point=None, claimed_curve=None, claimed=None)
    assert "ruled out" not in texts(curves.roc(bare))
    assert "tested" not in texts(curves.roc(bare))
    curve = Curve((1.0, 0.1, 0.01, 0.0), (0.0, 0.25, 0.5, 1.0))
    told = curves.roc(dataclasses.replace(attack, roc=curve)).alt
    assert "at 1% false positives 50.0% true" in told
    assert "at 10% false positives 75.0% true" in told


def test_roc_of_an_attack_that_is_always_right_is_the_line_at_one() -> None:
    attack = SAMPLE.attack
    assert attack is not None
    sure = dataclasses.replace(attack, roc=Curve((1.0, 0.5, 0.0), (0.0, 0.0, 0.0)))

    def heights(drawn: Figure) -> set[float]:
        """Of the attack's line, the dashed one in its colour; the key's is the first."""
        styled = [
            path
            for path in ElementTree.fromstring(drawn.markup).iter(f"{SVG}path")
            if "stroke-dasharray" in path.get("style", "")
            and f"stroke: var(--observed, {canvas.OBSERVED})" in path.get("style", "")
        ]
        return {float(y) for y in re.findall(r"[ML] \S+ (\S+)", styled[0].attrib["d"])}

    (top,) = heights(curves.roc(sure))
    assert top == min(heights(curves.roc(attack)))


def test_estimates_are_compared_where_there_are_two() -> None:
    drawn = axis.estimates(SAMPLE)
    assert drawn is not None
    for words in ("one sigma: 0.277", "by direction: 0.872", "by direction: 15.5", "0.456", "4.46"):
        assert words in texts(drawn)
        assert words in drawn.alt
    assert axis.estimates(samples.foreign_sample()) is None


@pytest.mark.parametrize(
    "make",
    [
        samples.broken_sample,
        samples.refuted_sample,
        samples.foreign_sample,
        samples.nothing_proved_sample,
    ],
)
def test_every_sample_can_be_drawn(make: object) -> None:
    assert callable(make)
    for drawn in everything(make()):
        assert ElementTree.fromstring(drawn.markup).get("role") == "img"


def test_rates_of_misses_stand_on_the_safe_side() -> None:
    # One wide gap around 1 %: on the true curve 1 - sqrt(x) at least 90 % are missed there.
    places = [0.0, 0.0025, 0.0049, 0.0225, 0.04, 1.0]
    curve = samples.curve(places, [1 - math.sqrt(x) for x in places])
    found = curves.least_missed(curve, 0.01)
    assert 0.87 < found <= 0.9
    assert curves.least_missed(curve, 0.0225) == pytest.approx(0.85)
    assert curves.least_missed(samples.curve([0.0, 0.001], [1.0, 0.9]), 0.01) == 0.0
