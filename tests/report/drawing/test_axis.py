"""The axis: every number in words, and nothing on top of anything else."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from xml.etree import ElementTree

import pytest
import sample_assessment as samples
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from sordino.privacy import Estimate
from sordino.report import canvas
from sordino.report.drawing import axis
from sordino.report.drawing.axis import FIRST, INFINITY, LAST, ZERO, around, width
from sordino.report.page import Figure
from sordino.report.result import Assessment, Bound, Estimated

SVG = "{http://www.w3.org/2000/svg}"
WIDTH = 317
SAMPLE = samples.release_sample()


def assessment(
    proved: float | None = 1.0,
    estimate: tuple[float, float | None, float | None] | None = (0.31, 0.25, 0.4),
    observed: float | None = 0.12,
    bounds: tuple[Bound, ...] = (),
) -> Assessment:
    """The sample with other numbers of the release."""
    parts, attack = SAMPLE.proved_parts, SAMPLE.attack
    assert parts is not None
    assert parts.guarantee is not None
    assert attack is not None
    guarantee = None if proved is None else dataclasses.replace(parts.guarantee, epsilon=proved)
    headline = None
    if estimate is not None:
        level = None if estimate[1] is None else 0.95
        headline = Estimate(estimate[0], 1e-6, estimate[1], estimate[2], level, "way", "caveat")
    attacks = SAMPLE.attacks[1:]
    if observed is not None:
        seen = dataclasses.replace(attack.observed, epsilon=observed)
        attacks = (dataclasses.replace(attack, observed=seen), *attacks)
    return dataclasses.replace(
        SAMPLE,
        proved_parts=dataclasses.replace(parts, guarantee=guarantee, bounds=bounds),
        release_estimated=Estimated(headline),
        attacks=attacks,
    )


def texts(drawn: Figure) -> list[str]:
    root = ElementTree.fromstring(drawn.markup)
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def boxes(drawn: Figure) -> list[tuple[float, float, float, float, str]]:
    """(left, right, top, bottom, words) of every text, in a font wider than most."""
    found = []
    for text in ElementTree.fromstring(drawn.markup).iter(f"{SVG}text"):
        style, words = text.attrib["style"], "".join(text.itertext())
        size = float(re.findall(r"font-size: ([\d.]+)px", style)[0])
        wide = width(words, size, "font-weight: 700" in style)
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}
        left = x - share[re.findall(r"text-anchor: (\w+)", style)[0]] * wide
        found.append((left, left + wide, y - 0.75 * size, y + 0.2 * size, words))
    return found


def drawn_paths(drawn: Figure) -> list[tuple[float, float, float, float, str]]:
    """(left, right, top, bottom, style) of every line and shape."""
    found = []
    for path in ElementTree.fromstring(drawn.markup).iter(f"{SVG}path"):
        places = [float(each) for each in re.findall(r"-?[\d.]+", path.get("d", ""))]
        if places:
            x, y = places[::2], places[1::2]
            found.append((min(x), max(x), min(y), max(y), path.get("style", "")))
    return found


def marks(drawn: Figure) -> list[tuple[float, float, float, float, str]]:
    """What words must keep clear of: everything but the grid, and shades of several lines."""
    return [
        each
        for each in drawn_paths(drawn)
        if each[4] != "fill: none"
        and "stroke: var(--grid," not in each[4]
        and not ("opacity: 0.13" in each[4] and each[3] - each[2] > 20)
    ]


def bars(drawn: Figure) -> list[tuple[float, float]]:
    """(end, top) of every theorem's bar, by the wall at its end, which is lower than others."""
    walls = [each for each in marks(drawn) if "stroke-width: 3" in each[4]]
    return sorted(
        ((x, top) for x, _, top, bottom, _ in walls if bottom - top < 10), key=lambda each: each[1]
    )


