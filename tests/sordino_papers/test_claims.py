"""Paper files are read strictly, everything they name exists, and no tolerance is too wide."""

import ast
import inspect
import math
from pathlib import Path

import pytest
from small_paper import TEXT

from sordino.errors import InvalidArgument
from sordino_papers import claims, quantities
from sordino_papers.claims import Printed, Tolerance
from sordino_papers.quantities import Answer
from sordino_papers.runs import SOURCES

PAPERS = claims.papers()
CLAIMS = [claim for paper in PAPERS.values() for claim in paper.claims]
SOURCE = Path(claims.__file__).parent
WIDEST = {"factor": 1.6, "relative": 0.10, "absolute": 0.005}
"""What the tolerances of printed numbers may be: a factor for maxima, a share for sigmas and
epsilons, a difference for accuracies. Wider ones must be intervals of our own runs."""
MAXIMA = ("sensitivity", "epsilon", "pairwise_epsilon", "bound_over_sensitivity")


@pytest.mark.parametrize("key", PAPERS)
def test_everything_named_exists(key):
    known, drawn = quantities.registry(), quantities.drawings()
    for claim in PAPERS[key].claims:
        kind = known[claim.quantity]
        if claim.quantity not in kind.held:
            inspect.signature(getattr(kind, claim.quantity)).bind(None, **claim.arguments)
        assert claim.reason.endswith((".", ")")), claim.name
    for place in PAPERS[key].places:
        for drawing in place.drawings:
            inspect.signature(drawn[drawing.draw]).bind(*drawing.runs, **drawing.arguments)
    for run in PAPERS[key].runs.values():
        assert run.kind in SOURCES, run.name


def test_names_are_not_used_twice():
    names = [claim.name for claim in CLAIMS]
    assert len(names) == len(set(names))


def test_no_run_is_for_nothing():
    used = {run for claim in CLAIMS for run in claim.runs}
    used |= {
        r for p in PAPERS.values() for place in p.places for d in place.drawings for r in d.runs
    }
    runs = {name: run for paper in PAPERS.values() for name, run in paper.runs.items()}
    for name in sorted(used):
        for key in ("grid", "grids"):
            others = runs[name].settings.get(key, [])
            others = [others] if isinstance(others, str) else others
            used |= {o if "/" in o else f"{name.partition('/')[0]}/{o}" for o in others}
    assert set(runs) == used


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.printed], ids=lambda c: c.name)
def test_no_tolerance_is_wider_than_allowed(claim):
    kind, size = claim.tolerance.kind, claim.tolerance.size
    in_points = kind == "absolute" and claim.arguments.get("percent", False)
    assert size <= WIDEST.get(kind, 0.0) * (100 if in_points else 1), claim.name
    if kind == "factor":
        assert claim.arguments.get("of", claim.quantity) in MAXIMA, claim.name
        if claim.quantity == "pairwise_epsilon":  # other quantiles are no maxima
            assert claim.arguments["at"] in ("maximum", 1.0), claim.name
    if kind == "relative" and size > 0.05:
        assert "sigma" in claim.quantity, claim.name
        assert any("mlp" in run or "cnn" in run for run in claim.runs), claim.name


def test_what_is_printed_stands_in_the_files_alone():
    """A number of a paper in the code would be a second truth, or a result typed in."""
    printed = {abs(c.printed.value) for c in CLAIMS if c.printed and len(_digits(c)) > 2}
    printed -= {1.25}  # also the constant of the classical Gaussian formula
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and type(node.value) in (int, float):
                assert abs(node.value) not in printed, (path.name, node.lineno, node.value)


def _digits(claim):
    return claim.printed.text.partition("(")[0].strip("+-0.%").replace(".", "").replace(",", "")


def test_all_tables_and_figures_are_there():
    """The five papers have these, and no others."""
    wanted = {
        "v1": [f"table-{n}" for n in ("i", "ii", "iii", "iv")]
        + [f"figure-{n}" for n in range(1, 10)],
        "v2": [f"table-{n}" for n in range(1, 8)] + [f"figure-{n}" for n in range(1, 10)],
        "chen": ["table-1", *(f"figure-{n}" for n in (1, 2, 3))],
        "annamalai": ["figure-1", "figure-2"],
    }
    for key, places in wanted.items():
        missing = set(places) - {place.key for place in PAPERS[key].places}
        assert not missing, (key, missing)


