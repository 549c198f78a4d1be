"""The papers' own files: everything they name exists, and no tolerance is wider than allowed."""

import ast
import inspect
from pathlib import Path

import pytest

from sordino_papers import quantities, reading
from sordino_papers.kinds import SOURCES

PAPERS = reading.papers()
CLAIMS = [claim for paper in PAPERS.values() for claim in paper.claims]
SOURCE = Path(reading.__file__).parent
WIDEST = {"factor": 1.6, "relative": 0.10, "absolute": 0.005}
"""What the tolerances of printed numbers may be: a factor for maxima, a share for sigmas and
epsilons, a difference for accuracies. Wider ones must be intervals of our own runs."""
MAXIMA = ("sensitivity", "epsilon", "pairwise_epsilon", "bound_over_sensitivity")


@pytest.mark.parametrize("key", PAPERS)
def test_everything_named_exists(key):
    known, drawn = quantities.registry(), quantities.drawings()
    for claim in PAPERS[key].claims:
        signature = inspect.signature(known[claim.quantity])
        signature.bind(*claim.runs, **claim.arguments)
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