def assert_nothing_overlaps(drawn: Figure) -> None:
    found, kept_clear = boxes(drawn), marks(drawn)
    for left, right, top, bottom, words in found:
        for mark in kept_clear:
            # A line as thin as a hair has no width; half a point of either is not seen.
            across = min(right, mark[1] + 0.5) - max(left, mark[0] - 0.5)
            down = min(bottom, mark[3] + 0.5) - max(top, mark[2] - 0.5)
            assert across <= 0.6 or down <= 0.6, (words, mark)
    for left, right, _, _, words in found:
        assert left >= -0.5, words
        # Words before a colon are bold, a little wider than measured here.
        assert right <= WIDTH - 1, words
    for one, other in itertools.combinations(found, 2):
        across = min(one[1], other[1]) - max(one[0], other[0])
        down = min(one[3], other[3]) - max(one[2], other[2])
        assert across <= 0 or down <= 0.5, (one[4], other[4])


def test_the_three_numbers_stand_beside_their_marks() -> None:
    drawn = axis.axis(assessment())
    words = texts(drawn)
    for said in (
        "target 1",
        "The release",
        "proved: at most 1",
        "estimated: about 0.31 (0.25 to 0.4)",
        "observed: at least 0.12",
        "Un-noised SGD",
        "proved: nothing (∞)",
        "estimated: about 15.5 (12.7 to 19.5)",
        "observed: at least 4.46",
    ):
        assert said in words
    assert sum("the truth lies here" in each for each in words) == 2
    for number in (
        "target of 1",
        "at most 1",
        "0.31",
        "0.25",
        "0.4",
        "0.12",
        "15.5",
        "4.46",
    ):
        assert number in drawn.alt
    assert "not a guarantee" in drawn.caption
    assert "between 0.12 and 1" in drawn.alt
    assert_nothing_overlaps(drawn)


def test_bounds_are_rounded_to_their_true_side() -> None:
    words = texts(axis.axis(assessment(proved=1.23401, observed=0.56789)))
    assert "proved: at most 1.24" in words
    assert "observed: at least 0.567" in words


def test_marks_stand_where_their_numbers_are() -> None:
    """Walls of the release: proved right of observed, in the ratio of their logarithms."""

    def walls(drawn: Figure, colour: str) -> list[float]:
        found = []
        for path in ElementTree.fromstring(drawn.markup).iter(f"{SVG}path"):
            if f"stroke: var(--{colour}," in path.get(
                "style", ""
            ) and "stroke-width: 3" in path.get("style", ""):
                found.append(float(path.attrib["d"].split()[1]))
        return found

    numbers = (1.0, 0.12)
    drawn = axis.axis(assessment(proved=numbers[0], observed=numbers[1]))
    ticks = {
        each: (box[0] + box[1]) / 2 for box in boxes(drawn) for each in [box[4]] if each in "0.1 10"
    }
    per_decade = (ticks["10"] - ticks["0.1"]) / 2
    for colour, number in zip(("proved", "observed"), numbers, strict=True):
        expected = ticks["0.1"] + per_decade * math.log10(number / 0.1)
        # Centres of texts are known to about half a point.
        assert walls(drawn, colour)[0] == pytest.approx(expected, abs=1)
    assert walls(drawn, "proved")[1] == pytest.approx(INFINITY)


def test_a_broken_proof_is_called_so_and_the_truth_is_elsewhere() -> None:
    drawn = axis.axis(samples.broken_sample())
    assert "BROKEN: more was observed than is proved" in texts(drawn)
    assert "BROKEN" in drawn.alt
    assert "between" not in drawn.alt.partition("Un-noised")[0]
    assert "var(--warn" in drawn.markup
    assert_nothing_overlaps(drawn)
    assert "BROKEN" not in axis.axis(SAMPLE).markup
    assert "var(--warn" not in axis.axis(SAMPLE).markup


def test_a_hair_above_the_proof_is_seen_in_digits() -> None:
    words = texts(axis.axis(assessment(proved=1.0, observed=1.00002)))
    assert "observed: at least 1.00002" in words
    assert "BROKEN: more was observed than is proved" in words


def test_a_refuted_curve_breaks_what_no_single_epsilon_does() -> None:
    sample = assessment()
    attack = dataclasses.replace(sample.attacks[0], curve_refuted=True)
    drawn = axis.axis(dataclasses.replace(sample, attacks=(attack, *sample.attacks[1:])))
    assert "BROKEN: the attack refutes what is proved" in texts(drawn)