def test_rows_become_claims_one_a_printed_cell():
    paper = claims.read("small", TEXT)
    names = [claim.name for claim in paper.claims]
    assert names[:3] == [
        "small/table-1/total/one",
        "small/table-1/total/two",
        "small/table-1/half/one",  # the paper leaves the other cell empty
    ]
    total = paper.claims[1]
    assert (total.row, total.column, total.runs) == ("sum", "Second", ("small/two",))
    assert total.explanation.shown_by == ("small/checks/two-more",)
    assert paper.claims[0].explanation is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('row = "half of it"', 'roww = "half of it"'),
        ('printed_at = "page 1"', 'where = "page 1"'),
        ('printed = ["3", ""]', 'printed = ["3"]'),
        ('cells = ["total/two"]', 'cells = ["total/three"]'),
        ('says = "The second is larger."', ""),
        ("tolerance = { above = 0.0 }", "tolerance = { rounding = true }"),
        ("tolerance = { rounding = true }", "tolerance = { at_least = 1 }"),
        ('printed = ["6.0", "12"]', 'printed = ["six", "12"]'),
        ("quick = { of = [1.0] }", "quick = { off = [1.0] }"),
        ('key = "half"', 'key = "total"'),
        ('cells = ["total/two"]', 'cells = ["total/two", "total/two"]'),
        ('key = "half"', 'key = "half"\ncolumns = ["one", "three"]'),
        (
            "tolerance = { rounding = true }",
            "tolerance = { tow = { rounding = true }, else = { rounding = true } }",
        ),
    ],
)
def test_refuses_what_it_does_not_understand(old, new):
    assert old in TEXT
    with pytest.raises(InvalidArgument):
        claims.read("small", TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [('runs = ["two", "one"]', 'runs = ["two", "three"]'), ("checks/two-more", "checks/none")],
)
def test_names_must_exist(old, new):
    paper = claims.read("small", TEXT.replace(old, new))
    with pytest.raises(InvalidArgument):
        claims.check_names(paper, set(paper.runs))


@pytest.mark.parametrize(
    ("text", "value", "unit", "spread", "percent"),
    [
        ("0.719(2)", 0.719, 0.001, 0.002, False),
        ("0.53(1)", 0.53, 0.01, 0.01, False),
        ("0.8340(7)", 0.834, 0.0001, 0.0007, False),
        ("+.00002", 0.00002, 0.00001, None, False),
        ("36.31%", 36.31, 0.01, None, True),
        ("9,000", 9000.0, 1.0, None, False),
        ("1.23e-8", 1.23e-8, 1e-10, None, False),
        ("0.050", 0.05, 0.001, None, False),
        ("-3", -3.0, 1.0, None, False),
    ],
)
def test_reads_what_is_printed(text, value, unit, spread, percent):
    printed = Printed.parse(text)
    assert printed.value == value
    assert math.isclose(printed.unit, unit)
    assert printed.spread == (None if spread is None else pytest.approx(spread))
    assert (printed.percent, str(printed)) == (percent, text)


@pytest.mark.parametrize("text", ["", "about 5", "0.7-0.8", "e5", "+", "5 %%"])
def test_refuses_what_is_no_number(text):
    with pytest.raises(InvalidArgument, match="as printed"):
        Printed.parse(text)


@pytest.mark.parametrize(
    ("rule", "printed", "inside", "outside"),
    [
        ({"rounding": True}, "0.083", [0.0825, 0.08349], [0.0824, 0.0836]),
        ({"relative": 0.05}, "23.10", [22.0, 24.25], [21.93, 24.27]),
        ({"absolute": 0.005}, "0.953(1)", [0.9476, 0.9584], [0.9473, 0.9587]),
        ({"factor": 1.6}, "0.057", [0.0355, 0.0915], [0.0352, 0.0921]),
        ({"factor": 1.6}, "-2", [-1.0, -3.9], [1.5, -4.1]),
    ],
)
def test_is_within_or_not(rule, printed, inside, outside):
    tolerance, number = Tolerance.read(rule), Printed.parse(printed)
    for value in inside:
        assert tolerance.holds(Answer(value), number), value
    for value in [*outside, math.nan, math.inf]:
        assert not tolerance.holds(Answer(value), number), value


def test_an_interval_must_meet_what_rounding_leaves_open():
    tolerance, number = Tolerance.read({"interval": True}), Printed.parse("0.53(1)")
    assert tolerance.holds(Answer(0.6, 0.534, 0.7), number)
    assert not tolerance.holds(Answer(0.6, 0.536, 0.7), number)
    assert tolerance.holds(Answer(0.4, 0.3, 0.526), number)
    assert not tolerance.holds(Answer(0.4, 0.3, 0.524), number)
    # Without an interval only what rounds to it is in it.
    assert tolerance.holds(Answer(0.534), number)
    assert not tolerance.holds(Answer(0.54), number)


@pytest.mark.parametrize(
    ("rule", "holds", "fails"),
    [("at_least", 0.95, 0.949), ("at_most", 0.95, 0.951), ("above", 0.951, 0.95)],
)
def test_thresholds_of_claims_in_words(rule, holds, fails):
    tolerance = Tolerance.read({rule: 0.95})
    assert not tolerance.needs_printed
    assert tolerance.holds(Answer(holds), None)
    assert not tolerance.holds(Answer(fails), None)
    assert not tolerance.holds(Answer(math.nan), None)


@pytest.mark.parametrize(
    "rule", [{}, {"relative": 0.1, "factor": 2}, {"roughly": 1}, {"rounding": 3}]
)
def test_refuses_unknown_rules(rule):
    with pytest.raises(InvalidArgument):
        Tolerance.read(rule)