def test_a_refuted_estimate_is_called_so() -> None:
    drawn = axis.axis(samples.refuted_sample())
    assert texts(drawn).count("Estimate refuted: more was observed") == 2
    assert_nothing_overlaps(drawn)


def test_a_foreign_mechanism_claims_and_has_one_row() -> None:
    drawn = axis.axis(samples.foreign_sample())
    words = texts(drawn)
    assert "The mechanism gallery:half_noise" in words
    assert "claimed: at most 1" in words
    assert "BROKEN: more was observed than is claimed" in words
    assert not any(each.startswith(("proved", "target", "not ", "estimated")) for each in words)
    sample = samples.foreign_sample()
    attack = dataclasses.replace(
        sample.attacks[0], claimed=None, violated=False, curve_refuted=None
    )
    words = texts(axis.axis(dataclasses.replace(sample, attacks=(attack,))))
    assert "claimed: nothing (∞)" in words


def test_a_claim_bounds_no_truth() -> None:
    sample = samples.foreign_sample()
    attack = dataclasses.replace(
        sample.attacks[0], claimed=9.0, violated=False, curve_refuted=False
    )
    told = axis.axis(dataclasses.replace(sample, attacks=(attack,))).alt
    assert "the truth lies above 2.58" in told
    assert "between" not in told


def test_what_is_missing_is_said() -> None:
    drawn = axis.axis(assessment(proved=None, estimate=None, observed=None))
    words = texts(drawn)
    assert words.count("proved: nothing (∞)") == 2
    assert "not estimated" in words
    assert "not attacked" in words
    assert "observed: nothing (0)" in texts(axis.axis(assessment(observed=0.0)))
    lonely = dataclasses.replace(assessment(), own_noise=None, attacks=SAMPLE.attacks[:1])
    assert "Un-noised SGD" not in texts(axis.axis(lonely))


def twelve(name: str) -> tuple[Bound, ...]:
    values = (1.0, 1.0001, 1.02, 1.3, 2.0, 5.0, 9.0, 20.0, 60.0, 150.0, 800.0, math.inf)
    ranked = [Bound(f"{name} {number}", value, "t") for number, value in enumerate(values)]
    used = dataclasses.replace(ranked[0], used=True)
    quoted = dataclasses.replace(ranked[8], name="notes", epsilon=0.5, kind="as printed")
    refused = Bound("refused", None, "t", reason="no noise")
    return (quoted, *ranked[:0:-1], refused, used)


@pytest.mark.parametrize("name", ["RDP", "exact Gaussian, random sensitivity,", "x" * 90])
def test_twelve_theorems_have_a_line_each_the_tightest_first(name: str) -> None:
    drawn = axis.axis(assessment(bounds=twelve(name)))
    bars = [each for each in texts(drawn) if each.startswith("≤")]
    numbers = [each[2:].partition(":")[0] for each in bars]
    ranked = ["1", "1.01", "1.02", "1.3", "2", "5", "9", "20", "60", "150", "800", "∞"]
    assert numbers == [*ranked, "0.5"]
    assert bars[-1] == "≤ 0.5: notes (quoted)"
    assert "refused" not in drawn.markup
    assert "quoted formula is not proved" in drawn.caption
    assert_nothing_overlaps(drawn)


def test_a_name_that_fits_on_a_line_is_never_cut() -> None:
    name = "exact Gaussian, random sensitivity, logistic loss"
    bars = texts(axis.axis(assessment(bounds=twelve(name))))
    for place in range(12):
        assert any(each.endswith(f"{name} {place}") for each in bars)


def assert_each_bar_lies_right_below_its_words(drawn: Figure, sample: Assessment) -> None:
    parts = sample.proved_parts
    assert parts is not None
    ranked = sorted(
        (each.kind == "as printed", math.inf if each.epsilon is None else each.epsilon)
        for each in parts.bounds
    )
    labels = [box for box in boxes(drawn) if box[4].startswith("≤")]
    ends, above = bars(drawn), -math.inf
    assert len(labels) == len(ends) == len(ranked)
    for quoted in (False, True):
        places = [x for (x, _), (kind, _) in zip(ends, ranked, strict=True) if kind is quoted]
        assert places == sorted(places)
    for (left, _, top, bottom, words), (_, bar) in zip(labels, ends, strict=True):
        assert left <= ZERO + 0.5, words
        # Nearer to its own bar than to the one above.
        assert -0.5 < bar - bottom < top - above, words
        assert bar - bottom < 3, words
        above = bar + 8


def test_names_of_others_are_words_and_nothing_else() -> None:
    sample = samples.foreign_sample()
    for name in (
        "<script>alert(1)</script>",
        "a$b$c \\frac{1}{2} & _",
        "\x00\u202e",
        "機密",
        "w" * 900,
    ):
        question = dataclasses.replace(sample.question, mechanism=name)
        drawn = axis.axis(dataclasses.replace(sample, question=question))
        assert "<script" not in drawn.markup
        ElementTree.fromstring(drawn.markup)
        if name.startswith("a$"):
            assert f"The mechanism {name}" in texts(drawn)
        assert_nothing_overlaps(drawn)


EPSILONS = st.one_of(
    st.sampled_from([0.0, 1e-9, 0.999999, 1.0, 1.000001, 1e7, math.inf]),
    st.floats(1e-5, 1e6),
)


BOUNDS = st.lists(
    st.tuples(EPSILONS, st.text("theorem of (x)", min_size=1, max_size=70), st.booleans()),
    max_size=8,
)


# Without shrinking: each example is a picture.
@settings(max_examples=20, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    target=EPSILONS.filter(lambda each: each > 0),
    theorems=BOUNDS,
    proved=st.one_of(st.none(), EPSILONS),
    ends=st.one_of(st.none(), st.lists(EPSILONS, min_size=3, max_size=3)),
    observed=st.one_of(st.none(), EPSILONS),
)
def test_nothing_overlaps_whatever_the_numbers(
    target: float,
    theorems: list[tuple[float, str, bool]],
    proved: float | None,
    ends: list[float] | None,
    observed: float | None,
) -> None:
    low, middle, high = sorted(ends) if ends else (None, None, None)
    estimate = None if middle is None else (middle, low, high)
    bounds = tuple(
        Bound(name, value, "t", kind="as printed" if quoted else "guarantee")
        for value, name, quoted in theorems
    )
    sample = assessment(proved, estimate, observed, bounds)
    sample = dataclasses.replace(
        sample, question=dataclasses.replace(sample.question, epsilon=target)
    )
    drawn = axis.axis(sample)
    assert_nothing_overlaps(drawn)
    assert_each_bar_lies_right_below_its_words(drawn, sample)
    words = " ".join(texts(drawn))
    over = observed is not None and observed > (math.inf if proved is None else proved)
    assert ("BROKEN" in words) == over
    assert not re.search(r"\b(nan|inf|infinite|None)\b", words)


@settings(max_examples=60, deadline=None)
@given(st.lists(EPSILONS, max_size=5))
def test_larger_epsilons_stand_further_right(values: list[float]) -> None:
    scale = around(values)
    places = [scale.place(each) for each in sorted(values)]
    assert places == sorted(places)
    assert all(ZERO <= place <= INFINITY for place in places)
    for value in values:
        if 1e-4 <= value <= 1e5:
            assert FIRST <= scale.place(value) <= LAST
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 10
    for (x, one), (further, other) in itertools.pairwise(ticks):
        assert further - x > (width(one, 9, False) + width(other, 9, False)) / 2


def test_zero_and_infinity_have_their_own_places() -> None:
    scale = around([0.0, math.inf, 0.3, 4.0])
    assert scale.place(0.0) == ZERO < FIRST < scale.place(0.3) < scale.place(4.0) < LAST
    assert scale.place(math.inf) == INFINITY > LAST


def test_dark_pages_get_the_same_picture() -> None:
    """Colours are names: a page that sets them sets all."""
    used = set(re.findall(r"var\(--(\w+),", axis.axis(samples.broken_sample()).markup))
    assert used == set(canvas.LIGHT) == set(canvas.DARK)
